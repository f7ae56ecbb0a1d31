// The page that a browser gets for an error of the gateway.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { assertAccessible, launch, open, screenshot, screenshots } from './browser.mjs';
import { freePort, start } from './gateway.mjs';
import { tooWide } from './looks.mjs';

const PHONE = { width: 360, height: 740 };
/** An id that is as long as a client's may be, and is markup if nobody escapes it. */
const LONG_ID = `<b>${'x'.repeat(124)}`;
let browser;
let gateway;

/** A gateway whose services fail: one does not start, one is not there. */
async function failing() {
  return start([
    'dev = true',
    '[services.ends]',
    'command = ["sh", "-c", "echo \'<i>it ends</i> <script>alert(1)</script>\'; exit 3"]',
    '[services.dead]',
    `url = "http://127.0.0.1:${await freePort()}"`,
    '[[routes]]',
    'path = "/ends"',
    'service = "ends"',
    '[[routes]]',
    'path = "/dead"',
    'service = "dead"',
  ]);
}

before(async () => {
  gateway = await failing();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

for (const colorScheme of ['light', 'dark']) {
  for (const [device, options] of [['desk', {}], ['phone', { viewport: PHONE, deviceScaleFactor: 2, isMobile: true }]]) {
    for (const [path, status, title] of [['/nowhere', 404, 'There is no such page'], ['/dead', 502, 'Something went wrong'], ['/ends', 503, 'The site is busy or being restarted']]) {
      test(`${status}, ${colorScheme}, ${device}: it can be read, and nothing is wider than the page`, async () => {
        const extraHTTPHeaders = { 'X-Request-Id': LONG_ID };
        const { page, complaints, requests } = await open(browser, gateway.url + path, { colorScheme, extraHTTPHeaders, ...options });
        await screenshot(page, { path: join(screenshots, `error-${status}-${colorScheme}-${device}.png`), fullPage: true });
        assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), title);
        assert.equal(await page.locator('.code').textContent(), `Error ${status}`);
        assert.equal(await page.locator('.id code').textContent(), LONG_ID);
        assert.equal(await page.locator('i, b, script').count(), 0);
        assert.deepEqual(await page.evaluate(tooWide), { overflow: 0, names: [] });
        await assertAccessible(page);
        const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        assert.equal(ground, colorScheme === 'dark' ? 'rgb(22, 24, 27)' : 'rgb(255, 255, 255)');
        // A browser asks for an icon by itself; that the document is an error it says, too.
        assert.deepEqual(requests.filter((url) => !url.endsWith('/favicon.ico')), [gateway.url + path]);
        assert.deepEqual(complaints.filter((text) => !text.includes('Failed to load resource')), []);
      });
    }
  }
}
