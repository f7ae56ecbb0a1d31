'use strict';
// The SDK's Headers, Request and Response do what Node's own do.
const assert = require('node:assert');
const test = require('node:test');

const node = globalThis;
const { install, request, source } = require('../lib/light.js');
install();
const light = { Headers, Request, Response };

/** What became of it: a value, or the kind of error. */
async function outcome(action, classes) {
  try {
    return { value: await action(classes) };
  } catch (err) {
    return { error: err.constructor.name };
  }
}

async function same(what, action) {
  assert.deepStrictEqual(await outcome(action, light), await outcome(action, node), what);
}

const list = headers => [...headers];
const stream = (...chunks) => new ReadableStream({
  start(controller) { chunks.forEach(chunk => controller.enqueue(Buffer.from(chunk))); controller.close(); },
});

test('Headers', async () => {
  const inits = [undefined, {}, [], { A: '1', b: ' 2\t' }, [['x', '1'], ['X', '2'], ['set-cookie', 'a'], ['set-cookie', 'b']],
    [['cookie', 'a=1'], ['cookie', 'b=2']], new Map([['m', '1']]), null, 7, [['only']], [['a', 'b', 'c']], { 'a b': '1' },
    { a: 'x\ny' }, { a: '\u0100' }, { a: 'é' }, { a: 1 }, { a: null }, { a: undefined }, { '': 'x' }];
  for (const init of inits) await same(`new Headers(${String(init)})`, ({ Headers }) => list(new Headers(init)));
  const steps = [
    h => h.append('B', '3'), h => h.set('b', '4'), h => h.delete('B'), h => h.get('X'), h => h.get('nothing'), h => h.has('x'),
    h => h.get('set-cookie'), h => h.getSetCookie(), h => [...h.keys()], h => [...h.values()], h => [...h.entries()],
    h => { const seen = []; h.forEach((value, name, all) => seen.push(name, value, all === h)); return seen; },
    h => h.get('a b'), h => h.set('x', '\0'), h => String(h), h => h.set('set-cookie', 'c'), h => h.delete('set-cookie'),
  ];
  for (const step of steps) {
    await same(String(step), ({ Headers }) => {
      const headers = new Headers([['z', '1'], ['x', '1'], ['x', '2'], ['b', 'b'], ['set-cookie', 'a'], ['Set-Cookie', 'b']]);
      return [step(headers) ?? null, list(headers)];
    });
  }
});

test('Response: what it is made of', async () => {
  const bytes = Buffer.from('é€');
  const bodies = () => [undefined, null, '', 'text', 'é', 7, {}, bytes, bytes.buffer.slice(0, 4), new Uint16Array([1, 2]),
    new URLSearchParams('a=1&b=2'), new Blob(['blob'], { type: 'text/x' }), new Blob(['plain']), stream('one ', 'two'), stream()];
  for (let i = 0; i < bodies().length; i++) {
    for (const init of [undefined, { status: 201, headers: { 'content-type': 'text/own' } }, { status: 204 }, { statusText: 'x' }]) {
      await same(`body ${i} with ${JSON.stringify(init)}`, async ({ Response }) => {
        const made = new Response(bodies()[i], init);
        const about = [made.status, made.statusText, made.ok, made.type, made.url, made.redirected, list(made.headers)];
        return [about, made.body === null, made.bodyUsed, await made.text(), made.bodyUsed, String(made)];
      });
    }
  }
  for (const status of [199, 200, 299, 300, 599, 600, 0, 101, 'x', '404', 204.5]) {
    await same(`status ${status}`, ({ Response }) => new Response(null, { status }).status);
  }
  await same('a status without a body', ({ Response }) => new Response('x', { status: 304 }));
});

test('Response: ways to read it, once', async () => {
  const ways = {
    text: it => it.text(), json: it => it.json(), arrayBuffer: async it => Buffer.from(await it.arrayBuffer()).toString(),
    bytes: async it => Buffer.from(await (it.bytes?.() ?? it.arrayBuffer())).toString(), blob: async it => (await it.blob()).text(),
    stream: async it => { let all = ''; for await (const chunk of it.body) all += Buffer.from(chunk); return all; },
    clone: async it => [await it.clone().text(), await it.text()], type: async it => (await it.blob()).type,
  };
  for (const [name, way] of Object.entries(ways)) {
    for (const body of [() => '{"a":"é"}', () => Buffer.from('\ufeff{"b":1}'), () => stream('{"a"', ':1}'), () => null, () => 'no json']) {
      const init = { headers: { 'content-type': 'application/json' } };
      await same(`${name} of ${body}`, async ({ Response }) => {
        const made = new Response(body(), init);
        return [await way(made), made.bodyUsed];
      });
      await same(`${name} of ${body} twice`, async ({ Response }) => {
        const made = new Response(body(), init);
        await way(made);
        return name === 'stream' || name === 'clone' ? null : way(made);
      });
      await same(`${name} of ${body} after a reader`, async ({ Response }) => {
        const made = new Response(body(), init);
        made.body?.getReader();
        return name === 'stream' ? null : way(made);
      });
    }
  }
  await same('a form', async ({ Response }) => {
    const form = new FormData();
    form.append('name', 'value');
    return [...await new Response(form).formData()];
  });
  await same('a form of a text', async ({ Response }) => {
    const init = { headers: { 'content-type': 'application/x-www-form-urlencoded' } };
    return [...await new Response('a=1&b=2', init).formData()];
  });
});

test('Response.json, redirect, error', async () => {
  for (const data of [{ a: [1, 'é'] }, null, 'x', undefined, 1n]) {
    await same(`json of ${typeof data}`, async ({ Response }) => {
      const made = Response.json(data, { status: 202, headers: { 'x-a': '1' } });
      return [made.status, list(made.headers), await made.text()];
    });
  }
  for (const [url, status] of [['http://a/b'], ['http://a/b', 308], ['/relative', 302], ['http://a/', 200]]) {
    await same(`redirect ${url} ${status}`, ({ Response }) => {
      const made = Response.redirect(url, status);
      return [made.status, list(made.headers), made.body];
    });
  }
  await same('error', ({ Response }) => {
    const { status, type, ok, body } = Response.error();
    return [status, type, ok, body];
  });
});

/** A Request as an exchange makes it, of either kind. */
function pair({ method = 'POST', fields = [], body = null }) {
  const aborting = new AbortController();
  const url = 'http://host/path?q=1';
  const made = request({ method, authority: 'host', fields, aborting }, url, body);
  const headers = [['host', 'host']];
  for (let i = 0; i < fields.length; i += 2) headers.push([fields[i], fields[i + 1]]);
  return { aborting, made, other: new node.Request(url, { method, headers, body, duplex: 'half', signal: aborting.signal }) };
}

test('Request', async () => {
  const { made, other, aborting } = pair({ fields: ['accept', 'a', 'accept', 'b', 'content-type', 'text/x'], body: Buffer.from('é') });
  for (const name of ['method', 'url', 'bodyUsed', 'redirect', 'mode', 'credentials', 'cache', 'destination', 'referrer',
    'integrity', 'keepalive', 'duplex', 'referrerPolicy']) assert.deepStrictEqual(made[name], other[name], name);
  assert.deepStrictEqual(list(made.headers), list(other.headers));
  assert.ok(made.headers === made.headers && made.signal === aborting.signal && String(made) === String(other));
  const clone = made.clone();
  assert.deepStrictEqual([await made.text(), await clone.text(), made.bodyUsed, clone.url], ['é', 'é', true, other.url]);
  await assert.rejects(made.text(), TypeError);
  assert.throws(() => made.clone(), TypeError);
  assert.strictEqual(await pair({ method: 'GET' }).made.text(), '');
  assert.deepStrictEqual(await pair({ body: Buffer.from('{"a":1}') }).made.json(), { a: 1 });
});

test('Node\'s own pass for ours: instanceof, fetch, new Request, new Headers', async () => {
  const { made } = pair({ fields: ['x-a', '1'], body: Buffer.from('body') });
  const ours = [new light.Headers(), made, new light.Response()];
  const theirs = [new node.Headers(), new node.Request('http://a/'), new node.Response()];
  for (const [i, name] of ['Headers', 'Request', 'Response'].entries()) {
    assert.ok(ours[i] instanceof light[name] && theirs[i] instanceof light[name], name);
    assert.ok(!({} instanceof light[name]));
  }
  const copy = new Request(made, { headers: { 'x-b': '2' } });
  assert.deepStrictEqual([copy.method, copy.url, list(copy.headers), await copy.text()], ['POST', made.url, [['x-b', '2']], 'body']);
  assert.deepStrictEqual(list(new node.Headers(new light.Headers({ a: '1' }))), [['a', '1']]);
  assert.deepStrictEqual(list(new light.Headers(new node.Headers({ a: '1' }))), [['a', '1']]);
  assert.strictEqual(await new light.Response(new node.Response('through').body).text(), 'through');

  const server = require('http').createServer((req, res) => {
    req.setEncoding('utf8');
    req.on('data', text => res.end(`${req.method} ${req.headers['x-a']} ${text}`));
  });
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve));
  const other = request({ method: 'PUT', authority: 'h', fields: ['x-a', '1'], aborting: new AbortController() },
    `http://127.0.0.1:${server.address().port}/`, Buffer.from('sent'));
  const answer = await fetch(other);
  assert.ok(answer instanceof Response);
  assert.strictEqual(await answer.text(), 'PUT 1 sent');
  server.close();
  server.closeAllConnections();
  await assert.rejects(fetch('no url'), TypeError);
});

test('the source of an answer is known until somebody reads it', async () => {
  const made = new Response('text');
  assert.strictEqual(source(made), 'text');
  assert.strictEqual(source(new Response()), null);
  assert.strictEqual(source(new Response(stream('x'))), undefined);
  assert.strictEqual(source(new node.Response('x')), undefined);
  await made.text();
  assert.strictEqual(source(made), undefined);
});

test('Node\'s own are not loaded for what servers do', () => {
  const { execFileSync } = require('child_process');
  const code = `const { install, request } = require('./lib/light.js');
    install();
    install(); // of another copy, say
    const it = request({ method: 'POST', authority: 'h', fields: ['a', 'b'], aborting: new AbortController() }, 'http://h/', Buffer.from('{}'));
    it.json().then(value => Response.json(value, { headers: it.headers }).text()).then(text => {
      console.log(text, process.moduleLoadList.some(name => name.includes('undici')));
    });`;
  assert.strictEqual(execFileSync(process.execPath, ['-e', code], { cwd: `${__dirname}/..` }).toString(), '{} false\n');
});
