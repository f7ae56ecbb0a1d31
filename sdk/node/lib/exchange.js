'use strict';
/**
 * One exchange as Node's own `(req, res)`. `req` is an http.IncomingMessage and `res` an http.ServerResponse, made by Node's
 * constructors; this file replaces only what would touch a socket: the body's source, and the methods of `res` that write. Those
 * are own properties, because frameworks (Express) exchange the prototype of both. README.md says how this was chosen.
 * Invariant: exactly one final frame leaves for each exchange (P-16); `final` is the only place that marks it.
 */
const { EventEmitter } = require('events');
const http = require('http');
const { TYPE, CODE, FLAG, MAX_TEXT, resetPayload } = require('./wire');
const { PAUSE } = require('./connection');

const HIGH_WATER_BYTES = 16 * 1024; // unwritten bytes of one answer beyond which res.write() returns false
const LOG_LEVELS = ['error', 'warn', 'info', 'debug', 'trace']; // from 1 on
// P-9: these never cross the pipe, nor do the fields that `connection` names.
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'transfer-encoding', 'upgrade', 'expect']);
const NODE = http.ServerResponse.prototype;
const kExchange = Symbol('pilotlight.exchange');
// Node keeps `writableNeedDrain` under a symbol; without it only that property would stay false.
const symbols = Object.getOwnPropertySymbols(new http.OutgoingMessage());
const kNeedDrain = symbols.find(symbol => symbol.description === 'kNeedDrain') ?? Symbol('unused');
const SIGNAL = { get() { return this[kExchange].signal; }, configurable: true, enumerable: true };

/** The state of an exchange; also what its handler sees as `req.socket` and `res.socket`. */
class Exchange extends EventEmitter {
  constructor(instance, conn, id, head, first, complete) {
    super();
    this.instance = instance;
    this.conn = this.out = conn; // `out` carries the answer
    this.id = id;
    this.head = head;
    this.first = complete ? first : null; // the body of a complete request, until the handler reads
    this.unread = complete;
    this.readable = this.writable = true; // these and _paused are what IncomingMessage reads of a socket
    this._paused = this.destroyed = this.closed = this.done = this.begun = this.discarding = this.needDrain = false;
    this.pending = []; // body written before it is known whether the answer is one frame
    this.callbacks = []; // of res.write()
    this.trailers = '';
    this.fields = undefined; // of a writeHead() with a list
    this.controller = this.timer = null;
    this.req = new Request(this, head, complete, first?.length ?? 0);
    this.res = new Response(this.req, this);
  }

  get signal() {
    this.controller ??= new AbortController();
    if (this.aborted) this.controller.abort(this.aborted);
    return this.controller.signal;
  }

  get remoteAddress() { return this.head.peer.slice(0, this.head.peer.lastIndexOf(':')).replace(/^\[|\]$/g, '') || undefined; }
  get remotePort() { return Number(this.head.peer.slice(this.head.peer.lastIndexOf(':') + 1)) || undefined; }
  get encrypted() { return this.head.scheme === 'https'; }
  get writableLength() { return this.out.fill + this.out.socket.writableLength; }
  get writableHighWaterMark() { return HIGH_WATER_BYTES; }
  write() { throw new Error('pilotlight: an exchange has no socket of its own to write to, use res.write()'); }

  /** IncomingMessage calls this when it wants body. */
  resume() {
    if (!this.unread) this.conn.resume(PAUSE.READER);
    else {
      this.unread = false;
      if (this.first) this.req.push(this.first);
      this.req.push(null);
    }
    return this;
  }

  receive(bytes, last, trailers) {
    this.timer?.refresh();
    if (!this.discarding) {
      if (bytes.length && !this.req.push(bytes)) this.conn.pause(PAUSE.READER); // P-22
      if (last) this.req.complete = true;
      if (trailers) this.req._addHeaderLines(trailers, trailers.length);
      if (last) this.req.push(null);
    }
    if (last) this.conn.resume(PAUSE.READER);
  }

  setTimeout(ms, callback) {
    if (callback) this.once('timeout', callback);
    clearTimeout(this.timer);
    this.timer = ms > 0 && !this.done ? setTimeout(() => this.timedOut(), ms) : null;
    return this;
  }

  timedOut() {
    const heard = [!this.req.complete && this.req.emit('timeout', this), this.res.emit('timeout', this), this.emit('timeout')];
    if (!heard.includes(true)) this.destroy();
  }

  /** Where frames go that must not be on a shared connection (P-17, P-24). */
  carrier() {
    if (this.out.kind === 'shared') this.out = this.instance.answer(this);
    return this.out;
  }

  log(text, level) {
    const at = LOG_LEVELS.indexOf(level) + 1;
    if (at === 0) throw new TypeError(`pilotlight: no log level ${level}, it is one of ${LOG_LEVELS.join(', ')}`);
    if (!this.done) this.out.send(TYPE.LOG, 0, this.id, 0, '', `${String.fromCharCode(at)}${String(text).slice(0, MAX_TEXT)}`);
  }

  info(status, fields) { this.carrier().send(TYPE.INFO, 0, this.id, status, fields, ''); }

  put(bytes, callback) {
    this.timer?.refresh();
    if (callback) this.callbacks.push(callback);
    if (this.begun) this.out.data(this.id, bytes, 0);
    else {
      // An answer that ends in the turn of its first write still goes out as one frame.
      if (this.pending.push(bytes) === 1) process.nextTick(() => this.begin());
      if (this.pending.length > 1 && this.pending.reduce((sum, part) => sum + part.length, 0) > HIGH_WATER_BYTES) this.begin();
    }
    const room = this.begun ? this.writableLength < HIGH_WATER_BYTES : bytes.length < HIGH_WATER_BYTES;
    if (!room) this.needDrain = this.res[kNeedDrain] = true;
    return room;
  }

  /** Sends RESPONSE without END: from here on the answer is a stream. */
  begin() {
    if (!this.begun && !this.done) this.respond(this.take(''), 0);
  }

  take(body) {
    if (!this.pending.length) return body;
    return Buffer.concat([...this.pending.splice(0), Buffer.from(body)]);
  }

  respond(body, flags) {
    const { id, res: { statusCode } } = this;
    const fields = this.fields ?? writeFields(this.res.getHeaders());
    this.begun = true;
    if (flags && this.out.send(TYPE.RESPONSE, flags, id, statusCode, fields, body)) return;
    const out = this.carrier();
    if (out.send(TYPE.RESPONSE, flags, id, statusCode, fields, body)) return;
    if (out.send(TYPE.RESPONSE, 0, id, statusCode, fields, '')) out.data(id, Buffer.from(body), flags);
    else this.fail(new Error(`the response headers are ${fields.length} bytes, more than max_frame=${out.maxFrame}`));
  }

  end(body) {
    if (this.conn.reading === this) this.conn.send(TYPE.STOP, 0, this.id, 0, '', ''); // P-21
    const flags = this.trailers ? 0 : FLAG.END;
    body = this.take(body);
    if (!this.begun) this.respond(body, flags);
    else if (flags || body.length) this.out.data(this.id, Buffer.from(body), flags);
    if (this.done) return; // the head did not fit
    if (this.trailers && !this.out.send(TYPE.TRAILERS, FLAG.END, this.id, 0, this.trailers, '')) {
      this.fail(new Error(`the trailers are ${this.trailers.length} bytes, more than max_frame=${this.out.maxFrame}`));
    } else this.final();
  }

  final() {
    this.done = true;
    clearTimeout(this.timer);
    if (this.conn.reading === this) this.discarding = true; // P-21: thrown away until the gateway ends it
    this.conn.resume(PAUSE.READER);
    this.conn.exchanges.delete(this.id);
    if (!this.destroyed) this.out.ended.push(this);
    this.instance.ended(this);
  }

  /** The answer has been handed to the operating system. */
  finished() {
    const { req, res } = this;
    if (res.closed) return;
    for (const callback of this.callbacks.splice(0)) callback();
    if (!this.wasReset) res.emit('finish');
    this.close();
    if (this.discarding) req.destroy(); // its body is cut: 'aborted' and 'close'
    else if (!req.readableDidRead && (req.listenerCount('end') || req.listenerCount('close'))) req.resume(); // for those who wait
  }

  drained(conn) {
    if (conn !== this.out || !this.begun) return;
    for (const callback of this.callbacks.splice(0)) callback();
    if (!this.needDrain) return;
    this.needDrain = this.res[kNeedDrain] = false;
    this.res.emit('drain');
  }

  close() {
    if (this.res._closed) return;
    this.res.destroyed = this.res._closed = true;
    this.res.emit('close');
  }

  /** Ends the exchange with RESET. */
  reset(code, text, retryAfterMs) {
    if (this.done) return;
    this.wasReset = this.res.finished = true;
    this.out.send(TYPE.RESET, 0, this.id, 0, '', resetPayload(code, text, retryAfterMs));
    this.final();
  }

  /** The gateway has reset the exchange, or its connection is gone. */
  cancel(code) {
    if (this.done && this.res.closed) return;
    this.abort(Object.assign(new Error('aborted'), { code: 'ECONNRESET' }));
    this.reset(code, 'cancelled');
  }

  fail(err) {
    this.instance.report(`${this.head.method} ${this.head.target}: the handler failed: ${err?.stack ?? err}`);
    if (this.done) return; // it failed after it had answered
    this.reset(CODE.INTERNAL, 'the handler failed, its log says why');
    this.abort(err);
  }

  /** As a socket that breaks: `aborted` and `close` on req, `close` on res, the signal. */
  abort(err) {
    if (this.destroyed) return;
    this.destroyed = this.closed = true;
    this.readable = this.writable = false;
    this.aborted = err;
    this.controller?.abort(err);
    this.req.destroy(err);
    this.close();
    this.emit('close');
  }

  destroy(err) {
    this.reset(CODE.INTERNAL, 'the handler destroyed the exchange');
    this.abort(err);
    return this;
  }
}
for (const name of ['cork', 'uncork', 'pause', 'ref', 'unref', 'setNoDelay', 'setKeepAlive']) {
  Exchange.prototype[name] = function () { return this; };
}
Exchange.prototype.destroySoon = Exchange.prototype.destroy;

/** Fields from lower-case names and values (text, number, or a list of them), without those of P-9. */
function writeFields(headers) {
  const named = headers.connection === undefined ? [] : String(headers.connection).toLowerCase().split(/[\s,]+/);
  let fields = '';
  for (const name in headers) {
    if (HOP_BY_HOP.has(name) || named.includes(name)) continue;
    const value = headers[name];
    if (Array.isArray(value)) for (const one of value) fields += `${name}\0${one}\0`;
    else fields += `${name}\0${value}\0`;
  }
  return fields;
}

class Request extends http.IncomingMessage {
  constructor(exchange, head, complete, bodyBytes) {
    super(exchange);
    const { raw } = head;
    // Parsers look for these two to know that there is a body; the pipe has dropped transfer-encoding.
    if ((bodyBytes || !complete) && !raw.some((name, i) => i % 2 === 0 && name === 'content-length')) {
      raw.push(...(complete ? ['content-length', String(bodyBytes)] : ['transfer-encoding', 'chunked']));
    }
    this.method = head.method;
    this.url = head.target;
    this.httpVersion = head.protocol.slice(5);
    this.httpVersionMajor = Number(this.httpVersion[0]);
    this.httpVersionMinor = Number(this.httpVersion[2] ?? 0);
    this._addHeaderLines(raw, raw.length);
    this.complete = complete;
    this.id = head.id;
    this.deadline = head.deadlineMs === 0 ? null : Date.now() + head.deadlineMs;
    this[kExchange] = exchange;
    Object.defineProperty(this, 'signal', SIGNAL);
  }
}

class Response extends http.ServerResponse {
  constructor(req, exchange) {
    super(req);
    this.socket = exchange;
    this[kExchange] = exchange;
    [this.writeHead, this.flushHeaders, this.write, this.end, this.addTrailers] = [writeHead, flushHeaders, write, end, addTrailers];
    [this.writeContinue, this.writeProcessing, this.writeEarlyHints] = [writeContinue, writeProcessing, writeEarlyHints];
    [this.refuse, this.overloaded, this.tooLarge] = [refuse, overloaded, tooLarge];
  }
}

// The methods of `res`. A misuse is handed to Node's own method, which answers it with Node's own error.

function writeHead(statusCode, reason, headers) {
  if (this._header) this.setHeader('status', statusCode); // throws ERR_HTTP_HEADERS_SENT
  if (!(statusCode >= 100 && statusCode <= 999)) return NODE.writeHead.call(this, statusCode, reason, headers);
  this.statusCode = statusCode | 0;
  if (typeof reason === 'string') this.statusMessage = reason;
  else headers ??= reason;
  this.statusMessage ||= http.STATUS_CODES[statusCode] ?? 'unknown';
  if (Array.isArray(headers)) {
    const pairs = Array.isArray(headers[0]) ? headers : headers.flatMap((name, i) => (i % 2 ? [] : [[name, headers[i + 1]]]));
    const alone = this.getHeaderNames().length === 0;
    for (const [name] of pairs) this.removeHeader(name);
    for (const [name, value] of pairs) this.appendHeader(name, value);
    // P-8: a list keeps its order even where other names stand between two fields of one name, as with Node's server.
    if (alone && !this.hasHeader('connection')) {
      this[kExchange].fields = pairs.map(([name, value]) => writeFields({ [name.toLowerCase()]: value })).join('');
    }
  } else for (const name in headers) this.setHeader(name, headers[name]);
  if (statusCode < 200 || statusCode === 204 || statusCode === 304) this._hasBody = false;
  this._header = 'sent'; // makes headersSent true, and setHeader throw
  return this;
}

function flushHeaders() {
  if (!this._header) this._implicitHeader();
  process.nextTick(() => this[kExchange].begin());
}

const isChunk = chunk => typeof chunk === 'string' || chunk instanceof Uint8Array;
const toBytes = (chunk, encoding) => (typeof chunk === 'string' ? Buffer.from(chunk, encoding) : chunk);

/** With res.strictContentLength, throws for a body that is not as long as was said. */
function count(res, chunk, encoding, ended) {
  const exchange = res[kExchange];
  exchange.sent = (exchange.sent ?? 0) + Buffer.byteLength(chunk, encoding);
  const said = res.getHeader('content-length');
  if (said === undefined || !res._hasBody || (ended ? exchange.sent === Number(said) : exchange.sent <= Number(said))) return;
  const text = `the body has ${exchange.sent} bytes, the content-length header says ${said}`;
  throw Object.assign(new Error(text), { code: 'ERR_HTTP_CONTENT_LENGTH_MISMATCH' });
}

function write(chunk, encoding, callback) {
  if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
  if (this.finished || this.destroyed || !isChunk(chunk)) return NODE.write.call(this, chunk, encoding, callback);
  if (this.strictContentLength) count(this, chunk, encoding, false);
  if (!this._header) this._implicitHeader();
  if (this._hasBody && chunk.length) return this[kExchange].put(toBytes(chunk, encoding), callback);
  if (callback) process.nextTick(callback);
  return true;
}

function end(chunk, encoding, callback) {
  if (typeof chunk === 'function') [chunk, callback] = [undefined, chunk];
  else if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding];
  if (this.finished || (chunk && !isChunk(chunk))) return NODE.end.call(this, chunk, encoding, callback);
  if (this.destroyed) {
    this.finished = true;
    return this;
  }
  if (this.strictContentLength) count(this, chunk ?? '', encoding, true);
  if (!this._header) this._implicitHeader();
  if (callback) this.once('finish', callback);
  this.finished = true;
  const plain = !encoding || encoding === 'utf8' || encoding === 'utf-8';
  this[kExchange].end(!chunk || !this._hasBody ? '' : plain ? chunk : toBytes(chunk, encoding));
  return this;
}

function addTrailers(trailers) {
  const all = {};
  for (const [name, value] of Array.isArray(trailers) ? trailers : Object.entries(trailers)) {
    http.validateHeaderName(name);
    http.validateHeaderValue(name, value);
    all[name.toLowerCase()] = value;
  }
  if (this._hasBody) this[kExchange].trailers += writeFields(all);
}

/** The gateway has answered `expect` itself (P-9). */
function writeContinue(callback) {
  this._sent100 = true;
  if (callback) process.nextTick(callback);
}

function writeProcessing(callback) { inform(this, 102, {}, callback); }

function writeEarlyHints(hints, callback) {
  if (!hints.link || hints.link.length === 0) return;
  inform(this, 103, { ...hints, link: [hints.link].flat().join(', ') }, callback);
}

function inform(res, status, headers, callback) {
  const fields = {};
  for (const [name, value] of Object.entries(headers)) {
    http.validateHeaderValue(name, value);
    fields[name.toLowerCase()] = value;
  }
  if (res._header) res.setHeader('link', ''); // throws ERR_HTTP_HEADERS_SENT
  res[kExchange].info(status, writeFields(fields));
  if (callback) process.nextTick(callback);
}

function give(res, code, text, retryAfterMs) {
  const exchange = res[kExchange];
  if (!exchange) throw new TypeError('pilotlight: this is not the res of a pilotlight service');
  if (exchange.begun || res._header) throw new Error(`pilotlight: too late to answer "${text}", the headers were sent`);
  res._header = 'reset';
  exchange.reset(code, text, retryAfterMs);
}

function refuse(text = 'refused') { give(this, CODE.REFUSED, text); }
function overloaded(retryAfterMs = 1000, text = 'overloaded') { give(this, CODE.OVERLOADED, text, retryAfterMs); }
function tooLarge(text = 'the request body is too large') { give(this, CODE.TOO_LARGE, text); }

module.exports = { Exchange, kExchange, refuse, overloaded, tooLarge };
