'use strict';
// The demo service that every SDK has; sdk/conformance drives it.
const { createHash } = require('crypto');
const { serve, refuse } = require('./index.js');

const PERIOD = 251; // of the download's bytes
const BLOCK_BYTES = PERIOD * 256;
const LINE = `${'x'.repeat(99)}\n`;
const TICK_MS = 20;
const block = Buffer.from(Array.from({ length: BLOCK_BYTES }, (_, i) => (i * 31 + 7) % PERIOD));
const cancelled = new Set();
const seen = new Set();

const sleep = (ms, signal) => new Promise(resolve => {
  const timer = setTimeout(resolve, ms);
  signal?.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
});

function json(res, value) {
  res.setHeader('content-type', 'application/json');
  res.end(JSON.stringify(value));
}

/** Resolves when `stream` takes more, or is gone. */
const room = stream => new Promise(resolve => {
  const done = () => { stream.off('drain', done); stream.off('close', done); resolve(); };
  stream.on('drain', done).on('close', done);
});

async function echo(req, res) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const type = req.headers['content-type'];
  const headers = [...(type === undefined ? [] : ['content-type', type]), 'x-method', req.method, 'x-target', req.url];
  for (let i = 0; i < req.rawHeaders.length; i += 2) {
    if (req.rawHeaders[i].startsWith('x-echo-')) headers.push(req.rawHeaders[i], req.rawHeaders[i + 1]);
  }
  res.writeHead(200, headers);
  res.end(Buffer.concat(chunks));
}

async function upload(req, res) {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of req) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  json(res, { bytes, sha256: hash.digest('hex') });
}

async function download(req, res, query) {
  let left = Number(query.get('bytes') ?? 0);
  res.writeHead(200, { 'content-type': 'application/octet-stream', 'content-length': left });
  for (; left > 0 && !res.destroyed; left -= BLOCK_BYTES) {
    if (!res.write(left < BLOCK_BYTES ? block.subarray(0, left) : block)) await room(res);
  }
  res.end();
}

async function slow(req, res, query) {
  const chunks = Number(query.get('chunks') ?? 3);
  for (let i = 0; i < chunks && !res.destroyed; i++) {
    if (i) await sleep(Number(query.get('ms') ?? 10), req.signal);
    res.write(`chunk ${i}\n`);
  }
  res.end();
}

async function wait(req, res, query) {
  while (!req.signal.aborted) {
    if (!res.write('tick\n')) await room(res);
    await sleep(TICK_MS, req.signal);
  }
  cancelled.add(query.get('id'));
}

async function flood(req, res, query) {
  const bytes = Number(query.get('bytes') ?? 0);
  const lines = LINE.repeat(640);
  for (let left = bytes; left > 0; left -= lines.length) {
    if (!process.stdout.write(left < lines.length ? lines.slice(0, left) : lines)) await room(process.stdout);
  }
  json(res, { flooded: bytes });
}

async function trailers(req, res) {
  res.setHeader('trailer', 'x-trailer');
  res.write('body');
  res.addTrailers({ 'x-trailer': 'yes' });
  res.end();
}

function refuseOnce(req, res) {
  const once = req.headers['x-once'];
  if (seen.has(once)) return res.end('taken');
  seen.add(once);
  refuse(res);
}

const routes = {
  '/upload': upload,
  '/download': download,
  '/slow': slow,
  '/wait': wait,
  '/cancelled': (req, res, query) => json(res, { cancelled: cancelled.has(query.get('id')) }),
  '/crash': () => process.exit(3),
  '/flood': flood,
  '/status': (req, res, query) => { res.statusCode = Number(query.get('code') ?? 200); res.end(); },
  '/cookies': (req, res) => { res.setHeader('set-cookie', ['a=1', 'b=2']); res.end(); },
  '/sleep': async (req, res, query) => { await sleep(Number(query.get('ms') ?? 0), req.signal); res.end('slept'); },
  '/deadline': (req, res) => json(res, { deadline_ms: req.deadline === null ? null : Math.max(0, req.deadline - Date.now()) }),
  '/pid': (req, res) => json(res, { pid: process.pid }),
  '/early': (req, res) => { res.statusCode = 413; res.end('too large'); },
  '/trailers': trailers,
  '/error': () => { throw new Error('asked for by /error'); },
  '/refuse': refuseOnce,
  '/switch': (req, res) => { res.statusCode = 426; res.end(); },
  '/ws': (req, res) => { res.statusCode = 426; res.end(); },
  '/big-header': (req, res, query) => { res.setHeader('x-big', 'b'.repeat(Number(query.get('bytes') ?? 0))); res.end(); },
};

const server = serve((req, res) => {
  const [path, query = ''] = req.url.split(/\?(.*)/s);
  if (path.startsWith('/echo')) return echo(req, res);
  const route = routes[path];
  if (route) return route(req, res, new URLSearchParams(query));
  res.statusCode = 404;
  return res.end('not found');
});

/** Switches to what is offered first, whatever that is, and sends back the bytes that come. */
function switchAndEcho(req, socket) {
  const protocol = req.headers.upgrade.split(',')[0].trim();
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`);
  socket.pipe(socket);
}

/** A WebSocket that sends every message back, by the package `ws`. */
function webSocket(req, socket, head) {
  const { WebSocketServer } = require('ws');
  webSockets ??= new WebSocketServer({ noServer: true, maxPayload: 64 << 20 });
  webSockets.handleUpgrade(req, socket, head, client => {
    client.on('message', (data, isBinary) => client.send(data, { binary: isBinary })).on('error', () => {});
  });
}

let webSockets;
server.on('upgrade', (req, socket, head) => {
  if (req.url === '/switch') return switchAndEcho(req, socket);
  if (req.url === '/ws') return webSocket(req, socket, head);
  return socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: close\r\n\r\nnot found');
});
server.on('draining', () => webSockets?.clients.forEach(client => client.close(1001, 'going away')));
