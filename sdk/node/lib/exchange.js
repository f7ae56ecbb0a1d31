'use strict';
/**
 * One exchange as Node's own `(req, res)`: a real http.IncomingMessage and a real http.ServerResponse. What they take for
 * their socket is the Exchange: it pushes the request's body, and turns the HTTP/1.1 that ServerResponse writes into frames.
 * Invariant: exactly one final frame leaves for each exchange (P-16); `final` is the only place that marks it.
 */
const { EventEmitter } = require('events');
const http = require('http');
const { Connection, TYPE, CODE, END, EMPTY, u32, broken, strings } = require('./connection');

const HIGH_WATER_BYTES = 16 * 1024; // unwritten bytes of one answer beyond which res.write() returns false
// P-9: these never cross the pipe, nor do the fields that `connection` names.
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade', 'expect'];
const { writeHead } = http.ServerResponse.prototype;
// Node keeps `writableNeedDrain` under a symbol; without it only that property would be wrong.
const kNeedDrain = Object.getOwnPropertySymbols(new http.OutgoingMessage()).find(it => it.description === 'kNeedDrain');

/** Fields from lines `Name: value` of headers or trailers, which Node has made and checked. */
function toFields(lines, drop = HOP_BY_HOP) {
  const named = drop === HOP_BY_HOP && /^connection: (?!keep-alive\r)(.*)/im.exec(lines);
  if (named) return toFields(lines, [...drop, ...named[1].toLowerCase().split(/[\s,]+/)]);
  let fields = '';
  for (let at = 0, end; (end = lines.indexOf('\r\n', at)) > at; at = end + 2) {
    const name = lines.slice(at, lines.indexOf(':', at)).toLowerCase();
    if (!drop.includes(name)) fields += `${name}\0${lines.slice(at + name.length + 2, end)}\0`;
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
    this.received = complete;
    this.req = this.makeRequest(payload, complete);
    this.res = new http.ServerResponse(this.req).on('prefinish', () => this.flush(true));
    this.res.sendDate = false;
    // The body is not chunked, for frames say where it ends. An own property, for Express exchanges the prototype.
    this.res.writeHead = (...args) => Object.assign(writeHead.apply(this.res, args), { chunkedEncoding: false });
    this.res.assignSocket(this);
    conn.exchanges.set(id, this);
  }

  makeRequest(payload, complete) {
    const headEnd = payload.length < 8 ? Infinity : 8 + payload.readUInt32LE(0);
    if (headEnd > payload.length) broken('P-8', `a head of more than the ${payload.length} bytes of the REQUEST`);
    const list = strings(payload, 7, 8, headEnd);
    const [method, scheme, authority, url, protocol, peer, id] = list;
    const raw = list.slice(authority ? 5 : 7);
    if (authority) [raw[0], raw[1]] = ['host', authority];
    [this.peer, this.encrypted] = [peer, scheme === 'https'];
    const deadline = payload.readUInt32LE(4) ? Date.now() + payload.readUInt32LE(4) : null;
    const [httpVersion, httpVersionMajor, httpVersionMinor] = [protocol.slice(5), Number(protocol[5]), Number(protocol[7])];
    const req = new http.IncomingMessage(this);
    req._addHeaderLines(raw, raw.length);
    Object.assign(req, { method, url, id, deadline, complete, httpVersion, httpVersionMajor, httpVersionMinor });
    Object.defineProperty(req, 'signal', { get: () => this.signal, configurable: true, enumerable: true });
    const body = headEnd < payload.length ? payload.subarray(headEnd) : EMPTY;
    // Body parsers look for these two; the pipe has dropped transfer-encoding.
    if ((body.length || !complete) && !req.headers['content-length']) req.headers['transfer-encoding'] = 'chunked';
    this.unread = complete ? [body, null] : [body]; // pushed when the handler reads: most do not
    return req;
  }

  get remoteAddress() { return this.peer.slice(0, this.peer.lastIndexOf(':')).replace(/^\[|\]$/g, '') || undefined; }
  get remotePort() { return Number(this.peer.slice(this.peer.lastIndexOf(':') + 1)) || undefined; }

  get signal() {
    this.controller ??= new AbortController();
    if (this.aborted) this.controller.abort(this.aborted);
    return this.controller.signal;
  }

  /** Node calls this when it wants body. */
  resume() {
    for (const part of this.unread.splice(0)) this.req.push(part);
    if (!this.received) this.conn.socket.resume();
  }

  receive(bytes, last, trailers) {
    this.received = last;
    if (this.answered && last) this.conn.exchanges.delete(this.id); // P-19
    if (this.answered) return; // P-21: thrown away
    for (const part of this.unread.splice(0)) this.req.push(part);
    if (!this.req.push(bytes)) this.conn.socket.pause(); // P-22
    if (!last) return;
    this.req.complete = true;
    this.req._addHeaderLines(trailers, trailers.length);
    this.req.push(null);
    this.conn.socket.resume();
  }

  /** Node writes here: a head, always in one piece, with some of the body perhaps; then more of the body. */
  write(data, encoding, callback) {
    if (this.answered) return false;
    if (!this.head) {
      const [start, end] = [data.indexOf('\r\n') + 2, data.indexOf('\r\n\r\n') + 4];
      const [status, fields] = [Number(data.slice(9, 12)), toFields(data.slice(start, end))]; // HTTP/1.1 200 OK
      const head = u32(fields.length) + u32(status) + fields;
      if (status > 100 && status < 200) this.stream().send(TYPE.INFO, 0, this.id, head); // the gateway answers `expect`
      if (status < 200) return process.nextTick(callback ?? (() => {}));
      this.head = head;
      data = data.slice(end);
    }
    const bytes = typeof data === 'string' ? Buffer.from(data, encoding) : data;
    if (bytes.length) this.pending.push(bytes);
    if (callback) this.callbacks.push(callback);
    // An answer that ends in the turn of its first write still goes out as one frame.
    if (!this.scheduled) process.nextTick(() => this.flush(false));
    this.scheduled = true;
    this.needDrain = (this.writableLength += bytes.length) >= HIGH_WATER_BYTES;
    return !this.needDrain;
  }

  /** The connection for frames that must not be on a shared one (P-17, P-24, P-25). */
  stream() {
    if (this.out.kind !== 'shared') return this.out;
    const { service, conn: { worker } } = this;
    const idle = other => other.worker === worker && other.exchanges.size === 0 && !other.closing;
    this.out = service.ofKind('answer').find(idle) ?? new Connection(service, 'answer', worker);
    this.out.exchanges.set(this.id, this);
    return this.out;
  }

  /** Sends what has been written: in one frame if that is the whole answer, else as a stream. */
  flush(last) {
    if (this.answered) return;
    const { id, res, head, callbacks } = this;
    if (!head) return this.destroy(new Error(`${res.statusCode} is not the status of an answer`));
    const body = this.pending.length === 1 ? this.pending[0] : Buffer.concat(this.pending);
    [this.pending, this.callbacks, this.scheduled] = [[], [], false];
    const trailers = last && res._hasBody ? toFields(res._trailer) : '';
    const whole = last && !this.begun && !trailers && head.length + body.length <= this.out.maxFrame;
    const out = whole ? this.out : this.stream();
    const longest = Math.max(head.length, trailers.length);
    if (longest > out.maxFrame) return this.destroy(new Error(`headers of ${longest} bytes, max_frame is ${out.maxFrame}`));
    if (last && !this.received) this.conn.send(TYPE.STOP, 0, id, ''); // P-21
    if (!this.begun) out.send(TYPE.RESPONSE, whole ? END : 0, id, head, whole ? body : EMPTY);
    for (let at = 0; at < body.length && !whole; at += out.maxFrame) {
      out.send(TYPE.DATA, 0, id, '', body.subarray(at, at + out.maxFrame));
    }
    if (last && !whole) out.send(trailers ? TYPE.TRAILERS : TYPE.DATA, END, id, trailers);
    this.begun = true;
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

  /** The final frame is queued. P-19: the connection forgets an exchange when both directions have ended. */
  final() {
    this.answered = true;
    if (this.out !== this.conn) this.out.exchanges.delete(this.id);
    if (this.received) this.conn.exchanges.delete(this.id);
    else this.conn.socket.resume(); // what still comes is thrown away
    this.out.callbacks.push(() => this.destroy());
    this.service.answered();
  }

  /** Ends the exchange with RESET, unless it has ended. */
  reset(code, text, retryAfterMs = 0) {
    if (this.answered) return;
    this.out.sendReset(this.id, code, text, retryAfterMs);
    this.final();
  }

  /** The gateway has reset the exchange (P-26), or its connection is gone (P-34). */
  cancel(code) {
    this.received = true;
    this.conn.exchanges.delete(this.id);
    this.reset(code, 'cancelled');
    this.close(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
  }

  /** The handler has failed, or it or Node has called destroy(); also the end of every exchange. */
  destroy(err) {
    if (err) this.service.report(`${this.req.method} ${this.req.url}: the handler failed: ${err.stack ?? err}`);
    this.reset(CODE.INTERNAL, 'the handler failed, its log says why');
    return this.close(err);
  }

  /** As a socket that closes: 'close' on res, and 'aborted' and 'close' on a req that was cut. */
  close(err) {
    if (this.destroyed) return this;
    const { req } = this;
    Object.assign(this, { destroyed: true, closed: true, readable: false, writable: false, aborted: err });
    if (err) this.controller?.abort(err);
    this.emit('close');
    if (err || !req.complete) req.destroy(err);
    else if (!req.readableDidRead && (req.listenerCount('end') || req.listenerCount('close'))) req.resume(); // they wait
    return this;
  }
}
// How each begins. The first line is what Node reads of a socket; `writableLength` are the bytes that the operating system
// does not have yet, and one for the end.
Object.assign(Exchange.prototype, { readable: true, writable: true, writableLength: 1, _paused: false, _writableState: {},
  destroyed: false, closed: false, cork() {}, uncork() {}, setNoDelay() {}, setKeepAlive() {}, setTimeout() {},
  begun: false, answered: false, scheduled: false, needDrain: false, head: '' });

module.exports = { Exchange };
