<?php

declare(strict_types=1);

/** The demo service that every SDK has; sdk/conformance drives it. Start it as a service of the gateway. */

use Pilotlight\Refused;
use Pilotlight\Request;

require __DIR__ . '/pilotlight.php';

const TEXT = ['content-type' => 'text/plain'];
const JSON = ['content-type' => 'application/json'];

final class Demo
{
    private const ROUTES = [
        'GET /download' => 'download', 'GET /slow' => 'slow', 'GET /wait' => 'wait', 'GET /cancelled' => 'cancelled',
        'GET /crash' => 'crash', 'GET /flood' => 'flood', 'GET /status' => 'status', 'GET /cookies' => 'cookies',
        'GET /sleep' => 'sleep', 'GET /deadline' => 'deadline', 'GET /pid' => 'pid', 'GET /trailers' => 'trailers',
        'GET /error' => 'error', 'GET /refuse' => 'refuse', 'GET /switch' => 'switch', 'GET /big-header' => 'bigHeader',
        'POST /upload' => 'upload', 'POST /early' => 'early',
    ];
    private readonly string $block; // byte i repeats after 251
    private array $cancelled = [], $seen = [];

    public function __construct()
    {
        $this->block = str_repeat(implode('', array_map(fn (int $i) => chr(($i * 31 + 7) % 251), range(0, 250))), 256);
    }

    public function __invoke(Request $request): ?array
    {
        if (str_starts_with($request->path, '/echo')) {
            return $this->echo($request);
        }
        $method = $request->method === 'HEAD' ? 'GET' : $request->method;
        $route = self::ROUTES["$method $request->path"] ?? null;
        if ($route === null) {
            return [404, TEXT, "not found\n"];
        }
        parse_str($request->query, $query);
        return $this->$route($request, $query);
    }

    private function echo(Request $request): array
    {
        $type = $request->header('content-type') ?? 'application/octet-stream';
        $headers = ['content-type' => $type, 'x-method' => $request->method, 'x-target' => $request->target];
        foreach ($request->headers() as $name => $values) {
            if (str_starts_with((string) $name, 'x-echo-')) {
                $headers[$name] = $values;
            }
        }
        return [200, $headers, $request->body()];
    }

    private function upload(Request $request, array $query): array
    {
        $hash = hash_init('sha256');
        for ($bytes = 0; ($piece = $request->readSome()) !== ''; $bytes += strlen($piece)) {
            hash_update($hash, $piece);
        }
        return [200, JSON, '{"bytes":' . $bytes . ',"sha256":"' . hash_final($hash) . '"}'];
    }

    private function download(Request $request, array $query): array
    {
        $size = (int) $query['bytes'];
        $blocks = function () use ($size) {
            for ($start = 0; $start < $size; $start += strlen($this->block)) {
                yield substr($this->block, 0, $size - $start);
            }
        };
        return [200, ['content-type' => 'application/octet-stream', 'content-length' => $size], $blocks()];
    }

    private function slow(Request $request, array $query): array
    {
        $lines = function () use ($request, $query) {
            for ($number = 0; $number < (int) $query['chunks']; $number++) {
                $number === 0 || $request->sleep((int) $query['ms'] / 1000);
                yield "chunk $number\n";
            }
        };
        return [200, TEXT, $lines()];
    }

    private function wait(Request $request, array $query): array
    {
        $ticks = function () use ($request, $query) {
            try {
                while (true) {
                    yield "tick\n";
                    $request->sleep(0.02);
                }
            } finally {
                $this->cancelled[$query['id']] = true;
            }
        };
        return [200, TEXT, $ticks()];
    }

    private function cancelled(Request $request, array $query): array
    {
        return [200, JSON, json_encode(['cancelled' => isset($this->cancelled[$query['id']])])];
    }

    private function crash(Request $request, array $query): never
    {
        posix_kill(getmypid(), 9);
        exit(3);
    }

    private function flood(Request $request, array $query): array
    {
        $size = (int) $query['bytes'];
        $block = str_repeat(str_repeat('f', 99) . "\n", 600);
        for ($start = 0; $start < $size; $start += strlen($block)) {
            echo substr($block, 0, $size - $start);
        }
        return [200, JSON, json_encode(['flooded' => $size])];
    }

    private function status(Request $request, array $query): array
    {
        return [(int) $query['code'], TEXT, ''];
    }

    private function cookies(Request $request, array $query): array
    {
        return [200, ['set-cookie' => ['a=1', 'b=2']], ''];
    }

    private function sleep(Request $request, array $query): array
    {
        $request->sleep((int) $query['ms'] / 1000);
        return [200, TEXT, 'slept'];
    }

    private function deadline(Request $request, array $query): array
    {
        $left = $request->deadline();
        return [200, JSON, json_encode(['deadline_ms' => $left === null ? null : (int) ($left * 1000)])];
    }

    private function pid(Request $request, array $query): array
    {
        return [200, JSON, json_encode(['pid' => getmypid()])];
    }

    private function early(Request $request, array $query): array
    {
        return [413, TEXT, "too large\n"];
    }

    private function trailers(Request $request, array $query): array
    {
        return [200, TEXT + ['trailer' => 'x-trailer'], 'body', ['x-trailer' => 'yes']];
    }

    private function error(Request $request, array $query): never
    {
        throw new RuntimeException('as asked');
    }

    private function refuse(Request $request, array $query): array
    {
        $once = $request->header('x-once') ?? '';
        [$isKnown, $this->seen[$once]] = [isset($this->seen[$once]), true];
        return $isKnown ? [200, TEXT, 'taken'] : throw new Refused('the first time');
    }

    /** Switches to what is offered first, whatever that is, and sends back the bytes that come. */
    private function switch(Request $request, array $query): ?array
    {
        $offers = $request->offers();
        if (!$offers) {
            return [426, TEXT, "upgrade required\n"];
        }
        $connection = $request->upgrade($offers[0]);
        while (($bytes = $connection->read()) !== '') {
            $connection->write($bytes);
        }
        return null;
    }

    private function bigHeader(Request $request, array $query): array
    {
        return [200, ['x-big' => str_repeat('x', (int) $query['bytes'])], ''];
    }
}

Pilotlight\serve(new Demo());
