'use strict';
/**
 * One exchange as Node's own `(req, res)`: a real http.IncomingMessage and a real http.ServerResponse. What they take for their
 * socket is the Exchange: it pushes the request's body, and turns the HTTP/1.1 that ServerResponse writes into frames.
 * Invariant: exactly one final frame leaves for each exchange (P-16); `final` is the only place that marks it.
 */
const { EventEmitter } = require('events');
const http = require('http');
const { TYPE, CODE, END, EMPTY, broken, strings } = require('./connection');

const HIGH_WATER_BYTES = 16 * 1024; // unwritten bytes of one answer beyond which res.write() returns false
// P-9: these never cross the pipe, nor do the fields that `connection` names.
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade', 'expect']);
const REQUEST_STRINGS = 7; // method, scheme, authority, target, protocol, peer, request id
const SIGNAL = { get() { return this.socket.signal; }, configurable: true, enumerable: true };
const { writeHead } = http.ServerResponse.prototype;
// Node keeps `writableNeedDrain` under a symbol; without it only that property would be wrong.
const kNeedDrain = Object.getOwnPropertySymbols(new http.OutgoingMessage()).find(({ description }) => description === 'kNeedDrain');

/** As Node's, but the body is not chunked: frames say where it ends. An own property, for Express exchanges the prototype. */
function writePlainHead(...args) {
  writeHead.apply(this, args);
  this.chunkedEncoding = false;
  return this;
}

/** Fields from the lines `Name: value` of headers or trailers, which Node has made and checked. */
function toFields(text) {
  let fields = '';
  const named = /^connection: (.*)/im.exec(text)?.[1].toLowerCase().split(/[\s,]+/) ?? [];
  for (const line of text.split('\r\n')) {
    const colon = line.indexOf(': ');
    const name = line.slice(0, colon).toLowerCase();
    if (colon > 0 && !HOP_BY_HOP.has(name) && !named.includes(name)) fields += `${name}\0${line.slice(colon + 2)}\0`;
  }
  return fields;
}

class Exchange extends EventEmitter {
  constructor(service, conn, id, payload, complete) {
    super();
    this.service = service;
    this.conn = this.out = conn; // `out` carries the answer
    this.id = id;
    this.pending = []; // body that is not in a frame yet
    this.callbacks = []; // of the writes in `pending`
    this.req = new http.IncomingMessage(this);
    const body = this.readHead(payload);
    const { headers } = this.req;
    // Body parsers look for these two; the pipe has dropped transfer-encoding.
    if ((body.length || !complete) && !headers['content-length']) headers['transfer-encoding'] = 'chunked';
    this.receive(body, complete, []);
    this.res = new http.ServerResponse(this.req);
    Object.assign(this.res, { sendDate: false, writeHead: writePlainHead });
    this.res.assignSocket(this);
    this.res.on('prefinish', () => this.flush(true));
    conn.exchanges.set(id, this);
  }

  /** Reads a request head into `req`, and returns what follows it. */
  readHead(payload) {
    if (payload.length < 8) broken('P-8', `a REQUEST of ${payload.length} bytes has no room for a head`);
    const [headEnd, deadlineMs] = [8 + payload.readUInt32LE(0), payload.readUInt32LE(4)];
    if (headEnd > payload.length) broken('P-8', 'head_length is larger than the payload');
    const list = strings(payload.subarray(8, headEnd), REQUEST_STRINGS);
    const [method, scheme, authority, url, protocol, peer, id] = list;
    const raw = list.slice(authority ? 5 : 7);
    if (authority) [raw[0], raw[1]] = ['host', authority];
    Object.assign(this.req, { method, url, id, httpVersion: protocol.slice(5), deadline: deadlineMs ? Date.now() + deadlineMs : null });
    Object.assign(this.req, { httpVersionMajor: Number(protocol[5]), httpVersionMinor: Number(protocol[7]) });
    Object.defineProperty(this.req, 'signal', SIGNAL);
    this.req._addHeaderLines(raw, raw.length);
    [this.peer, this.encrypted] = [peer, scheme === 'https'];
    return payload.subarray(headEnd);
  }

  get remoteAddress() { return this.peer.slice(0, this.peer.lastIndexOf(':')).replace(/^\[|\]$/g, '') || undefined; }
  get remotePort() { return Number(this.peer.slice(this.peer.lastIndexOf(':') + 1)) || undefined; }

  get signal() {
    this.controller ??= new AbortController();
    if (this.aborted) this.controller.abort(this.aborted);
    return this.controller.signal;
  }

  receive(bytes, last, trailers) {
    this.received = last;
    if (this.answered) return this.release(); // P-21: thrown away
    if (bytes.length && !this.req.push(bytes) && !last) this.conn.socket.pause(); // P-22
    if (!last) return;
    this.req.complete = true;
    this.req._addHeaderLines(trailers, trailers.length);
    this.req.push(null);
  }

  /** Node calls this when it wants more of the body. */
  resume() {
    if (!this.received) this.conn.socket.resume();
    return this;
  }

  setTimeout(ms, callback) {
    if (callback) this.once('timeout', callback);
    clearTimeout(this.timer);
    const timedOut = () => [this.req, this.res, this].map(stream => stream.emit('timeout', this)).includes(true) || this.destroy();
    if (ms > 0 && !this.answered) this.timer = setTimeout(timedOut, ms);
    return this;
  }

  /** Node writes here: a head, always in one piece, with some of the body perhaps; then more of the body. */
  write(data, encoding, callback) {
    if (this.answered) return false;
    if (!this.status) {
      const [headEnd, status] = [data.indexOf('\r\n\r\n') + 4, Number(data.slice(9, 12))]; // HTTP/1.1 200 OK
      const fields = toFields(data.slice(0, headEnd));
      if (status < 200) return this.inform(status, fields, callback);
      [this.status, this.fields] = [status, fields];
      data = data.slice(headEnd);
    }
    const bytes = typeof data === 'string' ? Buffer.from(data, encoding) : data;
    this.pending.push(bytes);
    if (callback) this.callbacks.push(callback);
    // An answer that ends in the turn of its first write still goes out as one frame.
    if (!this.scheduled) process.nextTick(() => this.flush(false));
    this.scheduled = true;
    this.needDrain = (this.writableLength += bytes.length) >= HIGH_WATER_BYTES;
    return !this.needDrain;
  }

  inform(status, fields, callback) {
    if (status !== 100) this.stream().send(TYPE.INFO, 0, this.id, EMPTY, status, fields); // the gateway has answered `expect`
    if (callback) process.nextTick(callback);
    return true;
  }

  /** The connection for frames that must not be on a shared one (P-17, P-24). */
  stream() {
    if (this.out.kind === 'shared') {
      this.out = this.service.answerConnection(this.out.worker);
      this.out.exchanges.set(this.id, this);
    }
    return this.out;
  }

  /** Sends what has been written: in one frame if that is the whole answer, else as a stream. */
  flush(last) {
    if (this.answered) return;
    const { id, res, status, fields, callbacks } = this;
    if (!status) return this.fail(new Error(`${res.statusCode} is not the status of an answer`));
    const body = this.pending.length === 1 ? this.pending[0] : Buffer.concat(this.pending);
    [this.pending, this.callbacks, this.scheduled] = [[], [], false];
    const trailers = last && res._hasBody ? toFields(res._trailer) : '';
    const whole = last && !this.begun && !trailers && 8 + fields.length + body.length <= this.out.maxFrame;
    const out = whole ? this.out : this.stream();
    const headBytes = Math.max(8 + fields.length, trailers.length);
    if (headBytes > out.maxFrame) return this.fail(new Error(`the headers or trailers have ${headBytes} bytes, more than max_frame=${out.maxFrame}`));
    if (last && !this.received) this.conn.send(TYPE.STOP, 0, id, EMPTY); // P-21
    if (!this.begun) out.send(TYPE.RESPONSE, whole ? END : 0, id, whole ? body : EMPTY, status, fields);
    this.begun = true;
    for (let at = 0; at < body.length && !whole; at += out.maxFrame) out.send(TYPE.DATA, 0, id, body.subarray(at, at + out.maxFrame));
    if (last && !whole) out.send(trailers ? TYPE.TRAILERS : TYPE.DATA, END, id, Buffer.from(trailers, 'latin1'));
    out.callbacks.push(() => this.written(body.length, callbacks));
    if (last) this.final();
  }

  /** `bytes` are with the operating system. */
  written(bytes, callbacks) {
    this.writableLength -= bytes;
    for (const callback of callbacks) callback();
    if (!this.needDrain || this.writableLength >= HIGH_WATER_BYTES || this.answered) return;
    this.needDrain = this.res[kNeedDrain] = false;
    this.res.emit('drain');
  }

  /** The final frame is queued. */
  final() {
    this.answered = true;
    clearTimeout(this.timer);
    if (!this.received) this.conn.socket.resume(); // what still comes is thrown away
    if (this.out !== this.conn) this.out.exchanges.delete(this.id);
    this.release();
    this.out.callbacks.push(() => this.destroy());
    this.service.answered(this);
  }

  /** P-19: its connection forgets an exchange when both directions have ended. */
  release() {
    if (this.answered && this.received) this.conn.exchanges.delete(this.id);
  }

  /** Ends the exchange with RESET, unless it has ended. */
  reset(code, text, retryAfterMs) {
    if (this.answered) return;
    this.out.sendReset(this.id, code, text, retryAfterMs);
    this.final();
  }

  /** The gateway has reset the exchange (P-26), or its connection is gone (P-34). */
  cancel(code) {
    this.received = true;
    this.release();
    this.reset(code, 'cancelled');
    this.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
  }

  fail(err) {
    this.service.report(`${this.req.method} ${this.req.url}: the handler failed: ${err?.stack ?? err}`);
    if (!this.answered) this.destroy(err);
  }

  /** As a socket that closes: 'close' on res, and 'aborted' and 'close' on a req that was cut. */
  destroy(err) {
    if (this.destroyed) return this;
    this.reset(CODE.INTERNAL, 'the handler failed, its log says why');
    this.destroyed = this.closed = true;
    this.readable = this.writable = false;
    this.aborted = err;
    if (err) this.controller?.abort(err);
    this.emit('close');
    const { req } = this;
    if (err || !req.complete) req.destroy(err);
    else if (!req.readableDidRead && (req.listenerCount('end') || req.listenerCount('close'))) req.resume(); // for those who wait
    return this;
  }

  cork() {}
  uncork() {}
  setNoDelay() { return this; }
  setKeepAlive() { return this; }
}
// How each begins; readable, writable, _paused and _writableState are what Node reads of a socket. `writableLength` are the bytes that
// the operating system does not have yet, and one for the end.
Object.assign(Exchange.prototype, { readable: true, writable: true, _paused: false, _writableState: {}, destroyed: false, closed: false });
Object.assign(Exchange.prototype, { begun: false, answered: false, status: 0, scheduled: false, needDrain: false, writableLength: 1 });

module.exports = { Exchange };
