'use strict';
/**
 * One exchange as Node's own `(req, res)`: a real http.IncomingMessage and a real http.ServerResponse. What they take for
 * their socket is the Exchange: it pushes the request's body, and turns the HTTP/1.1 that ServerResponse writes into frames.
 * Invariant: exactly one final frame leaves for each exchange (P-16); `final` is the only place that marks it.
 */
const { EventEmitter } = require('events');
const http = require('http');
const { TYPE, CODE, END, EMPTY, u32, broken, strings } = require('./connection');

const HIGH_WATER_BYTES = 16 * 1024; // unwritten bytes of one answer beyond which res.write() returns false
const REQUEST_STRINGS = 7; // method, scheme, authority, target, protocol, peer, request id
// P-9: these never cross the pipe, nor do the fields that `connection` names.
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade', 'expect']);
const SIGNAL = { get() { return this.socket.signal; }, configurable: true, enumerable: true };
const { writeHead } = http.ServerResponse.prototype;
// Node keeps `writableNeedDrain` under a symbol; without it only that property would be wrong.
const kNeedDrain = Object.getOwnPropertySymbols(new http.OutgoingMessage()).find(it => it.description === 'kNeedDrain');

/** As Node's, but the body is not chunked: frames say where it ends. An own property: Express exchanges the prototype. */
function writePlainHead(...args) {
  writeHead.apply(this, args);
  this.chunkedEncoding = false;
  return this;
}

/** Fields from the lines `Name: value` from `start` on, of headers or trailers, which Node has made and checked. */
function toFields(text, start, drop = HOP_BY_HOP) {
  let fields = '';
  for (let at = start, end; (end = text.indexOf('\r\n', at)) > at; at = end + 2) {
    const colon = text.indexOf(': ', at);
    const [name, value] = [text.slice(at, colon).toLowerCase(), text.slice(colon + 2, end)];
    if (!drop.has(name)) fields += `${name}\0${value}\0`;
    else if (name === 'connection' && value !== 'keep-alive' && drop === HOP_BY_HOP) {
      return toFields(text, start, new Set([...drop, ...value.toLowerCase().split(/[\s,]+/)]));
    }
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
    const req = this.req = new http.IncomingMessage(this);
    const body = this.readHead(payload, req);
    // Body parsers look for these two; the pipe has dropped transfer-encoding.
    if ((body.length || !complete) && !req.headers['content-length']) req.headers['transfer-encoding'] = 'chunked';
    req.complete = this.received = complete;
    this.unread = complete ? body : null; // is pushed when the handler reads: most do not
    if (!complete) this.receive(body, false);
    const res = this.res = new http.ServerResponse(req);
    res.sendDate = false;
    res.writeHead = writePlainHead;
    res.assignSocket(this);
    res.on('prefinish', () => this.flush(true));
    conn.exchanges.set(id, this);
  }

  /** Reads a request head into `req`, and returns what follows it. */
  readHead(payload, req) {
    if (payload.length < 8) broken('P-8', `a REQUEST of ${payload.length} bytes has no room for a head`);
    const [end, deadlineMs] = [8 + payload.readUInt32LE(0), payload.readUInt32LE(4)];
    if (end > payload.length) broken('P-8', 'head_length is larger than the payload');
    const list = strings(payload, REQUEST_STRINGS, 8, end);
    const [method, scheme, authority, url, protocol, peer, id] = list;
    const raw = list.slice(authority ? 5 : 7);
    if (authority) [raw[0], raw[1]] = ['host', authority];
    req._addHeaderLines(raw, raw.length);
    Object.assign(req, { method, url, id, httpVersion: protocol.slice(5), deadline: deadlineMs ? Date.now() + deadlineMs : null });
    [req.httpVersionMajor, req.httpVersionMinor] = [Number(protocol[5]), Number(protocol[7])];
    Object.defineProperty(req, 'signal', SIGNAL);
    [this.peer, this.encrypted] = [peer, scheme === 'https'];
    return end < payload.length ? payload.subarray(end) : EMPTY;
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
    if (bytes.length && !this.req.push(bytes)) this.conn.socket.pause(); // P-22
    if (!last) return;
    this.req.complete = true;
    this.req._addHeaderLines(trailers, trailers.length);
    this.req.push(null);
  }

  /** Node calls this when it wants body. */
  resume() {
    if (!this.received) this.conn.socket.resume();
    if (this.unread?.length) this.req.push(this.unread);
    if (this.unread) this.req.push(null);
    this.unread = null;
  }

  setTimeout(ms, callback) {
    if (callback) this.once('timeout', callback);
    clearTimeout(this.timer);
    const heard = () => [this.req, this.res, this].map(emitter => emitter.emit('timeout', this)).includes(true);
    if (ms > 0 && !this.answered) this.timer = setTimeout(() => heard() || this.destroy(), ms);
    return this;
  }

  /** Node writes here: a head, always in one piece, with some of the body perhaps; then more of the body. */
  write(data, encoding, callback) {
    if (this.answered) return false;
    if (!this.status) {
      const status = Number(data.slice(9, 12)); // HTTP/1.1 200 OK
      const fields = toFields(data, data.indexOf('\r\n') + 2);
      if (status < 200) return this.inform(status, fields, callback);
      [this.status, this.fields] = [status, fields];
      data = data.slice(data.indexOf('\r\n\r\n') + 4);
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
    // The gateway has answered `expect` itself.
    if (status !== 100) this.stream().send(TYPE.INFO, 0, this.id, u32(fields.length) + u32(status) + fields);
    if (callback) process.nextTick(callback);
    return true;
  }

  /** The connection for frames that must not be on a shared one (P-17, P-24). */
  stream() {
    if (this.out.kind === 'shared') this.out = this.service.answerConnection(this);
    return this.out;
  }

  /** Sends what has been written: in one frame if that is the whole answer, else as a stream. */
  flush(last) {
    if (this.answered) return;
    const { id, res, status, fields, callbacks } = this;
    if (!status) return this.fail(new Error(`${res.statusCode} is not the status of an answer`));
    const body = this.pending.length === 1 ? this.pending[0] : Buffer.concat(this.pending);
    [this.pending, this.callbacks, this.scheduled] = [[], [], false];
    const head = this.begun ? '' : u32(fields.length) + u32(status) + fields;
    const trailers = last && res._hasBody ? toFields(res._trailer, 0) : '';
    const whole = last && !this.begun && !trailers && head.length + body.length <= this.out.maxFrame;
    const out = whole ? this.out : this.stream();
    const longest = Math.max(head.length, trailers.length);
    if (longest > out.maxFrame) return this.fail(new Error(`headers or trailers of ${longest} bytes, max_frame is ${out.maxFrame}`));
    if (last && !this.received) this.conn.send(TYPE.STOP, 0, id, ''); // P-21
    if (!this.begun) out.send(TYPE.RESPONSE, whole ? END : 0, id, head, whole ? body : EMPTY);
    this.begun = true;
    if (!whole) {
      for (let at = 0; at < body.length; at += out.maxFrame) out.send(TYPE.DATA, 0, id, '', body.subarray(at, at + out.maxFrame));
      if (last) out.send(trailers ? TYPE.TRAILERS : TYPE.DATA, END, id, trailers);
    }
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
  release() { if (this.answered && this.received) this.conn.exchanges.delete(this.id); }

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
// How each begins. The first line is what Node reads of a socket; `writableLength` are the bytes that the operating system
// does not have yet, and one for the end.
Object.assign(Exchange.prototype, { readable: true, writable: true, writableLength: 1, _paused: false, _writableState: {},
  destroyed: false, closed: false, begun: false, answered: false, scheduled: false, needDrain: false, status: 0 });

module.exports = { Exchange };
