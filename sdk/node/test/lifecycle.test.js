'use strict';
// Start, drain, end; and the size of the core.
const assert = require('node:assert');
const { spawnSync } = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const test = require('node:test');
const { Gateway, T, frame, request, u32 } = require('./harness.js');

const SERVICE = path.join(__dirname, 'fixtures', 'service.js');
const ROOT = path.join(__dirname, '..');

test('without the environment: what to do, exit code 2', () => {
  const env = { ...process.env };
  delete env.PILOTLIGHT_SOCKET;
  const none = spawnSync(process.execPath, [SERVICE], { env });
  assert.strictEqual(none.status, 2);
  assert.match(none.stderr.toString(), /PILOTLIGHT_SOCKET is not set.*pilotlight\.toml .*command = /);
  const token = spawnSync(process.execPath, [SERVICE], { env: { ...env, PILOTLIGHT_SOCKET: '/x', PILOTLIGHT_TOKEN: '' } });
  assert.match(token.stderr.toString(), /PILOTLIGHT_TOKEN is not set/);
});

test('no gateway at the socket: which, why, exit code 1', () => {
  const PILOTLIGHT_SOCKET = path.join(os.tmpdir(), 'pilotlight-no-such.sock');
  const { status, stderr } = spawnSync(process.execPath, [SERVICE], { env: { ...process.env, PILOTLIGHT_SOCKET, PILOTLIGHT_TOKEN: '1' } });
  assert.strictEqual(status, 1);
  assert.match(stderr.toString(), /the shared connection to .*no-such\.sock has failed: .*ENOENT/);
});

test('DRAIN: open exchanges end, later ones are refused, connections close, exit code 0 (P-31)', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  gateway.shared.send(request(1, '/hang'), frame(T.DRAIN, 0, u32(5000)), request(2, '/two-writes'));
  const refused = await gateway.shared.next();
  assert.deepStrictEqual([refused.type, refused.id, refused.code], ['RESET', 2, 3]);
  own.send(request(3, '/two-writes', { method: 'POST', end: false }));
  assert.strictEqual((await own.next()).code, 3);
  gateway.shared.send(frame(T.RESET, 1, u32(1, 0)));
  assert.strictEqual((await gateway.shared.next()).id, 1);
  await gateway.shared.closed();
  await own.closed();
  assert.deepStrictEqual(await gateway.exited(), { code: 0, signal: null });
});

test('SIGTERM: DRAIN to the gateway, open exchanges end, exit code 0 when the gateway agrees (P-32)', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  gateway.shared.send(request(1, '/hang'), frame(T.PING, 0, '12345678'));
  await gateway.shared.next('PONG');
  gateway.child.kill('SIGTERM');
  assert.deepStrictEqual([(await gateway.shared.next()).type], ['DRAIN']);
  gateway.shared.send(request(2, '/two-writes'), frame(T.RESET, 1, u32(1, 0)), frame(T.DRAIN, 0, u32(0)));
  assert.deepStrictEqual([(await gateway.shared.next()).code, (await gateway.shared.next()).code], [3, 1]);
  assert.deepStrictEqual(await gateway.exited(), { code: 0, signal: null });
});

test('SIGTERM when the gateway does not answer: exit code 0 all the same', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  gateway.shared.send(request(1, '/two-writes'));
  await gateway.shared.answer();
  gateway.child.kill('SIGTERM');
  assert.deepStrictEqual(await gateway.exited(), { code: 0, signal: null });
});

test('the end of the last shared connection is the end of the service (P-33)', async t => {
  const gateway = await Gateway.start(t, SERVICE);
  const own = await gateway.own();
  own.send(request(1, '/hang'));
  gateway.shared.socket.end();
  assert.deepStrictEqual(await gateway.exited(), { code: 0, signal: null });
});

test('ES modules', () => {
  const code = "import p, { serve } from 'pilotlight'; console.log(p.serve === serve, typeof p.refuse)";
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', code], { cwd: ROOT });
  assert.strictEqual(stdout.toString(), 'true function\n', stderr.toString());
});

test('the SDK stays small: at most 430 lines of code, 85 for upgrades, 390 for fetch, none longer than 120', () => {
  const lines = file => fs.readFileSync(path.join(ROOT, file), 'utf8').split('\n');
  const code = some => some.flatMap(lines).filter(line => !/^\s*($|\/\/|\/\*|\*)/.test(line)).length;
  const parts = { 'lib/upgrade.js': 85, 'lib/fetch.js': 155, 'lib/light.js': 235 };
  const files = ['index.js', ...fs.readdirSync(path.join(ROOT, 'lib')).map(file => `lib/${file}`)];
  const core = code(files.filter(file => !parts[file]));
  assert.ok(core > 100 && core <= 430, `${core} lines`);
  for (const [file, max] of Object.entries(parts)) assert.ok(code([file]) <= max, `${code([file])} lines of ${file}`);
  assert.deepStrictEqual(files.flatMap(lines).filter(line => line.length > 120), []);
});

test('nothing is needed at run time, and the lock file names no registry', () => {
  const manifest = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json')));
  assert.strictEqual(manifest.dependencies, undefined);
  assert.doesNotMatch(fs.readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8'), /"resolved"/);
});
