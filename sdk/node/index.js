'use strict';
/**
 * Pilotlight's SDK for Node: `serve(handler)` answers HTTP requests that the gateway sends over Pipe/1.
 * @example require('pilotlight').serve((req, res) => res.end('hello'))
 */
const { Instance } = require('./lib/instance');

/** Serves `handler(req, res)`, or the 'request' listeners of an http.Server that does not listen. */
function serve(handler, options) {
  if (typeof handler !== 'function') {
    if (typeof handler?.emit !== 'function') {
      throw new TypeError('pilotlight.serve(handler): a function (req, res) or an http.Server');
    }
    const server = handler;
    handler = (req, res) => server.emit('request', req, res);
  }
  const instance = new Instance(handler, options);
  return { close: () => instance.drain(false) };
}

const methods = () => require('./lib/exchange');

module.exports = {
  serve,
  refuse: (res, text) => methods().refuse.call(res, text),
  overloaded: (res, retryAfterMs, text) => methods().overloaded.call(res, retryAfterMs, text),
  tooLarge: (res, text) => methods().tooLarge.call(res, text),
  log: (req, text, level = 'info') => req[methods().kExchange].log(text, level),
};
