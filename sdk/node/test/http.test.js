'use strict';
// What Node documents about req and res holds behind the pipe.
const assert = require('node:assert');
const path = require('path');
const test = require('node:test');
const { Gateway, T, END, frame, request, reset } = require('./harness.js');

const SERVICE = path.join(__dirname, 'fixtures', 'service.js');

async function once(t, target, options, start) {
  const gateway = await Gateway.start(t, SERVICE, start);
  gateway.shared.send(request(1, target, options));
  const answer = await gateway.shared.answer(target);
  return { gateway, answer, value: answer.text.startsWith('{') || answer.text.startsWith('[') ? JSON.parse(answer.text) : null };
}

async function seen(gateway) {
  gateway.shared.send(request(900, '/seen'));
  return JSON.parse((await gateway.shared.answer('/seen')).text);
}

test('the request', async t => {
  const headers = ['accept', 'a', 'accept', 'b', 'cookie', 'x=1', 'cookie', 'y=2', 'x-latin', '\xe9'];
  const { value } = await once(t, '/request', { method: 'PUT', headers, body: 'abc', peer: '[::1]:4711', scheme: 'https' });
  assert.deepStrictEqual(value, {
    real: true, method: 'PUT', url: '/request', version: ['1.1', 1, 1],
    headers: { host: 'test.local', accept: 'a, b', cookie: 'x=1; y=2', 'x-latin': '\xe9', 'transfer-encoding': 'chunked' },
    distinct: ['a', 'b'], raw: ['host', 'test.local', ...headers], complete: true, aborted: false,
    address: '::1', port: 4711, encrypted: true, id: 'req-1',
  });
});

test('the response: header methods, and P-9 on the way out', async t => {
  const { gateway, value, answer } = await once(t, '/response');
  assert.deepStrictEqual(value, { names: ['x-one', 'x-two'], one: ['a', 'b'], has: true, sent: false, ended: false });
  assert.deepStrictEqual(answer.response.fields, ['x-one', 'a', 'x-one', 'b', 'x-two', '2']);
  assert.deepStrictEqual(await seen(gateway), ['headersSent true writableEnded true finished true']);
});

test('misuse is answered by the errors of Node', async t => {
  const { value } = await once(t, '/misuse');
  assert.match(value.before[0], /^ERR_(HTTP_INVALID_STATUS_CODE|INVALID_ARG_TYPE)$/); // the second is Deno's
  assert.deepStrictEqual(value.before.slice(1), ['ERR_INVALID_HTTP_TOKEN', 'ERR_INVALID_CHAR']);
  assert.deepStrictEqual(value.after.slice(1, 2), ['ERR_HTTP_HEADERS_SENT']); // Node 18 allows the second writeHead
  assert.match(value.after[2], /too late/);
  assert.strictEqual(value.after[3], 'ERR_INVALID_ARG_TYPE');
});

test('strictContentLength', async t => {
  const { answer, gateway } = await once(t, '/strict');
  assert.deepStrictEqual([answer.last.type, answer.last.code], ['RESET', 5]);
  assert.deepStrictEqual(await seen(gateway), ['ERR_HTTP_CONTENT_LENGTH_MISMATCH']);
});

test('events of an answered exchange, in order', async t => {
  const { gateway } = await once(t, '/events', { method: 'POST', body: 'not read' });
  await new Promise(resolve => setImmediate(resolve));
  const events = await seen(gateway);
  const seenOfRes = events.filter(event => !event.startsWith('req'));
  assert.deepStrictEqual(seenOfRes.slice(0, 2).sort(), ['callback', 'res finish']); // their order is that of Node's release
  assert.deepStrictEqual(seenOfRes.slice(2), ['res close', 'finished well']);
  assert.ok(!events.includes('req aborted'));
});

test('INFO goes to an answer connection (P-17)', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  gateway.shared.send(request(1, '/hints'));
  const { frames, text } = await (await gateway.accept()).answer();
  assert.deepStrictEqual(frames.map(f => [f.type, f.status]), [['INFO', 102], ['INFO', 103], ['RESPONSE', 200]]);
  assert.deepStrictEqual(frames[1].fields, ['link', '</a.css>; rel=preload, </b.js>; rel=preload', 'x-trace', '1']);
  assert.strictEqual(text, 'hinted');
});

test('trailers both ways', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  own.send(request(2, '/trailers', { method: 'POST', body: 'x', end: false }), frame(T.TRAILERS, 2, 'x-sum\0abc\0'));
  const { last, text } = await own.answer();
  assert.deepStrictEqual([text, last.type, last.fields], ['body', 'TRAILERS', ['x-sum', 'abc']]);
});

test('a handler that fails: RESET(INTERNAL), and its stack on stderr', async t => {
  const { gateway, answer } = await once(t, '/reject');
  assert.deepStrictEqual([answer.last.type, answer.last.code], ['RESET', 5]);
  await gateway.says(/GET \/reject: handler failed: Error: rejected by the handler\n\s+at /);
  gateway.shared.send(request(2, '/two-writes'));
  assert.strictEqual((await gateway.shared.answer()).text, 'one two three'); // and in one frame, for it ended in the same turn
});

test('destroy cuts the answer', async t => {
  const { answer, gateway } = await once(t, '/destroy');
  assert.deepStrictEqual([answer.last.type, answer.last.code], ['RESET', 5]);
  gateway.shared.send(request(2, '/cut'));
  const cut = await (await gateway.accept()).answer();
  assert.deepStrictEqual(cut.frames.map(f => f.type), ['RESPONSE', 'DATA', 'RESET']);
});

test('tooLarge', async t => {
  const { answer } = await once(t, '/too-large', { method: 'POST', body: 'x' });
  assert.deepStrictEqual([answer.last.type, answer.last.code], ['RESET', 7]);
});

test('AsyncLocalStorage.enterWith in one exchange is not seen by the next of the same read', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  gateway.shared.send(request(1, '/context'), request(2, '/context'));
  assert.deepStrictEqual([(await gateway.shared.answer()).text, (await gateway.shared.answer()).text], ['undefined', 'undefined']);
});

test('a cancelled upload: aborted, close, signal', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  own.send(request(9, '/never-reads', { method: 'POST', body: 'part', end: false }));
  assert.strictEqual((await own.next()).type, 'RESPONSE');
  own.send(reset(9, 1)); // P-26
  assert.deepStrictEqual([(await own.next()).code], [1]);
  assert.deepStrictEqual((await seen(gateway)).sort(), ['req aborted', 'req close', 'signal']);
  own.send(request(10, '/two-writes'));
  assert.strictEqual((await own.answer()).text, 'one two three');
});

test('a status below 200 is no answer; an answer whose connection breaks is closed, not finished', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  gateway.shared.send(request(1, '/status-103'));
  const { last } = await (await gateway.accept()).answer();
  assert.deepStrictEqual([last.type, last.code], ['RESET', 5]);
  await gateway.says(/103 is not the status of an answer/);
  const own = await gateway.own();
  own.socket.once('data', () => own.socket.pause()); // the rest does not fit the kernel's buffers
  own.send(request(2, '/flood-events'));
  await own.next();
  own.socket.destroy();
  let events = [];
  for (let i = 0; i < 50 && !events.includes('res close'); i++) events.push(...await seen(gateway)); // each is an exchange
  assert.deepStrictEqual(events, ['res close']);
});
