// A gateway that runs for a test, with the configuration that it needs.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { pilotlight } from './browser.mjs';

/** A free port: nobody listens there any more. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  const { port } = server.address();
  await new Promise((resolve) => { server.close(resolve); });
  return port;
}

/** A gateway with `lines` behind its address; `prepare` is called with its folder before it starts. */
export async function start(lines, prepare = () => {}) {
  const folder = mkdtempSync(join(tmpdir(), 'pilotlight-page-'));
  const port = await freePort();
  prepare(folder);
  const config = join(folder, 'pilotlight.toml');
  writeFileSync(config, [`listen = "127.0.0.1:${port}"`, 'admin = false', ...lines].join('\n'));
  const child = spawn(pilotlight, ['run', '--config', config], { stdio: ['ignore', 'ignore', 'inherit'] });
  const url = `http://127.0.0.1:${port}`;
  for (let tries = 0; ; tries += 1) {
    const answered = await fetch(url).then(() => true, () => false);
    if (answered) break;
    assert.ok(tries < 200 && child.exitCode === null, 'the gateway starts');
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
  const stop = () => new Promise((resolve) => {
    child.on('exit', resolve);
    child.kill('SIGTERM');
  }).then(() => rmSync(folder, { recursive: true, force: true }));
  return { url, stop };
}
