// A Chromium of the system, and a report to show in it.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { accessSync, constants, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

import { chromium } from 'playwright-core';

export const root = resolve(dirname(fileURLToPath(import.meta.url)), '../..');
export const pilotlight = process.env.PILOTLIGHT ?? join(root, 'target/debug/pilotlight');
/** Milliseconds for whatever is waited for: a busy machine takes a while. */
const LIMIT = 120_000;
const PICTURE_TRIES = 3;
/** Kept, to be looked at. */
export const screenshots = join(root, 'target/page');
mkdirSync(screenshots, { recursive: true });
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** A folder with report.json and all that `pilotlight lab show` makes of it. */
export function report() {
  const folder = mkdtempSync(join(tmpdir(), 'pilotlight-page-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  const json = join(folder, 'report.json');
  const limits = { maxBuffer: 64 * 1024 * 1024, timeout: LIMIT };
  writeFileSync(json, execFileSync(join(dirname(pilotlight), 'examples/report_fixture'), limits));
  execFileSync(pilotlight, ['lab', 'show', json], limits);
  return { page: pathToFileURL(join(folder, 'report.html')).href, plots: join(folder, 'plots') };
}

function browserProgram() {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
  const places = names.flatMap((name) => (process.env.PATH ?? '').split(delimiter).map((folder) => join(folder, name)));
  const found = [process.env.CHROMIUM, ...places].filter(Boolean).find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
  if (!found) throw new Error(`no Chromium here (looked for ${names.join(', ')}, and CHROMIUM): \`make test-all\` installs it`);
  return found;
}

export function launch() {
  // Chromium has no sandbox for root.
  const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath: browserProgram(), args, timeout: LIMIT });
}

/** A picture of a page or of a part of it. A busy Chromium says now and then that it cannot take one. */
export async function screenshot(of, options) {
  for (let left = PICTURE_TRIES - 1; ; left -= 1) {
    try {
      return await of.screenshot(options);
    } catch (error) {
      if (left === 0 || !String(error).includes('Unable to capture screenshot')) throw error;
    }
  }
}

/** Fails for whatever keeps people from reading or using the page (WCAG 2.1 AA, and the rules of `more`). */
export async function assertAccessible(page, ...more) {
  await page.evaluate(axe);
  const rules = ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice', ...more];
  const { violations, passes } = await page.evaluate((runOnly) => window.axe.run(document, { runOnly, preload: false }), rules);
  const found = violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 160)}: ${node.failureSummary}`));
  assert.deepEqual(found, []);
  assert.ok(passes.some(({ id }) => id === 'color-contrast'), 'contrast was looked at');
}

/** A page whose every complaint and every request is kept. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  context.setDefaultTimeout(LIMIT);
  const page = await context.newPage();
  const complaints = [];
  const requests = [];
  page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on('request', (request) => requests.push(request.url()));
  await page.goto(url);
  return { page, complaints, requests };
}
