'use strict';
// The gateway's side of Pipe/1 for tests, written from the specification alone: a listening Unix socket, a service process,
// and frames by name. It shares no code with the SDK, so that a mistake in one is not hidden by the other.
const { spawn } = require('child_process');
const fs = require('fs');
const net = require('net');
const os = require('os');
const path = require('path');

const T = {
  HELLO: 1, WELCOME: 2, REQUEST: 3, RESPONSE: 4, INFO: 5, DATA: 6, TRAILERS: 7,
  STOP: 8, RESET: 9, PING: 10, PONG: 11, DRAIN: 12, MORE: 13, LOG: 14,
};
const NAME = Object.fromEntries(Object.entries(T).map(([name, type]) => [type, name]));
const END = 1;
// What the services of the tests run on: `deno run --allow-all` or `bun`, say.
const RUNTIME = (process.env.SDK_RUNTIME ?? process.execPath).split(' ');
const LIMIT_MS = 15000; // beyond which a wait is a failure

function frame(type, id, payload = Buffer.alloc(0), flags = 0) {
  const header = Buffer.alloc(8);
  payload = Buffer.from(payload);
  header.writeUInt32LE(payload.length, 0);
  header[4] = type;
  header[5] = flags;
  header.writeUInt16LE(id, 6);
  return Buffer.concat([header, payload]);
}

function u32(...values) {
  const out = Buffer.alloc(4 * values.length);
  values.forEach((value, i) => out.writeUInt32LE(value, 4 * i));
  return out;
}

function request(id, target, { method = 'GET', headers = [], body = '', end = true, deadlineMs = 0, peer = '127.0.0.1:5000',
  scheme = 'http', authority = 'test.local' } = {}) {
  const list = [method, scheme, authority, target, 'HTTP/1.1', peer, `req-${id}`, ...headers];
  const head = Buffer.from(list.map(text => `${text}\0`).join(''), 'latin1');
  return frame(T.REQUEST, id, Buffer.concat([u32(head.length, deadlineMs), head, Buffer.from(body)]), end ? END : 0);
}

function reset(id, code) { return frame(T.RESET, id, Buffer.concat([u32(code, 0), Buffer.from('test')])); }

function more(kind, count, worker = 3) { return frame(T.MORE, 0, u32(kind + count * 0x10000, worker)); }

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${LIMIT_MS} ms: ${what}`)), LIMIT_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Decodes what the service sent into `{type, id, end, status, headers, body, …}`. */
function decode(type, flags, id, payload) {
  const f = { type: NAME[type] ?? type, id, end: (flags & END) !== 0, flags, payload, body: payload };
  const fields = text => (text === '' ? [] : text.slice(0, -1).split('\0'));
  if (type === T.RESPONSE || type === T.INFO) {
    const headLength = payload.readUInt32LE(0);
    f.status = payload.readUInt16LE(4);
    f.fields = fields(payload.latin1Slice(8, 8 + headLength));
    f.body = payload.subarray(8 + headLength);
    f.headers = {};
    for (let i = 0; i < f.fields.length; i += 2) f.headers[f.fields[i]] = f.fields[i + 1];
  } else if (type === T.TRAILERS) f.fields = fields(payload.toString('latin1'));
  else if (type === T.RESET) Object.assign(f, { code: payload.readUInt16LE(0), retryAfterMs: payload.readUInt32LE(4), text: payload.toString('utf8', 8) });
  return f;
}

/** One connection that the service has opened. */
class Peer {
  constructor(socket) {
    this.socket = socket;
    this.frames = [];
    this.reads = []; // how many frames each read brought
    this.waiters = [];
    this.bytes = Buffer.alloc(0);
    this.ended = false;
    socket.on('data', data => this.data(data));
    socket.on('error', () => {}); // a reset by the service is its close
    socket.on('close', () => { this.ended = true; this.wake(); });
    socket.on('end', () => { this.ended = true; this.wake(); });
  }

  data(data) {
    this.bytes = Buffer.concat([this.bytes, data]);
    let count = 0;
    for (let length; this.bytes.length >= 8 && this.bytes.length >= (length = 8 + this.bytes.readUInt32LE(0)); count++) {
      this.frames.push(decode(this.bytes[4], this.bytes[5], this.bytes.readUInt16LE(6), this.bytes.subarray(8, length)));
      this.bytes = this.bytes.subarray(length);
    }
    this.reads.push(count);
    this.wake();
  }

  wake() { for (const waiter of this.waiters.splice(0)) waiter(); }

  send(...frames) { this.socket.write(Buffer.concat(frames)); }

  async until(test, what) {
    const wait = async () => { while (!test()) await new Promise(resolve => this.waiters.push(resolve)); };
    await within(wait(), what);
  }

  async next(what = 'a frame') {
    await this.until(() => this.frames.length || this.ended, what);
    if (!this.frames.length) throw new Error(`the connection was closed, ${what} was expected`);
    return this.frames.shift();
  }

  closed() { return this.until(() => this.ended, 'the connection is closed'); }

  /** All frames of one answer, joined. */
  async answer(what = 'an answer') {
    const all = [];
    for (;;) {
      const f = await this.next(what);
      all.push(f);
      if (f.end || f.type === 'TRAILERS' || f.type === 'RESET') break;
    }
    const response = all.find(f => f.type === 'RESPONSE');
    const body = Buffer.concat(all.filter(f => f.type === 'RESPONSE' || f.type === 'DATA').map(f => f.body));
    return { frames: all, last: all[all.length - 1], response, status: response?.status, headers: response?.headers, body, text: body.toString() };
  }
}

/** A listening gateway and one service process. `accept()` gives its connections in order, HELLO read, WELCOME sent. */
class Gateway {
  static async start(t, script, { env = {}, welcome = true, args = [] } = {}) {
    const gateway = new Gateway();
    gateway.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pilotlight-node-'));
    gateway.path = path.join(gateway.folder, 'gw.sock');
    gateway.peers = [];
    gateway.waiting = [];
    gateway.sockets = new Set();
    gateway.welcome = welcome;
    gateway.server = net.createServer(socket => {
      gateway.sockets.add(socket);
      gateway.peers.push(new Peer(socket));
      for (const waiter of gateway.waiting.splice(0)) waiter();
    });
    await new Promise(resolve => gateway.server.listen(gateway.path, resolve));
    t.after(() => gateway.stop());
    const base = { PILOTLIGHT_SOCKET: gateway.path, PILOTLIGHT_TOKEN: '0123456789abcdef0123456789abcdef', PILOTLIGHT_SERVICE: 'test', PILOTLIGHT_INSTANCE: '1' };
    gateway.child = spawn(RUNTIME[0], [...RUNTIME.slice(1), script, ...args], { env: { ...process.env, ...base, ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
    gateway.stderr = '';
    gateway.stdoutBytes = 0;
    gateway.child.stderr.on('data', data => { gateway.stderr += data; });
    gateway.child.stdout.on('data', data => { gateway.stdoutBytes += data.length; });
    gateway.exit = new Promise(resolve => gateway.child.on('close', (code, signal) => resolve({ code, signal })));
    gateway.shared = await gateway.accept('the first connection');
    return gateway;
  }

  async accept(what = 'a connection') {
    const wait = async () => { while (!this.peers.length) await new Promise(resolve => this.waiting.push(resolve)); };
    await within(wait(), `${what}; stderr: ${this.stderr}`);
    const peer = this.peers.shift();
    peer.hello = await peer.next('HELLO');
    const [version, ...lines] = peer.hello.payload.toString().split('\n');
    peer.keys = { version, ...Object.fromEntries(lines.filter(Boolean).map(line => line.split(/=(.*)/s).slice(0, 2))) };
    if (this.welcome) peer.send(frame(T.WELCOME, 0, `PIPE/1\nworker=${peer.keys.worker ?? 3}\nmax_frame=65536\nservice=test\ninstance=1\nnew_key=1\n`));
    return peer;
  }

  async own() {
    this.shared.send(more(1, 1));
    return this.accept('an own connection');
  }

  /** Waits until the service has said `pattern` on stderr, which may come later than a frame that was sent after it. */
  async says(pattern) {
    const wait = async () => { while (!pattern.test(this.stderr)) await new Promise(resolve => this.child.stderr.once('data', resolve)); };
    await within(wait(), `${pattern} in ${this.stderr}`);
  }

  exited() { return within(this.exit, 'the service exits'); }

  async stop() {
    for (const socket of this.sockets) socket.destroy();
    this.server.close();
    if (this.child.exitCode === null) this.child.kill('SIGKILL');
    await this.exit;
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

module.exports = { RUNTIME, Gateway, T, END, frame, request, reset, more, u32, within };
