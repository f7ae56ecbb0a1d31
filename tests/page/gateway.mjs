// A gateway that runs for a test, with the configuration that it needs, and the dashboard of one.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { pilotlight } from './browser.mjs';

/** A free port: nobody listens there any more. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const { port } = server.address();
  await new Promise((resolve) => { server.close(resolve); });
  return port;
}

/** Runs the gateway of a configuration file until it answers. */
export async function run(config, url, { log = 'inherit' } = {}) {
  const child = spawn(pilotlight, ['run', '--config', config], { stdio: ['ignore', 'ignore', log] });
  const ended = new Promise((resolve) => { child.on('exit', resolve); });
  for (let tries = 0; ; tries += 1) {
    const answered = await fetch(url).then(() => true, () => false);
    if (answered) break;
    assert.ok(tries < 600 && child.exitCode === null, 'the gateway starts');
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  const end = async (signal) => {
    child.kill(signal);
    await ended;
  };
  return { child, end };
}

/** A gateway with `lines` behind its address; `prepare` is called with its folder before it starts. `log`: where its log goes. */
export async function start(lines, prepare = () => {}, { admin = false, log = 'inherit' } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'pilotlight-page-'));
  const port = await freePort();
  prepare(folder);
  const config = join(folder, 'pilotlight.toml');
  writeFileSync(config, [`listen = "127.0.0.1:${port}"`, ...(admin ? [] : ['admin = false']), ...lines].join('\n'));
  const url = `http://127.0.0.1:${port}`;
  const gateway = { url, folder, config, ...await run(config, url, { log }) };
  gateway.stop = async () => {
    await gateway.end('SIGTERM');
    rmSync(folder, { recursive: true, force: true });
  };
  /** Kills the process, and starts another one later. */
  gateway.kill = () => gateway.end('SIGKILL');
  gateway.again = async () => Object.assign(gateway, await run(config, url, { log }));
  return gateway;
}

/** `pilotlight ui` of a gateway, and its link. */
export async function dashboard(gateway, ...options) {
  const child = spawn(pilotlight, ['ui', '--json', '--config', gateway.config, ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => { child.on('exit', resolve); });
  const { value } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  const { url } = JSON.parse(value);
  return { url, origin: new URL(url).origin, child, stop };
}
