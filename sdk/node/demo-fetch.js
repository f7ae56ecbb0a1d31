'use strict';
// The demo service that every SDK has, for `fetch` handlers; sdk/conformance drives it.
const { createHash } = require('crypto');
const { serve, refuse } = require('./index.js');

const PERIOD = 251; // of the download's bytes
const BLOCK_BYTES = PERIOD * 256;
const LINE = `${'x'.repeat(99)}\n`;
const TICK_MS = 20;
const block = Uint8Array.from({ length: BLOCK_BYTES }, (_, i) => (i * 31 + 7) % PERIOD);
const cancelled = new Set();
const seen = new Set();

const sleep = (ms, signal) => new Promise(resolve => {
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
});

/** A body that is made as it is taken: `next()` gives a piece, or nothing at the end. */
function streamed(next) {
  const encoder = new TextEncoder();
  const pull = async controller => {
    const piece = await next();
    if (piece === undefined) controller.close();
    else controller.enqueue(typeof piece === 'string' ? encoder.encode(piece) : piece);
  };
  return new ReadableStream({ pull }, { highWaterMark: 0 });
}

async function echo(request, { pathname, search }) {
  const headers = new Headers({ 'x-method': request.method, 'x-target': pathname + search });
  for (const [name, value] of request.headers) {
    if (name.startsWith('x-echo-') || name === 'content-type') headers.append(name, value);
  }
  return new Response(await request.arrayBuffer(), { headers });
}

async function upload(request) {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of request.body ?? []) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return Response.json({ bytes, sha256: hash.digest('hex') });
}

function download(request, { searchParams }) {
  const size = Number(searchParams.get('bytes') ?? 0);
  let left = size;
  const body = streamed(() => {
    const piece = left > 0 ? block.slice(0, Math.min(left, BLOCK_BYTES)) : undefined;
    left -= BLOCK_BYTES;
    return piece;
  });
  return new Response(body, { headers: { 'content-type': 'application/octet-stream', 'content-length': String(size) } });
}

function slow(request, { searchParams }) {
  const [chunks, ms] = [Number(searchParams.get('chunks') ?? 3), Number(searchParams.get('ms') ?? 10)];
  let i = 0;
  return new Response(streamed(async () => {
    if (i === chunks) return undefined;
    if (i) await sleep(ms, request.signal);
    return `chunk ${i++}\n`;
  }));
}

function wait(request, { searchParams }) {
  request.signal.addEventListener('abort', () => cancelled.add(searchParams.get('id')));
  let ticks = 0;
  return new Response(streamed(async () => {
    if (ticks++) await sleep(TICK_MS, request.signal);
    return request.signal.aborted ? undefined : 'tick\n';
  }));
}

async function flood(request, { searchParams }) {
  const bytes = Number(searchParams.get('bytes') ?? 0);
  const lines = LINE.repeat(640);
  for (let left = bytes; left > 0; left -= lines.length) {
    const taken = process.stdout.write(left < lines.length ? lines.slice(0, left) : lines);
    if (!taken) await new Promise(resolve => process.stdout.once('drain', resolve));
  }
  return Response.json({ flooded: bytes });
}

function refuseOnce(request, url, context) {
  const once = request.headers.get('x-once');
  if (seen.has(once)) return new Response('taken');
  seen.add(once);
  return refuse(context);
}

const cookies = () => new Response(null, { headers: [['set-cookie', 'a=1'], ['set-cookie', 'b=2']] });
const untilDeadline = ({ deadline }) => deadline === null ? null : Math.max(0, deadline - Date.now());

const routes = {
  '/upload': upload,
  '/download': download,
  '/slow': slow,
  '/wait': wait,
  '/cancelled': (request, { searchParams }) => Response.json({ cancelled: cancelled.has(searchParams.get('id')) }),
  '/crash': () => process.exit(3),
  '/flood': flood,
  '/status': (request, { searchParams }) => new Response(null, { status: Number(searchParams.get('code') ?? 200) }),
  '/cookies': cookies,
  '/sleep': async (request, { searchParams }) => {
    await sleep(Number(searchParams.get('ms') ?? 0), request.signal);
    return new Response('slept');
  },
  '/deadline': (request, url, context) => Response.json({ deadline_ms: untilDeadline(context) }),
  '/pid': () => Response.json({ pid: process.pid }),
  '/early': () => new Response('too large', { status: 413 }),
  '/error': () => Response.error(),
  '/refuse': refuseOnce,
  '/switch': () => new Response(null, { status: 426 }),
  '/ws': () => new Response(null, { status: 426 }),
  '/big-header': (request, { searchParams }) =>
    new Response(null, { headers: { 'x-big': 'b'.repeat(Number(searchParams.get('bytes') ?? 0)) } }),
};

const server = serve({
  fetch(request, context) {
    const url = new URL(request.url);
    if (url.pathname.startsWith('/echo')) return echo(request, url);
    return routes[url.pathname]?.(request, url, context) ?? new Response('not found', { status: 404 });
  },
});

// Other protocols come as to Node's http server: there is no way to switch that all kinds of `fetch` share.
let webSockets;
server.on('upgrade', (req, socket, head) => {
  if (req.url === '/switch') {
    const protocol = req.headers.upgrade.split(',')[0].trim();
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n\r\n`);
    return socket.pipe(socket);
  }
  if (req.url !== '/ws') return socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nnot found');
  const { WebSocketServer } = require('ws');
  webSockets ??= new WebSocketServer({ noServer: true, maxPayload: 64 << 20 });
  return webSockets.handleUpgrade(req, socket, head, client => {
    client.on('message', (data, isBinary) => client.send(data, { binary: isBinary })).on('error', () => {});
  });
});
server.on('draining', () => webSockets?.clients.forEach(client => client.close(1001, 'going away')));
