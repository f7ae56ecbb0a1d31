// WordPress behind the gateway, as somebody uses it who has a browser: installed, logged into, written in, read.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { launch, open, screenshot, screenshots } from './browser.mjs';
import { wordpress } from './wordpress.mjs';

const PASSWORD = 'correct horse battery staple';
const PICTURE = new URL('../../docs/images/dashboard.png', import.meta.url);
let browser;
let blog;

before(async () => {
  blog = await wordpress();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await blog?.stop();
});

/** A page of a visitor with no cookies, and what of it was answered with an error. */
async function visit(path) {
  const visitor = await open(browser, 'about:blank');
  const failed = [];
  visitor.page.on('response', (response) => {
    if (response.status() >= 400) failed.push(`${response.status()} ${response.request().method()} ${response.url()}`);
  });
  await visitor.page.goto(blog.url + path);
  return { ...visitor, failed };
}

test('it is installed, logged into, written in, read, and left', async (t) => {
  const { page, failed } = await visit('/');
  const keep = (name) => screenshot(page, { path: join(screenshots, `wordpress-${name}.png`) });

  await t.test('the installer writes wp-config.php', async () => {
    assert.equal(new URL(page.url()).pathname, '/wp-admin/setup-config.php');
    await page.getByRole('link', { name: 'Let’s go!' }).click();
    await page.getByLabel('Database Name').fill('blog');
    await page.getByLabel('Username').fill('wp');
    await page.getByLabel('Password').fill('secret');
    await page.getByLabel('Database Host').fill(`localhost:${blog.socket}`);
    await page.getByRole('button', { name: 'Submit' }).click();
    await page.getByRole('link', { name: 'Run the installation' }).click();
    assert.ok(existsSync(join(blog.site, 'wp-config.php')));
  });

  await t.test('the installer makes the site', async () => {
    await page.getByLabel('Site Title').fill('The pilot’s blog');
    await page.getByLabel('Username').fill('ada');
    await page.locator('#pass1').fill(PASSWORD);
    await page.getByLabel('Your Email').fill('ada@example.org');
    await page.getByRole('button', { name: 'Install WordPress' }).click();
    await page.getByRole('heading', { name: 'Success!' }).waitFor();
    await keep('installed');
  });

  await t.test('login', async () => {
    await page.getByRole('link', { name: 'Log In' }).click();
    await page.getByLabel('Username or Email Address').fill('ada');
    await page.locator('#user_pass').fill(PASSWORD);
    await page.getByRole('button', { name: 'Log In' }).click();
    await page.getByRole('heading', { name: 'Dashboard', exact: true, level: 1 }).waitFor();
    await keep('dashboard');
  });

  await t.test('permalinks without index.php', async () => {
    await page.goto(`${blog.url}/wp-admin/options-permalink.php`);
    await page.locator('#custom_selection').check();
    await page.locator('#permalink_structure').fill('/%year%/%postname%/');
    await page.getByRole('button', { name: 'Save Changes' }).click();
    await page.getByText('Permalink structure updated').first().waitFor();
  });

  let permalink;
  await t.test('a post with a picture', async () => {
    await page.goto(`${blog.url}/wp-admin/post-new.php`);
    await page.getByRole('dialog').getByRole('button', { name: 'Close' }).click();
    await page.getByRole('textbox', { name: 'Add title' }).fill('First flight');
    await page.keyboard.press('Enter');
    await page.keyboard.type('It flew.');
    await page.keyboard.press('Enter');
    await page.keyboard.type('/image');
    await page.keyboard.press('Enter');
    await page.locator('input[type=file]').first().setInputFiles(fileURLToPath(PICTURE));
    await page.locator('.wp-block-image img[src*="/wp-content/uploads/"]').waitFor();
    await keep('editor');
    await page.getByRole('button', { name: 'Publish', exact: true }).click();
    await page.getByRole('region', { name: 'Editor publish' }).getByRole('button', { name: 'Publish', exact: true }).click();
    const link = page.locator('.post-publish-panel__postpublish-buttons a').first();
    permalink = new URL(await link.getAttribute('href')).pathname;
    assert.match(permalink, /^\/\d{4}\/first-flight\/$/);
  });
  assert.deepEqual(failed, []);

  await t.test('a visitor reads it', async () => {
    const visitor = await visit('/');
    await visitor.page.getByRole('link', { name: 'First flight' }).first().click();
    assert.equal(new URL(visitor.page.url()).pathname, permalink);
    await visitor.page.getByText('It flew.').waitFor();
    const image = visitor.page.locator('.wp-block-image img');
    await image.scrollIntoViewIfNeeded();
    assert.ok(await image.evaluate(async (one) => { await one.decode(); return one.naturalWidth > 100; }));
    const file = await visitor.page.request.get(await image.getAttribute('src'));
    assert.equal(file.headers()['content-type'], 'image/png');
    assert.ok(file.headers().etag, 'the gateway sends it');
    await screenshot(visitor.page, { path: join(screenshots, 'wordpress-post.png') });
    assert.deepEqual(visitor.failed, []);
    assert.equal((await visitor.page.goto(`${blog.url}/no/such/page/`)).status(), 404);
  });

  await t.test('logout', async () => {
    await page.goto(`${blog.url}/wp-admin/`);
    await page.locator('#wp-admin-bar-my-account').hover();
    await page.locator('#wp-admin-bar-logout a').click();
    await page.getByText('You are now logged out.').waitFor();
    await page.goto(`${blog.url}/wp-admin/edit.php`);
    assert.equal(new URL(page.url()).pathname, '/wp-login.php');
  });
});
