#!/usr/bin/env node
'use strict';

// `npx pilotlight`: the gateway of the platform's package, with our arguments, streams, signals and exit code.

const { spawn } = require('node:child_process');
const { constants } = require('node:os');
const { dirname, join } = require('node:path');

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'];

function program() {
  const name = `@pilotlight/${process.platform}-${process.arch}`;
  try {
    return join(dirname(require.resolve(`${name}/package.json`)), 'bin', 'pilotlight');
  } catch {
    console.error(`pilotlight: there is no gateway in this installation: the package ${name} is missing.`);
    console.error('Packages exist for linux-x64 and linux-arm64, and are not installed with `npm install --omit=optional`.');
    process.exit(1);
  }
}

const child = spawn(program(), process.argv.slice(2), { stdio: 'inherit' });
// A terminal sends SIGINT to both of us; one that comes to us alone is passed on. The child says when it is over.
for (const signal of SIGNALS) {
  process.on(signal, () => {
    if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
  });
}
child.on('error', (error) => {
  console.error(`pilotlight: the gateway cannot be run: ${error.message}`);
  process.exit(1);
});
child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
