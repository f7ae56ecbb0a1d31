<?php

declare(strict_types=1);

/** Answers HTTP requests for the Pilotlight gateway over Pipe/1: plain PHP 8.1, no extension, no web server. */

namespace Pilotlight;

const VERSION = '0.1.0';

require __DIR__ . '/src/errors.php';
require __DIR__ . '/src/Wire.php';
require __DIR__ . '/src/Link.php';
require __DIR__ . '/src/Request.php';
require __DIR__ . '/src/Connection.php';
require __DIR__ . '/src/Instance.php';

/**
 * Answers requests with `$handler(Request)` until the gateway, SIGTERM or SIGINT ends the instance; then returns.
 *
 * The handler returns `[status, headers, body]`, or those and trailers; a body is a string, or an iterable of strings,
 * which is streamed. Each exchange has a fiber: another one runs while it waits by a method of `Request`.
 *
 * @param int $exchanges   requests that a shared connection takes before they are answered; the gateway asks for one
 *                         such connection for each of its workers
 * @param int $maxOwn      large or streamed requests at once
 * @param int $maxBody     bytes that `Request::body` reads at most
 * @param int $maxUpgraded connections that may have switched to another protocol
 */
function serve(
    callable $handler,
    int $exchanges = 64,
    int $maxOwn = 64,
    int $maxBody = 64 << 20,
    int $maxUpgraded = 512,
): void {
    (new Instance($exchanges, $maxOwn, $maxBody, $maxUpgraded))->serve($handler);
}
