'use strict';
/**
 * An exchange as Node's own `(req, res)`: a real http.IncomingMessage and a real http.ServerResponse. What they take
 * for their socket is the exchange: it pushes the request's body, and makes frames of the HTTP/1.1 written to it.
 */
const { IncomingMessage, OutgoingMessage, ServerResponse } = require('http');
const { TYPE, u32 } = require('./connection');
const { Exchange, HOP_BY_HOP } = require('./exchange');

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

class HttpExchange extends Exchange {
  constructor(service, conn, id, payload, complete) {
    super(service, conn, id, payload, complete);
    this.encrypted = this.scheme === 'https';
    this.req = this.makeRequest(complete);
    this.res = new ServerResponse(this.req).on('prefinish', () => this.finish());
    Object.assign(this.res, { sendDate: false, writeHead: writeHeadApart }); // own, for Express exchanges the prototype
    this.res.assignSocket(this);
  }

  makeRequest(complete) {
    const { protocol, authority, fields, first } = this;
    const raw = authority ? ['host', authority, ...fields] : fields;
    const req = new IncomingMessage(this);
    req._addHeaderLines(raw, raw.length);
    [req.method, req.url, req.id, req.deadline] = [this.method, this.target, this.requestId, this.deadline];
    [req.httpVersion, req.httpVersionMajor, req.httpVersionMinor] = [protocol.slice(5), +protocol[5], +protocol[7]];
    req.complete = complete;
    // Body parsers look for these two; the pipe has dropped transfer-encoding.
    if ((first.length || !complete) && !req.headers['content-length']) req.headers['transfer-encoding'] = 'chunked';
    if (!complete) req.push(first);
    this.unread = complete ? [first, null] : []; // pushed when the handler reads: most do not
    return req;
  }

  run(handler) { return handler(this.req, this.res); }

  failed(err) { this.destroy(err); }

  /** Node calls this when it wants body. */
  resume() {
    for (const part of this.unread.splice(0)) this.req.push(part);
    if (!this.received) this.conn.socket.resume();
  }

  receive(bytes, last, trailers) {
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
    return this.queue(data && typeof data === 'string' ? Buffer.from(data, encoding) : data, callback);
  }

  finish() { this.flush(true, this.res._hasBody ? toFields(this.res._trailer, 0) : ''); }

  get status() { return this.res.statusCode; }

  drained() {
    this.res[kNeedDrain] = false;
    this.res.emit('drain');
  }

  /** As a socket's: 'close' on res, 'aborted' and 'close' on a req that was cut. */
  over(err) {
    this.emit('close');
    if (err || !this.req.complete) this.req.destroy(err);
    else if (this.req.listenerCount('end') || this.req.listenerCount('close')) this.req.resume(); // for those who wait
  }
}
Object.assign(HttpExchange.prototype, { readable: true, writable: true, _paused: false, _writableState: {},
  cork() {}, uncork() {}, setNoDelay() {}, setKeepAlive() {}, setTimeout() {} });

module.exports = { HttpExchange, toFields };
