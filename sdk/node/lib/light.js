'use strict';
/**
 * Headers, Request and Response in place of Node's own, which take 45 ms of processor time to load, and several times
 * an exchange's to use. They do what servers do with them; where the classes that they stand for are needed (`fetch`,
 * forms, Requests that a handler makes) Node's own are loaded, and pass for instances of these. Not for Deno and Bun.
 */
const { isDisturbed } = require('stream');
const { runInThisContext } = require('vm');

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const NOT_A_VALUE = /[\0\r\n]|[^\0-\xff]/;
const NOT_AS_IT_IS = /^[\t ]|[\t ]$|[\0\r\n]|[^\0-\xff]/; // has to be trimmed, or is none
const TEXT = 'text/plain;charset=UTF-8';
const NULL_BODY = new Set([204, 205, 304]); // statuses of answers without a body
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const own = Symbol('made by the SDK'); // who may make a Request of these

/** Node's own class, which is loaded when the property of the global object is read. */
const node = name => globalThis[name];

/** Instances of Node's own class are such of ours. Whose class has another name is derived from one that is loaded. */
let isLoaded = false;
function isInstance(light, it) {
  if (Function.prototype[Symbol.hasInstance].call(light, it)) return true;
  isLoaded ||= it?.constructor?.name === light.name;
  return isLoaded && it instanceof node(light.name);
}

function nameOf(name) {
  if (!TOKEN.test(name)) throw new TypeError(`${JSON.stringify(String(name))} is no name of a header`);
  return String(name).toLowerCase();
}

function valueOf(value) {
  if (typeof value === 'string' && !NOT_AS_IT_IS.test(value)) return value;
  const text = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '');
  if (NOT_A_VALUE.test(text)) throw new TypeError(`${JSON.stringify(text)} is no value of a header`);
  return text;
}

class Headers {
  #values = new Map(); // by name; an array for set-cookie

  constructor(init) {
    if (init === undefined) return;
    if (init === null || typeof init !== 'object') throw new TypeError('headers are pairs, or an object of them');
    if (init[Symbol.iterator]) {
      for (const pair of init) {
        const [name, value, more] = pair;
        if (value === undefined || more !== undefined) throw new TypeError('a header is a name and a value');
        this.append(name, value);
      }
    } else for (const name of Object.keys(init)) this.append(name, init[name]);
  }

  /** Of names and values in turn, which the gateway has checked. */
  static [own](authority, fields) {
    const headers = new Headers();
    if (authority) headers.#values.set('host', authority);
    for (let i = 0; i < fields.length; i += 2) headers.#add(fields[i], fields[i + 1]);
    return headers;
  }

  static [Symbol.hasInstance](it) { return isInstance(this, it); }

  #add(name, value) {
    const before = this.#values.get(name);
    if (name === 'set-cookie') this.#values.set(name, [...before ?? [], value]);
    else this.#values.set(name, before === undefined ? value : `${before}${name === 'cookie' ? '; ' : ', '}${value}`);
  }

  append(name, value) { this.#add(nameOf(name), valueOf(value)); }
  delete(name) { this.#values.delete(nameOf(name)); }
  get(name) {
    const value = this.#values.get(nameOf(name)) ?? null;
    return Array.isArray(value) ? value.join(', ') : value;
  }
  has(name) { return this.#values.has(nameOf(name)); }
  set(name, value) {
    this.delete(name);
    this.append(name, value);
  }
  getSetCookie() { return [...this.#values.get('set-cookie') ?? []]; }
  forEach(callback, self) { for (const [name, value] of this) callback.call(self, value, name, this); }

  #list() {
    const list = [];
    for (const [name, value] of this.#values) {
      if (typeof value === 'string') list.push([name, value]);
      else for (const each of value) list.push([name, each]);
    }
    return list.length > 1 ? list.sort(([a], [b]) => a < b ? -1 : a > b ? 1 : 0) : list;
  }
  entries() { return this.#list().values(); }
  keys() { return this.#list().map(([name]) => name).values(); }
  values() { return this.#list().map(([, value]) => value).values(); }
  [Symbol.iterator]() { return this.entries(); }
}

/** What Request and Response share. A body is a text or bytes, or a stream, which is made of them when it is wanted. */
class Body {
  #source = null;
  #stream = null;
  #used = false;

  /** `body` is a text, bytes, a stream, or null. */
  constructor(body) {
    if (isStream(body)) this.#stream = body;
    else this.#source = body;
  }

  /** What `it` is made of, if nobody has begun to read it; `undefined` if it is a stream. */
  static source(it) { return !(#source in it) || it.#stream || it.#used ? undefined : it.#source; }

  get body() {
    if (this.#source === null || this.#stream) return this.#stream;
    const bytes = this.#used ? null : toBytes(this.#source);
    return this.#stream = new ReadableStream({
      start(controller) {
        if (bytes?.length) controller.enqueue(bytes);
        controller.close();
      },
    });
  }

  get bodyUsed() { return this.#used || (this.#stream !== null && isDisturbed(this.#stream)); }

  #refuseIfUsed() { if (this.bodyUsed || this.#stream?.locked) throw new TypeError('Body is unusable'); }

  async #read() {
    this.#refuseIfUsed();
    const [source, stream] = [this.#source, this.#stream];
    this.#used = source !== null || stream !== null;
    if (!stream) return source ?? '';
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  async text() { return toText(await this.#read()); }
  async json() { return JSON.parse(toText(await this.#read())); }
  async bytes() { return toBytes(await this.#read()).slice(); }
  async arrayBuffer() { return toBytes(await this.#read()).slice().buffer; }
  async blob() { return new Blob([await this.#read()], { type: this.headers.get('content-type') ?? '' }); }
  async formData() {
    const Response = node('Response');
    return new Response(await this.#read(), { headers: [...this.headers] }).formData();
  }

  /** The body twice: what both this and its clone have from now on. */
  static copy(it) {
    it.#refuseIfUsed();
    if (!it.#stream) return it.#source;
    const [mine, other] = it.#stream.tee();
    it.#stream = mine;
    return other;
  }
}

// Streams, too, take long to load.
const isStream = it => typeof it === 'object' && it !== null && !ArrayBuffer.isView(it) && it instanceof ReadableStream;
const toBytes = source => {
  const bytes = typeof source === 'string' ? Buffer.from(source) : source;
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
};
const toText = source => {
  const isText = typeof source === 'string';
  const text = isText ? source : Buffer.from(source.buffer, source.byteOffset, source.byteLength).toString();
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
};

class Request extends Body {
  #exchange;
  #url;
  #headers;

  /** Others than ours, which have a body, a URL and an exchange, are Node's. */
  constructor(input, init, url, exchange) {
    if (input !== own) return new (node('Request'))(unwrapped(input), init);
    super(init);
    [this.#url, this.#exchange] = [url, exchange];
  }

  static [Symbol.hasInstance](it) { return isInstance(this, it); }

  get method() { return this.#exchange.method; }
  get url() { return this.#url; }
  get headers() { return this.#headers ??= Headers[own](this.#exchange.authority, this.#exchange.fields); }
  get signal() { return this.#exchange.aborting.signal; }
  clone() {
    const clone = new Request(own, Body.copy(this), this.#url, this.#exchange);
    clone.#headers = new Headers(this.headers);
    return clone;
  }

  /** The same as one of Node's, which takes the body. */
  static unwrap(it) {
    const { method, url, headers, signal, body } = it;
    return new (node('Request'))(url, { method, headers: [...headers], signal, body, duplex: 'half' });
  }
  static isLight(it) { return typeof it === 'object' && it !== null && #exchange in it; }
}
const CONSTANT = { cache: 'default', credentials: 'same-origin', destination: '', duplex: 'half', integrity: '',
  keepalive: false, mode: 'cors', redirect: 'follow', referrer: 'about:client', referrerPolicy: '' };
Object.assign(Request.prototype, CONSTANT);

const unwrapped = input => Request.isLight(input) ? Request.unwrap(input) : input;

/** The body of a Response, and its content-type if it has one by itself. */
function extract(body) {
  if (typeof body === 'string') return [body, TEXT];
  if (body === null || isStream(body)) return [body];
  if (ArrayBuffer.isView(body)) return [new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice()];
  if (body instanceof ArrayBuffer) return [new Uint8Array(body.slice(0))];
  const isObject = typeof body === 'object' && (body instanceof Blob || Symbol.asyncIterator in body || isForm(body));
  if (!isObject && !(body instanceof URLSearchParams)) return [String(body), TEXT];
  const made = new (node('Response'))(body);
  return [made.body, made.headers.get('content-type')];
}
const isForm = it => Object.prototype.toString.call(it) === '[object FormData]';

class Response extends Body {
  #init;

  constructor(body = null, init = {}) {
    const { status = 200, statusText = '', headers } = init ?? {};
    const [source, type] = extract(body ?? null);
    super(source);
    const code = Number(status);
    if (!(code >= 200 && code <= 599)) throw new RangeError(`${status} is not a status from 200 to 599`);
    if (source !== null && NULL_BODY.has(code)) throw new TypeError(`an answer with status ${status} has no body`);
    const all = new Headers(headers);
    if (type && !all.has('content-type')) all.append('content-type', type);
    this.#init = { status: Math.trunc(code), statusText: valueOf(statusText), headers: all, type: 'default' };
  }

  static [Symbol.hasInstance](it) { return isInstance(this, it); }

  static json(data, init = {}) {
    const text = JSON.stringify(data);
    if (text === undefined) throw new TypeError('what is undefined is no JSON');
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.append('content-type', 'application/json');
    return new Response(text, { ...init, headers });
  }
  static redirect(url, status = 302) {
    if (!REDIRECTS.has(status)) throw new RangeError(`${status} is not a status of redirects`);
    return new Response(null, { status, headers: { location: new URL(url).href } });
  }
  static error() {
    const response = new Response();
    Object.assign(response.#init, { status: 0, type: 'error' });
    return response;
  }

  get status() { return this.#init.status; }
  get statusText() { return this.#init.statusText; }
  get headers() { return this.#init.headers; }
  get type() { return this.#init.type; }
  get ok() { return this.status >= 200 && this.status <= 299; }
  get url() { return ''; }
  get redirected() { return false; }
  clone() { return new Response(Body.copy(this), this.#init); }
}
for (const light of [Headers, Request, Response]) {
  Object.defineProperty(light.prototype, Symbol.toStringTag, { value: light.name, configurable: true });
}

/**
 * Puts these in the place of Node's own, as variables of all scripts and modules: since Node 22 a property of the
 * global object cannot be kept for later without loading what it stands for. Another copy of the SDK may have done it.
 */
function install() {
  const { fetch } = globalThis;
  try {
    const variables = 'let Headers, Request, Response; (...all) => { [Headers, Request, Response] = all; }';
    runInThisContext(variables, { filename: __filename })(Headers, Request, Response);
    globalThis.fetch = async (input, init) => fetch(unwrapped(input), init);
  } catch (err) {
    if (err.name !== 'SyntaxError') throw err;
  }
}

/** The Request of an exchange; `body` is bytes, a stream, or null. */
const request = (exchange, url, body) => new Request(own, body, url, exchange);

module.exports = { install, request, source: Body.source };
