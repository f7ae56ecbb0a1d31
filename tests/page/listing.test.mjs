// The page that a browser gets for a folder whose files are listed.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { assertAccessible, launch, open, screenshot, screenshots } from './browser.mjs';
import { start } from './gateway.mjs';
import { tooWide } from './looks.mjs';

const PHONE = { width: 360, height: 740 };
const MARKUP = '<img src=x onerror=alert(1)>.txt';
const LONG = `${'long'.repeat(50)}.bin`;
let browser;
let gateway;

before(async () => {
  gateway = await start(['[[routes]]', 'path = "/"', 'files = { root = "shared", listing = true }'], (folder) => {
    mkdirSync(join(folder, 'shared/reports'), { recursive: true });
    for (const name of ['notes.txt', MARKUP, LONG]) writeFileSync(join(folder, 'shared', name), 'x'.repeat(1500));
  });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

for (const colorScheme of ['light', 'dark']) {
  for (const [device, options] of [['desk', {}], ['phone', { viewport: PHONE, deviceScaleFactor: 2, isMobile: true }]]) {
    test(`${colorScheme}, ${device}: files can be read and opened`, async () => {
      const { page, complaints } = await open(browser, `${gateway.url}/`, { colorScheme, ...options });
      await screenshot(page, { path: join(screenshots, `listing-${colorScheme}-${device}.png`), fullPage: true });
      assert.deepEqual(await page.locator('tbody td:first-child').allTextContents(), ['reports/', MARKUP, LONG, 'notes.txt']);
      assert.equal(await page.locator('img, script').count(), 0);
      assert.deepEqual(await page.evaluate(tooWide), { overflow: 0, names: [] });
      await assertAccessible(page);
      await page.getByRole('link', { name: 'notes.txt' }).click();
      assert.equal(await page.locator('body').textContent(), 'x'.repeat(1500));
      await page.goBack();
      await page.getByRole('link', { name: 'reports/' }).click();
      assert.equal(new URL(page.url()).pathname, '/reports/');
      assert.equal(await page.getByText('This folder is empty.').count(), 1);
      assert.deepEqual(complaints.filter((text) => !text.includes('Failed to load resource')), []);
    });
  }
}
