// The front page of the demo (pilotlight.toml).

import assert from 'node:assert/strict';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { assertAccessible, launch, open, screenshot, screenshots } from './browser.mjs';
import { start } from './gateway.mjs';
import { tooWide } from './looks.mjs';

const PHONE = { width: 360, height: 740 };
const FRONT = resolve(fileURLToPath(import.meta.url), '../../../examples/front');
let browser;
let gateway;

before(async () => {
  gateway = await start(['[[routes]]', 'path = "/"', `files = ${JSON.stringify(FRONT)}`]);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

for (const colorScheme of ['light', 'dark']) {
  for (const [device, options] of [['desk', {}], ['phone', { viewport: PHONE, deviceScaleFactor: 2, isMobile: true }]]) {
    test(`${colorScheme}, ${device}: it can be read, and loads nothing else`, async () => {
      const { page, complaints, requests } = await open(browser, `${gateway.url}/`, { colorScheme, ...options });
      await screenshot(page, { path: join(screenshots, `demo-${colorScheme}-${device}.png`), fullPage: true });
      assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'The demo of Pilotlight');
      assert.deepEqual(await page.evaluate(tooWide), { overflow: 0, names: [] });
      await assertAccessible(page);
      assert.deepEqual(complaints, []);
      assert.deepEqual(requests, [`${gateway.url}/`]);
    });
  }
}
