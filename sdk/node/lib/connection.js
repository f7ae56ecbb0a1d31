'use strict';
/**
 * One Pipe/1 connection: cuts what was read into frames, checks each against the rules, and writes in batches (P-18). Knows no
 * http. Invariants: no memory is sized by a length that has not been checked; `exchanges` holds those that still expect or owe
 * frames here.
 */
const net = require('net');

const MIN_MAX_FRAME = 65536; // `max_frame` until WELCOME says more
const MAX_WELCOME = 4096;
const MAX_TEXT = 341; // characters of a RESET's text: at most 3 bytes each, 1,024 allowed
const MAX_BACKLOG = 1024 * 1024; // unwritten bytes beyond which a shared connection is not read either
const HEADER_BYTES = 8;
const [END, IGNORABLE] = [0x01, 0x80];
const TYPE = {
  HELLO: 1, WELCOME: 2, REQUEST: 3, RESPONSE: 4, INFO: 5, DATA: 6, TRAILERS: 7,
  STOP: 8, RESET: 9, PING: 10, PONG: 11, DRAIN: 12, MORE: 13, LOG: 14,
};
const CODE = { CANCELLED: 1, DEADLINE: 2, REFUSED: 3, OVERLOADED: 4, INTERNAL: 5, PROTOCOL: 6, TOO_LARGE: 7 };
const EMPTY = Buffer.alloc(0);

/** What the gateway may send (P-11): on which kinds of connection, of how many bytes if that is fixed, and who takes it. */
const ANY = 'shared own answer';
const RULES = {
  [TYPE.WELCOME]: { on: ANY, take: (conn, payload) => conn.welcome(payload) },
  [TYPE.REQUEST]: { on: 'shared own', take: (conn, payload, id, end) => conn.request(payload, id, end) },
  [TYPE.DATA]: { on: 'own', take: (conn, payload, id, end) => conn.body(id, payload, end, []) },
  [TYPE.TRAILERS]: { on: 'own', take: (conn, payload, id) => conn.body(id, EMPTY, true, strings(payload, 0)) },
  [TYPE.RESET]: { on: ANY, take: (conn, payload, id) => conn.reset(payload, id) },
  [TYPE.PING]: { on: ANY, bytes: 8, take: (conn, payload) => conn.send(TYPE.PONG, 0, 0, payload) }, // P-35
  [TYPE.PONG]: { on: ANY, bytes: 8, take: () => {} }, // nothing waits for one: no PING is sent
  [TYPE.DRAIN]: { on: 'shared', bytes: 4, take: conn => conn.service.drain(true) },
  [TYPE.MORE]: { on: 'shared', bytes: 8, take: ({ service }, payload) => {
    service.more(payload.readUInt16LE(0), payload.readUInt16LE(2), payload.readUInt32LE(4));
  } },
};

/** The peer broke a rule of the specification. */
function broken(rule, text) { throw Object.assign(new Error(`${rule}: ${text}`), { rule }); }

/** The strings of a payload, each ended by a zero byte: `first` of them, then names and values. */
function strings(payload, first) {
  if (payload.length && payload[payload.length - 1] !== 0) broken('P-8', 'the last string has no final zero byte');
  const list = payload.latin1Slice().split('\0');
  list.pop(); // what follows the last zero byte
  if (list.length < first || (list.length - first) % 2) broken('P-8', `${list.length} strings: a name without a value`);
  return list;
}

class Connection {
  constructor(service, kind, worker) {
    Object.assign(this, { service, kind, worker, maxFrame: MIN_MAX_FRAME, welcomed: false, closing: false, failure: null });
    this.exchanges = new Map(); // by id
    this.cancelled = 0; // own: the id of a cancelled exchange, whose DATA may still arrive
    this.rest = EMPTY; // of what was read: the beginning of a frame
    Object.assign(this, { batch: [], callbacks: [], scheduled: false }); // frames to write, whom to tell then
    this.socket = net.connect(service.path).on('data', data => this.read(data)).on('close', () => service.closed(this));
    this.socket.on('error', err => { this.failure ??= err; });
    const more = (worker === undefined ? '' : `worker=${worker}\n`) + (kind === 'shared' ? `exchanges=${service.maxExchanges}\n` : '');
    const keys = `token=${service.token}\nkind=${kind}\nmax_own=${service.maxOwn}\nsdk=node/0.1.0\npid=${process.pid}\n`;
    this.send(TYPE.HELLO, 0, 0, Buffer.from(`PIPE/1\n${keys}${more}`)); // P-1
    this.flush();
  }

  read(data) {
    let bytes = this.rest.length ? Buffer.concat([this.rest, data]) : data;
    try {
      while (bytes.length >= HEADER_BYTES && !this.closing) {
        const end = HEADER_BYTES + bytes.readUInt32LE(0);
        if (end > HEADER_BYTES + this.maxFrame) broken('P-6', `a payload of ${end - HEADER_BYTES} bytes, max_frame is ${this.maxFrame}`);
        if (end > bytes.length) break;
        this.frame(bytes[4], bytes[5], bytes.readUInt16LE(6), bytes.subarray(HEADER_BYTES, end));
        bytes = bytes.subarray(end);
      }
    } catch (err) {
      if (!err.rule) throw err;
      this.sendReset(0, CODE.PROTOCOL, err.message); // P-10
      this.close(err);
    }
    this.rest = bytes;
  }

  frame(type, flags, id, payload) {
    if (type < TYPE.HELLO || type > TYPE.LOG) return flags & IGNORABLE || broken('P-7', `type ${type} is unknown and not IGNORABLE`);
    const rule = RULES[type];
    if (!rule?.on.includes(this.kind)) broken('P-11', `a frame of type ${type} from the gateway, on a connection of kind ${this.kind}`);
    if (payload.length !== (rule.bytes ?? payload.length)) broken('P-11', `a frame of type ${type} with ${payload.length} bytes`);
    const refusal = type === TYPE.RESET && id === 0; // P-4
    if (this.welcomed === (type === TYPE.WELCOME) && !refusal) broken('P-3', 'WELCOME is the first frame, once');
    return rule.take(this, payload, id, (flags & END) !== 0);
  }

  welcome(payload) {
    if (payload.length > MAX_WELCOME) broken('P-6', `a WELCOME of ${payload.length} bytes, ${MAX_WELCOME} at most`);
    const [version, ...lines] = payload.toString().split('\n');
    if (version !== 'PIPE/1') broken('P-12', `WELCOME begins with ${JSON.stringify(version)}, not PIPE/1`);
    const keys = Object.fromEntries(lines.map(line => line.split(/=(.*)/s)));
    [this.worker, this.maxFrame] = [Number(keys.worker), Number(keys.max_frame ?? MIN_MAX_FRAME)];
    if (!Number.isInteger(this.worker)) broken('P-3', 'WELCOME names no worker');
    if (!(this.maxFrame >= MIN_MAX_FRAME)) broken('P-6', `WELCOME says max_frame=${keys.max_frame}, less than ${MIN_MAX_FRAME}`);
    this.welcomed = true;
  }

  request(payload, id, end) {
    const { exchanges, service: { maxExchanges } } = this;
    if (id === 0) broken('P-15', 'a REQUEST with exchange id 0');
    if (this.kind === 'own' && exchanges.size) broken('P-19', 'a REQUEST before the exchange before it has ended');
    if (this.kind === 'shared' && !end) broken('P-14', 'a REQUEST without END on a shared connection');
    if (exchanges.has(id)) broken('P-15', `exchange ${id} is still open`);
    if (exchanges.size >= maxExchanges) broken('P-14', `more than exchanges=${maxExchanges} open`);
    this.cancelled = 0;
    this.service.begin(this, id, payload, end);
  }

  body(id, bytes, end, trailers) {
    const exchange = this.exchanges.get(id);
    if (exchange && !exchange.received) exchange.receive(bytes, end, trailers);
    else if (id !== this.cancelled) broken('P-20', `a body for exchange ${id}, which takes none`);
  }

  reset(payload, id) {
    if (payload.length < 8) broken('P-11', `a RESET of ${payload.length} bytes, 8 at least`);
    if (id === 0) return this.close(new Error(`the gateway says: ${payload.toString('utf8', 8) || `code ${payload[0]}`}`));
    const exchange = this.exchanges.get(id);
    this.cancelled = id;
    exchange?.cancel(payload.readUInt16LE(0)); // P-26: ignored for one that has ended
  }

  /** Queues a frame; one with a `status` begins with a head. */
  send(type, flags, id, body, status = 0, fields = '') {
    const bodyAt = HEADER_BYTES + (status ? 8 + fields.length : 0);
    const frame = Buffer.allocUnsafe(bodyAt + body.length);
    frame.writeUInt32LE(frame.length - HEADER_BYTES, 0);
    frame.writeUInt32LE(type + flags * 0x100 + id * 0x10000, 4);
    if (status) {
      frame.writeUInt32LE(fields.length, 8);
      frame.writeUInt32LE(status, 12);
      frame.latin1Write(fields, 16);
    }
    frame.set(body, bodyAt);
    this.batch.push(frame);
    if (!this.scheduled) setImmediate(() => this.flush());
    this.scheduled = true;
  }

  sendReset(id, code, text, retryAfterMs = 0) {
    const payload = Buffer.from(`${'\0'.repeat(8)}${String(text).slice(0, MAX_TEXT)}`);
    payload.writeUInt16LE(code, 0);
    payload.writeUInt32LE(Math.min(Math.max(0, Math.ceil(retryAfterMs) || 0), 0xffffffff), 4);
    this.send(TYPE.RESET, 0, id, payload);
  }

  /** Writes what is queued, with one call. */
  flush() {
    const { batch, callbacks, socket } = this;
    Object.assign(this, { batch: [], callbacks: [], scheduled: false });
    if (batch.length === 0) return;
    socket.write(batch.length > 1 ? Buffer.concat(batch) : batch[0], () => { for (const callback of callbacks) callback(); });
    if (this.kind === 'shared' && socket.writableLength > MAX_BACKLOG) socket.pause().once('drain', () => socket.resume());
  }

  /** Closes when what is queued has been written; what still arrives is not handled. */
  close(err = null) {
    if (err) this.service.report(`a connection of kind ${this.kind} has failed: ${err.message}`);
    this.failure ??= err;
    this.closing = true;
    this.flush();
    this.socket.destroySoon();
  }
}

module.exports = { Connection, TYPE, CODE, END, EMPTY, broken, strings };
