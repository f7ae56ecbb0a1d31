'use strict';
// The service under measurement: the same handler behind Pipe/1 and behind Node's own http server.
const body = `{"id":42,"pad":"${'x'.repeat(182)}"}`;
const handler = (req, res) => {
  res.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length });
  res.end(body);
};
const app = process.env.BENCH_EXPRESS
  ? require('express4')().get('/user/42', (req, res) => res.type('json').send(body))
  : handler;
const type = { 'content-type': 'application/json', 'content-length': String(body.length) };
const fetch = () => new Response(body, { headers: type });
const it = process.env.BENCH_FETCH ? { fetch } : app;
if (process.env.PILOTLIGHT_SOCKET) require('../index.js').serve(it, { exchanges: 256 });
else require('http').createServer({ keepAliveTimeout: 0 }, app).listen(process.env.HTTP_SOCKET);
