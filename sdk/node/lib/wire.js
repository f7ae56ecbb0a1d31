'use strict';
/**
 * Pipe/1 payloads (docs/spec/pipe.md §3, §4), read and written. Knows no socket and no http.
 * Invariant: no memory is sized by a length that has not been checked.
 */
const MIN_MAX_FRAME = 65536; // `max_frame` until WELCOME says more
const MAX_WELCOME = 4096;
const MAX_TEXT = 341; // characters of a RESET or LOG text: at most 3 bytes each, 1,024 allowed
const REQUEST_STRINGS = 7; // method, scheme, authority, target, protocol, peer, request id
const TYPE = {
  HELLO: 1, WELCOME: 2, REQUEST: 3, RESPONSE: 4, INFO: 5, DATA: 6, TRAILERS: 7,
  STOP: 8, RESET: 9, PING: 10, PONG: 11, DRAIN: 12, MORE: 13, LOG: 14,
};
const CODE = { CANCELLED: 1, DEADLINE: 2, REFUSED: 3, OVERLOADED: 4, INTERNAL: 5, PROTOCOL: 6, TOO_LARGE: 7 };
const FLAG = { END: 0x01, IGNORABLE: 0x80 };

/** The peer broke a rule of the specification; the message begins with its number. */
class ProtocolError extends Error {}

function check(holds, rule, text) {
  if (!holds) throw new ProtocolError(`${rule}: ${text}`);
}

/** The fields of TRAILERS, or the strings of a head: each ended by a zero byte. */
function readStrings(buf, from, to, first = 0) {
  check(from === to || buf[to - 1] === 0, 'P-8', 'the last string has no final zero byte');
  const list = from === to ? [] : buf.latin1Slice(from, to - 1).split('\0');
  check(list.length >= first && (list.length - first) % 2 === 0, 'P-8', `${list.length} strings: a name without a value`);
  return list;
}

/** A request head: its strings, of which those from `raw` on are header fields (the authority as `host`), and more. */
function readRequest(buf, from, to) {
  check(to - from >= 8, 'P-8', `a REQUEST of ${to - from} bytes has no room for a head`);
  const body = from + 8 + buf.readUInt32LE(from);
  check(body <= to, 'P-8', 'head_length is larger than the payload');
  const list = readStrings(buf, from + 8, body, REQUEST_STRINGS);
  const [method, scheme, authority, target, protocol, peer, id] = list;
  [list[5], list[6]] = ['host', authority];
  const raw = list.slice(authority === '' ? 7 : 5);
  return { method, scheme, target, protocol, peer, id, raw, deadlineMs: buf.readUInt32LE(from + 4), body };
}

function readWelcome(buf, from, to) {
  check(to - from <= MAX_WELCOME, 'P-6', `a WELCOME of ${to - from} bytes, ${MAX_WELCOME} at most`);
  const [version, ...lines] = buf.utf8Slice(from, to).split('\n');
  check(version === 'PIPE/1', 'P-12', `WELCOME begins with ${JSON.stringify(version)}, not PIPE/1`);
  const keys = new Map(lines.map(line => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)]));
  const [worker, maxFrame] = [Number(keys.get('worker') ?? NaN), Number(keys.get('max_frame') ?? MIN_MAX_FRAME)];
  check(Number.isInteger(worker), 'P-3', 'WELCOME names no worker');
  check(maxFrame >= MIN_MAX_FRAME, 'P-6', `WELCOME says max_frame=${maxFrame}, at least ${MIN_MAX_FRAME} is allowed`);
  return { worker, maxFrame };
}

function resetPayload(code, text, retryAfterMs = 0) {
  const payload = Buffer.from(`${'\0'.repeat(8)}${String(text).slice(0, MAX_TEXT)}`);
  payload.writeUInt16LE(code, 0);
  payload.writeUInt32LE(Math.min(Math.max(0, Math.ceil(retryAfterMs) || 0), 0xffffffff), 4);
  return payload;
}

function helloPayload(keys) {
  return `PIPE/1\n${Object.entries(keys).map(([key, value]) => `${key}=${value}\n`).join('')}`;
}

module.exports = {
  MIN_MAX_FRAME, MAX_TEXT, TYPE, CODE, FLAG, ProtocolError, check,
  readStrings, readRequest, readWelcome, resetPayload, helloPayload,
};
