'use strict';
// Hono, unchanged, through bin/serve.js, which serves what a module exports.
const assert = require('node:assert');
const { spawnSync } = require('child_process');
const path = require('path');
const test = require('node:test');
const { Gateway, request } = require('./harness.js');

const SERVE = path.join(__dirname, '..', 'bin', 'serve.js');
const FIXTURES = path.join(__dirname, 'fixtures');

test('Hono', async t => {
  const gateway = await Gateway.start(t, SERVE, { args: [path.join(FIXTURES, 'hono-app.mjs')] });
  let id = 0;
  const call = async (target, options) => {
    gateway.shared.send(request(++id, target, options));
    return gateway.shared.answer(target);
  };
  const stream = async target => {
    const own = await gateway.own();
    own.send(request(++id, target));
    return own.answer(target);
  };

  const hello = await call('/');
  assert.deepStrictEqual([hello.status, hello.text, hello.headers['x-app']], [200, 'hello', 'yes']);
  const json = await call('/json/a%20b?q=x', { headers: ['user-agent', 'test'] });
  assert.deepStrictEqual(JSON.parse(json.text), { name: 'a b', q: 'x', agent: 'test' });
  assert.strictEqual(json.headers['content-type'], 'application/json');
  const body = await call('/body', { method: 'POST', body: '{"a":[1,"é"]}', headers: ['content-type', 'application/json'] });
  assert.deepStrictEqual([body.status, body.text], [201, '{"a":[1,"é"]}']);
  const form = { method: 'POST', body: 'a=1&b=2', headers: ['content-type', 'application/x-www-form-urlencoded'] };
  assert.strictEqual((await call('/form', form)).text, '{"a":"1","b":"2"}');
  const { response } = await call('/cookies');
  assert.deepStrictEqual(response.fields.filter((_, i, all) => all[i - 1] === 'set-cookie'), ['a=1; Path=/', 'b=2; Path=/; HttpOnly']);
  const tagged = await call('/tagged/text');
  const again = await call('/tagged/text', { headers: ['if-none-match', tagged.headers.etag] });
  assert.deepStrictEqual([again.status, again.text], [304, '']);
  const redirect = await call('/redirect');
  assert.deepStrictEqual([redirect.status, redirect.headers.location], [301, '/']);
  assert.strictEqual((await call('/html')).text, '<p>é</p>');
  assert.deepStrictEqual(JSON.parse((await call('/context')).text), { id: `req-${id}`, host: '127.0.0.1' });
  assert.deepStrictEqual([(await call('/forbidden')).status, (await call('/throw')).text], [403, '{"error":"thrown"}']);
  assert.strictEqual((await call('/nowhere')).status, 404);
  assert.strictEqual((await call('/', { method: 'HEAD' })).body.length, 0);
  assert.strictEqual((await stream('/stream')).text, 'line 1\nline 2\nline 3\n');
  assert.match((await stream('/events')).text, /event: tick\ndata: one\nid: 1/);
  assert.strictEqual(gateway.stderr, '');
});

test('what pilotlight-serve serves besides', async t => {
  for (const file of ['exported.cjs', 'exported-function.cjs']) {
    const gateway = await Gateway.start(t, SERVE, { args: [path.join(FIXTURES, file)] });
    gateway.shared.send(request(1, '/exported'));
    assert.strictEqual((await gateway.shared.answer()).text, 'exported', file);
  }
});

test('pilotlight-serve says what is wrong', () => {
  const run = (...args) => spawnSync(process.execPath, [SERVE, ...args]);
  const none = run();
  assert.deepStrictEqual([none.status, none.stderr.toString()], [2, 'pilotlight-serve: usage: pilotlight-serve FILE\n']);
  const other = run(path.join(__dirname, '..', 'lib', 'connection.js'));
  assert.strictEqual(other.status, 2);
  assert.match(other.stderr.toString(), /exports neither \{ fetch \} nor a function/);
  const missing = run('no-such-file.js');
  assert.strictEqual(missing.status, 1);
  assert.match(missing.stderr.toString(), /Cannot find module/);
});
