'use strict';
/**
 * Pilotlight's SDK for Node: `serve(handler)` answers the HTTP requests that the gateway sends over Pipe/1
 * (docs/spec/pipe.md). This file is the service: its connections, how many exchanges are open, drain and exit.
 * @example require('pilotlight').serve((req, res) => res.end('hello'))
 * @example require('pilotlight').serve({ fetch: request => new Response(`hello ${request.url}`) })
 */
const { AsyncResource } = require('async_hooks');
const { Connection, TYPE, CODE, u32, broken } = require('./lib/connection');
const { Offers } = require('./lib/upgrade');

const MAX_SHARED = 64;
const MAX_LIMIT = 4096; // of `exchanges` and `max_own`, §10
const DRAIN_REPLY_MS = 1000; // after SIGTERM: how long to wait for the gateway's DRAIN (P-32)
const IS_NODE = !process.versions.deno && !process.versions.bun;
const REMEDY = 'add it to pilotlight.toml (command = ["node", "FILE"], transport = "pipe") and run `pilotlight`';

class Service {
  constructor(handler, { exchanges = 64, maxOwn = 64, maxUpgraded = 1024, globals = IS_NODE } = {}) {
    const { PILOTLIGHT_SOCKET: path, PILOTLIGHT_TOKEN: token } = process.env;
    if (!path || !token) {
      this.report(`${path ? 'PILOTLIGHT_TOKEN' : 'PILOTLIGHT_SOCKET'} is not set, the gateway does that: ${REMEDY}`);
      process.exit(2);
    }
    const limit = value => Math.min(Math.max(1, value | 0), MAX_LIMIT);
    // Loaded while the gateway reads HELLO: http takes longer to load than all the rest.
    this.face = () => this.loaded ??= typeof handler === 'function' ? http() : require('./lib/fetch').FetchExchange;
    this.light = typeof handler !== 'function' && globals ? require('./lib/light') : null;
    this.light?.install();
    Object.assign(this, { handler, path, token, maxExchanges: limit(exchanges), maxOwn: limit(maxOwn), open: 0 });
    Object.assign(this, { connections: new Set(), offers: new Offers(maxUpgraded), draining: false, leaving: false });
    new Connection(this, 'shared').socket.once('connect', () => setImmediate(this.face)); // P-2
    process.once('SIGTERM', () => this.drain());
  }

  report(text) { process.stderr.write(`pilotlight: ${text}\n`); }

  ofKind(kind) { return [...this.connections].filter(connection => connection.kind === kind); }

  more(payload) { // P-23
    const [number, count, worker] = [payload.readUInt16LE(0), payload.readUInt16LE(2), payload.readUInt32LE(4)];
    const [kind, max] = { 1: ['own', this.maxOwn], 2: ['shared', MAX_SHARED] }[number] ?? broken('P-11', 'MORE: kind');
    const room = this.draining ? 0 : max - this.ofKind(kind).length;
    for (let i = 0; i < Math.min(count, room); i++) new Connection(this, kind, worker);
  }

  begin(connection, id, payload, complete, flags) {
    const isOffer = this.offers.want(connection, complete, flags);
    const Face = isOffer ? http() : this.face();
    const exchange = new Face(this, connection, id, payload, complete);
    this.open++;
    if (isOffer) return this.offers.take(exchange);
    if (this.draining) return exchange.reset(CODE.REFUSED, 'this instance is draining'); // P-31
    // A context of its own, or AsyncLocalStorage#enterWith of one would be seen by the next one of the same read.
    return new AsyncResource('PILOTLIGHT').runInAsyncScope(run, this, exchange);
  }

  /** Finishes what is open and refuses the rest. P-31 by the gateway's DRAIN, P-32 by a signal or close(). */
  drain(byGateway = false) {
    if (!this.draining && !byGateway) {
      for (const shared of this.ofKind('shared')) shared.send(TYPE.DRAIN, 0, 0, u32(0));
      setTimeout(() => this.drain(true), DRAIN_REPLY_MS).unref();
    }
    if (!this.draining) this.offers.drain();
    this.draining = true;
    this.leaving ||= byGateway;
    this.leave();
  }

  leave() { if (this.leaving && this.open === 0) for (const connection of this.connections) connection.close(); }

  closed(connection, { failure } = connection) {
    const unreachable = failure?.syscall === 'connect';
    if (failure) this.report(`the ${connection.kind} connection to ${this.path} has failed: ${failure.message}`);
    this.connections.delete(connection);
    for (const exchange of [...connection.exchanges.values()]) { // P-34
      if (unreachable) exchange.out = exchange.conn; // the only way left to tell the gateway
      if (unreachable || exchange.out === connection) exchange.cancel(unreachable ? CODE.INTERNAL : CODE.CANCELLED);
    }
    // P-31: after a drain nothing is left to do. P-33: without a shared connection there is no gateway.
    if (this.leaving && this.open === 0) this.connections.size || process.exit(0);
    else if (this.ofKind('shared').length === 0) process.exit(failure ? 1 : 0);
  }
}

const http = () => require('./lib/http').HttpExchange;

/** Calls the handler. */
function run(exchange) {
  const failed = err => exchange.failed(err ?? new Error('no reason given'));
  try {
    const done = exchange.run(this.handler);
    if (typeof done?.then === 'function') done.then(undefined, failed);
  } catch (err) {
    failed(err);
  }
}

/** Ends the exchange of `it`, the `res` of a handler or the context of a `fetch`, with a RESET instead of an answer. */
function reset(it, code, text, retryAfterMs) {
  const exchange = it.socket ?? require('./lib/fetch').exchangeOf(it);
  if (exchange.head) throw new Error(`pilotlight: too late to answer "${text}", the headers were sent`);
  exchange.reset(code, text, retryAfterMs);
}

function serve(handler, options) {
  const fits = typeof handler === 'function' || typeof handler?.fetch === 'function';
  if (!fits) throw new TypeError('pilotlight.serve(handler): a function (req, res), or an object with fetch(request)');
  const service = new Service(handler, options);
  return Object.assign(service.offers, { close: () => service.drain() });
}
const refuse = (it, text = 'refused') => reset(it, CODE.REFUSED, text);
const overloaded = (it, retryAfterMs = 1000, text = 'overloaded') => reset(it, CODE.OVERLOADED, text, retryAfterMs);
const tooLarge = (it, text = 'the request body is too large') => reset(it, CODE.TOO_LARGE, text);

module.exports = { serve, refuse, overloaded, tooLarge };
