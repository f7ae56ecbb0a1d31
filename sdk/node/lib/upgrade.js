'use strict';
/**
 * An own connection that leaves the protocol (spec §12), as the 'upgrade' event of Node's own http.Server gives it:
 * `(req, socket, head)`. The socket is the real one. A listener writes an HTTP/1.1 answer to it as text, as to Node's
 * server; that is the one thing that is caught here, and made a RESPONSE: behind a 101 the bytes are the other
 * protocol's, any other answer ends with the socket.
 */
const { TYPE, END, UPGRADE, CODE, EMPTY, u32, resetPayload } = require('./connection');

const MAX_HEAD = 65536 - 8; // of a RESPONSE, with what an answer that declines has in its body
const HEAD_END = Buffer.from('\r\n\r\n');

/** Gives the connection of `exchange` to those who listen for 'upgrade'. `toFields` makes fields of lines. */
function offer(exchange, toFields) {
  const { conn, service, req, id } = exchange;
  const { socket } = conn;
  let [text, settled] = [EMPTY, false];

  /** Switches if what has been written so far has the whole head of a 101. */
  function accept(callback) {
    const end = text.indexOf(HEAD_END);
    if (end < 0) return false;
    const lines = text.latin1Slice(0, end + 2);
    const [status, rest] = [Number(lines.slice(9, 12)), text.subarray(end + 4)];
    if (status !== 101) return false;
    const protocol = /^upgrade: *(.*?) *\r$/im.exec(lines)?.[1] ?? '';
    const fields = `upgrade\0${protocol}\0${toFields(lines, lines.indexOf('\r\n') + 2)}`;
    settled = true;
    restore();
    conn.send(TYPE.RESPONSE, UPGRADE, id, u32(fields.length) + u32(status) + fields);
    conn.flush();
    conn.kind = 'upgraded'; // P-42
    if (rest.length) socket.write(rest, callback);
    else if (callback) process.nextTick(callback);
    return true;
  }

  /** The answer that ends with the socket: nothing has switched. */
  function decline() {
    settled = true;
    restore();
    const end = text.indexOf(HEAD_END);
    const [lines, body] = [text.latin1Slice(0, end + 2), text.subarray(end + 4)];
    const [status, fields] = [Number(lines.slice(9, 12)), toFields(lines, lines.indexOf('\r\n') + 2)];
    const fits = end >= 0 && status >= 200 && fields.length + body.length <= MAX_HEAD;
    if (fits) conn.send(TYPE.RESPONSE, END, id, u32(fields.length) + u32(status) + fields, body);
    else conn.send(TYPE.RESET, 0, id, ...resetPayload(CODE.INTERNAL, 'what was written is no answer to an upgrade'));
    conn.flush();
  }

  function restore() { for (const name of ['write', 'end']) delete socket[name]; }

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
  service.events.emit('upgrade', req, socket, EMPTY);
}

module.exports = { offer };
