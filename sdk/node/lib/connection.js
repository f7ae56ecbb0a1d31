'use strict';
/**
 * One Pipe/1 connection: cuts what was read into frames, checks each against the rules, and writes in batches (P-18).
 * Knows no http. Invariants: no memory is sized by a length that has not been checked; `exchanges` holds those that still
 * expect or owe frames here.
 */
const net = require('net');

const MIN_MAX_FRAME = 65536; // `max_frame` until WELCOME says more
const MAX_WELCOME = 4096;
const MAX_TEXT = 341; // characters of a RESET's text: at most 3 bytes each, 1,024 allowed
const MAX_BACKLOG = 1024 * 1024; // unwritten bytes beyond which a shared connection is not read either
const HEADER_BYTES = 8;
const [END, IGNORABLE] = [0x01, 0x80];
const TYPE = { HELLO: 1, WELCOME: 2, REQUEST: 3, RESPONSE: 4, INFO: 5, DATA: 6, TRAILERS: 7, STOP: 8,
  RESET: 9, PING: 10, PONG: 11, DRAIN: 12, MORE: 13, LOG: 14 };
const CODE = { CANCELLED: 1, DEADLINE: 2, REFUSED: 3, OVERLOADED: 4, INTERNAL: 5, PROTOCOL: 6, TOO_LARGE: 7 };
const EMPTY = Buffer.alloc(0);

/** What the gateway may send (P-11): on which kinds of connection, its size if that is fixed, and who takes it. */
const RULES = {
  [TYPE.WELCOME]: { on: 'shared own answer', take: (conn, id, payload) => conn.welcome(payload) },
  [TYPE.REQUEST]: { on: 'shared own', take: (conn, id, payload, end) => conn.request(id, payload, end) },
  [TYPE.DATA]: { on: 'own', take: (conn, id, payload, end) => conn.body(id, payload, end, []) },
  [TYPE.TRAILERS]: { on: 'own', take: (conn, id, payload) => conn.body(id, EMPTY, true, strings(payload, 0)) },
  [TYPE.RESET]: { on: 'shared own answer', take: (conn, id, payload) => conn.reset(id, payload) },
  [TYPE.PING]: { on: 'shared own', bytes: 8, take: (conn, id, bytes) => conn.send(TYPE.PONG, 0, 0, '', bytes) }, // P-35
  [TYPE.PONG]: { on: 'shared own', bytes: 8, take: () => {} }, // nothing waits for one: no PING is sent
  [TYPE.DRAIN]: { on: 'shared', bytes: 4, take: conn => conn.service.drain(true) },
  [TYPE.MORE]: { on: 'shared', bytes: 8, take: (conn, id, payload) => conn.more(payload) },
};

/** The peer broke a rule of the specification. */
function broken(rule, text) { throw Object.assign(new Error(`${rule}: ${text}`), { rule }); }

/** A number as four characters: heads of frames are latin-1 text until they are queued. */
const u32 = n => String.fromCharCode(n & 0xff, (n >>> 8) & 0xff, (n >>> 16) & 0xff, n >>> 24);

/** The strings of a payload, each ended by a zero byte: `first` of them, then names and values. */
function strings(payload, first, from = 0, to = payload.length) {
  if (from < to && payload[to - 1] !== 0) broken('P-8', 'the last string has no final zero byte');
  const list = payload.latin1Slice(from, to).split('\0');
  list.pop(); // what follows the last zero byte
  if (list.length < first || (list.length - first) % 2) broken('P-8', `${list.length} strings: a name without a value`);
  return list;
}

class Connection {
  constructor(service, kind, worker) {
    Object.assign(this, { service, kind, worker, maxFrame: MIN_MAX_FRAME, welcomed: false, closing: false });
    // Exchanges by id; the beginning of a frame that was read; what to write, and whom to tell then.
    Object.assign(this, { exchanges: new Map(), rest: EMPTY, batch: [], callbacks: [], scheduled: false });
    service.connections.add(this);
    this.socket = net.connect(service.path).on('data', data => this.read(data));
    this.socket.on('error', err => { this.failure ??= err; }).on('close', () => service.closed(this, this.failure));
    const keys = `token=${service.token}\nkind=${kind}\nmax_own=${service.maxOwn}\nsdk=node/0.1.0\npid=${process.pid}\n`;
    const named = worker === undefined ? '' : `worker=${worker}\n`; // P-13
    const size = kind === 'shared' ? `exchanges=${service.maxExchanges}\n` : '';
    this.send(TYPE.HELLO, 0, 0, `PIPE/1\n${keys}${named}${size}`); // P-1
    this.flush();
  }

  read(data) {
    const bytes = this.rest.length ? Buffer.concat([this.rest, data]) : data;
    let at = 0;
    try {
      for (let end; bytes.length - at >= HEADER_BYTES && !this.closing; at = end) {
        const length = bytes.readUInt32LE(at);
        if (length > this.maxFrame) broken('P-6', `a payload of ${length} bytes, max_frame is ${this.maxFrame}`);
        end = at + HEADER_BYTES + length;
        if (end > bytes.length) break;
        this.frame(bytes[at + 4], bytes[at + 5], bytes.readUInt16LE(at + 6), bytes.subarray(at + HEADER_BYTES, end));
      }
    } catch (err) {
      if (!err.rule) throw err;
      this.sendReset(0, CODE.PROTOCOL, err.message); // P-10
      this.close(err);
    }
    this.rest = at < bytes.length ? bytes.subarray(at) : EMPTY;
  }

  frame(type, flags, id, payload) {
    const [rule, { length }] = [RULES[type], payload];
    const known = type >= TYPE.HELLO && type <= TYPE.LOG;
    if (!known) return flags & IGNORABLE || broken('P-7', `type ${type} is unknown, and not IGNORABLE`);
    if (!rule?.on.includes(this.kind)) broken('P-11', `type ${type} from the gateway on an ${this.kind} connection`);
    if (length !== (rule.bytes ?? length)) broken('P-11', `a frame of type ${type} with ${length} bytes`);
    const first = type === TYPE.WELCOME || (type === TYPE.RESET && id === 0 && !this.welcomed); // P-4
    if (this.welcomed === first) broken('P-3', 'WELCOME is the first frame, once');
    return rule.take(this, id, payload, (flags & END) !== 0);
  }

  welcome(payload) {
    if (payload.length > MAX_WELCOME) broken('P-6', `a WELCOME of ${payload.length} bytes, ${MAX_WELCOME} at most`);
    const [version, ...lines] = payload.toString().split('\n');
    if (version !== 'PIPE/1') broken('P-12', `WELCOME begins with ${JSON.stringify(version)}, not PIPE/1`);
    const keys = Object.fromEntries(lines.map(line => line.split(/=(.*)/s)));
    [this.worker, this.maxFrame] = [Number(keys.worker), Number(keys.max_frame ?? MIN_MAX_FRAME)];
    if (!Number.isInteger(this.worker)) broken('P-3', 'WELCOME names no worker');
    if (!(this.maxFrame >= MIN_MAX_FRAME)) broken('P-6', `max_frame=${this.maxFrame}, ${MIN_MAX_FRAME} at least`);
    this.welcomed = true;
  }

  request(id, payload, end) {
    const { exchanges, kind, service } = this;
    if (id === 0) broken('P-15', 'a REQUEST with exchange id 0');
    if (kind === 'own' && exchanges.size) broken('P-19', 'a REQUEST before the exchange before it has ended');
    if (kind === 'shared' && !end) broken('P-14', 'a REQUEST without END on a shared connection');
    if (exchanges.has(id)) broken('P-15', `exchange ${id} is still open`);
    if (exchanges.size >= service.maxExchanges) broken('P-14', `more than exchanges=${service.maxExchanges} open`);
    service.begin(this, id, payload, end);
  }

  body(id, bytes, end, trailers) {
    const exchange = this.exchanges.get(id);
    if (!exchange || exchange.received) broken('P-20', `a body for exchange ${id}, which takes none`);
    exchange.receive(bytes, end, trailers);
  }

  reset(id, payload) {
    if (payload.length < 8) broken('P-11', `a RESET of ${payload.length} bytes, 8 at least`);
    if (id === 0) return this.close(new Error(`the gateway says: ${payload.toString('utf8', 8)} (code ${payload[0]})`));
    if (this.kind === 'answer') broken('P-25', 'a RESET for an exchange on an answer connection');
    this.exchanges.get(id)?.cancel(payload.readUInt16LE(0)); // P-26: ignored for one that has ended
  }

  more(payload) { this.service.more(payload.readUInt16LE(0), payload.readUInt16LE(2), payload.readUInt32LE(4)); }

  /** Queues a frame, whose payload is `head` (latin-1 text) and then `body`. */
  send(type, flags, id, head, body = EMPTY) {
    const header = u32(head.length + body.length) + u32(type + flags * 0x100 + id * 0x10000);
    this.batch.push(Buffer.from(header + head, 'latin1'), body);
    if (!this.scheduled) setImmediate(() => this.flush());
    this.scheduled = true;
  }

  sendReset(id, code, text, retryAfterMs = 0) {
    this.send(TYPE.RESET, 0, id, u32(code) + u32(retryAfterMs), Buffer.from(text.slice(0, MAX_TEXT)));
  }

  /** Writes what is queued, with one call. */
  flush() {
    const { batch, callbacks, socket } = this;
    [this.batch, this.callbacks, this.scheduled] = [[], [], false];
    if (batch.length) socket.write(Buffer.concat(batch), () => callbacks.forEach(callback => callback()));
    const full = this.kind === 'shared' && socket.writableLength > MAX_BACKLOG;
    if (full) socket.pause().once('drain', () => socket.resume());
  }

  /** Closes when what is queued has been written; what still arrives is not handled. */
  close(err) {
    if (err) this.service.report(`a connection of kind ${this.kind} has failed: ${err.message}`);
    this.failure ??= err;
    this.closing = true;
    this.flush();
    this.socket.destroySoon();
  }
}

module.exports = { Connection, TYPE, CODE, END, EMPTY, u32, broken, strings };
