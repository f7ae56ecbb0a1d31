'use strict';
/**
 * One Pipe/1 connection: cuts what was read into frames, checks each against the connection's state, and gathers what is to
 * be written into batches (P-18). Knows no http: the instance that owns it makes the exchanges.
 * Invariants: a flush is one write; `exchanges` holds those that owe a final frame here; a paused socket has a reason.
 */
const net = require('net');
const wire = require('./wire');
const { TYPE, CODE, FLAG, check } = wire;

const HEADER_BYTES = 8;
const READ_BYTES = 128 * 1024; // one buffer for all connections: what is read is handled or copied before the next read
const BATCH_BYTES = 80 * 1024; // more than one frame of the smallest max_frame
const COPY_BYTES = 16 * 1024; // larger bodies are not copied into the batch
const MAX_BACKLOG = 1024 * 1024; // unwritten bytes beyond which a connection is not read either
const MAX_SPARE = 8; // batches kept for the next use
// What the gateway may send, on which kinds of connection (P-11), and the payloads whose size is fixed.
const FROM_GATEWAY = {
  [TYPE.WELCOME]: 'shared own answer', [TYPE.RESET]: 'shared own answer', [TYPE.PING]: 'shared own answer',
  [TYPE.PONG]: 'shared own answer',
  [TYPE.REQUEST]: 'shared own', [TYPE.DATA]: 'own', [TYPE.TRAILERS]: 'own', [TYPE.DRAIN]: 'shared', [TYPE.MORE]: 'shared',
};
const SIZE = { [TYPE.PING]: 8, [TYPE.PONG]: 8, [TYPE.DRAIN]: 4, [TYPE.MORE]: 8 };
const PAUSE = { READER: 1, BACKLOG: 2 };
const readBuffer = Buffer.allocUnsafeSlow(READ_BYTES);
const EMPTY = Buffer.alloc(0);
const spare = [];

class Connection {
  constructor(instance, kind, worker, keys) {
    Object.assign(this, { instance, kind, worker, maxFrame: wire.MIN_MAX_FRAME });
    Object.assign(this, { welcomed: false, up: false, failed: null, broken: false });
    this.exchanges = new Map(); // by exchange id
    // own: the exchange whose request direction is open; the id of a cancelled one, whose DATA may still arrive
    Object.assign(this, { reading: null, crossing: 0 });
    // pieces of an incomplete frame: `have` of `need` bytes
    Object.assign(this, { rest: [], have: 0, need: 0, dispatching: false, paused: 0 });
    // frames not yet written: `fill` bytes of `batch`; the exchanges whose final frame is in it
    Object.assign(this, { batch: null, fill: 0, ended: [], scheduled: false });
    this.socket = net.connect({ path: instance.path, onread: { buffer: readBuffer, callback: n => this.read(n) } });
    this.socket.on('connect', () => {
      this.up = true;
      setImmediate(require, './exchange'); // http loads while HELLO is under way
    });
    this.socket.on('error', err => { this.failed ??= err; });
    this.socket.on('close', () => instance.closed(this));
    this.send(TYPE.HELLO, 0, 0, 0, '', wire.helloPayload(keys)); // P-1
    this.flush();
  }

  read(size) {
    if (this.failed) return false;
    let bytes = readBuffer.subarray(0, size);
    if (this.have) {
      this.rest.push(Buffer.from(bytes));
      if ((this.have += size) < this.need) return true;
      bytes = Buffer.concat(this.rest, this.have);
    }
    this.have = 0;
    this.dispatching = true;
    try {
      const used = this.frames(bytes);
      this.rest = used < bytes.length ? [Buffer.from(bytes.subarray(used))] : [];
      this.have = bytes.length - used;
    } catch (err) {
      if (!(err instanceof wire.ProtocolError)) throw err;
      this.send(TYPE.RESET, 0, 0, 0, '', wire.resetPayload(CODE.PROTOCOL, err.message)); // P-10
      this.close(err);
    } finally {
      this.dispatching = false;
      if (this.exchanges.size === 0) this.flush();
      else if (this.fill) this.schedule();
    }
    return this.paused === 0;
  }

  frames(bytes) {
    let at = 0;
    while (bytes.length - at >= HEADER_BYTES) {
      if (this.failed) return bytes.length;
      const length = bytes.readUInt32LE(at);
      check(length <= this.maxFrame, 'P-6', `a payload of ${length} bytes, max_frame is ${this.maxFrame}`);
      this.need = HEADER_BYTES + length;
      if (bytes.length - at < this.need) return at;
      const from = at + HEADER_BYTES;
      this.frame(bytes[at + 4], bytes[at + 5], bytes.readUInt16LE(at + 6), bytes, from, from + length);
      at += this.need;
    }
    this.need = HEADER_BYTES;
    return at;
  }

  frame(type, flags, id, bytes, from, to) {
    const { kind, instance } = this;
    const kinds = FROM_GATEWAY[type];
    if (kinds === undefined) {
      check(type === 0 || type > TYPE.LOG, 'P-11', `a frame of type ${type} from the gateway`);
      return check(flags & FLAG.IGNORABLE, 'P-7', `a frame of unknown type ${type} without IGNORABLE`);
    }
    check(kinds.includes(kind), 'P-11', `a frame of type ${type} on a connection of kind ${kind}`);
    check(this.welcomed === (type !== TYPE.WELCOME) || (type === TYPE.RESET && id === 0), 'P-3', 'WELCOME is the first frame, once');
    check(SIZE[type] === undefined || SIZE[type] === to - from, 'P-11', `a frame of type ${type} with ${to - from} bytes`);
    switch (type) {
      case TYPE.REQUEST: return this.request((flags & FLAG.END) !== 0, id, bytes, from, to);
      case TYPE.DATA: case TYPE.TRAILERS: return this.requestBody(type, (flags & FLAG.END) !== 0, id, bytes, from, to);
      case TYPE.RESET: return this.reset(id, bytes, from, to);
      case TYPE.WELCOME: return Object.assign(this, wire.readWelcome(bytes, from, to), { welcomed: true });
      case TYPE.PING: return this.send(TYPE.PONG, 0, 0, 0, '', bytes.subarray(from, to)); // P-35
      case TYPE.DRAIN: return instance.drain(true);
      case TYPE.MORE: return instance.more(bytes.readUInt16LE(from), bytes.readUInt16LE(from + 2), bytes.readUInt32LE(from + 4));
      default: return undefined; // PONG: nothing waits for one, no PING is sent
    }
  }

  request(complete, id, bytes, from, to) {
    check(id !== 0, 'P-15', 'a REQUEST with exchange id 0');
    if (this.kind === 'shared') {
      const { maxExchanges } = this.instance;
      check(complete, 'P-14', 'a REQUEST without END on a shared connection');
      check(!this.exchanges.has(id), 'P-15', `exchange ${id} is still open`);
      check(this.exchanges.size < maxExchanges, 'P-14', `more than exchanges=${maxExchanges} open`);
    } else check(!this.exchanges.size && !this.reading, 'P-19', 'a REQUEST before the exchange before it has ended');
    this.crossing = 0;
    const head = wire.readRequest(bytes, from, to);
    this.instance.begin(this, id, head, head.body < to ? Buffer.from(bytes.subarray(head.body, to)) : null, complete);
  }

  requestBody(type, end, id, bytes, from, to) {
    const trailers = type === TYPE.TRAILERS ? wire.readStrings(bytes, from, to) : null;
    const exchange = this.reading;
    if (exchange?.id !== id) return check(this.crossing === id, 'P-20', `type ${type} for exchange ${id}, which takes no body`);
    if (end || trailers) this.reading = null;
    exchange.receive(trailers ? EMPTY : Buffer.from(bytes.subarray(from, to)), end || trailers !== null, trailers);
  }

  reset(id, bytes, from, to) {
    check(to - from >= 8, 'P-11', `a RESET of ${to - from} bytes, 8 at least`);
    const code = bytes.readUInt16LE(from);
    if (id === 0) return this.close(new Error(`the gateway says: ${bytes.utf8Slice(from + 8, to) || `code ${code}`}`));
    const exchange = this.exchanges.get(id) ?? (this.reading?.id === id ? this.reading : undefined);
    if (this.reading === exchange) [this.reading, this.crossing] = [null, id];
    exchange?.cancel(code); // P-26: ignored for one that has ended
  }

  /** Closes when what is queued has been written; what still arrives is not handled. */
  close(err) {
    this.failed ??= err ?? new Error('closed');
    this.broken ||= err !== undefined;
    if (err) this.instance.report(`a connection of kind ${this.kind} has failed: ${err.message}`);
    this.flush();
    this.socket.destroySoon();
  }

  pause(reason) {
    this.paused |= reason;
    this.socket.pause();
  }

  resume(reason) {
    if (this.paused && !(this.paused &= ~reason)) this.socket.resume();
  }

  /** One frame: status and fields if it has a head, then body (text or bytes). Returns false if it is more than a frame. */
  send(type, flags, id, status, fields, body) {
    const bodyBytes = Buffer.byteLength(body);
    const headBytes = fields.length + (status ? 8 : 0);
    if (headBytes + bodyBytes > this.maxFrame) return false;
    const apart = bodyBytes > COPY_BYTES;
    const bytes = HEADER_BYTES + headBytes + (apart ? 0 : bodyBytes);
    if (this.batch && this.fill + bytes > this.batch.length) this.flush();
    const batch = this.batch ??= (bytes <= BATCH_BYTES && spare.pop()) || Buffer.allocUnsafeSlow(Math.max(BATCH_BYTES, bytes));
    let at = (this.fill += bytes) - bytes;
    batch.writeUInt32LE(headBytes + bodyBytes, at);
    batch.writeUInt32LE(type + flags * 0x100 + id * 0x10000, at + 4);
    if (status) {
      batch.writeUInt32LE(fields.length, at += HEADER_BYTES);
      batch.writeUInt32LE(status, at + 4);
    }
    if (fields) batch.latin1Write(fields, at + 8);
    at += HEADER_BYTES + fields.length;
    if (apart) this.flush(typeof body === 'string' ? Buffer.from(body) : body);
    else if (typeof body === 'string') batch.utf8Write(body, at);
    else batch.set(body, at);
    this.schedule();
    return true;
  }

  /** Body bytes in DATA frames. */
  data(id, body, flags) {
    for (; body.length > this.maxFrame; body = body.subarray(this.maxFrame)) {
      this.send(TYPE.DATA, 0, id, 0, '', body.subarray(0, this.maxFrame));
    }
    this.send(TYPE.DATA, flags, id, 0, '', body);
  }

  schedule() {
    if (this.scheduled || this.dispatching) return;
    this.scheduled = true;
    setImmediate(() => { this.scheduled = false; this.flush(); });
  }

  /** Writes the batch and, uncopied, `body` after it. */
  flush(body) {
    const { batch, fill, ended } = this;
    if (!fill) return;
    [this.batch, this.fill, this.ended] = [null, 0, []];
    const written = err => this.written(err, batch, ended);
    if (body) this.socket.cork();
    this.socket.write(batch.subarray(0, fill), body ? undefined : written);
    if (body) this.socket.write(body, written);
    if (body) this.socket.uncork();
    if (this.socket.writableLength > MAX_BACKLOG) this.pause(PAUSE.BACKLOG);
  }

  written(err, batch, ended) {
    if (err) return; // 'close' follows and ends the exchanges
    if (batch.length === BATCH_BYTES && spare.length < MAX_SPARE) spare.push(batch);
    for (const exchange of ended) exchange.finished();
    if (this.fill || this.socket.writableLength) return;
    this.resume(PAUSE.BACKLOG);
    for (const exchange of this.exchanges.values()) exchange.drained(this);
  }
}

module.exports = { Connection, PAUSE };
