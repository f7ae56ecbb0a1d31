'use strict';
// What services and clients wrote reaches this page as JSON and leaves it as text of nodes, never as markup: nothing here
// makes an element or an attribute's name from data, and the page's policy (Trusted Types) forbids what would.

/** Events whose figures are kept, one a second. */
const MAX_HISTORY = 61;
/** Lines of output that are shown. */
const MAX_LINES = 500;
/** Characters of one event or line that is not over yet. */
const MAX_PENDING = 32 * 1024 * 1024;
/** Servers of a service that are shown. */
const MAX_SERVERS = 200;
/** Items of a list in the overview. */
const MAX_ITEMS = 50;
/** Milliseconds. */
const DETAIL_PERIOD = 2000;
const SILENCE = 6000;
const HIDDEN_TIME = 60_000;
const RETRY = [500, 1000, 2000, 3000];
/** Rows above and below those that are seen. */
const MARGIN = 6;
/** Measurements of updates that are kept, for who looks at the page's performance. */
const MAX_MEASURES = 200;
const DAY = 86_400_000;

const $ = (id) => document.getElementById(id);
const reasons = {
  'method': 'not the answer to a GET', 'request-body': 'the request had a body', 'status': 'its status is not stored',
  'request-no-store': 'the request says no-store', 'no-store': 'the answer says no-store', 'private': 'the answer says private',
  'authorization': 'the request has Authorization', 'set-cookie': 'the answer sets a cookie', 'vary-any': 'Vary: *',
  'vary-cookie': 'Vary: Cookie', 'vary-too-long': 'too many fields in Vary', 'malformed': 'its fields cannot be understood',
  'no-freshness': 'nothing says how long it is fresh', 'credentials': 'only the route says how long, and the request has credentials',
  'stale': 'stale on arrival, without a validator', 'too-large': 'larger than max_object_bytes', 'busy': 'too many are being recorded',
  'incomplete': 'its body was cut', 'invalidated': 'changed by another request meanwhile', 'superseded': 'replaced meanwhile',
  'route-status': 'the route does not store its status', 'route-type': 'the route does not store its type',
};

let token = null;
let services = new Map();
let order = [];
let shown = [];
let shownGroups = null;
let current = null;
let selected = null;
let past = [];
let lastEvent = 0;
let away = true;
let stopped = false;

// ---- Text

/** Characters that would drive what shows them become visible. */
function printable(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (one) => (one === '\t' ? one : `\\u{${one.codePointAt(0).toString(16)}}`));
}
function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}
/** Only if it is another one: what has not changed is not laid out again. */
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
const number = (value) => (typeof value === 'number' && Number.isFinite(value) ? value : null);
function count(value) {
  const n = number(value);
  if (n === null) return '–';
  if (n < 10_000) return String(n);
  if (n < 1e6) return `${(n / 1e3).toFixed(1)}k`;
  if (n < 1e9) return `${(n / 1e6).toFixed(1)}M`;
  return `${(n / 1e9).toFixed(1)}G`;
}
function rate(value) {
  const n = number(value);
  if (n === null) return '–';
  return n < 100 ? n.toFixed(1) : count(Math.round(n));
}
function time(ms) {
  const n = number(ms);
  if (n === null) return '–';
  if (n < 1) return `${(n * 1000).toFixed(0)} µs`;
  if (n < 100) return `${n.toFixed(1)} ms`;
  if (n < 10_000) return `${n.toFixed(0)} ms`;
  return `${(n / 1000).toFixed(1)} s`;
}
function span(seconds) {
  const n = number(seconds);
  if (n === null) return '–';
  const whole = Math.floor(n);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${Math.floor(whole / 86_400)} d ${Math.floor(whole / 3600) % 24} h`;
}
function size(bytes) {
  let n = number(bytes);
  if (n === null) return '–';
  for (const unit of ['B', 'KiB', 'MiB', 'GiB']) {
    if (n < 1024 || unit === 'GiB') return `${unit === 'B' ? n : n.toFixed(1)} ${unit}`;
    n /= 1024;
  }
  return '–';
}
const percent = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(part / whole < 0.1 ? 1 : 0)} %` : '–');
const sum = (object) => Object.values(object ?? {}).reduce((all, one) => all + (number(one) ?? 0), 0);

/** What state is shown of a service, and how. */
function stateOf(service) {
  if (service.circuit && service.circuit !== 'closed' && service.state !== 'ready') return ['circuit open', 'bad'];
  if (service.state === 'stopped' && service.failures > 0) return ['failing', 'bad'];
  return [printable(service.state), { ready: 'good', starting: 'warn' }[service.state] ?? ''];
}

// ---- The way to the gateway

async function ask(method, path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { method, headers, body, signal, cache: 'no-store' });
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  const error = new Error(printable(problem.detail ?? `status ${answer.status}`));
  error.status = answer.status;
  throw error;
}

/** Pieces of a text that goes on, cut where `end` is. */
async function* pieces(answer, end) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (pending + value).split(end);
      pending = parts.pop();
      if (pending.length > MAX_PENDING) throw new Error('what the gateway sends has no end');
      yield parts;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

const wait = (ms) => new Promise((done) => { setTimeout(done, ms); });
let stream = null;
/** The loop that may go on; an older one ends. */
let following = 0;

async function follow() {
  const mine = following += 1;
  const isMine = () => mine === following;
  for (let failures = 0; isMine(); failures += 1) {
    try {
      stream = new AbortController();
      const answer = await ask('GET', '/events', undefined, stream.signal);
      for await (const events of pieces(answer, '\n\n')) {
        for (const event of events) if (isMine() && event.startsWith('data: ')) receive(JSON.parse(event.slice(6)));
        failures = 0;
      }
      if (isMine()) lost('The gateway has ended the connection.');
    } catch (error) {
      if (!isMine()) return;
      if (error.status === 401) {
        refused('Open the link that “pilotlight ui” prints; the Enter key there prints a new one.');
        return;
      }
      lost(error.status === undefined ? '“pilotlight ui” does not answer: it may have been ended.' : `No news of the gateway: ${error.message}.`);
    }
    await wait(RETRY[Math.min(failures, RETRY.length - 1)]);
  }
}

function leave() {
  following += 1;
  stream?.abort();
  log.abort?.abort();
}

function refused(why) {
  leave();
  stopped = true;
  lost(`This dashboard is not open. ${why}`);
}

function lost(why) {
  away = true;
  document.body.classList.add('away');
  $('banner').hidden = false;
  say($('banner'), stopped ? why : `${why} What is shown is old. Trying again …`);
  actionsFollow();
}

function found() {
  if (!away) return;
  away = false;
  document.body.classList.remove('away');
  $('banner').hidden = true;
  actionsFollow();
  if (selected) followLog();
}

// ---- What comes

function receive(event) {
  performance.mark('update-begin');
  found();
  lastEvent = performance.now();
  if (event.full) {
    services = new Map();
    order = event.services.map((service) => service.name);
    past = [];
  }
  for (const service of event.services) services.set(service.name, service);
  if (event.full) {
    shown = order;
    if (!services.has(current)) current = null;
    if (selected !== null && !services.has(selected)) close();
  }
  past.push({ at: event.at, gateway: event.gateway });
  if (past.length > MAX_HISTORY) past.shift();
  overview(event.gateway);
  groups(event.gateway.groups ?? []);
  if (event.certificates) certificates(event.certificates);
  list();
  performance.measure('update', 'update-begin');
  performance.clearMarks('update-begin');
  if (performance.getEntriesByName('update').length > MAX_MEASURES) performance.clearMeasures('update');
}

const tiles = new Map();
function tile(name, text, note) {
  let dd = tiles.get(name);
  if (!dd) {
    const box = element('div');
    dd = element('dd');
    box.append(element('dt', '', name), dd);
    $('tiles').append(box);
    tiles.set(name, dd);
  }
  say(dd, text);
  if (note !== undefined && dd.title !== note) dd.title = note;
  return dd;
}

let spark = null;
function sparkline(box) {
  if (!spark) {
    const space = 'http://www.w3.org/2000/svg';
    const svg = document.createElementNS(space, 'svg');
    svg.setAttribute('viewBox', '0 0 60 20');
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.setAttribute('aria-hidden', 'true');
    spark = document.createElementNS(space, 'polyline');
    svg.append(spark);
    box.parentNode.append(svg);
  }
  const rates = past.map(({ gateway }) => number(gateway.requests_per_second) ?? 0);
  const most = Math.max(1, ...rates);
  const begin = 61 - rates.length;
  spark.setAttribute('points', rates.map((one, at) => `${begin + at},${(19 - (18 * one) / most).toFixed(1)}`).join(' '));
}

/** Bars of a list: each with a name, a length of 0 to 1, and a text. */
function bars(list, all) {
  all.forEach(({ name, part, text }, at) => {
    let item = list.children[at];
    if (!item) {
      item = element('li');
      item.append(element('i'), element('span'), element('span'));
      list.append(item);
    }
    const width = `${(100 * Math.min(1, part)).toFixed(1)}%`;
    if (item.children[0].style.width !== width) item.children[0].style.width = width;
    say(item.children[1], name);
    say(item.children[2], text);
  });
  while (list.children.length > all.length) list.lastChild.remove();
}

function byTime(list, layers) {
  const whole = sum(layers);
  const named = Object.entries(layers ?? {}).filter(([, ms]) => ms > 0);
  named.sort(([, one], [, other]) => other - one);
  bars(list, named.map(([name, ms]) => ({ name: printable(name), part: ms / whole, text: `${percent(ms, whole)}  ${time(ms)}` })));
}

function overview(gateway) {
  const address = (gateway.listen ?? []).map(printable).join(' ');
  say($('gateway'), `${address}  ${printable(gateway.config)}, version ${printable(gateway.version)}, pid ${printable(gateway.pid)}, up ${span(gateway.uptime_seconds)}`);
  const recent = gateway.recent ?? {};
  const verdicts = gateway.verdicts ?? {};
  const good = ['hit', 'redis', 'stale', 'collapsed'].reduce((all, name) => all + (verdicts[name] ?? 0), 0);
  const asked = good + (verdicts.miss ?? 0) + (verdicts.revalidated ?? 0);
  sparkline(tile('requests/s', rate(gateway.requests_per_second), 'the curve: the last minute'));
  tile('p50', time(recent.p50_ms), `of the last ${span(recent.seconds)}, starts apart`);
  tile('p99', time(recent.p99_ms), `of the last ${span(recent.seconds)}, starts apart`);
  tile('starts waited for', count(recent.cold), `of the last ${span(recent.seconds)}; p50 ${time(recent.cold_p50_ms)}`);
  tile('in flight', count(gateway.in_flight));
  tile('requests', count(gateway.requests), 'since the start');
  tile('errors (5xx)', count(gateway.answers?.['5xx'] ?? 0), 'since the start');
  tile('cache hits', percent(good, asked), 'of the requests that the cache was asked for, since the start');
  tile('connections', count(gateway.connections_open));
  tile('memory', size(gateway.memory_bytes));

  const before = past[0].gateway;
  const layers = {};
  for (const [name, ms] of Object.entries(gateway.layers_ms ?? {})) layers[name] = ms - (before.layers_ms?.[name] ?? 0);
  const isRecent = sum(layers) > 0;
  say($('time-note'), isRecent ? 'of the last minute' : sum(gateway.layers_ms) > 0 ? 'since the start: no request of the last minute' : 'no requests yet');
  byTime($('time'), isRecent ? layers : gateway.layers_ms);

  const cache = gateway.cache;
  say($('cache-note'), cache ? `${size(cache.bytes)} of ${size(cache.max_bytes)}, ${count(cache.resources)} URLs` : 'there is none (cache = false)');
  const most = Math.max(1, ...Object.values(verdicts));
  bars($('verdicts'), Object.entries(verdicts).map(([name, n]) => ({ name: printable(name), part: n / most, text: count(n) })));
  const unstored = Object.entries(gateway.unstored ?? {}).sort(([, one], [, other]) => other - one);
  say($('unstored-note'), unstored.length === 0 ? 'nothing so far' : 'answers since the start');
  const top = Math.max(1, ...unstored.map(([, n]) => n));
  bars($('unstored'), unstored.map(([why, n]) => ({ name: Object.hasOwn(reasons, why) ? reasons[why] : printable(why), part: n / top, text: count(n) })));
}

function certificates({ certificates: all, names }) {
  const list = $('certificates');
  list.replaceChildren();
  const items = [];
  const ending = (date) => {
    const days = Math.floor((Date.parse(date) - Date.now()) / DAY);
    if (Number.isNaN(days)) return ['', ''];
    if (days < 0) return ['has expired', 'bad'];
    return [`ends in ${days} d`, days < 14 ? 'warn' : 'good'];
  };
  for (const one of all ?? []) {
    const [text, kind] = ending(one.not_after);
    items.push([text.startsWith('has') ? 0 : 2, (one.names ?? []).map(printable).join(', '), `${text} (${printable(one.source)})`, kind]);
  }
  for (const one of names ?? []) {
    if (one.last_error) items.push([1, printable(one.name), printable(one.last_error.text), 'bad']);
    else if (one.ordering || !one.not_after) items.push([3, printable(one.name), one.ordering ? 'is being ordered' : 'has none yet', 'warn']);
  }
  items.sort(([one], [other]) => one - other);
  say($('certificates-note'), items.length === 0 ? 'none' : '');
  for (const [, name, text, kind] of items.slice(0, MAX_ITEMS)) {
    const item = element('li');
    item.append(element('strong', '', name), ' ', element('span', kind, text));
    list.append(item);
  }
  if (items.length > MAX_ITEMS) list.append(element('li', 'note', `and ${items.length - MAX_ITEMS} more: pilotlight certificates`));
}

/** Who shares a budget: how much of it is used, who runs, who waits and for what. */
function groups(all) {
  $('groups-box').hidden = all.length === 0;
  const items = all.slice(0, MAX_ITEMS).map((group) => {
    const budget = [];
    if (number(group.max_running) !== null) budget.push(`${count(group.running)} of ${count(group.max_running)} running`);
    if (number(group.max_memory_bytes) !== null) budget.push(`${size(group.memory_bytes)} of ${size(group.max_memory_bytes)}`);
    if (group.waiting > 0) budget.push(`${count(group.waiting)} waiting`);
    const isFull = number(group.max_running) !== null && group.running >= group.max_running;
    const item = element('li');
    const members = element('ul', 'facts');
    members.append(...(group.services ?? []).filter((one) => one.running > 0 || one.waiting > 0).slice(0, MAX_ITEMS).map((one) => {
      const member = element('li');
      const kind = one.waiting > 0 ? 'warn' : 'good';
      const does = [];
      if (one.running > 0) does.push(one.running > 1 ? `runs (${count(one.running)})` : 'runs');
      if (one.waiting > 0) does.push(`${count(one.waiting)} waiting${one.held_back ? `: ${printable(one.held_back)}` : ''}`);
      member.append(`${printable(one.name)} `, element('span', kind, does.join(', ')));
      return member;
    }));
    item.append(element('strong', '', printable(group.name)), ' ', element('span', isFull && group.waiting > 0 ? 'warn' : '', budget.join(', ')), members);
    return item;
  });
  if (all.length > MAX_ITEMS) items.push(element('li', 'note', `and ${all.length - MAX_ITEMS} more: pilotlight status`));
  // What has not changed is not laid out again.
  const made = element('ul');
  made.append(...items);
  if (!made.isEqualNode(shownGroups)) $('groups').replaceChildren(...made.cloneNode(true).children);
  shownGroups = made;
}

// ---- The list: only rows that are seen are there

const pool = [];
let rowHeight = 36;

const keyOf = {
  rate: (one) => one.requests_per_second, p50: (one) => one.p50_ms, p99: (one) => one.p99_ms,
  memory: (one) => one.memory_bytes, requests: (one) => one.requests,
};

function list() {
  const words = $('search').value.toLowerCase();
  const state = $('state').value;
  const sort = $('sort').value;
  const isShown = (service) => {
    if (words && !service.name.toLowerCase().includes(words)) return false;
    if (state === 'running') return service.instances > 0 || service.state === 'external';
    if (state === 'stopped') return service.state === 'stopped';
    if (state === 'failing') return stateOf(service)[1] === 'bad';
    return true;
  };
  shown = words || state ? order.filter((name) => isShown(services.get(name))) : order;
  if (sort === 'name') shown = [...shown].sort((one, other) => (one < other ? -1 : 1));
  else if (keyOf[sort]) {
    const key = keyOf[sort];
    shown = [...shown].sort((one, other) => (key(services.get(other)) ?? -1) - (key(services.get(one)) ?? -1));
  }
  say($('count'), shown.length === order.length ? `${order.length} in all` : `${shown.length} of ${order.length}`);
  paint();
}

function makeRow() {
  const row = element('div', 'row');
  row.setAttribute('role', 'option');
  for (let column = 0; column < 8; column += 1) row.append(element('span'));
  row.addEventListener('click', () => { $('list').focus({ preventScroll: true }); current = row.dataset.name; open(current); paint(); });
  $('spacer').append(row);
  return row;
}

let seen = { top: 0, height: 400 };
function paint() {
  const height = `${shown.length * rowHeight}px`;
  if ($('spacer').style.height !== height) $('spacer').style.height = height;
  const first = Math.max(0, Math.floor(seen.top / rowHeight) - MARGIN);
  const last = Math.min(shown.length, Math.ceil((seen.top + seen.height) / rowHeight) + MARGIN);
  let active = '';
  for (let at = first; at < last; at += 1) {
    const row = pool[at - first] ??= makeRow();
    const name = shown[at];
    paintRow(row, services.get(name), at);
    if (name === current) active = row.id;
  }
  for (let at = Math.max(0, last - first); at < pool.length; at += 1) pool[at].hidden = true;
  if (active) $('list').setAttribute('aria-activedescendant', active);
  else $('list').removeAttribute('aria-activedescendant');
}

function paintRow(row, service, at) {
  const [state, kind] = stateOf(service);
  if (row.hidden) row.hidden = false;
  if (row.dataset.name !== service.name) row.dataset.name = service.name;
  const id = `row-${at}`;
  if (row.id !== id) {
    row.id = id;
    row.style.transform = `translateY(${at * rowHeight}px)`;
    row.setAttribute('aria-posinset', String(at + 1));
  }
  const all = String(shown.length);
  if (row.getAttribute('aria-setsize') !== all) row.setAttribute('aria-setsize', all);
  const isCurrent = service.name === current;
  if (row.classList.contains('current') !== isCurrent) row.classList.toggle('current', isCurrent);
  const isSelected = String(service.name === selected);
  if (row.getAttribute('aria-selected') !== isSelected) row.setAttribute('aria-selected', isSelected);
  const instances = service.state === 'external' ? '–' : `${count(service.instances)}${service.ending ? `+${count(service.ending)}` : ''}`;
  const cells = row.children;
  say(cells[0], printable(service.name));
  say(cells[1], state);
  if (cells[1].className !== kind) cells[1].className = kind;
  say(cells[2], instances);
  say(cells[3], rate(service.requests_per_second));
  say(cells[4], time(service.p50_ms));
  say(cells[5], time(service.p99_ms));
  say(cells[6], service.queue ? `${count(service.in_flight)} (${count(service.queue)} wait)` : count(service.in_flight));
  say(cells[7], size(service.memory_bytes));
}

function reveal(name) {
  const at = shown.indexOf(name);
  if (at < 0) return;
  const box = $('list');
  const top = at * rowHeight;
  if (top < seen.top) box.scrollTop = top;
  else if (top + rowHeight > seen.top + seen.height) box.scrollTop = top + rowHeight - seen.height;
  seen.top = box.scrollTop;
}

function move(event) {
  const at = shown.indexOf(current);
  const page = Math.max(1, Math.floor(seen.height / rowHeight) - 1);
  const steps = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, Home: 0, End: shown.length - 1, PageDown: at + page, PageUp: at - page };
  if (event.key === 'Enter' && current !== null) {
    open(current);
    $('detail-head').focus();
  } else if (Object.hasOwn(steps, event.key) && shown.length > 0) {
    current = shown[Math.min(shown.length - 1, Math.max(0, steps[event.key]))];
    reveal(current);
  } else return;
  event.preventDefault();
  paint();
}

// ---- One service

let detailTimer = null;
let detailTurn = 0;

function open(name) {
  if (selected === name) return;
  selected = name;
  $('main').classList.add('open');
  $('detail').hidden = false;
  say($('detail-head'), printable(name));
  for (const id of ['detail-error', 'detail-output', 'instances-box', 'servers-box']) $(id).hidden = true;
  $('detail-facts').replaceChildren();
  say($('detail-state'), '');
  bars($('layers'), []);
  say($('layers-note'), '');
  actionsFollow();
  look();
  followLog();
}

function close() {
  selected = null;
  $('main').classList.remove('open');
  $('detail').hidden = true;
  clearTimeout(detailTimer);
  log.abort?.abort();
  paint();
}

function actionsFollow() {
  const isManaged = services.get(selected)?.kind === 'managed';
  for (const button of document.querySelectorAll('#actions button')) button.disabled = away || !isManaged;
}

async function look() {
  clearTimeout(detailTimer);
  const name = selected;
  const turn = detailTurn += 1;
  if (name === null || document.hidden) return;
  try {
    const answer = await ask('GET', `/services/${encodeURIComponent(name)}`);
    const service = await answer.json();
    if (turn === detailTurn && name === selected) detail(service);
  } catch { /* the stream of events says what is wrong */ }
  if (turn === detailTurn && name === selected) detailTimer = setTimeout(look, DETAIL_PERIOD);
}

function pairs(list, all) {
  list.replaceChildren(...all.flatMap(([name, text]) => [element('dt', '', name), element('dd', '', text)]));
}

/** Servers of a service, and the share of the requests that each gets where all have as many open. */
function servers(all) {
  $('servers-box').hidden = all.length < 2;
  const well = all.filter((one) => one.state === 'in');
  // If all are left out, all are asked.
  const asked = well.length > 0 ? well : all;
  const first = Math.min(...asked.map((one) => number(one.priority) ?? 0));
  const drawn = asked.filter((one) => (number(one.priority) ?? 0) === first);
  const weights = drawn.reduce((sofar, one) => sofar + (number(one.weight) ?? 0), 0);
  $('servers').replaceChildren(...all.slice(0, MAX_SERVERS).map((one) => {
    const back = number(one.back_in_seconds) === null ? '' : ` for ${span(one.back_in_seconds)}`;
    const name = one.host ? `${printable(one.host)} (${printable(one.address)})` : printable(one.address);
    const share = drawn.includes(one) ? percent(number(one.weight) ?? 0, weights) : '–';
    const row = element('tr');
    row.append(element('td', '', name), element('td', one.state === 'in' ? 'good' : 'bad', `${one.state === 'in' ? 'well' : printable(one.state)}${back}`));
    row.append(...[count(one.open), count(one.weight), share].map((text) => element('td', '', text)));
    return row;
  }));
}

function detail(service) {
  const [state, kind] = stateOf({ ...service, circuit: service.circuit?.state });
  say($('detail-state'), state);
  $('detail-state').className = `state ${kind}`;
  actionsFollow();
  const error = service.failures > 0 ? service.last_error : null;
  $('detail-error').hidden = !error;
  $('detail-output').hidden = !(error?.output?.length > 0);
  if (error) {
    say($('detail-error'), `${printable(error.phase)}: ${printable(error.reason)}`);
    say($('detail-output'), (error.output ?? []).map(printable).join('\n'));
  }
  const recent = service.recent ?? {};
  const facts = [
    ['routes', (service.routes ?? []).map(printable).join('  ') || '–'],
    ['transport', printable(service.transport)],
    ['times', `of the last ${span(recent.seconds)}: ${count(recent.count)} requests, p50 ${time(recent.p50_ms)}, p99 ${time(recent.p99_ms)}`],
    ['starts waited for', `${count(recent.cold?.count)}, p50 ${time(recent.cold?.p50_ms)}`],
    ['requests', `${count(service.requests)}, ${count(service.in_flight)} in flight, ${count(service.cache_hits)} from the cache`],
    ['answers', Object.entries(service.answers ?? {}).map(([name, n]) => `${count(n)} × ${printable(name)}`).join(', ') || '–'],
  ];
  if (service.queue) facts.push(['queue', `${count(service.queue.length)} of ${count(service.queue.max)}`]);
  if (service.circuit) facts.push(['circuit', `${printable(service.circuit.state)} (${count(service.failures)} of ${count(service.circuit.max_failures)} failures)`]);
  if (service.kind === 'managed') facts.push(['starts', `${count(service.starts)}, ${count(service.failed_starts)} failed`]);
  if (service.address) facts.push(['address', printable(service.address)]);
  pairs($('detail-facts'), facts);
  const rows = (service.instances ?? []).map((one) => {
    const row = element('tr');
    const cells = [one.number, printable(one.state), one.pid ?? '–', span(one.uptime_seconds), one.in_flight, count(one.requests), size(one.memory_bytes)];
    row.append(...cells.map((text) => element('td', '', printable(text))));
    return row;
  });
  $('instances-box').hidden = rows.length === 0;
  $('instances').replaceChildren(...rows);
  servers(service.servers ?? []);
  const layers = {};
  for (const [name, times] of Object.entries(service.layers ?? {})) layers[name] = number(times.sum_ms) ?? 0;
  const phases = Object.entries(service.start_phases ?? {}).map(([name, times]) => `${printable(name)} ${time(times.p50_ms)}`);
  say($('layers-note'), (sum(layers) > 0 ? 'since the start' : 'no requests yet') + (phases.length > 0 ? `; a start: ${phases.join(', ')} (p50)` : ''));
  byTime($('layers'), layers);
}

async function act(action) {
  const name = selected;
  if (name === null || away || services.get(name)?.kind !== 'managed') return;
  try {
    await ask('POST', `/services/${encodeURIComponent(name)}/${action}`);
    toast(`${printable(name)}: told to ${action}`);
    look();
  } catch (error) {
    toast(`${printable(name)}: ${error.message}`);
  }
}

// ---- Output

const log = { abort: null, queue: [], isPaused: false, isDue: false };

async function followLog() {
  log.abort?.abort();
  log.queue = [];
  $('log').replaceChildren();
  const name = selected;
  if (name === null || services.get(name)?.kind !== 'managed') {
    logged({ said: 'this service is a url: its output is elsewhere' });
    return;
  }
  const mine = log.abort = new AbortController();
  try {
    const answer = await ask('GET', `/services/${encodeURIComponent(name)}/logs?lines=${MAX_LINES}&follow=1`, undefined, mine.signal);
    for await (const lines of pieces(answer, '\n')) {
      if (mine.signal.aborted) return;
      for (const line of lines.slice(-MAX_LINES)) if (line) logged(JSON.parse(line));
    }
  } catch (error) {
    if (!mine.signal.aborted) logged({ said: `the output cannot be followed: ${error.message}` });
  }
}

function logged(line) {
  log.queue.push(line);
  if (log.queue.length > MAX_LINES) log.queue.shift();
  if (!log.isDue && !log.isPaused) {
    log.isDue = true;
    requestAnimationFrame(flush);
  }
}

function lineOf(line) {
  if (line.said) return element('div', 'said', line.said);
  if (line.missed) return element('div', 'said', `… ${count(line.missed)} lines missed`);
  const at = new Date(line.time);
  const clock = Number.isNaN(at.getTime()) ? '' : at.toTimeString().slice(0, 8);
  const dropped = line.dropped ? `… ${count(line.dropped)} lines dropped\n` : '';
  const who = line.instance === 0 ? 'zygote' : `#${printable(line.instance)}`;
  return element('div', line.output === 'stderr' ? 'stderr' : '', `${dropped}${clock} ${who}  ${printable(line.text)}${line.cut ? ' … (cut)' : ''}`);
}

function flush() {
  log.isDue = false;
  const box = $('log');
  const isAtEnd = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  const made = document.createDocumentFragment();
  for (const line of log.queue.splice(0)) made.append(lineOf(line));
  box.append(made);
  while (box.children.length > MAX_LINES) box.firstChild.remove();
  if (isAtEnd) box.scrollTop = box.scrollHeight;
}

function pause() {
  log.isPaused = !log.isPaused;
  $('pause').setAttribute('aria-pressed', String(log.isPaused));
  say($('pause'), log.isPaused ? 'Go on' : 'Pause');
  if (!log.isPaused) flush();
}

// ---- Purge, theme, keys

let toastTimer = null;
function toast(text) {
  say($('toast'), printable(text));
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => say($('toast'), ''), 6000);
}

async function purge() {
  const what = document.querySelector('input[name="what"]:checked').value;
  const text = $('purge-text').value.trim();
  if (what !== 'everything' && text === '') {
    toast('Purge: name what is to be purged');
    return;
  }
  const wanted = { [what]: what === 'everything' ? true : [text], soft: $('purge-soft').checked };
  try {
    const answer = await (await ask('POST', '/purge', JSON.stringify(wanted))).json();
    toast(`Purged: ${(answer.what ?? []).map(printable).join(', ')}`);
  } catch (error) {
    toast(`Not purged: ${error.message}`);
  }
}

const kept = {
  read(name) { try { return localStorage.getItem(name); } catch { return null; } },
  write(name, value) { try { localStorage.setItem(name, value); } catch { /* the browser keeps nothing */ } },
};

const themes = { '': 'as the system', dark: 'dark', light: 'light' };
function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  $('theme').setAttribute('aria-label', `Theme: ${themes[name]}`);
  kept.write('theme', name);
}
function nextTheme() {
  const names = Object.keys(themes);
  theme(names[(names.indexOf(document.documentElement.dataset.theme ?? '') + 1) % names.length]);
}

const shortcuts = {
  '/': () => $('search').focus(),
  '?': () => $('help').showModal(),
  t: nextTheme,
  p: () => $('purge').showModal(),
  l: () => { if (selected) $('log').focus(); },
  s: () => act('start'),
  r: () => act('restart'),
  x: () => act('stop'),
};

function key(event) {
  if (event.key === 'Escape' && selected !== null && !document.querySelector('dialog[open]')) {
    close();
    $('list').focus();
    return;
  }
  const isTyped = event.target.closest?.('input:not([type="checkbox"], [type="radio"]), select, dialog');
  if (isTyped || event.ctrlKey || event.metaKey || event.altKey || !$('keys').checked) return;
  if (Object.hasOwn(shortcuts, event.key)) {
    event.preventDefault();
    shortcuts[event.key]();
  }
}

function listen() {
  document.addEventListener('keydown', key);
  $('list').addEventListener('keydown', move);
  $('list').addEventListener('focus', () => { if (current === null && shown.length > 0) { current = shown[0]; paint(); } });
  $('list').addEventListener('scroll', () => { seen.top = $('list').scrollTop; paint(); }, { passive: true });
  for (const id of ['search', 'state', 'sort']) $(id).addEventListener('input', list);
  for (const button of document.querySelectorAll('#actions button')) button.addEventListener('click', () => act(button.dataset.action));
  $('close').addEventListener('click', () => { close(); $('list').focus(); });
  $('pause').addEventListener('click', pause);
  $('theme').addEventListener('click', nextTheme);
  $('help-open').addEventListener('click', shortcuts['?']);
  $('purge-open').addEventListener('click', shortcuts.p);
  $('purge-cancel').addEventListener('click', () => $('purge').close());
  $('purge-form').addEventListener('submit', () => purge());
  $('keys').addEventListener('change', () => kept.write('keys', $('keys').checked ? '' : 'off'));
  const measure = () => {
    rowHeight = parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row')) * parseFloat(getComputedStyle(document.documentElement).fontSize);
    seen.height = $('list').clientHeight;
    for (const row of pool) row.id = '';
    paint();
  };
  new ResizeObserver(measure).observe($('list'));
  measure();
  setInterval(() => {
    const silent = performance.now() - lastEvent;
    if (!away && !document.hidden && silent > SILENCE) lost(`No news of the gateway for ${Math.round(silent / 1000)} s.`);
  }, 1000);
  let hiddenTimer = null;
  document.addEventListener('visibilitychange', () => {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(() => { away = true; leave(); }, HIDDEN_TIME);
    else if (!stopped && stream?.signal.aborted) follow();
    if (!document.hidden) look();
  });
  window.addEventListener('hashchange', begin);
}

async function begin() {
  const link = location.hash.slice(1);
  if (/^[0-9a-f]{64}$/.test(link)) {
    window.history.replaceState(null, '', '/');
    try {
      token = (await (await ask('POST', '/session', link)).json()).token;
      sessionStorage.setItem('token', token);
    } catch (error) {
      refused(`${error.message}. The Enter key in “pilotlight ui” prints a new link.`);
      return;
    }
  }
  token ??= sessionStorage.getItem('token');
  stopped = false;
  leave();
  follow();
}

theme(Object.hasOwn(themes, kept.read('theme') ?? '') ? kept.read('theme') ?? '' : '');
$('keys').checked = kept.read('keys') !== 'off';
listen();
begin();
