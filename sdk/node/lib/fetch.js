'use strict';
/**
 * An exchange as `fetch(request, context)` of WHATWG's types, as Hono, Deno, Bun and Workers have it: the Response that
 * it returns, or promises, is the answer. Bodies are streams both ways, asked for only as fast as they are taken.
 */
const { CODE, u32 } = require('./connection');
const { Exchange, HOP_BY_HOP, HIGH_WATER_BYTES } = require('./exchange');

const NO_HOST = /[@/?#\\]/; // what would make something else of a URL
const BODILESS = new Set(['GET', 'HEAD']); // a Request with one of these has no body

/** What the gateway knows of a request besides what a Request has; the second argument of `fetch`. */
class Context {
  #exchange;

  constructor(exchange) { this.#exchange = exchange; }

  static exchangeOf(context) { return context.#exchange; }
  get id() { return this.#exchange.requestId; }
  get deadline() { return this.#exchange.deadline; }
  /** As Deno's. */
  get remoteAddr() {
    const { remoteAddress: hostname, remotePort: port } = this.#exchange;
    return hostname && { transport: 'tcp', hostname, port };
  }

  /** The instance, if it is to end, waits for `promise`. */
  waitUntil(promise) {
    const { service } = this.#exchange;
    service.open++;
    const over = () => { service.open--; service.leave(); };
    Promise.resolve(promise).catch(err => this.#exchange.report(err)).then(over);
  }
}

/** The head of an answer. P-8: names of Headers are lower case, and `set-cookie` comes once for each value. */
function headOf(status, headers) {
  let fields = '';
  const named = headers.get('connection')?.toLowerCase().split(/[\s,]+/) ?? [];
  for (const [name, value] of headers) {
    if (!HOP_BY_HOP.has(name) && !named.includes(name)) fields += `${name}\0${value}\0`;
  }
  return u32(fields.length) + u32(status) + fields;
}

/** Names and values as pairs. Cookies in several fields are one, of which Headers would make a list with commas. */
function pairs({ authority, fields }) {
  const list = authority ? [['host', authority]] : [];
  let cookies;
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i] !== 'cookie') list.push([fields[i], fields[i + 1]]);
    else if (cookies) cookies[1] += `; ${fields[i + 1]}`;
    else list.push(cookies = ['cookie', fields[i + 1]]);
  }
  return list;
}

class FetchExchange extends Exchange {
  constructor(service, conn, id, payload, complete) {
    super(service, conn, id, payload, complete);
    [this.held, this.heldBytes] = [[], 0]; // of the request's body: what nobody has asked for yet
    if (this.first.length) this.hold(this.first);
  }

  run(handler) {
    let request;
    try {
      request = this.makeRequest();
    } catch (err) { // a host that is none, a method that no Request may have
      return this.say(400, `this request is none for fetch: ${err.message}\n`);
    }
    const context = new Context(this);
    const response = handler.fetch(request, context, context);
    return typeof response?.then === 'function' ? response.then(it => this.respond(it)) : this.respond(response);
  }

  makeRequest() {
    const { method, authority, target, held } = this;
    if (NO_HOST.test(authority)) throw new TypeError(`${authority} is no host`);
    const { href } = new URL(`${this.scheme}://${authority || 'localhost'}${target[0] === '/' ? target : '/'}`);
    const hasBody = !BODILESS.has(method) && (held.length > 0 || !this.received);
    if (!this.service.light) {
      const body = hasBody ? this.bodyStream() : undefined;
      return new Request(href, { method, headers: pairs(this), body, duplex: 'half', signal: this.aborting.signal });
    }
    return this.service.light.request(this, href, !hasBody ? null : this.received ? held[0] : this.bodyStream());
  }

  bodyStream() {
    const start = controller => { this.source = controller; };
    const source = { start, pull: controller => this.give(controller), cancel: () => this.discard() };
    return new ReadableStream(source, { highWaterMark: 0 });
  }

  hold(bytes) {
    this.held.push(bytes);
    this.heldBytes += bytes.length;
  }

  receive(bytes, last) {
    if (bytes.length) this.hold(bytes);
    if (this.waiting && (bytes.length || last)) this.give(this.waiting);
    if (last) this.conn.socket.resume();
    else if (this.heldBytes >= HIGH_WATER_BYTES) this.conn.socket.pause(); // P-22
  }

  /** Somebody reads the request's body. */
  give(controller) {
    const bytes = this.held.shift();
    this.waiting = bytes || this.received ? undefined : controller;
    if (bytes) {
      this.heldBytes -= bytes.length;
      controller.enqueue(bytes);
    }
    if (this.received && !this.held.length) {
      this.source = undefined;
      controller.close();
    } else if (this.heldBytes < HIGH_WATER_BYTES) this.conn.socket.resume();
  }

  discard() {
    [this.held, this.source, this.waiting] = [[], undefined, undefined];
    this.stop();
    this.conn.socket.resume();
  }

  respond(response) {
    if (this.answered) return response?.body?.cancel().catch(() => {}); // refused, or the client has gone
    if (response?.type === 'error') return this.reset(CODE.INTERNAL, 'the answer is Response.error()');
    const isResponse = response?.headers && response.status >= 200 && response.status <= 599;
    if (!isResponse) throw new TypeError('what fetch has returned is no Response with a status from 200 to 599');
    if (response.bodyUsed) throw new TypeError('the body of the Response has been read already');
    this.status = response.status;
    this.head = headOf(response.status, response.headers);
    const source = this.service.light?.source(response);
    if (source !== undefined) return this.answer(source);
    if (!response.body) return this.flush(true);
    if (this.method !== 'HEAD') return this.send(response.body);
    this.flush(true);
    return response.body.cancel().catch(() => {});
  }

  /** The whole answer: its body is a text, bytes, or null. */
  answer(source) {
    const bytes = typeof source === 'string' ? Buffer.from(source) : source;
    if (bytes?.length && this.method !== 'HEAD') {
      this.pending.push(bytes);
      this.writableLength += bytes.length;
    }
    this.flush(true);
  }

  async send(body) {
    this.reader = body.getReader();
    // The head does not wait for a first piece that is not there yet. What is there by now is still one frame.
    queueMicrotask(() => process.nextTick(() => this.begun || this.flush(false)));
    for (;;) {
      const { done, value } = await this.reader.read();
      if (done) return this.flush(true);
      if (!(value instanceof Uint8Array)) throw new TypeError('a body whose pieces are not Uint8Array');
      if (!this.queue(value)) await new Promise(resolve => { this.drained = resolve; });
    }
  }

  say(status, text) {
    this.head = headOf(status, new Headers({ 'content-type': 'text/plain' }));
    this.answer(text);
  }

  /** The handler has failed, or its answer's stream, which ends as it is. */
  failed(err) {
    if (this.head || this.answered) return err === this.controller?.signal.reason || this.destroy(err);
    this.report(err);
    return this.say(500, 'Internal Server Error\n');
  }

  drained() {}

  over(err) {
    this.source?.error(err ?? new Error('the answer has ended'));
    this.reader?.cancel(err).catch(() => {});
    this.drained();
  }
}

module.exports = { FetchExchange, exchangeOf: Context.exchangeOf };
