'use strict';
/**
 * The service's side of a gateway's socket: dials in, opens further connections on request, hands exchanges to the handler,
 * drains and exits. Invariant: `open` is the number of exchanges without their final frame.
 */
const { AsyncResource } = require('async_hooks');
const { Connection } = require('./connection');
const { TYPE, CODE, check } = require('./wire');

const MAX_SOCKET_PATH = 107; // bytes, §2
const MAX_SHARED = 64;
const MAX_IDLE_ANSWER = 16; // answer connections kept for the next large answer
const MAX_LIMIT = 4096; // of `exchanges` and `max_own`, §10
const DRAIN_REPLY_MS = 1000; // after SIGTERM: how long to wait for the gateway's DRAIN (P-32)
const HOW_TO_START = 'This service is started by the pilotlight gateway: add it to pilotlight.toml\n'
  + '([services.NAME] command = ["node", "FILE"], transport = "pipe") and run `pilotlight`.';
const KINDS = { 1: 'own', 2: 'shared' };
const limit = value => Math.min(Math.max(1, value | 0), MAX_LIMIT);
let Exchange; // loaded when HELLO is on its way: http takes longer to load than everything else here

class Instance {
  constructor(handler, { exchanges = 64, maxOwn = 64 } = {}) {
    const { PILOTLIGHT_SOCKET: path = '', PILOTLIGHT_TOKEN: token = '' } = process.env;
    if (!path || !token) this.usage(`${path ? 'PILOTLIGHT_TOKEN' : 'PILOTLIGHT_SOCKET'} is not set. ${HOW_TO_START}`);
    if (Buffer.byteLength(path) > MAX_SOCKET_PATH) this.usage(`PILOTLIGHT_SOCKET is longer than ${MAX_SOCKET_PATH} bytes: ${path}`);
    Object.assign(this, { handler, path, token, maxExchanges: limit(exchanges), maxOwn: limit(maxOwn) });
    Object.assign(this, { open: 0, draining: false, leaving: false });
    this.connections = new Set();
    this.idle = []; // answer connections
    this.dial('shared'); // P-2
    process.once('SIGTERM', () => this.drain(false));
  }

  dial(kind, worker) {
    const keys = { token: this.token, kind, max_own: this.maxOwn, sdk: 'node/0.1.0', pid: process.pid };
    if (worker !== undefined) keys.worker = worker;
    if (kind === 'shared') keys.exchanges = this.maxExchanges;
    const connection = new Connection(this, kind, worker, keys);
    this.connections.add(connection);
    return connection;
  }

  kind(kind) { return [...this.connections].filter(connection => connection.kind === kind); }

  more(kind, count, worker) { // P-23
    check(KINDS[kind], 'P-11', `MORE of kind ${kind}`);
    const room = (kind === 1 ? this.maxOwn : MAX_SHARED) - this.kind(KINDS[kind]).length;
    for (let i = 0; i < Math.min(count, room) && !this.draining; i++) this.dial(KINDS[kind], worker);
  }

  /** P-24, P-25: the connection for an answer that does not fit the shared one. */
  answer(exchange) {
    const { worker } = exchange.conn;
    const at = this.idle.findIndex(connection => connection.worker === worker);
    const connection = at < 0 ? this.dial('answer', worker) : this.idle.splice(at, 1)[0];
    connection.exchanges.set(exchange.id, exchange);
    return connection;
  }

  begin(connection, id, head, first, complete) {
    Exchange ??= require('./exchange').Exchange;
    const exchange = new Exchange(this, connection, id, head, first, complete);
    connection.exchanges.set(id, exchange);
    this.open++;
    if (!complete) connection.reading = exchange;
    if (this.draining) return exchange.res.refuse('this instance is draining'); // P-31
    if (!complete && first) exchange.receive(first, false, null);
    try {
      // A context of its own, or AsyncLocalStorage#enterWith of one exchange would be seen by the next one of the same read.
      const result = new AsyncResource('PILOTLIGHT').runInAsyncScope(this.handler, undefined, exchange.req, exchange.res);
      if (typeof result?.then === 'function') result.then(undefined, err => exchange.fail(err));
    } catch (err) {
      exchange.fail(err);
    }
  }

  ended(exchange) {
    const { out, id } = exchange;
    this.open--;
    if (out.kind === 'answer' && out.exchanges.delete(id) && this.connections.has(out)) {
      if (out.failed || this.draining || this.idle.length >= MAX_IDLE_ANSWER) out.close();
      else this.idle.push(out);
    }
    this.leave();
  }

  /** Finishes what is open and refuses the rest. P-31 by the gateway's DRAIN, P-32 by a signal or close(). */
  drain(byGateway) {
    if (!this.draining && !byGateway) {
      for (const shared of this.kind('shared')) shared.send(TYPE.DRAIN, 0, 0, 0, '', Buffer.alloc(4));
      setTimeout(() => this.drain(true), DRAIN_REPLY_MS).unref();
    }
    this.draining = true;
    this.leaving ||= byGateway;
    this.leave();
  }

  leave() {
    if (this.leaving && this.open === 0) for (const connection of this.connections) connection.close();
  }

  closed(connection) {
    const { kind, up, failed } = connection;
    this.connections.delete(connection);
    this.idle = this.idle.filter(other => other !== connection);
    if (!up) this.report(`cannot connect to PILOTLIGHT_SOCKET=${this.path}: ${failed?.message}`);
    if (connection.reading) connection.exchanges.set(connection.reading.id, connection.reading);
    for (const exchange of [...connection.exchanges.values()]) { // P-34
      if (exchange.out === connection && !up) exchange.out = exchange.conn;
      exchange.cancel(up ? CODE.CANCELLED : CODE.INTERNAL);
    }
    // P-33: without a shared connection there is no gateway. P-31: after a drain nothing is left to do.
    const left = this.leaving && this.open === 0;
    if (kind === 'shared' && !left && this.kind('shared').length === 0) process.exit(up && !connection.broken ? 0 : 1);
    if (this.leaving && this.connections.size === 0) process.exit(0);
  }

  usage(text) {
    this.report(text);
    process.exit(2);
  }

  report(text) { process.stderr.write(`pilotlight: ${text}\n`); }
}

module.exports = { Instance };
