// The documentation as a site, from a folder and without a network: it can be read, searched, and loads nothing else.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { assertAccessible, launch, open, root, screenshot, screenshots } from './browser.mjs';

const DEVICES = [['desk', {}], ['phone', { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true }]];
/** Pages of every kind: prose, drawings, code of several languages, pictures, tables. */
const PAGES = ['index.html', 'docs/start.html', 'docs/from/nginx.html', 'docs/guide/dashboard.html'];
/** Those that are long, which take axe many seconds, but are made of the same parts. */
const LONG = ['docs/configuration.html', 'docs/commands.html', 'docs/spec/pipe.html', 'docs/adr/index.html', 'ARCHITECTURE.html', 'docs/figures.html'];
let browser;
let folder;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'pilotlight-site-'));
  execFileSync(join(root, 'target/venv/bin/python'), ['-B', join(root, 'site/build.py'), '--out', join(folder, 'site')], { timeout: 300_000 });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true, force: true });
});

const url = (page) => pathToFileURL(join(folder, 'site', page)).href;

/** A page that is complained about in no way, and that has loaded files of the site alone. */
async function show(page, options) {
  const opened = await open(browser, url(page), options);
  return {
    ...opened,
    assertQuiet: () => {
      assert.deepEqual(opened.complaints, []);
      assert.deepEqual(opened.requests.filter((one) => !one.startsWith(url(''))), []);
    },
  };
}

for (const colorScheme of ['light', 'dark']) {
  for (const [device, options] of DEVICES) {
    test(`${colorScheme}, ${device}: pages can be read, and are not wider than the screen`, async () => {
      for (const name of [...PAGES, ...LONG]) {
        const { page, assertQuiet } = await show(name, { colorScheme, ...options });
        await screenshot(page, { path: join(screenshots, `site-${name.replaceAll('/', '-')}-${colorScheme}-${device}.png`) });
        const ground = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
        assert.equal(ground, colorScheme === 'dark' ? 'rgb(22, 24, 27)' : 'rgb(255, 255, 255)');
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.equal(overflow, 0, `${name} scrolls sideways`);
        assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1, name);
        assertQuiet();
        if (device === 'desk' ? PAGES.includes(name) : name === PAGES[0]) await assertAccessible(page);
        await page.context().close();
      }
    });
  }
}

test('the search finds a page, by the keyboard', async () => {
  const { page, assertQuiet } = await show('index.html');
  await page.keyboard.press('/');
  const input = page.getByRole('searchbox', { name: 'Search' });
  await input.waitFor();
  await input.pressSequentially('idle_timeout');
  const results = page.locator('#mdbook-searchresults a');
  await results.first().waitFor();
  await assertAccessible(page);
  await results.filter({ hasText: 'Configuration' }).first().click();
  await page.waitForURL(/configuration\.html/);
  assert.ok(await page.locator('mark').count() > 0, 'the word is marked');
  assertQuiet();
});

test('the contents lead everywhere, and know where one is', async () => {
  const { page, assertQuiet } = await show('index.html');
  const contents = page.getByRole('navigation', { name: 'Table of contents' });
  await contents.getByRole('link', { name: 'Two Pythons' }).click();
  await page.waitForURL(/two-pythons\.html/);
  assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Two Pythons');
  assert.equal(await contents.locator('a.active').first().textContent(), 'Two Pythons');
  assertQuiet();
});

test('on a phone the contents open and close', async () => {
  const { page, assertQuiet } = await show('docs/start.html', DEVICES[1][1]);
  const button = page.getByRole('button', { name: 'Toggle Table of Contents' });
  const link = page.getByRole('link', { name: 'Two Pythons' });
  assert.equal(await button.getAttribute('aria-expanded'), 'false');
  await button.click();
  await page.waitForFunction(() => document.querySelector('#mdbook-sidebar a').getBoundingClientRect().left >= 0);
  assert.equal(await button.getAttribute('aria-expanded'), 'true');
  await link.click();
  await page.waitForURL(/two-pythons\.html/);
  assertQuiet();
});

test('a theme that was chosen stays', async () => {
  const { page, assertQuiet } = await show('index.html', { colorScheme: 'light' });
  await page.getByRole('button', { name: 'Change theme' }).click();
  const themes = page.getByRole('menuitem');
  assert.deepEqual((await themes.allTextContents()).map((text) => text.trim()), ['Auto', 'Light', 'Dark']);
  await themes.filter({ hasText: 'Dark' }).click();
  await page.goto(url('docs/start.html'));
  const ground = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  assert.equal(ground, 'rgb(22, 24, 27)');
  await assertAccessible(page);
  assertQuiet();
});
