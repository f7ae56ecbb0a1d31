'use strict';
// Handlers of the kind fetch(request, context): Request and Response as WHATWG has them.
const assert = require('node:assert');
const path = require('path');
const test = require('node:test');
const { Gateway, RUNTIME, T, END, frame, request, reset, u32 } = require('./harness.js');
const { serve } = require('../index.js');

const SERVICE = path.join(__dirname, 'fixtures', 'fetch-service.js');
const IS_NODE = /node$/.test(RUNTIME[0]);
const IS_BUN = RUNTIME[0].endsWith('bun'); // whose Headers of a Response do not have the type of a text
const MAX_UNREAD = 4 << 20; // of an answer: what is in the buffers of two sockets and of the service

async function start(t, env) {
  const gateway = await Gateway.start(t, SERVICE, { env });
  let id = 100;
  gateway.get = async (target, options) => {
    gateway.shared.send(request(++id, target, options));
    return gateway.shared.answer(target);
  };
  gateway.events = async () => JSON.parse((await gateway.get('/events')).text);
  return gateway;
}

// Both the SDK's own classes, which are the rule on Node, and the platform's, which are it elsewhere.
for (const globals of [undefined, !IS_NODE]) {
  const env = { OPTIONS: JSON.stringify({ globals }) };
  const test_ = (name, run) => test(globals === undefined ? name : `${name}, the other classes`, async t => run(await start(t, env), t));

  test_('the request', async gateway => {
    const headers = ['accept', 'a', 'accept', 'b', 'cookie', 'x=1', 'cookie', 'y=2', 'x-latin', '\xe9'];
    const { text } = await gateway.get('/request?a=%20&b', { method: 'PUT', headers, body: 'abc', peer: '[::1]:4711', scheme: 'https' });
    assert.deepStrictEqual(JSON.parse(text), {
      real: true, url: 'https://test.local/request?a=%20&b', method: 'PUT', body: 'abc', used: true, signal: true,
      headers: [['accept', 'a, b'], ['cookie', 'x=1; y=2'], ['host', 'test.local'], ['x-latin', '\xe9']],
      id: 'req-101', deadline: 'object', remote: { transport: 'tcp', hostname: '::1', port: 4711 },
    });
    const get = JSON.parse((await gateway.get('/request', { body: 'a GET of fetch has no body' })).text);
    assert.deepStrictEqual([get.body, get.used], [null, false]);
  });

  test_('answers of one frame', async gateway => {
    const sync = await gateway.get('/sync');
    assert.deepStrictEqual([sync.status, sync.text, sync.frames.length], [200, 'sync', 1]);
    if (!IS_BUN || globals) assert.match(sync.headers['content-type'], /^text\/plain;charset=utf-8$/i);
    const later = await gateway.get('/later');
    assert.deepStrictEqual([later.status, later.text, later.headers['x-a'], later.frames.length], [201, 'later', 'b', 1]);
    const { response } = await gateway.get('/cookies');
    assert.deepStrictEqual(response.fields, ['set-cookie', 'a=1; Path=/', 'set-cookie', 'b=2']);
    assert.deepStrictEqual([...(await gateway.get('/bytes')).body], [0, 255, 1]);
    assert.strictEqual((await gateway.get('/json', { method: 'POST', body: '[1]' })).text, '{"got":[1]}');
    const form = { method: 'POST', body: 'a=1&b=2', headers: ['content-type', 'application/x-www-form-urlencoded'] };
    assert.strictEqual((await gateway.get('/form', form)).text, '[["a","1"],["b","2"]]');
    const nodes = await gateway.get('/nodes');
    assert.deepStrictEqual([nodes.text, nodes.headers['x-a']], ['of the platform', 'b']);
    assert.strictEqual(gateway.peers.length, 0);
  });

  test_('P-9 on the way out; HEAD', async gateway => {
    const { response } = await gateway.get('/hop');
    assert.deepStrictEqual(response.fields.filter((_, i) => i % 2 === 0), [...IS_BUN && !globals ? [] : ['content-type'], 'x-kept']);
    const head = await gateway.get('/large-head', { method: 'HEAD' });
    assert.deepStrictEqual([head.headers['content-length'], head.body.length, head.frames.length], ['100000', 0, 1]);
    assert.strictEqual((await gateway.get('/endless', { method: 'HEAD' })).body.length, 0);
    assert.deepStrictEqual(await gateway.events(), ['cancelled: undefined']);
  });

  test_('bodies as streams, both at once', async gateway => {
    const own = await gateway.own();
    own.send(request(1, '/two-chunks'));
    assert.strictEqual((await own.answer()).text, 'one two');
    own.send(request(2, '/large'));
    assert.strictEqual((await own.answer()).body.length, 100000);
    own.send(request(4, '/late'));
    assert.deepStrictEqual([(await own.next()).type, own.frames.length], ['RESPONSE', 0]); // before the first piece
    await gateway.get('/release');
    assert.strictEqual((await own.answer()).text, 'late');
    own.send(request(3, '/duplex', { method: 'POST', body: 'first', end: false }));
    assert.strictEqual((await own.next()).type, 'RESPONSE');
    assert.strictEqual((await own.next()).body.toString(), 'FIRST');
    own.send(frame(T.DATA, 3, 'second'));
    assert.strictEqual((await own.next()).body.toString(), 'SECOND');
    own.send(frame(T.TRAILERS, 3, 'x-dropped\0yes\0'));
    assert.strictEqual((await own.answer()).last.end, true);
  });

  test_('what nobody reads is not made, what nobody asks for is not read (P-22)', async gateway => {
    const own = await gateway.own();
    own.socket.once('data', () => own.socket.pause());
    own.send(request(1, '/endless'));
    let [before, now] = [-1, 0];
    while (now === 0 || now !== before) [before, now] = [now, JSON.parse((await gateway.get('/pulled')).text)];
    assert.ok(now < MAX_UNREAD, `${now} bytes`);
    own.socket.destroy();
    const slow = await gateway.own();
    slow.send(request(2, '/reads-slowly', { method: 'POST', end: false }));
    for (let i = 0; i < 200; i++) slow.send(frame(T.DATA, 2, Buffer.alloc(10000)));
    slow.send(frame(T.DATA, 2, '', END));
    assert.strictEqual((await slow.answer()).text, '2000000');
  });

  test_('the client leaves: the signal, the streams', async gateway => {
    const own = await gateway.own();
    own.send(request(1, '/never-reads', { method: 'POST', body: 'part', end: false }), reset(1, 1));
    assert.deepStrictEqual([(await own.next()).code], [1]);
    assert.deepStrictEqual(await gateway.events(), ['signal: aborted']);
    own.send(request(2, '/endless'));
    assert.strictEqual((await own.next()).type, 'RESPONSE');
    own.send(reset(2, 1));
    while ((await own.next()).type !== 'RESET');
    assert.deepStrictEqual(await gateway.events(), ['cancelled: aborted']);
    assert.strictEqual(gateway.stderr, '');
  });

  test_('no more of the body is wanted (P-21)', async gateway => {
    const own = await gateway.own();
    own.send(request(1, '/reads-half', { method: 'POST', body: 'half', end: false }));
    assert.strictEqual((await own.next()).type, 'STOP');
    own.send(frame(T.DATA, 1, 'thrown away'));
    assert.strictEqual((await own.answer()).text, 'half');
    own.send(frame(T.DATA, 1, '', END));
    own.send(request(2, '/reads-on', { method: 'POST', end: false }));
    assert.strictEqual((await own.next()).type, 'STOP');
    assert.strictEqual((await own.answer()).text, 'early');
    own.send(frame(T.DATA, 2, 'more'), frame(T.DATA, 2, '', END), request(3, '/sync'));
    assert.strictEqual((await own.answer()).text, 'sync');
    assert.deepStrictEqual(await gateway.events(), ['body: the answer has ended']);
  });

  test_('errors', async gateway => {
    for (const [target, said] of [['/throw', 'thrown by the handler'], ['/reject', 'rejected by the handler'],
      ['/nothing', 'is no Response'], ['/status-101', 'a status from 200'], ['/used', 'has been read already']]) {
      const answer = await gateway.get(target);
      assert.deepStrictEqual([answer.status, answer.text], [500, 'Internal Server Error\n'], target);
      await gateway.says(new RegExp(`GET ${target}: handler failed: \\w*Error: .*${said}`));
    }
    for (const target of ['/error', '/texts']) {
      const { last } = await gateway.get(target);
      assert.deepStrictEqual([last.type, last.code], ['RESET', 5], target);
    }
    gateway.shared.send(request(1, '/failing'));
    const cut = await (await gateway.accept()).answer();
    assert.deepStrictEqual([cut.text, cut.last.type, cut.last.code], ['part', 'RESET', 5]);
    await gateway.says(/GET \/failing: handler failed: Error: the stream has failed/);
  });

  test_('refused, overloaded, too large', async gateway => {
    const codes = [];
    for (const target of ['/refuse', '/overloaded', '/too-large']) codes.push((await gateway.get(target)).last);
    assert.deepStrictEqual(codes.map(last => last.code), [3, 4, 7]);
    assert.strictEqual(codes[1].retryAfterMs, 1500);
    assert.strictEqual(gateway.stderr, '');
  });
}

test('a URL is made of what the gateway says, whatever the target', async t => {
  const gateway = await start(t);
  const told = async (target, options) => gateway.get(target, options);
  assert.strictEqual(JSON.parse((await told('/request', { authority: '' })).text).url, 'http://localhost/request');
  assert.strictEqual(JSON.parse((await told('/x/../request', { authority: 'h:8080' })).text).url, 'http://h:8080/request');
  assert.strictEqual((await told('//evil.example/request')).status, 500); // a path that the service does not know
  for (const authority of ['a/b', 'user@host', 'a?b', 'a b', '[', 'a\\b']) assert.strictEqual((await told('/sync', { authority })).status, 400, authority);
  await gateway.says(/handler failed/);
  assert.doesNotMatch(gateway.stderr, /evil\.example\/request.*evil/);
});

test('waitUntil: an instance that drains waits', async t => {
  const gateway = await start(t);
  assert.strictEqual((await gateway.get('/wait-until')).text, 'answered');
  gateway.shared.send(request(1, '/never-reads'), frame(T.DRAIN, 0, u32(0)), reset(1, 1));
  while ((await gateway.shared.next()).type !== 'RESET');
  gateway.shared.send(frame(T.PING, 0, '12345678'));
  assert.strictEqual((await gateway.shared.next()).type, 'PONG'); // it is still there
  assert.strictEqual(gateway.child.exitCode, null);
});

test('another protocol: the upgrade event, as with (req, res)', async t => {
  const gateway = await Gateway.start(t, SERVICE, { env: { UPGRADES: '1' }, welcome: false });
  const welcome = worker => frame(T.WELCOME, 0, `PIPE/1\nworker=${worker}\nmax_frame=65536\nminor=1\n`);
  gateway.shared.send(welcome(3), frame(T.MORE, 0, u32(1 + 0x10000, 3)));
  const own = await gateway.accept();
  own.send(welcome(3));
  const offer = request(1, '/anything', { headers: ['upgrade', 'echo'] });
  offer[5] = END | 2;
  own.send(offer);
  const answer = await own.next();
  assert.deepStrictEqual([answer.type, answer.status, answer.flags, answer.headers.upgrade], ['RESPONSE', 101, 2, 'echo']);
  const echoed = new Promise(resolve => own.socket.once('data', resolve));
  own.socket.write('bytes');
  assert.strictEqual((await echoed).toString(), 'bytes');
});

test('what serve takes', () => {
  for (const it of [null, undefined, {}, { fetch: 1 }, 'x']) assert.throws(() => serve(it), /or an object with fetch/);
});
