'use strict';
/**
 * One Pipe/1 connection: cuts what was read into frames, checks each against the rules, and writes in batches (P-18).
 * Knows no http. Invariants: no memory is sized by a length that has not been checked; `exchanges` holds those that
 * still expect or owe frames here.
 */
const net = require('net');

const MIN_MAX_FRAME = 65536; // `max_frame` until WELCOME says more
const MAX_WELCOME = 4096;
const MAX_TEXT = 341; // characters of a RESET's text: at most 3 bytes each, 1,024 allowed
const HEADER_BYTES = 8;
const MAX_JOINED = 32 * 1024; // bytes that are copied into one piece; more are given to the kernel as they are
const [END, UPGRADE, IGNORABLE] = [0x01, 0x02, 0x80];
const TYPE = { HELLO: 1, WELCOME: 2, REQUEST: 3, RESPONSE: 4, INFO: 5, DATA: 6, TRAILERS: 7, STOP: 8,
  RESET: 9, PING: 10, PONG: 11, DRAIN: 12, MORE: 13, LOG: 14 };
const CODE = { CANCELLED: 1, DEADLINE: 2, REFUSED: 3, OVERLOADED: 4, INTERNAL: 5, PROTOCOL: 6, TOO_LARGE: 7 };
const EMPTY = Buffer.alloc(0);
let turn = null; // connections with something to write, while what one read has brought is being handled
const readBuffer = Buffer.allocUnsafeSlow(64 * 1024); // of all connections: what outlives a read is copied

/** What the gateway may send (P-11): on which kinds of connection, its size if that is fixed, and who takes it. */
const RULES = {
  [TYPE.WELCOME]: { on: 'shared own answer', take: (conn, id, payload) => conn.welcome(payload) },
  [TYPE.REQUEST]: { on: 'shared own', take: (conn, id, payload, end, flags) => conn.request(id, payload, end, flags) },
  [TYPE.DATA]: { on: 'own', take: (conn, id, payload, end) => conn.body(id, Buffer.from(payload), end, []) },
  [TYPE.TRAILERS]: { on: 'own', take: (conn, id, payload) => conn.body(id, EMPTY, true, strings(payload, 0)) },
  [TYPE.RESET]: { on: 'shared own answer', take: (conn, id, payload) => conn.reset(id, payload) },
  // P-35. No PING is sent from here: a PONG is nobody's.
  [TYPE.PING]: { on: 'shared own', bytes: 8, take: (conn, id, data) => conn.send(TYPE.PONG, 0, 0, data.latin1Slice()) },
  [TYPE.PONG]: { on: 'shared own', bytes: 8, take: () => {} },
  [TYPE.DRAIN]: { on: 'shared', bytes: 4, take: conn => conn.service.drain(true) },
  [TYPE.MORE]: { on: 'shared', bytes: 8, take: (conn, id, payload) => conn.service.more(payload) },
};

/** Writes when the handlers of a read have run, and what they wait for that is there already (P-18). */
function endTurn() {
  const connections = turn;
  turn = null;
  for (const connection of connections) connection.flush();
}
const endTurnSoon = () => process.nextTick(endTurn);

/** The peer broke a rule of the specification. */
function broken(rule, text) { throw Object.assign(new Error(`${rule}: ${text}`), { rule }); }

/** A number as four characters: heads of frames are latin-1 text until they are queued. */
const u32 = n => String.fromCharCode(n & 0xff, (n >>> 8) & 0xff, (n >>> 16) & 0xff, n >>> 24);

const resetPayload = (code, text, retryMs = 0) => [u32(code) + u32(retryMs), Buffer.from(text.slice(0, MAX_TEXT))];

/** The strings of a payload, each ended by a zero byte: `first` of them, then names and values. */
function strings(payload, first, from = 0, to = payload.length) {
  if (from < to && payload[to - 1] !== 0) broken('P-8', 'the last string has no final zero byte');
  const list = from < to ? payload.latin1Slice(from, to - 1).split('\0') : [];
  if (list.length < first || (list.length - first) % 2) broken('P-8', `${list.length} strings: a name without a value`);
  return list;
}

/** Texts in latin-1 and bytes as one piece. */
function joined(parts, size) {
  const bytes = Buffer.allocUnsafe(size);
  let at = 0;
  for (const part of parts) {
    if (typeof part === 'string') at += bytes.write(part, at, 'latin1');
    else if (part.length) {
      bytes.set(part, at);
      at += part.length;
    }
  }
  return bytes;
}

class Connection {
  constructor(service, kind, worker) {
    Object.assign(this, { service, kind, worker, maxFrame: MIN_MAX_FRAME, welcomed: false });
    // Exchanges by id; the beginning of a frame that was read; what to write, and whom to tell then.
    Object.assign(this, { exchanges: new Map(), rest: EMPTY, batch: [], batchBytes: 0 });
    Object.assign(this, { callbacks: [], scheduled: false });
    service.connections.add(this);
    const onread = { buffer: readBuffer, callback: size => this.read(readBuffer.subarray(0, size)) };
    // An own connection may become somebody else's (./upgrade.js), who listens for 'data'.
    this.socket = net.connect(kind === 'own' ? { path: service.path } : { path: service.path, onread })
      .on('data', data => this.read(data)).on('close', () => service.closed(this));
    // Other errors than that of connecting are the end of the stream (P-33, P-34).
    this.socket.on('error', err => { if (err.syscall === 'connect') this.failure = err; });
    const who = `token=${service.token}\nsdk=node/0.1.0\npid=${process.pid}\nmax_own=${service.maxOwn}\nkind=${kind}\n`;
    const size = 'minor=1\n' + (kind === 'shared' ? `exchanges=${service.maxExchanges}\n` : ''); // P-37
    this.send(TYPE.HELLO, 0, 0, `PIPE/1\n${who}${size}${worker === undefined ? '' : `worker=${worker}\n`}`); // P-1
  }

  read(data) {
    const bytes = this.rest.length ? Buffer.concat([this.rest, data]) : data;
    let at = 0;
    const isFirst = turn === null;
    turn ??= [];
    try {
      while (bytes.length - at >= HEADER_BYTES && !this.socket.writableEnded) {
        const [length, from] = [bytes.readUInt32LE(at), at + HEADER_BYTES];
        if (length > this.maxFrame) broken('P-6', `a payload of ${length} bytes, max_frame is ${this.maxFrame}`);
        if (from + length > bytes.length) break;
        at = from + length;
        this.frame(bytes[from - 4], bytes[from - 3], bytes.readUInt16LE(from - 2), bytes.subarray(from, at));
      }
    } catch (err) {
      if (!err.rule) throw err;
      this.send(TYPE.RESET, 0, 0, ...resetPayload(CODE.PROTOCOL, err.message)); // P-10
      this.close(err);
    } finally {
      this.rest = at < bytes.length ? Buffer.from(bytes.subarray(at)) : EMPTY;
      if (isFirst) queueMicrotask(endTurnSoon); // behind all microtasks of the handlers, and theirs
    }
  }

  frame(type, flags, id, payload) {
    const rule = RULES[type];
    if (type === 0 || type > TYPE.LOG) return flags & IGNORABLE || broken('P-7', `type ${type}, and not IGNORABLE`);
    if (!rule?.on.includes(this.kind)) broken('P-11', `type ${type} does not come on kind ${this.kind}`);
    if (payload.length !== (rule.bytes ?? payload.length)) broken('P-11', `type ${type} with ${payload.length} bytes`);
    const early = this.welcomed === (type === TYPE.WELCOME); // only a refusal (P-4) may be that
    if (early && (type !== TYPE.RESET || id !== 0)) broken('P-3', 'WELCOME is the first frame, once');
    return rule.take(this, id, payload, (flags & END) !== 0, flags);
  }

  welcome(payload) {
    if (payload.length > MAX_WELCOME) broken('P-6', `a WELCOME of ${payload.length} bytes, ${MAX_WELCOME} at most`);
    const [version, ...lines] = payload.toString().split('\n');
    if (version !== 'PIPE/1') broken('P-12', `WELCOME begins with ${JSON.stringify(version)}, not PIPE/1`);
    const keys = { max_frame: MIN_MAX_FRAME, minor: 0, ...Object.fromEntries(lines.map(line => line.split(/=(.*)/s))) };
    [this.worker, this.maxFrame, this.minor] = [keys.worker, keys.max_frame, keys.minor].map(Number);
    this.welcomed = this.worker >= 0 && this.maxFrame >= MIN_MAX_FRAME;
    if (!this.welcomed) broken('P-3', `WELCOME says worker=${keys.worker} and max_frame=${keys.max_frame}`);
  }

  request(id, payload, end, flags) {
    const { exchanges, kind, service } = this;
    if (id === 0) broken('P-15', 'a REQUEST with exchange id 0');
    if (kind === 'own' && exchanges.size) broken('P-19', 'a REQUEST before the exchange before it has ended');
    if (kind === 'shared' && !end) broken('P-14', 'a REQUEST without END on a shared connection');
    if (exchanges.has(id)) broken('P-15', `exchange ${id} is still open`);
    if (exchanges.size >= service.maxExchanges) broken('P-14', `more than exchanges=${service.maxExchanges} open`);
    service.begin(this, id, payload, end, flags);
  }

  body(id, bytes, end, trailers) {
    const exchange = this.exchanges.get(id);
    if (!exchange || exchange.received) broken('P-20', `a body for exchange ${id}, which takes none`);
    exchange.received = end;
    if (!exchange.answered && !exchange.stopped) exchange.receive(bytes, end, trailers);
    else if (end && exchange.answered) this.exchanges.delete(id); // P-19, P-21: thrown away
  }

  reset(id, payload) {
    if (payload.length < 8) broken('P-11', `a RESET of ${payload.length} bytes, 8 at least`);
    if (id === 0) return this.close(new Error(`the gateway says: ${payload.toString('utf8', 8)} (code ${payload[0]})`));
    if (this.kind === 'answer') broken('P-25', 'a RESET for an exchange on an answer connection');
    this.exchanges.get(id)?.cancel(payload.readUInt16LE(0)); // P-26: ignored for one that has ended
  }

  /** Queues a frame, whose payload is `head` (latin-1 text) and then `body`. */
  send(type, flags, id, head, body = EMPTY) {
    const size = head.length + body.length;
    this.batch.push(u32(size) + u32(type + flags * 0x100 + id * 0x10000) + head, body);
    this.batchBytes += HEADER_BYTES + size;
    if (!this.scheduled && turn) turn.push(this);
    else if (!this.scheduled) setImmediate(() => this.flush());
    this.scheduled = true;
  }

  /** Writes what is queued, with one call. */
  flush() {
    const { batch, batchBytes, callbacks, socket } = this;
    [this.batch, this.batchBytes, this.callbacks, this.scheduled] = [[], 0, [], false];
    if (!batch.length) return;
    // Up to Node 22 a write that a reset has cut off has no `err`.
    const done = err => callbacks.forEach(it => it(err ?? socket.destroyed));
    if (batchBytes <= MAX_JOINED) return socket.write(joined(batch, batchBytes), done);
    const last = batch.pop();
    socket.cork();
    for (const part of batch) socket.write(part, 'latin1');
    socket.write(last, done);
    socket.uncork();
  }

  /** Closes when what is queued has been written; what still arrives is not handled. */
  close(err) {
    this.failure ??= err;
    this.flush();
    this.socket.destroySoon();
  }
}

module.exports = { Connection, TYPE, CODE, END, UPGRADE, EMPTY, u32, broken, strings, resetPayload };
