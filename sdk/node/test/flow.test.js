'use strict';
// Streams: back-pressure both ways, answers that overtake their requests, STOP.
const assert = require('node:assert');
const path = require('path');
const test = require('node:test');
const { Gateway, T, END, frame, request, within } = require('./harness.js');

const SERVICE = path.join(__dirname, 'fixtures', 'service.js');
const MIB = 1024 * 1024;

test('both directions of an own connection run at the same time (P-20)', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  own.send(request(5, '/stream', { method: 'POST', end: false }));
  const first = await own.next();
  assert.deepStrictEqual([first.type, first.end], ['RESPONSE', false]);
  assert.strictEqual((await own.next()).body.toString(), 'first');
  own.send(frame(T.DATA, 5, 'x'), frame(T.DATA, 5, '', END));
  const last = await own.answer();
  assert.deepStrictEqual([last.text, last.last.end], [' last', true]);
});

test('flushHeaders sends the head alone', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  own.send(request(5, '/flush', { method: 'POST', end: false }));
  const first = await own.next();
  assert.deepStrictEqual([first.type, first.end, first.body.length, own.frames.length], ['RESPONSE', false, 0, 0]);
  own.send(frame(T.DATA, 5, '', END));
  assert.strictEqual((await own.answer()).text, 'flushed');
});

test('an answer before the body was read: STOP, then the answer, and the rest is thrown away (P-21)', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  for (const id of [1, 2]) {
    own.send(request(id, '/two-writes', { method: 'POST', body: 'b'.repeat(60000), end: false }));
    assert.strictEqual((await own.next()).type, 'STOP');
    assert.strictEqual((await own.answer()).text, 'one two three');
    own.send(...Array.from({ length: 20 }, () => frame(T.DATA, id, Buffer.alloc(65536))), frame(T.DATA, id, '', END));
  }
});

test('a service whose reader is slow stops reading its connection, one that does not read at all as well (P-22)', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  own.send(request(1, '/never-reads', { method: 'POST', end: false }));
  await own.next('RESPONSE');
  const data = frame(T.DATA, 1, Buffer.alloc(65536));
  let sent = 0;
  while (own.socket.writableLength < 2 * MIB && sent < 64 * MIB) {
    own.socket.write(data);
    sent += data.length;
    await new Promise(setImmediate);
  }
  assert.ok(sent < 8 * MIB, `${sent} bytes were taken though nobody reads`);

  const other = await gateway.own();
  other.send(request(2, '/slow-reader', { method: 'POST', end: false }));
  for (let i = 0; i < 200; i++) if (!other.socket.write(frame(T.DATA, 2, Buffer.alloc(65536)))) await within(new Promise(r => other.socket.once('drain', r)), 'drain');
  other.send(frame(T.DATA, 2, '', END));
  assert.deepStrictEqual(JSON.parse((await other.answer()).text), { bytes: 200 * 65536 });
});

test('res.write() says false and drain follows when the gateway does not read (P-22)', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  own.socket.pause();
  own.send(request(1, '/flood'));
  let held = 0;
  let same = 0;
  while (same < 5) { // until the handler has been held up at one place for five exchanges of another connection
    gateway.shared.send(request(2, '/held'));
    const now = Number((await gateway.shared.answer()).text);
    same = now === held && now > 0 ? same + 1 : 0;
    held = now;
  }
  assert.ok(held < 4 * MIB, `${held} bytes were written though nobody reads`);
  own.socket.resume();
  let bytes = 0;
  for (let f; !f?.end; bytes += f.body.length) f = await own.next();
  assert.strictEqual(bytes, 64 * MIB);
});
