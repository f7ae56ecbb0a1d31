// The page of a report in a real browser: nothing is complained about, everything is seen, by everybody.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';

import { assertAccessible, launch, open, report, screenshot, screenshots } from './browser.mjs';
import { faint, pictures, tooWide } from './looks.mjs';

const PICTURES = 12; // of the fixture
const PHONE = { width: 360, height: 740 };
let browser;
let shown;

before(async () => {
  shown = report();
  browser = await launch();
});
after(() => browser?.close());

for (const colorScheme of ['light', 'dark']) {
  for (const [device, options] of [['desk', {}], ['phone', { viewport: PHONE, deviceScaleFactor: 2, isMobile: true }]]) {
    test(`${colorScheme}, ${device}: all is seen, nothing overlaps, nothing is complained about`, async () => {
      const { page, complaints, requests } = await open(browser, shown.page, { colorScheme, ...options });
      await screenshot(page, { path: join(screenshots, `${colorScheme}-${device}.png`), fullPage: true });
      const seen = await page.evaluate(pictures);
      assert.deepEqual(seen, { count: PICTURES, wrong: [] });
      assert.deepEqual(await page.evaluate(faint), []);
      assert.deepEqual(await page.evaluate(tooWide), { overflow: 0, names: [] });

      await page.evaluate(() => document.querySelectorAll('details').forEach((details) => { details.open = true; }));
      assert.deepEqual(await page.evaluate(tooWide), { overflow: 0, names: [] });
      await assertAccessible(page);

      assert.deepEqual(complaints, []);
      assert.deepEqual(requests, [shown.page]);
    });
  }
}

test('the switch goes from the system to light to dark, and is remembered', async () => {
  const { page, complaints } = await open(browser, shown.page, { colorScheme: 'light' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const button = page.locator('#theme');
  const light = await ground();
  assert.equal(await button.textContent(), 'Theme: system');
  await button.click();
  await button.click();
  assert.equal(await button.textContent(), 'Theme: dark');
  const dark = await ground();
  assert.notEqual(dark, light);
  // The browser writes down what a page keeps a moment later.
  for (let look = 0; look < 20 && (look === 0 || (await ground()) !== dark); look += 1) {
    await page.reload();
  }
  assert.equal(await ground(), dark);
  assert.deepEqual(await page.evaluate(faint), []);
  await page.locator('#theme').click();
  assert.equal(await ground(), light);
  assert.deepEqual(complaints, []);
});

test('tables are sorted by their numbers; what failed stays last', async () => {
  const { page, complaints } = await open(browser, shown.page);
  const table = page.locator('#cache-cached table').first();
  const order = () => table.locator('tbody th').allTextContents();
  const before = await order();
  const heading = table.getByRole('columnheader', { name: 'throughput' });
  await heading.getByRole('button').click();
  assert.equal(await heading.getAttribute('aria-sort'), 'ascending');
  const published = 'nginx, published (published: a 16-core machine of 2019)'; // of which there is no throughput
  const sorted = ['nginx proxy_cache', 'HAProxy cache', 'hyper alone', 'Pilotlight', 'epoll + httparse floor', 'Varnish'];
  assert.deepEqual(await order(), [...sorted, published]);
  await heading.getByRole('button').press('Enter');
  assert.equal(await heading.getAttribute('aria-sort'), 'descending');
  assert.deepEqual(await order(), before);
  assert.deepEqual(complaints, []);
});

test('the page is whole without its script', async () => {
  const { page } = await open(browser, shown.page, { javaScriptEnabled: false });
  assert.equal(await page.locator('#theme').isVisible(), false);
  assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'What was found');
  assert.equal(await page.locator('svg.plot:visible').count(), PICTURES);
  assert.equal(await page.locator('section.card:visible').count(), 8);
});

test('it can be read with the keyboard and by those who do not see it', async () => {
  const { page } = await open(browser, shown.page);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to the report');
  const group = page.getByRole('article', { name: '200 bytes from the cache' });
  await group.getByRole('img', { name: '200 bytes from the cache: CPU per request' }).first().waitFor();
  const cell = group.getByRole('table').first().getByRole('row', { name: /Pilotlight/ }).getByRole('cell').first();
  assert.match(await cell.textContent(), /^6\.466\.14–6\.98$/);
  await group.getByRole('region', { name: /medians of rounds/ }).focus();
});

test('it prints on white, with all details and without the switch', async () => {
  const { page } = await open(browser, shown.page, { colorScheme: 'dark' });
  await page.emulateMedia({ media: 'print' });
  assert.equal(await page.locator('#theme').isVisible(), false);
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)');
  assert.deepEqual(await page.evaluate(faint), []);
  const pdf = await page.pdf({ path: join(screenshots, 'print.pdf'), format: 'A4' });
  assert.ok(pdf.length > 10_000);
});

test('its policy lets nothing else run and nothing be loaded', async () => {
  const { page, complaints } = await open(browser, shown.page);
  const refused = page.waitForEvent('requestfailed');
  const ran = await page.evaluate(async () => {
    const script = document.createElement('script');
    script.textContent = 'window.injected = true';
    document.body.append(script);
    const image = new Image();
    image.src = 'http://127.0.0.1:9/';
    await new Promise((resolve) => { image.onerror = resolve; });
    return window.injected === true;
  });
  assert.equal(ran, false);
  assert.equal(complaints.filter((complaint) => complaint.includes('Content Security Policy')).length, 2);
  assert.equal((await refused).failure().errorText, 'csp');
});

test('each picture is a file of its own that follows the system from light to dark', async () => {
  const files = readdirSync(shown.plots);
  assert.equal(files.length, PICTURES);
  const grounds = new Set();
  for (const colorScheme of ['light', 'dark']) {
    for (const file of files) {
      const { page, complaints } = await open(browser, pathToFileURL(join(shown.plots, file)).href, { colorScheme });
      const seen = await page.evaluate(pictures);
      assert.deepEqual(seen, { count: 1, wrong: [] }, file);
      assert.deepEqual(await page.evaluate(faint), [], file);
      grounds.add(await page.evaluate(() => getComputedStyle(document.querySelector('.ground')).fill));
      assert.deepEqual(complaints, [], file);
      await page.context().close();
    }
  }
  assert.equal(grounds.size, 2);
});
