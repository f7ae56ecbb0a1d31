'use strict';
// An ordinary Node server. Nothing in it knows Pilotlight: it listens on the socket that systemd-style activation hands
// over as descriptor 3, else on PORT.
const http = require('http');

const server = http.createServer((req, res) => {
  const body = JSON.stringify({ hello: 'node', method: req.method, url: req.url, pid: process.pid });
  res.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  res.end(req.method === 'HEAD' ? undefined : body);
});

server.listen(process.env.LISTEN_FDS ? { fd: 3 } : { host: '127.0.0.1', port: Number(process.env.PORT ?? 3000) });
process.once('SIGTERM', () => server.close(() => process.exit(0)));
