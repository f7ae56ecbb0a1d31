'use strict';
/**
 * One exchange as Node's own `(req, res)`: a real http.IncomingMessage and a real http.ServerResponse. What they take
 * for their socket is the Exchange: it pushes the request's body, and makes frames of the HTTP/1.1 written to it.
 * Invariant: exactly one final frame leaves for each exchange (P-16); `final` is the only place that marks it.
 */
const { EventEmitter } = require('events');
const { IncomingMessage, OutgoingMessage, ServerResponse } = require('http');
const { Connection, TYPE, CODE, END, EMPTY, u32, broken, strings, resetPayload } = require('./connection');

const HIGH_WATER_BYTES = 16 * 1024; // unwritten bytes of one answer beyond which res.write() returns false
// P-9: these never cross the pipe, nor do the fields that `connection` names.
const HOP_BY_HOP = new Set('connection keep-alive proxy-connection te transfer-encoding upgrade expect'.split(' '));
// `req.signal` is on Node's prototype: Express keeps that one, and a property of each request would be slow to make.
const SIGNAL = { get() { return this.socket?.aborting?.signal; }, configurable: true };
if (!('signal' in IncomingMessage.prototype)) Object.defineProperty(IncomingMessage.prototype, 'signal', SIGNAL);
const { writeHead } = ServerResponse.prototype;
// Node keeps `writableNeedDrain` under a symbol; without it only that property would be wrong.
const kNeedDrain = Object.getOwnPropertySymbols(new OutgoingMessage()).find(it => it.description === 'kNeedDrain');

/** As Node's, but writes the head at once, and then the body alone: it is not chunked, for frames say where it ends. */
function writeHeadApart(...args) {
  writeHead.apply(this, args);
  this.socket.write(this._header, 'head');
  [this._headerSent, this.chunkedEncoding] = [true, false];
  return this;
}

/** Fields from the lines `Name: value` from `start` on, of headers or trailers, which Node has made and checked. */
function toFields(lines, start, drop = HOP_BY_HOP) {
  let [fields, named] = ['', ''];
  for (let at = start, end; (end = lines.indexOf('\r\n', at)) > at; at = end + 2) {
    const name = lines.slice(at, lines.indexOf(':', at)).toLowerCase();
    const value = lines.slice(at + name.length + 2, end);
    if (!drop.has(name)) fields += `${name}\0${value}\0`;
    else if (name === 'connection' && value !== 'keep-alive') named = value.toLowerCase();
  }
  return named && drop === HOP_BY_HOP ? toFields(lines, start, new Set([...drop, ...named.split(/[\s,]+/)])) : fields;
}

class Exchange extends EventEmitter {
  constructor(service, conn, id, payload, complete) {
    super();
    // `out` is the connection that carries the answer.
    [this.service, this.conn, this.out, this.id, this.received] = [service, conn, conn, id, complete];
    [this.pending, this.callbacks] = [[], []]; // body that is not in a frame yet, and the callbacks of its writes
    this.req = this.makeRequest(payload, complete);
    this.res = new ServerResponse(this.req).on('prefinish', () => this.flush(true));
    Object.assign(this.res, { sendDate: false, writeHead: writeHeadApart }); // own, for Express exchanges the prototype
    this.res.assignSocket(this);
    conn.exchanges.set(id, this);
  }

  makeRequest(payload, complete) {
    const headEnd = payload.length < 8 ? Infinity : 8 + payload.readUInt32LE(0);
    if (headEnd > payload.length) broken('P-8', `a head of more than the ${payload.length} bytes of the REQUEST`);
    const [method, scheme, authority, url, protocol, peer, id, ...fields] = strings(payload, 7, 8, headEnd);
    const raw = authority ? ['host', authority, ...fields] : fields;
    [this.peer, this.encrypted] = [peer, scheme === 'https'];
    const deadline = payload.readUInt32LE(4) ? Date.now() + payload.readUInt32LE(4) : null;
    const req = new IncomingMessage(this);
    req._addHeaderLines(raw, raw.length);
    [req.method, req.url, req.id, req.deadline, req.complete] = [method, url, id, deadline, complete];
    [req.httpVersion, req.httpVersionMajor, req.httpVersionMinor] = [protocol.slice(5), +protocol[5], +protocol[7]];
    const body = headEnd < payload.length ? Buffer.from(payload.subarray(headEnd)) : EMPTY;
    // Body parsers look for these two; the pipe has dropped transfer-encoding.
    if ((body.length || !complete) && !req.headers['content-length']) req.headers['transfer-encoding'] = 'chunked';
    if (!complete) req.push(body);
    this.unread = complete ? [body, null] : []; // pushed when the handler reads: most do not
    return req;
  }

  get remoteAddress() { return this.peer.slice(0, this.peer.lastIndexOf(':')).replace(/^\[|\]$/g, '') || undefined; }
  get remotePort() { return Number(this.peer.slice(this.peer.lastIndexOf(':') + 1)) || undefined; }
  get aborting() { return this.controller ??= new AbortController(); }

  /** Node calls this when it wants body. */
  resume() {
    for (const part of this.unread.splice(0)) this.req.push(part);
    if (!this.received) this.conn.socket.resume();
  }

  receive(bytes, last, trailers) {
    this.received = last;
    if (this.answered) return last && this.conn.exchanges.delete(this.id); // P-19, P-21: thrown away
    if (!this.req.push(bytes)) this.conn.socket.pause(); // P-22
    if (!last) return;
    this.req.complete = true;
    this.req._addHeaderLines(trailers, trailers.length);
    this.req.push(null);
    this.conn.socket.resume();
  }

  /** Node writes here: heads, always in one piece (first those of 1xx answers), then the body. */
  write(data, encoding, callback) {
    if (this.answered) return false;
    if (!this.head || encoding === 'head') { // Node 18 lets a handler change its mind
      const [status, fields] = [Number(data.slice(9, 12)), toFields(data, data.indexOf('\r\n') + 2)]; // HTTP/1.1 200 OK
      const head = u32(fields.length) + u32(status) + fields;
      if (status >= 200) this.head = head;
      else if (status > 100) this.stream().send(TYPE.INFO, 0, this.id, head); // 100: the gateway has sent that itself
      return callback ? process.nextTick(callback) : true;
    }
    const bytes = data && typeof data === 'string' ? Buffer.from(data, encoding) : data;
    // An answer that ends in the turn of its first write still goes out as one frame.
    if (!this.pending.length && !this.callbacks.length) process.nextTick(() => this.flush(false));
    if (bytes.length) this.pending.push(bytes);
    if (callback) this.callbacks.push(callback);
    this.needDrain = (this.writableLength += bytes.length) >= HIGH_WATER_BYTES;
    return !this.needDrain;
  }

  /** The connection for frames that must not be on a shared one (P-17, P-24, P-25). */
  stream() {
    if (this.out.kind !== 'shared') return this.out;
    const idle = other => other.worker === this.conn.worker && !other.exchanges.size && !other.socket.writableEnded;
    this.out = this.service.ofKind('answer').find(idle) ?? new Connection(this.service, 'answer', this.conn.worker);
    this.out.exchanges.set(this.id, this);
    return this.out;
  }

  /** Sends what has been written: in one frame if that is the whole answer, else as a stream. */
  flush(last) {
    if (this.answered) return;
    const { id, res, head, callbacks } = this;
    if (!head) return this.destroy(new Error(`${res.statusCode} is not the status of an answer`));
    const body = this.pending.length === 1 ? this.pending[0] : Buffer.concat(this.pending);
    [this.pending, this.callbacks] = [[], []];
    const trailers = last && res._hasBody ? toFields(res._trailer, 0) : '';
    const whole = last && !this.begun && !trailers && head.length + body.length <= this.out.maxFrame;
    const out = whole ? this.out : this.stream();
    const max = out.maxFrame;
    if (head.length > max || trailers.length > max) return this.destroy(new Error(`headers beyond max_frame=${max}`));
    if (last && !this.received) this.conn.send(TYPE.STOP, 0, id, ''); // P-21
    if (!this.begun) out.send(TYPE.RESPONSE, whole ? END : 0, id, head, whole ? body : EMPTY);
    for (let at = 0; !whole && at < body.length; at += max) out.send(TYPE.DATA, 0, id, '', body.subarray(at, at + max));
    if (last && !whole) out.send(trailers ? TYPE.TRAILERS : TYPE.DATA, END, id, trailers);
    this.begun = true;
    out.callbacks.push(failed => failed || this.written(body.length, callbacks));
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
    this.service.open--;
    this.service.leave();
  }

  /** Ends the exchange with RESET, unless it has ended. */
  reset(code, text, retryAfterMs) {
    if (this.answered) return;
    this.out.send(TYPE.RESET, 0, this.id, ...resetPayload(code, text, retryAfterMs));
    this.final();
  }

  /** The gateway has reset the exchange (P-26), or its connection is gone (P-34). */
  cancel(code) {
    this.received = true;
    this.conn.exchanges.delete(this.id);
    this.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }), code);
  }

  /** As a socket's: 'close' on res, 'aborted' and 'close' on a req that was cut. Without a code the handler did it. */
  destroy(err, code = 0) {
    if (err && !code) this.service.report(`${this.req.method} ${this.req.url}: handler failed: ${err.stack ?? err}`);
    if (this.destroyed) return this;
    this.reset(code || CODE.INTERNAL, code ? 'cancelled' : 'the handler failed, its log says why');
    this.destroyed = this.closed = true;
    if (err) this.aborting.abort(err);
    this.emit('close');
    if (err || !this.req.complete) this.req.destroy(err);
    else if (this.req.listenerCount('end') || this.req.listenerCount('close')) this.req.resume(); // for those who wait
    return this;
  }
}
// How each begins. `writableLength` is the bytes that the operating system does not have yet, and one for the end.
Object.assign(Exchange.prototype, { readable: true, writable: true, writableLength: 1, _paused: false,
  _writableState: {}, destroyed: false, closed: false, begun: false, answered: false, needDrain: false, head: '',
  cork() {}, uncork() {}, setNoDelay() {}, setKeepAlive() {}, setTimeout() {} });

module.exports = { Exchange, toFields };
