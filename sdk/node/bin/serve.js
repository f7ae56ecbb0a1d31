#!/usr/bin/env node
'use strict';

// `pilotlight-serve FILE`: serves what a module exports: `export default { fetch }`, as Hono's, Workers', Deno's and
// Bun's do, `export function fetch`, or a function (req, res), an Express application say.

const { resolve } = require('node:path');
const { pathToFileURL } = require('node:url');
const { serve } = require('../index.js');

const isHandler = it => typeof it === 'function' || typeof it?.fetch === 'function';

function fail(text) {
  console.error(`pilotlight-serve: ${text}`);
  process.exit(2);
}

async function main([file, ...more]) {
  if (!file || more.length) fail('usage: pilotlight-serve FILE');
  const loaded = await import(pathToFileURL(resolve(file)));
  // A transpiled module has its default in the default that CommonJS gets.
  const handler = [loaded.default?.default, loaded.default, loaded].find(isHandler);
  if (!handler) fail(`${file} exports neither { fetch } nor a function (req, res), by default or as module.exports`);
  serve(handler);
}

main(process.argv.slice(2)).catch(err => {
  console.error(err);
  process.exit(1);
});
