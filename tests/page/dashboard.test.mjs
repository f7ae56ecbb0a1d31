// `pilotlight ui` in a real browser: everybody can use it, it does what it says, and nothing that others wrote runs in it.

import assert from 'node:assert/strict';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';

import { assertAccessible, launch, open, root, screenshot, screenshots } from './browser.mjs';
import { dashboard, start } from './gateway.mjs';
import { tooWide } from './looks.mjs';
import { payloads } from './payloads.mjs';

const PHONE = { width: 320, height: 640 };
const DEVICES = [['desk', {}], ['phone', { viewport: PHONE, deviceScaleFactor: 2, isMobile: true }]];
/** A service that prints what it is told, and the last lines of a file when it starts. */
const SERVICE = `
import os, socket, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        body = str(os.getpid()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if self.path.startswith("/fresh"):
            self.send_header("Cache-Control", "max-age=600")
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        sys.stdout.buffer.write(self.rfile.read(int(self.headers["Content-Length"])) + b"\\n")
        sys.stdout.flush()
        self.do_GET()
    def log_message(self, *arguments):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
server.socket = socket.socket(fileno=3)
server.serve_forever()
`;
let browser;
let gateway;
/** What a test has opened. */
const opened = [];

/** A gateway with a service that answers, one that fails with markup, and some that have never run. */
before(async () => {
  const lines = [
    '[services.web]', 'command = ["python3", "-B", "service.py"]', 'transport = "http"', 'socket = "tcp"',
    '[services.fails]', 'command = ["sh", "-c", "cat last; exit 3"]',
    ...['one', 'two', 'three'].flatMap((name) => [`[services.${name}]`, 'command = ["true"]']),
    ...['web', 'fails', 'one', 'two', 'three'].flatMap((name) => ['[[routes]]', `path = "/${name === 'web' ? '' : name}"`, `service = "${name}"`]),
    '[[routes]]', 'path = "/fresh"', 'service = "web"',
  ];
  gateway = await start(lines, (folder) => {
    writeFileSync(join(folder, 'service.py'), SERVICE);
    writeFileSync(join(folder, 'last'), '<b>the last words</b>\n');
  }, { admin: true, log: 'ignore' });
  assert.equal((await fetch(`${gateway.url}/`)).status, 200);
  assert.equal((await fetch(`${gateway.url}/fails`)).status, 503);
  browser = await launch();
});
// As many as the gateway lets watch it: a test leaves none to the next.
afterEach(async () => {
  for (const close of opened.splice(0)) await close();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

/** The page of a dashboard that has shown everything once. Whatever its policy refuses, and whatever ran, is a complaint. */
async function show(options = {}, of = gateway) {
  const ui = await dashboard(of);
  opened.push(ui.stop);
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  opened.unshift(() => context.close());
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  const complaints = [];
  await page.exposeFunction('complain', (text) => { complaints.push(text); });
  await page.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => window.complain(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
  });
  page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('dialog', (dialog) => { complaints.push(`dialog: ${dialog.message()}`); return dialog.dismiss(); });
  const requests = [];
  page.on('request', (one) => requests.push(one.url()));
  await page.goto(ui.url);
  await page.waitForFunction(() => document.querySelectorAll('#list [role=option]:not([hidden])').length > 0);
  return { page, complaints, requests, ui, context };
}

const text = (page, selector) => page.locator(selector).textContent();
/** Waits until an element has a text. */
const until = (page, selector, wanted) => page.waitForFunction(
  ([where, what]) => [...document.querySelectorAll(where)].some((one) => one.checkVisibility() && one.textContent.includes(what)), [selector, wanted]);
const selectService = (page, name) => page.locator(`#list [role=option][data-name="${name}"]`).click();

for (const colorScheme of ['light', 'dark']) {
  for (const [device, options] of DEVICES) {
    test(`${colorScheme}, ${device}: it can be read and used by everybody, and nothing is wider than the page`, async () => {
      const { page, complaints, requests, ui } = await show({ colorScheme, bypassCSP: true, ...options });
      const keep = (name) => screenshot(page, { path: join(screenshots, `dashboard-${name}-${colorScheme}-${device}.png`) });
      await keep('list');
      await assertAccessible(page, 'wcag22aa');
      assert.deepEqual(await page.evaluate(tooWide), { overflow: 0, names: [] });
      await selectService(page, 'fails');
      await until(page, '#detail-output', '<b>the last words</b>');
      await until(page, '#log', '<b>the last words</b>');
      await keep('service');
      await assertAccessible(page, 'wcag22aa');
      assert.deepEqual(await page.evaluate(tooWide), { overflow: 0, names: [] });
      for (const key of ['?', 'p']) {
        await page.keyboard.press(key);
        await assertAccessible(page, 'wcag22aa');
        await keep(key === '?' ? 'help' : 'purge');
        await page.keyboard.press('Escape');
      }
      assert.equal(await page.locator('#list b, #detail b').count(), 0);
      assert.deepEqual(complaints, []);
      assert.deepEqual(requests.filter((url) => !url.startsWith(`${ui.origin}/`) && !url.startsWith('data:')), []);
    });
  }
}

test('what it shows is what the gateway says', async () => {
  const { page, complaints } = await show();
  for (const _ of [1, 2, 3]) assert.equal((await fetch(`${gateway.url}/fresh`)).status, 200);
  await until(page, '#verdicts', 'hit');
  await until(page, '#unstored', 'nothing says how long it is fresh');
  await until(page, '#time', 'service');
  await until(page, '#certificates-note', 'none');
  assert.equal(await text(page, '#count'), '5 in all');
  const names = () => page.locator('#list [role=option]:not([hidden]) > span:first-child').allTextContents();
  assert.deepEqual((await names()).sort(), ['fails', 'one', 'three', 'two', 'web']);
  await page.locator('#search').fill('W');
  await until(page, '#count', '2 of 5');
  assert.deepEqual((await names()).sort(), ['two', 'web']);
  await page.locator('#search').fill('');
  await page.locator('#state').selectOption('failing');
  await until(page, '#count', '1 of 5');
  assert.deepEqual(await names(), ['fails']);
  await page.locator('#state').selectOption('');
  await page.locator('#sort').selectOption('requests');
  assert.equal((await names())[0], 'web');
  assert.deepEqual(complaints, []);
});

test('start, restart, stop and purge, by the keyboard alone', async () => {
  const { page, complaints } = await show();
  const focused = () => page.evaluate(() => document.activeElement.id);
  const tab = async (id) => {
    for (let tries = 0; tries < 20 && await focused() !== id; tries += 1) await page.keyboard.press('Tab');
    assert.equal(await focused(), id);
  };
  await page.locator('#sort').selectOption('name');
  await tab('list');
  await page.keyboard.press('End');
  assert.equal(await page.locator('#list .current').getAttribute('data-name'), 'web');
  assert.equal(await page.locator('#list').getAttribute('aria-activedescendant'), await page.locator('#list .current').getAttribute('id'));
  await page.keyboard.press('Enter');
  assert.equal(await focused(), 'detail-head');
  const pid = await (await fetch(`${gateway.url}/`)).text();
  await until(page, '#instances', pid);
  await page.keyboard.press('r');
  await until(page, '#toast', 'web: told to restart');
  await page.waitForFunction((old) => { const shown = document.getElementById('instances').textContent; return shown.includes('ready') && !shown.includes(old); }, pid);
  assert.notEqual(await (await fetch(`${gateway.url}/`)).text(), pid);
  await page.keyboard.press('x');
  await until(page, '#detail-state', 'stopped');
  await page.locator('#instances-box').waitFor({ state: 'hidden' });
  await page.keyboard.press('s');
  await until(page, '#detail-state', 'ready');

  const fresh = async () => (await fetch(`${gateway.url}/fresh`)).headers.get('cache-status');
  await fresh();
  assert.match(await fresh(), /hit/);
  await page.keyboard.press('p');
  await page.keyboard.press('Tab');
  await page.keyboard.type('/fresh');
  await page.keyboard.press('Enter');
  await until(page, '#toast', 'Purged: ');
  assert.doesNotMatch(await fresh(), /hit/);
  await page.keyboard.press('Escape');
  assert.equal(await focused(), 'list');
  assert.ok(await page.locator('#detail').isHidden());
  // Letters are letters where they are typed, and can be turned off.
  await page.keyboard.press('/');
  assert.equal(await focused(), 'search');
  await page.keyboard.type('tp?');
  assert.equal(await page.locator('#search').inputValue(), 'tp?');
  await page.locator('#search').fill('');
  await page.locator('#help-open').press('Enter');
  await page.locator('#keys').press('Space');
  await page.keyboard.press('Escape');
  await page.keyboard.press('p');
  assert.ok(await page.locator('#purge').isHidden());
  assert.deepEqual(complaints, []);
});

test('the theme is the system’s, or the one that was chosen', async () => {
  const { page } = await show({ colorScheme: 'light' });
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(await ground(), 'rgb(246, 247, 249)');
  await page.locator('#theme').click();
  assert.equal(await ground(), 'rgb(20, 23, 27)');
  await page.reload();
  assert.equal(await ground(), 'rgb(20, 23, 27)');
  await page.locator('#theme').click();
  await page.locator('#theme').click();
  assert.equal(await page.locator('#theme').getAttribute('aria-label'), 'Theme: as the system');
  assert.equal(await ground(), 'rgb(246, 247, 249)');
});

test('output comes as it is printed, and can be paused', async () => {
  const { page, complaints } = await show();
  const print = (body) => fetch(`${gateway.url}/`, { method: 'POST', body }).then((answer) => assert.equal(answer.status, 200));
  await selectService(page, 'web');
  await print('first of all');
  await until(page, '#log', 'first of all');
  await page.locator('#pause').click();
  await print('while it is paused');
  await page.waitForFunction(() => log.queue.some((line) => line.text === 'while it is paused'));
  assert.ok(!(await text(page, '#log')).includes('while it is paused'));
  await page.locator('#pause').click();
  await until(page, '#log', 'while it is paused');
  // Twice what the page shows, and less than the 1,024 that wait in the gateway: on a slow machine more would have the last one dropped.
  await print(Array.from({ length: 1000 }, (_, number) => `line ${number}`).join('\n'));
  await print('the last one');
  await until(page, '#log', 'the last one');
  assert.ok(await page.locator('#log > div').count() <= 500, 'the lines that are shown are bounded');
  assert.deepEqual(complaints, []);
});

/** An answer of its own port, or none. */
async function server(status) {
  const made = createServer((_, answer) => { answer.writeHead(status); answer.end(); });
  await new Promise((resolve) => { made.listen(0, '127.0.0.1', resolve); });
  opened.push(() => new Promise((resolve) => { made.close(resolve); made.closeAllConnections(); }));
  return `127.0.0.1:${made.address().port}`;
}

test('groups show their budget, who runs and who waits; servers their health and their share', async () => {
  const [well, other, failing] = [await server(200), await server(200), await server(503)];
  const model = (name) => [`[services.${name}]`, 'command = ["python3", "-B", "service.py"]', 'transport = "http"', 'socket = "tcp"',
    'in_group = "models"', 'group_memory = "300MiB"', 'queue = { timeout = "10m" }', '[[routes]]', `path = "/${name}"`, `service = "${name}"`, 'timeout = "10m"'];
  const lines = [
    '[groups.models]', 'max_running = 1', 'memory = "512MiB"', 'grace = "1h"', ...model('llama'), ...model('qwen'),
    '[services.many]', `url = [${[well, other, failing].map((address) => `"http://${address}"`).join(', ')}]`,
    'balance = { weights = [3, 1, 1], max_failures = 1, eject_time = "5m" }',
    '[[routes]]', 'path = "/"', 'service = "many"', 'cache = false',
  ];
  const own = await start(lines, (folder) => {
    const slow = '\n        while self.path.endswith("/slow") and not os.path.exists("go"):\n            time.sleep(0.01)';
    writeFileSync(join(folder, 'service.py'), SERVICE.replace('import os,', 'import os, time,').replace('    def do_GET(self):', `$&${slow}`));
  }, { admin: true, log: 'ignore' });
  opened.push(own.stop);
  const { page, complaints } = await show({ bypassCSP: true }, own);
  await until(page, '#groups', 'models 0 of 1 running, 0 B of 512.0 MiB');
  assert.equal((await fetch(`${own.url}/llama`)).status, 200);
  await until(page, '#groups', 'models 1 of 1 running, 300.0 MiB of 512.0 MiB');
  await until(page, '#groups', 'llama runs');
  const busy = fetch(`${own.url}/llama/slow`);
  await page.waitForFunction(() => services.get('llama').in_flight === 1);
  const waiting = fetch(`${own.url}/qwen`);
  await until(page, '#groups', 'qwen 1 waiting: ');
  for (let tries = 0; tries < 30; tries += 1) await fetch(`${own.url}/`);
  await selectService(page, 'many');
  await until(page, '#servers', 'ejected for 4 min');
  const rows = await page.locator('#servers tr').evaluateAll((all) => all.map((row) => [row.cells[1].className, row.cells[4].textContent]));
  assert.deepEqual(rows, [['good', '75 %'], ['good', '25 %'], ['bad', '–']]);
  await screenshot(page.locator('#detail'), { path: join(screenshots, 'dashboard-servers.png') });
  await screenshot(page.locator('.panels'), { path: join(screenshots, 'dashboard-groups.png') });
  await assertAccessible(page, 'wcag22aa');
  assert.deepEqual(await page.evaluate(tooWide), { overflow: 0, names: [] });
  writeFileSync(join(own.folder, 'go'), '');
  assert.deepEqual([(await busy).status, (await waiting).status], [200, 200]);
  await until(page, '#groups', 'qwen runs');
  await selectService(page, 'llama');
  await page.locator('#servers-box').waitFor({ state: 'hidden' });
  assert.deepEqual(complaints, []);
});

test('a service that is taken out of the file goes', async () => {
  const { page, complaints } = await show();
  await selectService(page, 'three');
  await until(page, '#detail-state', 'stopped');
  const file = readFileSync(gateway.config, 'utf8');
  const without = file.replace(/\[services\.three\]\n.*\n/, '').replace(/\[\[routes\]\]\npath = "\/three"\n.*\n/, '');
  writeFileSync(gateway.config, without);
  gateway.child.kill('SIGHUP');
  await until(page, '#count', '4 in all');
  assert.ok(await page.locator('#detail').isHidden());
  assert.equal(await page.locator('#list [role=option]:not([hidden])').count(), 4);
  writeFileSync(gateway.config, file);
  gateway.child.kill('SIGHUP');
  await until(page, '#count', '5 in all');
  assert.deepEqual(complaints.filter((one) => !one.includes('status of 404')), []);
});

test('a gateway that is killed is said to be away, and is found again', async () => {
  const { page, ui } = await show();
  await selectService(page, 'web');
  await gateway.kill();
  await until(page, '#banner', 'What is shown is old. Trying again');
  assert.deepEqual(await page.locator('#actions button:enabled').count(), 0);
  await screenshot(page, { path: join(screenshots, 'dashboard-away.png') });
  await gateway.again();
  await page.locator('#banner').waitFor({ state: 'hidden' });
  assert.equal((await fetch(`${gateway.url}/fails`)).status, 503);
  await page.waitForFunction(() => services.get('fails').requests === 1);
  await until(page, '#gateway', `pid ${gateway.child.pid}`);
  assert.equal(await page.locator('#actions button:enabled').count(), 3);
  await ui.stop();
  await until(page, '#banner', '“pilotlight ui” does not answer');
});

test('a link opens once, a page that is loaded again goes on, and another browser sees nothing', async () => {
  const { page, ui, context } = await show();
  assert.ok(!page.url().includes('#'), 'the key is out of the address');
  await page.reload();
  await until(page, '#count', '5 in all');
  const second = await context.newPage();
  await second.goto(ui.url);
  await until(second, '#banner', 'this link was opened before');
  const { page: other } = await open(browser, ui.origin);
  await until(other, '#banner', 'This dashboard is not open');
  assert.equal(await other.locator('[role=option]').count(), 0);
  assert.equal((await context.cookies(ui.origin)).filter((one) => one.httpOnly && one.sameSite === 'Strict').length, 1);
  assert.equal(await page.evaluate(() => document.cookie), '');
});

/** A request as no browser sends it. */
function raw(origin, { method = 'GET', path = '/', headers = {}, body = '' }) {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(origin);
    const asked = request({ hostname, port, method, path, headers: { 'content-length': Buffer.byteLength(body), ...headers } }, (answer) => {
      answer.resume();
      resolve(answer);
      if (path.startsWith('/events')) asked.destroy();
    });
    asked.on('error', (error) => (error.code === 'ECONNRESET' ? undefined : reject(error)));
    asked.end(body);
  });
}

test('nobody else is answered', async () => {
  const { page, ui, context } = await show();
  const [{ name, value }] = await context.cookies(ui.origin);
  const token = await page.evaluate(() => sessionStorage.getItem('token'));
  const session = { cookie: `${name}=${value}`, authorization: `Bearer ${token}` };
  const status = async (options) => (await raw(ui.origin, options)).statusCode;
  const own = { origin: ui.origin };
  assert.equal(await status({ path: '/services/web', headers: session }), 200);
  // Half a session, another host, another site.
  assert.equal(await status({ path: '/services/web' }), 401);
  assert.equal(await status({ path: '/services/web', headers: { cookie: session.cookie } }), 401);
  assert.equal(await status({ path: '/services/web', headers: { authorization: session.authorization } }), 401);
  assert.equal(await status({ path: '/', headers: { host: 'attacker.example' } }), 403);
  assert.equal(await status({ path: '/services/web', headers: { ...session, host: 'attacker.example' } }), 403);
  assert.equal(await status({ path: '/services/web', headers: { ...session, origin: 'http://attacker.example' } }), 403);
  assert.equal(await status({ path: '/services/web', headers: { ...session, 'sec-fetch-site': 'same-site' } }), 403);
  assert.equal(await status({ method: 'POST', path: '/services/web/stop', headers: session }), 403);
  assert.equal(await status({ method: 'POST', path: '/services/web/start', headers: { ...session, ...own } }), 202);
  assert.equal(await status({ method: 'POST', path: '/session', headers: own, body: '0'.repeat(64) }), 401);
  // What the page does not ask for is not passed on, whoever asks.
  for (const path of ['/config', '/metrics', '/status', '/services/../config', '/%2e%2e/config']) assert.equal(await status({ path, headers: session }), 404);
  for (const path of ['/reload', '/upgrade', '/certificates/import']) assert.equal(await status({ method: 'POST', path, headers: { ...session, ...own } }), 404);
  const { headers } = await raw(ui.origin, {});
  assert.match(headers['content-security-policy'], /^default-src 'none'; script-src 'sha256-[^' ]+'; style-src 'sha256-[^' ]+'; .*require-trusted-types-for 'script'/);
  assert.deepEqual([headers['cache-control'], headers['x-content-type-options'], headers['referrer-policy']], ['no-store', 'nosniff', 'no-referrer']);
});

test('nothing that a service prints or a client sends runs in it', async () => {
  const { page, complaints, requests, ui } = await show();
  await selectService(page, 'web');
  const shape = () => page.evaluate(() => [...new Set([...document.querySelectorAll('body *')].map((one) => one.localName))].sort());
  const known = new Set([...await shape(), 'b'].filter((name) => name !== 'b'));
  for (const name of ['tr', 'td', 'strong', 'li', 'i', 'svg', 'polyline', 'div', 'span']) known.add(name);
  // Output of a service, line by line; some hold line feeds and are several.
  const log = payloads.join('\n');
  assert.equal((await fetch(`${gateway.url}/`, { method: 'POST', body: log })).status, 200);
  await until(page, '#log', 'xxxxxxxxxx');
  // Targets and fields of requests.
  for (const payload of payloads) {
    const headers = { 'user-agent': Buffer.from(payload.replaceAll(/[\0\r\n]/g, '')).toString('latin1'), 'x-request-id': 'x' };
    await raw(gateway.url, { path: `/fresh?${encodeURIComponent(payload)}`, headers }).catch(() => undefined);
  }
  // The last words and the reason of a service that fails.
  writeFileSync(join(gateway.folder, 'last'), '');
  for (const payload of payloads.filter((one) => one.length < 300)) appendFileSync(join(gateway.folder, 'last'), `${payload}\n`);
  await raw(gateway.url, { path: '/fails' });
  await selectService(page, 'fails');
  await page.locator('#detail-output').waitFor();
  // What no real gateway says yet: the page is told it by the stream itself.
  await page.evaluate((all) => {
    const told = [...services.values()][0];
    const gatewayTold = past.at(-1).gateway;
    const counts = Object.fromEntries(all.map((one) => [one, 1]));
    receive({
      full: true, at: 0,
      gateway: { ...gatewayTold, config: all[0], listen: all, version: all[1], verdicts: counts, unstored: counts, layers_ms: counts },
      services: all.map((name) => ({ ...told, name, state: name, kind: name, circuit: name, error: name })),
      certificates: { certificates: all.map((one) => ({ names: [one], source: one, not_after: one })), names: all.map((name) => ({ name, last_error: { text: name } })) },
    });
    for (let top = 0; top < document.getElementById('spacer').offsetHeight; top += 400) { seen.top = top; paint(); }
    open(all[0]);
    detail({ ...told, name: all[0], state: all[1], routes: all, answers: counts, transport: all[2], last_error: { phase: all[3], reason: all[4], output: all }, failures: 1, layers: counts, start_phases: { [all[5]]: {} },
      instances: all.map((one) => ({ number: one, state: one, pid: one })), address: all[6] });
    toast(all.join(' '));
  }, payloads);
  await page.mouse.move(300, 500);
  await page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
  assert.ok(payloads.length > 200, `${payloads.length} payloads`);
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.deepEqual((await shape()).filter((name) => !known.has(name)), [], 'elements that the page does not make');
  assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll('body *')].flatMap((one) => one.getAttributeNames().filter((name) => name.startsWith('on') || (['src', 'href', 'srcdoc', 'action'].includes(name) && one.getAttribute(name) !== '#list')))), []);
  assert.equal(await page.evaluate(() => /[\u202e\u200b\u2066\u001b\u0007]/.test(document.body.textContent)), false, 'hidden characters are seen');
  assert.deepEqual(complaints.filter((one) => !one.includes('status of 404')), []);
  assert.deepEqual(requests.filter((url) => !url.startsWith(`${ui.origin}/`) && !url.startsWith('data:')), []);
});

test('a script that would get in does not run', async () => {
  const { page, complaints } = await show();
  const refused = await page.evaluate(() => {
    const tried = [];
    try { document.body.innerHTML += '<img src=x onerror="window.ran=1">'; } catch (error) { tried.push(error.name); }
    const made = document.createElement('script');
    try { made.textContent = 'window.ran=1'; document.body.append(made); } catch (error) { tried.push(error.name); }
    return tried;
  });
  assert.deepEqual(refused, ['TypeError', 'TypeError']);
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.ok(complaints.some((one) => one.startsWith('policy: require-trusted-types-for')), 'the policy is in force, and what it refuses is seen');
});

test('the picture of the guide', async () => {
  const { page } = await show({ viewport: { width: 1280, height: 860 }, colorScheme: 'light' });
  for (let turn = 0; turn < 3; turn += 1) {
    await Promise.all(Array.from({ length: 40 }, () => fetch(`${gateway.url}/fresh`)));
    await page.waitForFunction((wanted) => past.length > wanted, 2 * turn + 1);
  }
  await selectService(page, 'web');
  await page.locator('#instances-box').waitFor();
  // A folder of its own for the eyes; the test's differs each time.
  await page.evaluate(() => { document.getElementById('gateway').textContent = document.getElementById('gateway').textContent.replace(/\/\S*pilotlight\.toml/, '/srv/pilotlight.toml'); });
  const path = join(screenshots, 'dashboard.png');
  await screenshot(page, { path });
  assert.ok(readFileSync(path).length < 150_000, 'it is small enough for the documentation');
  if (process.env.UPDATE_PICTURES) writeFileSync(join(root, 'docs/images/dashboard.png'), readFileSync(path));
});
