'use strict';
/**
 * Own connections that leave the protocol (spec §12), as the 'upgrade' event of Node's own http.Server gives them:
 * `(req, socket, head)`. The socket is the real one. A listener writes an HTTP/1.1 answer to it as text, as to Node's
 * server; that is the one thing that is caught here, and made a RESPONSE: behind a 101 the bytes are the other
 * protocol's, any other answer ends with the socket.
 */
const { EventEmitter } = require('events');
const { TYPE, END, UPGRADE, CODE, EMPTY, u32, broken, resetPayload } = require('./connection');

const MAX_HEAD = 65536 - 8; // of a RESPONSE, with what an answer that declines has in its body
const HEAD_END = Buffer.from('\r\n\r\n');

/** What `serve` returns: 'upgrade' for each offer of the gateway's, 'draining' when the instance is to end (P-43). */
class Offers extends EventEmitter {
  constructor(max) {
    super();
    this.max = max;
  }

  /** Whether a REQUEST offers an upgrade and somebody listens. Without listeners it is one like others, as in Node. */
  want(conn, complete, flags) {
    if (conn.kind !== 'own' || !conn.minor || !(flags & UPGRADE)) return false;
    if (!complete) broken('P-38', 'a REQUEST with UPGRADE and without END');
    return !conn.service.draining && this.listenerCount('upgrade') > 0;
  }

  take(exchange) {
    if (exchange.service.ofKind('upgraded').length < this.max) handOver(exchange, this);
    else exchange.reset(CODE.OVERLOADED, 'maxUpgraded', 1000);
  }

  drain() { process.nextTick(() => this.emit('draining')); }
}

/** The HTTP/1.1 answer that `text` begins with; its status is 0 while the head is not whole. */
function parse(text) {
  const { toFields } = require('./http');
  const end = text.indexOf(HEAD_END);
  const lines = text.latin1Slice(0, end + 2);
  const protocol = /^upgrade: *(.*?) *\r$/im.exec(lines)?.[1] ?? '';
  const fields = toFields(lines, lines.indexOf('\r\n') + 2);
  return { status: end < 0 ? 0 : Number(lines.slice(9, 12)), protocol, fields, rest: text.subarray(end + 4) };
}

const head = (status, fields) => u32(fields.length) + u32(status) + fields;

/** Gives the connection of `exchange` to those who listen. */
function handOver(exchange, offers) {
  const { conn, service, req, id } = exchange;
  const { socket } = conn;
  let [text, settled] = [EMPTY, false];

  /** Sends the last frame; what is written from now on goes to the socket itself. */
  function settle(type, flags, payload, body) {
    settled = true;
    for (const name of ['write', 'end']) delete socket[name];
    conn.send(type, flags, id, payload, body);
    conn.flush();
  }

  /** Switches if what has been written so far has the whole head of a 101. */
  function accept(callback) {
    const { status, protocol, fields, rest } = parse(text);
    if (status !== 101) return false;
    settle(TYPE.RESPONSE, UPGRADE, head(status, `upgrade\0${protocol}\0${fields}`));
    conn.kind = 'upgraded'; // P-42
    if (rest.length) socket.write(rest, callback);
    else if (callback) process.nextTick(callback);
    return true;
  }

  /** The answer that ends with the socket: nothing has switched. */
  function decline() {
    const { status, fields, rest } = parse(text);
    const fits = status >= 200 && fields.length + rest.length <= MAX_HEAD;
    if (fits) settle(TYPE.RESPONSE, END, head(status, fields), rest);
    else settle(TYPE.RESET, 0, ...resetPayload(CODE.INTERNAL, 'what was written is no answer to an upgrade'));
  }

  function write(data, encoding, callback) {
    const done = typeof encoding === 'function' ? encoding : callback;
    const bytes = typeof data === 'string' ? Buffer.from(data, typeof encoding === 'string' ? encoding : 'utf8') : data;
    text = Buffer.concat([text, bytes]);
    if (text.length > MAX_HEAD) socket.destroy(new Error(`an answer of more than ${MAX_HEAD} bytes`));
    else if (!accept(done) && done) process.nextTick(done);
    return true;
  }

  function end(data, encoding, callback) {
    if (data && typeof data !== 'function') socket.write(data, encoding);
    if (!settled) decline();
    return socket.end([data, encoding, callback].find(it => typeof it === 'function'));
  }

  conn.exchanges.delete(id);
  exchange.received = exchange.answered = true;
  socket.once('close', () => {
    exchange.destroy();
    service.open--;
    service.leave();
  });
  socket.removeAllListeners('data');
  socket.pause();
  socket.allowHalfOpen = true; // P-41
  socket.readableFlowing = null; // as Node's server does: the first 'data' listener starts it
  Object.assign(socket, { write, end });
  req.rawHeaders.push('connection', 'upgrade');
  req.headers.connection = 'upgrade';
  offers.emit('upgrade', req, socket, EMPTY);
}

module.exports = { Offers };
