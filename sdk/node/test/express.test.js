'use strict';
// Express 4 and 5, unchanged. Both exchange the prototypes of req and res, which is what this is about.
const assert = require('node:assert');
const path = require('path');
const test = require('node:test');
const { Gateway, request, reset } = require('./harness.js');

const APP = path.join(__dirname, 'fixtures', 'express-app.js');

for (const version of ['express4', 'express5']) {
  test(version, async t => {
    const gateway = await Gateway.start(t, APP, { env: { EXPRESS: version } });
    let id = 0;
    let answers;
    /** One exchange; what does not fit one frame comes on the answer connection, which stays the same one (P-25). */
    const call = async (target, options) => {
      gateway.shared.send(request(++id, target, options));
      return gateway.shared.answer(target);
    };
    const large = async (target, options) => {
      gateway.shared.send(request(++id, target, options));
      answers ??= await gateway.accept();
      return answers.answer(target);
    };
    const jsonBody = (body, type = 'application/json') => ({ method: 'POST', body, headers: ['content-type', type] });

    await t.test('res.json, req.query, req.ip, req.hostname', async () => {
      const answer = await call('/json?q=x%20y');
      assert.deepStrictEqual(JSON.parse(answer.text), { ip: '127.0.0.1', host: 'test.local', protocol: 'http', q: 'x y', id: 'req-1' });
      assert.match(answer.headers['content-type'], /^application\/json/);
      assert.ok(answer.headers.etag);
    });
    await t.test('a 304 for the ETag', async () => {
      const { headers } = await call('/file-that-is-not-there');
      assert.strictEqual(headers['x-app'], 'yes');
      const first = await call('/cookies');
      const again = await call('/cookies', { headers: ['if-none-match', first.headers.etag] });
      assert.deepStrictEqual([again.status, again.text], [304, '']);
    });
    await t.test('json and urlencoded body parsers, with and without content-length', async () => {
      const answer = await call('/body', jsonBody('{"a":[1,"é"]}'));
      assert.deepStrictEqual([answer.status, answer.text], [201, '{"a":[1,"é"]}']);
      const form = await call('/body', jsonBody('x=1&y=2', 'application/x-www-form-urlencoded'));
      assert.deepStrictEqual(JSON.parse(form.text), { x: '1', y: '2' });
      const bad = await call('/body', jsonBody('{'));
      assert.strictEqual(bad.status, 400);
    });
    await t.test('a body parser on a streamed body', async () => {
      const own = await gateway.own();
      own.send(request(77, '/body', { ...jsonBody('{"a"'), end: false }));
      const { frame, T, END } = require('./harness.js');
      own.send(frame(T.DATA, 77, ':"b'), frame(T.DATA, 77, '"}', END));
      assert.strictEqual((await own.answer()).text, '{"a":"b"}');
    });
    await t.test('redirect and cookies', async () => {
      const redirect = await call('/redirect');
      assert.deepStrictEqual([redirect.status, redirect.headers.location], [302, '/json']);
      const { response } = await call('/cookies');
      const cookies = response.fields.filter((_, i) => response.fields[i - 1] === 'set-cookie');
      assert.deepStrictEqual(cookies, ['a=1; Path=/', 'b=2; Path=/; HttpOnly']);
    });
    await t.test('HEAD has the headers and no body', async () => {
      const answer = await call('/json', { method: 'HEAD' });
      assert.ok(Number(answer.headers['content-length']) > 20);
      assert.strictEqual(answer.body.length, 0);
    });
    await t.test('sendFile, static, ranges and pipeline', async () => {
      assert.strictEqual((await large('/file')).text, 'a static file\n');
      const ranged = await large('/static/file.txt', { headers: ['range', 'bytes=2-7'] });
      assert.deepStrictEqual([ranged.status, ranged.text, ranged.headers['content-range']], [206, 'static', 'bytes 2-7/14']);
      assert.strictEqual((await large('/pipeline')).text, 'a static file\n');
    });
    await t.test('a streaming download', async () => {
      const answer = await large('/download');
      assert.deepStrictEqual([answer.body.length, answer.body[0], answer.body[99999]], [100000, 1, 2]);
    });
    await t.test('error handler', async () => {
      const answer = await call('/throw');
      assert.deepStrictEqual([answer.status, answer.text], [500, '{"error":"thrown"}']);
    });
    await t.test('refuse and overloaded', async () => {
      assert.strictEqual((await call('/refuse')).last.code, 3);
      const { last } = await call('/late');
      assert.deepStrictEqual([last.code, last.retryAfterMs], [4, 1500]);
    });
    await t.test('cancel: signal, aborted, close, pipeline', async () => {
      gateway.shared.send(request(++id, '/endless'));
      await answers.next('RESPONSE');
      await answers.until(() => answers.frames.length > 2, 'some of the body');
      gateway.shared.send(reset(id, 1)); // P-26: on the connection of the request
      assert.strictEqual((await answers.answer()).last.type, 'RESET');
      const lines = JSON.parse((await call('/lines')).text);
      for (const line of ['signal', 'aborted', 'close false', 'pipeline ERR_STREAM_PREMATURE_CLOSE']) assert.ok(lines.includes(line), `${line} in ${lines}`);
    });
    await t.test('hooks on the end of the answer saw each one', async () => {
      const lines = JSON.parse((await call('/lines')).text);
      for (const line of ['GET /json?q=x%20y 200 yes', 'POST /body 201 yes', 'GET /file 200 yes', 'GET /throw 500 yes', 'pipeline done']) {
        assert.ok(lines.includes(line), `${line} in ${lines}`);
      }
    });
    assert.strictEqual(gateway.stderr.replace(/.*Error: thrown[^]*/, ''), '');
  });
}
