'use strict';
/**
 * One exchange as the protocol sees it: the request's head, frames of the answer, cancel and end. What a handler gets
 * of it is made by ./http.js and ./fetch.js, which extend it. They have `run` (call the handler), `failed` (it threw),
 * `receive` (more of the request's body), `drained` (the answer may go on), `status`, `over` (the exchange has ended).
 * Invariant: exactly one final frame leaves for each exchange (P-16); `final` is the only place that marks it.
 */
const { EventEmitter } = require('events');
const { Connection, TYPE, CODE, END, EMPTY, u32, broken, strings, resetPayload } = require('./connection');

const HIGH_WATER_BYTES = 16 * 1024; // unwritten bytes of one answer beyond which its maker is asked to wait
// P-9: these never cross the pipe, nor do the fields that `connection` names.
const HOP_BY_HOP = new Set('connection keep-alive proxy-connection te transfer-encoding upgrade expect'.split(' '));

class Exchange extends EventEmitter {
  constructor(service, conn, id, payload, complete) {
    super();
    // `out` is the connection that carries the answer.
    [this.service, this.conn, this.out, this.id, this.received] = [service, conn, conn, id, complete];
    [this.pending, this.callbacks] = [[], []]; // body that is not in a frame yet, and the callbacks of its writes
    const headEnd = payload.length < 8 ? Infinity : 8 + payload.readUInt32LE(0);
    if (headEnd > payload.length) broken('P-8', `a head of more than the ${payload.length} bytes of the REQUEST`);
    const [method, scheme, authority, target, protocol, peer, requestId, ...fields] = strings(payload, 7, 8, headEnd);
    [this.method, this.scheme, this.authority, this.target] = [method, scheme, authority, target];
    [this.protocol, this.peer, this.requestId, this.fields] = [protocol, peer, requestId, fields];
    const left = payload.readUInt32LE(4);
    this.deadline = left ? Date.now() + left : null;
    this.first = headEnd < payload.length ? Buffer.from(payload.subarray(headEnd)) : EMPTY; // of the body
    conn.exchanges.set(id, this);
  }

  get remoteAddress() { return this.peer.slice(0, this.peer.lastIndexOf(':')).replace(/^\[|\]$/g, '') || undefined; }
  get remotePort() { return Number(this.peer.slice(this.peer.lastIndexOf(':') + 1)) || undefined; }
  get aborting() { return this.controller ??= new AbortController(); }

  /** Takes more of the answer's body; false if its maker should wait for `drained`. */
  queue(bytes, callback) {
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

  /** Sends what has been queued behind `head`: in one frame if that is the whole answer, else as a stream. */
  flush(last, trailers = '') {
    if (this.answered) return;
    const { id, head, callbacks } = this;
    if (!head) return this.destroy(new Error(`${this.status} is not the status of an answer`));
    const body = this.pending.length === 1 ? this.pending[0] : Buffer.concat(this.pending);
    [this.pending, this.callbacks] = [[], []];
    const whole = last && !this.begun && !trailers && head.length + body.length <= this.out.maxFrame;
    const out = whole ? this.out : this.stream();
    const max = out.maxFrame;
    if (head.length > max || trailers.length > max) return this.destroy(new Error(`headers beyond max_frame=${max}`));
    if (last) this.stop();
    if (!this.begun) out.send(TYPE.RESPONSE, whole ? END : 0, id, head, whole ? body : EMPTY);
    for (let at = 0; !whole && at < body.length; at += max) out.send(TYPE.DATA, 0, id, '', body.subarray(at, at + max));
    if (last && !whole) out.send(trailers ? TYPE.TRAILERS : TYPE.DATA, END, id, trailers);
    this.begun = true;
    out.callbacks.push(failed => failed || this.written(body.length, callbacks));
    if (last) this.final();
  }

  /** No more of the request's body is wanted (P-21). */
  stop() {
    if (!this.received && !this.stopped) this.conn.send(TYPE.STOP, 0, this.id, '');
    this.stopped = true;
  }

  /** `bytes` are with the operating system. */
  written(bytes, callbacks) {
    this.writableLength -= bytes;
    for (const callback of callbacks) callback();
    if (!this.needDrain || this.writableLength >= HIGH_WATER_BYTES || this.answered) return;
    this.needDrain = false;
    this.drained();
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

  /** Says on stderr that the handler has failed. */
  report(err) { this.service.report(`${this.method} ${this.target}: handler failed: ${err.stack ?? err}`); }

  /** The end, as a socket's. Without a code an error is the handler's. */
  destroy(err, code = 0) {
    if (err && !code) this.report(err);
    if (this.destroyed) return this;
    this.reset(code || CODE.INTERNAL, code ? 'cancelled' : 'the handler failed, its log says why');
    this.destroyed = this.closed = true;
    if (err) this.aborting.abort(err);
    this.over(err);
    return this;
  }
}
// How each begins. `writableLength` is the bytes that the operating system does not have yet, and one for the end.
Object.assign(Exchange.prototype, { writableLength: 1, destroyed: false, closed: false, begun: false, answered: false,
  stopped: false, needDrain: false, head: '' });

module.exports = { Exchange, HOP_BY_HOP, HIGH_WATER_BYTES };
