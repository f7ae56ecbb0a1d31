'use strict';
// CPU of the service per exchange, Pipe/1 (one shared connection, and own connections) against http over a Unix socket.
// usage: node bench/run.js [in flight = 64] [seconds = 2] [rounds = 3]; BENCH_EXPRESS=1 puts Express between (npm ci first);
// SDK_RUNTIME=bun runs the service on something else
const { spawn } = require('child_process');
const fs = require('fs');
const net = require('net');
const os = require('os');
const path = require('path');
const { RUNTIME, frame, request, more, T } = require('../test/harness.js');

const [flight = 64, seconds = 2, rounds = 3] = process.argv.slice(2).map(Number);
const HEADERS = ['user-agent', 'bench', 'accept', '*/*', 'accept-encoding', 'gzip, br', 'x-forwarded-for', '127.0.0.1'];
const HTTP = Buffer.from('GET /user/42 HTTP/1.1\r\nhost: test.local\r\nuser-agent: bench\r\naccept: */*\r\n'
  + 'accept-encoding: gzip, br\r\nx-forwarded-for: 127.0.0.1\r\nx-request-id: req-1\r\n\r\n');
const WARM_UP = 20000; // exchanges until what V8 compiles is compiled

/** Seconds on a processor of all threads of `pid`. */
function cpu(pid) {
  const times = fs.readdirSync(`/proc/${pid}/task`).map(id => fs.readFileSync(`/proc/${pid}/task/${id}/schedstat`, 'utf8'));
  return times.reduce((sum, time) => sum + Number(time.split(' ')[0]), 0) / 1e9;
}

async function measure(pid, counter) {
  const wait = ms => new Promise(resolve => setTimeout(resolve, ms));
  while (counter.n < WARM_UP) await wait(20);
  const [c0, n0, t0] = [cpu(pid), counter.n, process.hrtime.bigint()];
  await wait(seconds * 1000);
  const n = counter.n - n0;
  return { us: ((cpu(pid) - c0) * 1e6) / n, rate: n / (Number(process.hrtime.bigint() - t0) / 1e9) };
}

function start(env) {
  return spawn(RUNTIME[0], [...RUNTIME.slice(1), path.join(__dirname, 'handler.js')], { env: { ...process.env, ...env }, stdio: ['ignore', 'inherit', 'inherit'] });
}

async function pipe(kind, env) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pilotlight-bench-'));
  const socketPath = path.join(folder, 's');
  const counter = { n: 0 };
  const welcome = frame(T.WELCOME, 0, 'PIPE/1\nworker=1\nmax_frame=65536\n');
  let accepted = 0;
  const server = net.createServer(socket => {
    accepted++;
    const shared = accepted === 1;
    const requests = Array.from({ length: flight }, (_, i) => request(i + 1, '/user/42', { headers: HEADERS }));
    let bytes = Buffer.alloc(0);
    let greeted = false;
    socket.on('error', () => {}); // the service is killed at the end
    socket.on('data', data => {
      bytes = bytes.length ? Buffer.concat([bytes, data]) : data;
      const out = [];
      let at = 0;
      for (let length; bytes.length - at >= 8 && bytes.length - at >= (length = 8 + bytes.readUInt32LE(at)); at += length) {
        if (bytes[at + 4] === T.RESPONSE) { counter.n++; out.push(requests[bytes.readUInt16LE(at + 6) - 1]); }
      }
      bytes = bytes.subarray(at);
      if (!greeted) {
        greeted = true;
        out.push(welcome);
        if (kind === 'own' && shared) out.push(more(1, flight, 1));
        else if (kind === 'own') out.push(requests[0]);
        else out.push(...requests);
      }
      if (out.length) socket.write(Buffer.concat(out));
    });
  });
  await new Promise(resolve => server.listen(socketPath, resolve));
  const child = start({ PILOTLIGHT_SOCKET: socketPath, PILOTLIGHT_TOKEN: '0'.repeat(32), ...env });
  const result = await measure(child.pid, counter);
  child.kill('SIGKILL');
  server.close();
  fs.rmSync(folder, { recursive: true });
  return result;
}

async function http() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'pilotlight-bench-'));
  const socketPath = path.join(folder, 's');
  const counter = { n: 0 };
  const child = start({ HTTP_SOCKET: socketPath });
  const client = () => {
    const socket = net.connect(socketPath, () => socket.write(HTTP));
    socket.on('error', () => { if (child.exitCode === null && !child.killed) setTimeout(client, 20); }); // not listening yet
    socket.on('data', () => { counter.n++; socket.write(HTTP); });
  };
  for (let i = 0; i < flight; i++) client();
  const result = await measure(child.pid, counter);
  child.kill('SIGKILL');
  fs.rmSync(folder, { recursive: true });
  return result;
}

(async () => {
  const variants = {
    'pipe, shared': () => pipe('shared'),
    'pipe, own': () => pipe('own'),
    'pipe, fetch': () => pipe('shared', { BENCH_FETCH: '1' }),
    'http, Unix socket': http,
  };
  for (let round = 1; round <= rounds; round++) {
    for (const [name, run] of Object.entries(variants)) {
      const { us, rate } = await run();
      console.log(`round ${round}  ${name.padEnd(18)} ${us.toFixed(2)} µs/exchange  ${Math.round(rate)}/s`);
    }
  }
  process.exit(0);
})();
