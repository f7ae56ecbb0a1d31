// What the dashboard costs with 1,000 services: script time of an update in Chromium, CPU of the gateway and of
// `pilotlight ui`. Prints figures and judges nothing.
//
//     PILOTLIGHT=target/release/pilotlight node tests/page/dashboard.figures.mjs [SECONDS] [SERVICES]

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

import { launch } from './browser.mjs';
import { dashboard, start } from './gateway.mjs';

const [seconds = 30, services = 1000] = process.argv.slice(2).map(Number);
const names = Array.from({ length: services }, (_, number) => `service-${number}`);
const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });

/** Seconds of CPU time of a process; a tick is 10 ms. */
function cpu(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Shares of a core, in percent, of each of the processes within `seconds`. */
async function shares(...children) {
  const before = children.map(({ pid }) => cpu(pid));
  const begun = performance.now();
  await wait(seconds * 1000);
  const took = (performance.now() - begun) / 1000;
  return children.map(({ pid }, at) => (100 * (cpu(pid) - before[at])) / took);
}

const percent = (share) => `${share.toFixed(2)} %`;
const sorted = (all) => [...all].sort((one, other) => one - other);
const quantile = (all, part) => sorted(all)[Math.min(all.length - 1, Math.floor(all.length * part))];

/** Requests to all services in turn, some at a time, until it is told to end. */
function load(url, perSecond) {
  let isOver = false;
  let at = 0;
  const driving = (async () => {
    while (!isOver) {
      const batch = Array.from({ length: Math.ceil(perSecond / 20) }, () => fetch(`${url}/${names[at++ % names.length]}`).then((answer) => answer.text()));
      await Promise.all([...batch, wait(50)]);
    }
  })();
  return async () => { isOver = true; await driving; };
}

async function measure(title, lines, drive) {
  const gateway = await start([...lines, ...names.flatMap((name) => ['[[routes]]', `path = "/${name}"`, `service = "${name}"`])], () => {}, { admin: true, log: 'ignore' });
  const stop = drive?.(gateway.url);
  await wait(3000);
  const [without] = await shares(gateway.child);
  const ui = await dashboard(gateway);
  const browser = await launch();
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.goto(ui.url);
  await page.waitForFunction(() => past.length > 1);
  const first = await page.evaluate(() => performance.getEntriesByName('update').map((entry) => entry.duration));
  await page.evaluate(() => performance.clearMeasures('update'));
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const work = async () => Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map(({ name, value }) => [name, value]));
  const before = await work();
  const [shareOfGateway, shareOfUi] = await shares(gateway.child, ui.child);
  const after = await work();
  const updates = await page.evaluate(() => performance.getEntriesByName('update').map((entry) => entry.duration));
  const each = (name) => `${((1000 * (after[name] - before[name])) / updates.length).toFixed(2)} ms`;
  console.log(`${title}, ${seconds} s, ${updates.length} updates`);
  console.log(`  script time of an update: median ${quantile(updates, 0.5).toFixed(2)} ms, 99th percentile ${quantile(updates, 0.99).toFixed(2)} ms, longest ${Math.max(...updates).toFixed(2)} ms; the first, of everything, ${first[0].toFixed(2)} ms`);
  console.log(`  for each update in the browser: script ${each('ScriptDuration')}, style ${each('RecalcStyleDuration')}, layout ${each('LayoutDuration')}`);
  console.log(`  CPU of the gateway: ${percent(without)} of a core without a viewer, ${percent(shareOfGateway)} with one; of pilotlight ui ${percent(shareOfUi)}`);
  await browser.close();
  await ui.stop();
  await stop?.();
  await gateway.stop();
}

await measure('services that do not run, no requests', names.flatMap((name) => [`[services.${name}]`, 'command = ["true"]']));
const origin = createServer((_, answer) => answer.end('x'));
await new Promise((done) => { origin.listen(0, '127.0.0.1', done); });
const { port } = origin.address();
await measure('each service has a request in some seconds', names.flatMap((name) => [`[services.${name}]`, `url = "http://127.0.0.1:${port}"`]), (url) => load(url, 400));
origin.close();
origin.closeAllConnections();
