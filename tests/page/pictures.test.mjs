// The pictures of the guides, as the pages look now. `make screenshots` writes them into docs/images.

import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { launch, open, root, screenshot, screenshots } from './browser.mjs';
import { start } from './gateway.mjs';

/** A program with a mistake that Python finds when it starts. */
const SHOP = `import json

PRICES = json.loads('{"tea": 3, "coffee": 4}')

def total(basket):
    return sum(PRICES[name] for name in basket)

print(total(["tea", "cocoa"]))
`;
const LIMIT = 120_000;
let browser;
const gateways = {};

/** A gateway in front of the program; only in development it shows what the program printed. */
const serve = (dev) => start([
  `dev = ${dev}`, '[services.shop]', 'command = ["python3", "-B", "shop.py"]', '[[routes]]', 'path = "/shop"', 'service = "shop"',
], (folder) => writeFileSync(join(folder, 'shop.py'), SHOP), { log: 'ignore' });

before(async () => {
  for (const dev of [true, false]) gateways[dev] = await serve(dev);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  for (const gateway of Object.values(gateways)) await gateway.stop();
});

/** A page as it is, without the folder and the port of this test. */
async function picture(name, gateway, path, viewport, words) {
  const { page } = await open(browser, gateway.url + path, { viewport, colorScheme: 'light', extraHTTPHeaders: { 'X-Request-Id': '6e7719b15459225af8adb0b26d8b35c3' } });
  for (const word of words) await page.getByText(word).first().waitFor();
  await page.evaluate((folder) => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replaceAll(folder, '/srv/shop');
  }, gateway.folder);
  const file = join(screenshots, name);
  await screenshot(page, { path: file });
  assert.ok(readFileSync(file).length < LIMIT, 'it is small enough for the documentation');
  assert.ok(!(await page.locator('body').innerText()).includes(gateway.folder));
  if (process.env.UPDATE_PICTURES) writeFileSync(join(root, 'docs/images', name), readFileSync(file));
}

test('the picture of a service that does not start, in development', () => (
  picture('dev-error.png', gateways.true, '/shop', { width: 1000, height: 620 }, ["KeyError: 'cocoa'", 'shop.py'])
));

test('the picture of an error page', () => (
  picture('error.png', gateways.false, '/shop', { width: 1000, height: 360 }, ['The site is busy or being restarted'])
));
