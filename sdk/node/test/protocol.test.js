'use strict';
// Frames in, frames out, by the numbered rules of docs/spec/pipe.md.
const assert = require('node:assert');
const path = require('path');
const test = require('node:test');
const { Gateway, T, END, frame, request, reset, more, u32 } = require('./harness.js');

const SERVICE = path.join(__dirname, 'fixtures', 'service.js');
const start = (t, options, env) => Gateway.start(t, SERVICE, { env: { OPTIONS: JSON.stringify(options ?? {}) }, ...env });

test('HELLO (P-1, P-2), and its limits', async t => {
  const gateway = await start(t, { exchanges: 7, maxOwn: 5000 });
  const { keys } = gateway.shared;
  assert.deepStrictEqual(
    { ...keys, pid: Number(keys.pid) },
    { version: 'PIPE/1', token: '0123456789abcdef0123456789abcdef', kind: 'shared', exchanges: '7', max_own: '4096', minor: '1', sdk: 'node/0.1.0', pid: gateway.child.pid },
  );
});

test('the answers of one read are one write (P-18), each with its id (P-16)', async t => {
  const gateway = await start(t);
  gateway.shared.reads.length = 0;
  gateway.shared.send(...Array.from({ length: 50 }, (_, i) => request(i + 1, '/two-writes')));
  await gateway.shared.until(() => gateway.shared.frames.length === 50, '50 answers');
  assert.deepStrictEqual(gateway.shared.frames.map(f => f.id), Array.from({ length: 50 }, (_, i) => i + 1));
  assert.ok(gateway.shared.frames.every(f => f.end && f.body.toString() === 'one two three'));
  assert.ok(gateway.shared.reads.length <= 3, `${gateway.shared.reads.length} writes for 50 answers`);
});

test('frames in pieces of any size', async t => {
  const gateway = await start(t);
  const bytes = Buffer.concat([request(1, '/two-writes'), request(2, '/two-writes'), frame(T.PING, 0, '12345678')]);
  for (const size of [1, 7, 8, 9, 100]) {
    for (let at = 0; at < bytes.length; at += size) {
      gateway.shared.socket.write(bytes.subarray(at, at + size));
      await new Promise(setImmediate); // the pieces are written apart
    }
    assert.strictEqual((await gateway.shared.answer()).text, 'one two three');
    assert.strictEqual((await gateway.shared.answer()).id, undefined);
    assert.strictEqual((await gateway.shared.next()).payload.toString(), '12345678');
  }
});

test('PING is answered before later frames (P-35); unknown IGNORABLE frames are skipped, unknown flags ignored (P-7)', async t => {
  const gateway = await start(t);
  gateway.shared.send(frame(T.PING, 0, 'abcdefgh'), frame(99, 4, 'what', 0x80), request(1, '/two-writes').fill(END | 0x7e, 5, 6));
  assert.deepStrictEqual([(await gateway.shared.next()).type, (await gateway.shared.next()).body.toString()], ['PONG', 'one two three']);
});

const bad = {
  'P-6': [Buffer.from([1, 0, 1, 0, 3, 1, 1, 0]), 'a payload above max_frame'],
  'P-7': [frame(99, 1), 'an unknown type'],
  'P-8 zero': [frame(T.REQUEST, 1, Buffer.concat([u32(1, 0), Buffer.from('x')]), END), 'no final zero byte'],
  'P-8 odd': [request(1, '/', { headers: ['a'] }), 'an odd number of strings'],
  'P-8 few': [frame(T.REQUEST, 1, Buffer.concat([u32(2, 0), Buffer.from('x\0')]), END), 'too few strings'],
  'P-8 head': [frame(T.REQUEST, 1, u32(9, 0), END), 'head_length above the payload'],
  'P-8 short': [frame(T.REQUEST, 1, Buffer.alloc(3), END), 'no room for a head'],
  'P-11 data': [frame(T.DATA, 1, 'x'), 'DATA on a shared connection'],
  'P-11 response': [frame(T.RESPONSE, 1, 'x'), 'RESPONSE from the gateway'],
  'P-11 welcome': [frame(T.RESET, 1, 'x'), 'RESET of one byte'],
  'P-11 ping': [frame(T.PING, 0, 'x'), 'PING of one byte'],
  'P-11 more': [more(3, 1), 'MORE of an unknown kind'],
  'P-3': [frame(T.WELCOME, 0, 'PIPE/1\nworker=1\n'), 'a second WELCOME'],
  'P-14': [request(1, '/hang', { end: false }), 'REQUEST without END on a shared connection'],
  'P-14 exchanges': [Buffer.concat([1, 2, 3].map(id => request(id, '/hang'))), 'more exchanges than allowed'],
  'P-15': [request(0, '/hang'), 'exchange id 0'],
  'P-15 open': [Buffer.concat([request(1, '/hang'), request(1, '/hang')]), 'an id that is in use'],
};
for (const [rule, [bytes, what]] of Object.entries(bad)) {
  test(`protocol error ${rule}: ${what} (P-10)`, async t => {
    const gateway = await start(t, { exchanges: 2 });
    gateway.shared.send(bytes);
    let last;
    do last = await gateway.shared.next('RESET(PROTOCOL)'); while (last.id !== 0);
    assert.deepStrictEqual([last.type, last.id, last.code], ['RESET', 0, 6]);
    assert.ok(last.text.startsWith(`${rule.split(' ')[0]}: `), last.text);
    await gateway.shared.closed();
    assert.deepStrictEqual(await gateway.exited(), { code: 1, signal: null });
    assert.match(gateway.stderr, new RegExp(`the shared connection to .* has failed: ${rule.split(' ')[0]}: `));
  });
}

test('a first frame other than WELCOME (P-3), another version (P-12)', async t => {
  for (const first of [frame(T.PING, 0, '12345678'), frame(T.WELCOME, 0, 'PIPE/2\nworker=1\n')]) {
    const gateway = await start(t, {}, { welcome: false });
    gateway.shared.send(first);
    assert.strictEqual((await gateway.shared.next()).code, 6);
    await gateway.shared.closed();
  }
});

test('a refused HELLO is reported (P-4)', async t => {
  const gateway = await start(t, {}, { welcome: false });
  gateway.shared.send(frame(T.RESET, 0, Buffer.concat([u32(6, 0), Buffer.from('P-4: the token is unknown')])));
  assert.deepStrictEqual(await gateway.exited(), { code: 1, signal: null });
  assert.match(gateway.stderr, /the gateway says: P-4: the token is unknown/);
});

test('protocol errors of own connections end that connection only (P-19, P-20)', async t => {
  const gateway = await start(t);
  const cases = [
    [Buffer.concat([request(1, '/hang', { end: false }), request(2, '/hang')]), 'P-19'],
    [Buffer.concat([request(1, '/hang'), frame(T.DATA, 1, 'x')]), 'P-20'],
    [Buffer.concat([request(1, '/hang', { end: false }), frame(T.DATA, 5, 'x')]), 'P-20'],
    [Buffer.concat([request(1, '/hang', { end: false }), frame(T.TRAILERS, 1, 'odd\0')]), 'P-8'],
    [frame(T.DRAIN, 0, u32(1)), 'P-11'],
  ];
  for (const [bytes, rule] of cases) {
    const own = await gateway.own();
    own.send(bytes);
    let f;
    do f = await own.next(rule); while (f.id !== 0);
    assert.deepStrictEqual([f.code, f.text.split(':')[0]], [6, rule]);
    await own.closed();
  }
  gateway.shared.send(request(4, '/two-writes'));
  assert.strictEqual((await gateway.shared.answer()).text, 'one two three');
});

test('MORE: kinds, workers and max_own (P-23)', async t => {
  const gateway = await start(t, { maxOwn: 2 });
  gateway.shared.send(more(1, 5, 8), more(2, 1, 9));
  const peers = [await gateway.accept(), await gateway.accept(), await gateway.accept()];
  assert.deepStrictEqual(peers.map(peer => [peer.keys.kind, peer.keys.worker]), [['own', '8'], ['own', '8'], ['shared', '9']]);
  peers[0].socket.destroy();
  // The service may notice later than the next MORE that a connection is closed: it is asked until there is room again.
  for (let i = 0; i < 1000 && !gateway.peers.length; i++) {
    gateway.shared.send(more(1, 5, 7), frame(T.PING, 0, '12345678'));
    await gateway.shared.next('PONG');
  }
  assert.strictEqual((await gateway.accept()).keys.worker, '7');
  assert.strictEqual(gateway.peers.length, 0);
});

test('answer connections are for the worker, and used again (P-24, P-25)', async t => {
  const gateway = await start(t);
  gateway.shared.send(request(1, '/large'), request(2, '/text'));
  const first = await gateway.accept();
  assert.deepStrictEqual([first.keys.kind, first.keys.worker], ['answer', '3']);
  assert.strictEqual((await first.answer()).body.length, 100000);
  gateway.shared.send(request(3, '/large'));
  assert.strictEqual((await first.answer()).body.length, 100000);
  assert.strictEqual((await gateway.shared.answer()).text, 'é'.repeat(30000)); // 60,000 bytes are one frame
  assert.strictEqual(gateway.peers.length, 0);
});

test('RESET of an exchange that has ended is ignored, of an open one answered (P-26)', async t => {
  const gateway = await start(t);
  gateway.shared.send(request(1, '/two-writes'), reset(1, 1), request(2, '/hang'), reset(2, 2), request(2, '/two-writes'));
  assert.strictEqual((await gateway.shared.answer()).text, 'one two three');
  const f = await gateway.shared.next();
  assert.deepStrictEqual([f.type, f.id, f.code], ['RESET', 2, 2]);
  assert.strictEqual((await gateway.shared.answer()).text, 'one two three');
});
