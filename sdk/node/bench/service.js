'use strict';
// The service that bench/cpu.py measures: `service.js KIND`, which answers /hello with a text and /json with 10 KB, made anew for
// each request. res, fetch: over the pipe; http, deno, bun: the HTTP server of the platform on the Unix socket HTTP_SOCKET.
const http = require('http');
const { rmSync } = require('fs');

const USERS = 84;
const users = () => Array.from({ length: USERS }, (_, id) => ({
  id, name: `user number ${id}`, email: `user${id}@users.example`, active: id % 3 > 0, roles: ['reader', 'writer'], score: id * 1.5,
}));
const data = users();
const text = 'hello, world\n';
const type = { 'content-type': 'text/plain' };

function answer(req, res) {
  if (req.url !== '/json') {
    res.writeHead(200, type);
    return res.end(text);
  }
  res.setHeader('content-type', 'application/json');
  return res.end(JSON.stringify(data));
}

const fetch = request => request.url.endsWith('/json') ? Response.json(data) : new Response(text, { headers: type });

const path = process.env.HTTP_SOCKET;
if (path) rmSync(path, { force: true });
({
  res: () => require('../index.js').serve(answer, { exchanges: 256 }),
  fetch: () => require('../index.js').serve({ fetch }, { exchanges: 256 }),
  http: () => http.createServer({ keepAliveTimeout: 0 }, answer).listen(path ?? { fd: 3 }),
  deno: () => globalThis.Deno.serve({ path, onListen() {} }, fetch),
  bun: () => globalThis.Bun.serve({ unix: path, fetch }),
})[process.argv[2]]();
