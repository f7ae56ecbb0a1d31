'use strict';
// What it costs to make and answer one (req, res) without any socket, in the three ways that README.md compares.
// usage: node bench/candidates.js
const { EventEmitter } = require('events');
const http = require('http');
const { Readable } = require('stream');

const EXCHANGES = 200000;
const BATCH = 64;
const BODY = `{"id":42,"pad":"${'x'.repeat(182)}"}`;
const RAW = ['host', 'localhost', 'user-agent', 'bench', 'accept', '*/*', 'x-request-id', 'abc'];
const NODE = http.ServerResponse.prototype;
const batch = Buffer.alloc(65536);
let fill = 0;
let ended = [];

class Socket extends EventEmitter {
  constructor() {
    super();
    Object.assign(this, { readable: true, writable: true, destroyed: false, _paused: false, _httpMessage: null, _writableState: {} });
  }

  resume() {}
  cork() {}
  uncork() {}
  write(data, encoding, callback) { put('', data); if (callback) process.nextTick(callback); return true; }
}

function put(head, body) {
  if (fill > 60000) fill = 0;
  fill += batch.latin1Write(head, fill);
  fill += typeof body === 'string' ? batch.utf8Write(body, fill) : body.copy(batch, fill);
}

function request(socket) {
  const req = new http.IncomingMessage(socket);
  Object.assign(req, { method: 'GET', url: '/', httpVersion: '1.1', httpVersionMajor: 1, httpVersionMinor: 1 });
  req._addHeaderLines(RAW, RAW.length);
  req.complete = true;
  return req;
}

const fields = headers => Object.entries(headers).map(([name, value]) => `${name}\0${value}\0`).join('');

/** (a) Node's ServerResponse writes HTTP/1.1 text to a minimal socket; reading that text back is not even counted. */
function whole(handler) {
  const socket = new Socket();
  const req = request(socket);
  const res = new http.ServerResponse(req);
  res.assignSocket(socket);
  handler(req, res);
}

/** (b) Node's ServerResponse with its private _storeHeader and _send replaced. */
function inside(handler) {
  const socket = new Socket();
  const req = request(socket);
  const res = new http.ServerResponse(req);
  res.socket = socket;
  socket._httpMessage = res;
  res._storeHeader = function (line) { this._header = line; this.head = fields(this.getHeaders()); };
  res._send = function (data, encoding, callback) { put(this.head, data); if (callback) process.nextTick(callback); return true; };
  handler(req, res);
}

function writeHead(status, headers) {
  for (const name in headers) this.setHeader(name, headers[name]);
  this._header = 'sent';
}

function end(chunk) {
  if (this.finished) return NODE.end.call(this, chunk);
  if (!this._header) this._implicitHeader();
  this.finished = true;
  put(fields(this.getHeaders()), chunk);
  if (ended.push(this) === BATCH) process.nextTick(list => { for (const res of list) { res.emit('finish'); res.emit('close'); } }, ended.splice(0));
  return this;
}

/** (b') What this SDK does: Node's ServerResponse, its public methods that write replaced as own properties. */
function outside(handler) {
  const socket = new Socket();
  const req = request(socket);
  const res = new http.ServerResponse(req);
  res.socket = socket;
  res.writeHead = writeHead;
  res.end = end;
  handler(req, res);
}

class Res extends EventEmitter {
  setHeader(name, value) { (this.headers ??= {})[name.toLowerCase()] = value; }
  getHeaders() { return this.headers; }
  _implicitHeader() { this.writeHead(200); }
}
Object.assign(Res.prototype, { writeHead, end });

/** (c) From scratch: only what the handler below touches, nothing of http; a floor rather than a candidate. */
function scratch(handler) {
  const req = new Readable();
  Object.assign(req, { method: 'GET', url: '/', rawHeaders: RAW });
  handler(req, new Res());
}

const handler = (req, res) => {
  res.writeHead(200, { 'content-type': 'application/json', 'content-length': BODY.length });
  res.end(BODY);
};

(async () => {
  for (let round = 1; round <= 3; round++) {
    for (const candidate of [whole, inside, outside, scratch]) {
      const before = process.cpuUsage();
      for (let i = 0; i < EXCHANGES; i += BATCH) {
        for (let j = 0; j < BATCH; j++) candidate(handler);
        await new Promise(setImmediate);
      }
      const { user, system } = process.cpuUsage(before);
      console.log(`round ${round}  ${candidate.name.padEnd(8)} ${((user + system) / EXCHANGES).toFixed(2)} µs`);
    }
  }
})();
