<?php

declare(strict_types=1);

use Pilotlight\Wire;

require_once __DIR__ . '/harness.php';

/** `serve`: fibers, batches, streams, cancel and other protocols; what the transcripts of sdk/conformance do not see. */
final class ServeTest extends PipeTest
{
    private const UPGRADE = [['upgrade', 'websocket, other']];

    public function testABatchCostsOneReadAndOneWrite(): void
    {
        $shared = $this->serve(<<<'PHP'
            eval('namespace Pilotlight;
                function fread(...$all) { $GLOBALS["reads"]++; return \fread(...$all); }
                function fwrite(...$all) { $GLOBALS["writes"]++; return \fwrite(...$all); }');
            $reads = $writes = 0;
            Pilotlight\serve(fn () => [200, [], "$GLOBALS[reads] $GLOBALS[writes]"]);
            PHP);
        $shared->send($this->request(99));
        [$reads, $writes] = array_map('intval', explode(' ', $shared->next()->body));
        $shared->send(...array_map(fn (int $exchange) => $this->request($exchange), range(1, 50)));
        $this->same(range(1, 50), array_map(fn () => $shared->next()->exchange, range(1, 50)));
        $shared->send($this->request(99));
        $this->same(($reads + 2) . ' ' . ($writes + 2), $shared->next()->body); // the batch, and one for each of these two
    }

    public function testOtherExchangesGoOnWhileOneWaits(): void
    {
        $shared = $this->serve(<<<'PHP'
            Pilotlight\serve(function (Request $request) {
                $request->path === '/slow' && $request->sleep(60);
                return [200, [], $request->path];
            });
            PHP);
        $shared->send($this->request(1, '/slow'), $this->request(2, '/quick'));
        $this->same('/quick', $shared->next()->body);
        $shared->send(Wire::reset(1, Wire::CANCELLED, ''), $this->request(3, '/again'));
        $finals = [$shared->next(), $shared->next()];
        usort($finals, fn (Frame $one, Frame $other) => $one->exchange <=> $other->exchange);
        $this->same([Wire::RESET, Wire::CANCELLED, '/again'], [$finals[0]->type, $finals[0]->code, $finals[1]->body]);
    }

    public function testWhatARequestHas(): void
    {
        $shared = $this->serve(<<<'PHP'
            Pilotlight\serve(fn (Request $request) => [200, [], json_encode([
                $request->method, $request->scheme, $request->authority, $request->target, $request->path, $request->query,
                $request->protocol, $request->peer, $request->id, $request->headers(), $request->header('X-A'),
                $request->header('cookie'), $request->header('none'), round($request->deadline()), $request->body(),
            ])]);
            PHP);
        $fields = [['x-a', '1'], ['x-a', '2'], ['cookie', 'a=1'], ['cookie', 'b=2']];
        $shared->send($this->request(1, '/a%20b?c=d?e', $fields, 'body', method: 'PUT', deadline: 5000));
        $this->same([
            'PUT', 'http', 'demo.test:8080', '/a%20b?c=d?e', '/a%20b', 'c=d?e', 'HTTP/1.1', '127.0.0.1:5', 'r-1',
            ['x-a' => ['1', '2'], 'cookie' => ['a=1', 'b=2']], '1, 2', 'a=1; b=2', null, 5, 'body',
        ], json_decode($shared->next()->body, true));
    }

    public function testHeadersOfAnAnswer(): void
    {
        $shared = $this->serve(<<<'PHP'
            Pilotlight\serve(fn (Request $request) => [200, $request->path === '/pairs'
                ? [['X-A', '1'], ['x-a', '2']]
                : ['Set-Cookie' => ['a=1', 'b=2'], 'X-N' => 3, 'Connection' => 'x-hop, close', 'X-Hop' => '1', 'te' => 'x'], 'ä']);
            PHP);
        $shared->send($this->request(1), $this->request(2, '/pairs'), $this->request(3, method: 'HEAD'));
        $first = $shared->next();
        $this->same([[['set-cookie', 'a=1'], ['set-cookie', 'b=2'], ['x-n', '3']], 'ä'], [$first->fields, $first->body]);
        $this->same([['x-a', '1'], ['x-a', '2']], $shared->next()->fields);
        $this->same('', $shared->next()->body);
    }

    public function testWhatCannotBeSentIsTheHandlersFault(): void
    {
        $shared = $this->serve(<<<'PHP'
            $answers = ['/cr' => [200, ['x' => "a\rb"], ''], '/zero' => [200, ['x' => "a\0b"], ''], '/status' => [99, [], ''],
                '/long' => [200, ['x' => str_repeat('x', 66_000)], ''], '/null' => null, '/type' => ['x', [], '']];
            Pilotlight\serve(fn (Request $request) => $answers[$request->path]);
            PHP);
        foreach (['/cr', '/zero', '/status', '/long', '/null', '/type'] as $path) {
            $shared->send($this->request(1, $path));
            $final = $shared->next();
            $this->same([Wire::RESET, Wire::INTERNAL], [$final->type, $final->code]);
        }
        $this->contains('P-8: a zero byte, CR or LF', $this->said());
    }

    public function testRefusalsAndWhatTheySay(): void
    {
        $shared = $this->serve(<<<'PHP'
            Pilotlight\serve(fn (Request $request) => match ($request->path) {
                '/r' => throw new Pilotlight\Refused(), '/o' => throw new Pilotlight\Overloaded('full', 2),
                '/l' => [200, [], $request->body()],
            }, maxBody: 3);
            PHP);
        $shared->send($this->request(1, '/r'), $this->request(2, '/l', body: 'four'), $this->request(3, '/o'));
        $finals = [$shared->next(), $shared->next(), $shared->next()];
        $this->same([Wire::REFUSED, Wire::TOO_LARGE, Wire::OVERLOADED], array_column($finals, 'code'));
        $this->same(pack('vvV', Wire::OVERLOADED, 0, 2000) . 'full', $finals[2]->payload);
        $this->same('', $this->said());
    }

    public function testStreamsBothWaysAtOnce(): void
    {
        $own = $this->own($this->serve(<<<'PHP'
            Pilotlight\serve(fn (Request $request) => [200, [], (function () use ($request) {
                while (($piece = $request->readSome()) !== '') {
                    yield $piece;
                }
                yield json_encode($request->trailers);
            })()]);
            PHP));
        $own->send($this->request(1, body: 'one', flags: 0, method: 'PUT'));
        $this->same('one', $own->next()->body);
        $own->send(Wire::frame(Wire::DATA, 0, 1, 'two'));
        $this->same('two', $own->next()->body);
        $own->send(Wire::frame(Wire::TRAILERS, 0, 1, "x-sum\0abc\0"));
        $this->same('{"x-sum":"abc"}', $own->next()->body);
        $this->same(true, $own->next()->isEnd());
    }

    public function testACancelRunsTheFinallyOfAGenerator(): void
    {
        $shared = $this->serve(<<<'PHP'
            $ended = 'no';
            Pilotlight\serve(fn (Request $request) => [200, [], $request->path === '/ended' ? $ended : (function () use ($request) {
                try {
                    while (true) {
                        yield str_repeat('x', 60_000);
                    }
                } finally {
                    $GLOBALS['ended'] = 'yes';
                }
            })()]);
            PHP);
        $shared->send($this->request(1)); // nobody reads its answer: it waits for the socket
        $answers = $this->accept();
        $this->same(Wire::RESPONSE, $answers->next()->type);
        $shared->send(Wire::reset(1, Wire::CANCELLED, ''));
        $this->same([Wire::RESET, Wire::CANCELLED], [($last = $answers->answer()[2])->type, $last->code]);
        $this->same(Wire::RESET, $last->type);
    }

    public function testEarlyHintsALogLineAndTrailers(): void
    {
        $shared = $this->serve(<<<'PHP'
            Pilotlight\serve(function (Request $request) {
                $request->inform(103, ['link' => '</a.css>']);
                $request->log('said', 'warn');
                return [200, ['trailer' => 'x-sum'], 'body', ['x-sum' => 1]];
            });
            PHP);
        $shared->send($this->request(1));
        $answers = $this->accept();
        [$hints, $line] = [$answers->next(), $answers->next()];
        $this->same([Wire::INFO, 103, [['link', '</a.css>']]], [$hints->type, $hints->status, $hints->fields]);
        $this->same([Wire::LOG, "\x02said"], [$line->type, $line->payload]);
        [, $body, $last] = $answers->answer();
        $this->same(['body', Wire::TRAILERS, "x-sum\x001\0"], [$body, $last->type, $last->payload]);
    }

    public function testAnotherProtocolItsLimitAndItsEnd(): void
    {
        $shared = $this->serve(<<<'PHP'
            Pilotlight\serve(function (Request $request) {
                $connection = $request->upgrade($request->offers()[0], ['x-a' => 'b']);
                $request->onDrain(fn () => $connection->write('bye'));
                while (($bytes = $connection->read()) !== '') {
                    $connection->write($bytes);
                }
            }, maxUpgraded: 1);
            PHP);
        [$own, $other] = [$this->own($shared), $this->own($shared)];
        $own->send($this->request(1, '/', self::UPGRADE, flags: Wire::END | Wire::UPGRADE));
        $answer = $own->next();
        $this->same([Wire::UPGRADE, 101, [['upgrade', 'websocket'], ['x-a', 'b']]], [$answer->flags, $answer->status, $answer->fields]);
        $own->send('bytes');
        $this->same('bytes', $own->bytes(5));
        $other->send($this->request(1, '/', self::UPGRADE, flags: Wire::END | Wire::UPGRADE));
        $this->same(Wire::OVERLOADED, $other->next()->code); // P-42
        $shared->send(Wire::frame(Wire::DRAIN, 0, 0, pack('V', 5000)));
        $this->same('bye', $own->bytes(3)); // P-43
        stream_socket_shutdown($own->stream, STREAM_SHUT_WR);
        $this->same(null, $own->next());
        $this->same(0, $this->exitStatus());
    }

    public function testAFatalErrorIs500ForItsOwnExchangeOnly(): void
    {
        $shared = $this->serve(<<<'PHP'
            ini_set('memory_limit', '32M');
            Pilotlight\serve(function (Request $request) {
                $request->path === '/wait' ? $request->sleep(60) : str_repeat('x', 1 << 28);
                return [200, [], ''];
            });
            PHP);
        $shared->send($this->request(1, '/wait'), $this->request(2, '/fatal'));
        $finals = [$shared->next(), $shared->next()];
        usort($finals, fn (Frame $one, Frame $other) => $one->exchange <=> $other->exchange);
        $this->same([Wire::RESET, Wire::INTERNAL], [$finals[0]->type, $finals[0]->code]);
        $this->same([Wire::RESPONSE, 500], [$finals[1]->type, $finals[1]->status]);
        $this->same(255, $this->exitStatus());
        $this->contains('Allowed memory size', $this->said());
    }

    public function testSigtermLetsGoOfWhatIsOpen(): void
    {
        $shared = $this->serve("Pilotlight\\serve(fn (Request \$request) => [200, [], \$request->sleep(0.3) ?? 'slept']);");
        $shared->send($this->request(1), Wire::frame(Wire::PING, 0, 0, '12345678'));
        $this->same(Wire::PONG, $shared->next()->type);
        $this->signal(SIGTERM);
        $this->same(Wire::DRAIN, $shared->next()->type); // P-32
        $this->same('slept', $shared->next()->body);
        $shared->send(Wire::frame(Wire::DRAIN, 0, 0, pack('V', 5000)));
        $this->same(null, $shared->next());
        $this->same(0, $this->exitStatus());
    }

    public function testStartedByHandRefusedAndWrongArguments(): void
    {
        exec('env -u PILOTLIGHT_SOCKET ' . PHP_BINARY . ' ' . dirname(__DIR__) . '/demo.php 2>&1', $lines, $status);
        $this->same([2, true], [$status, str_contains(implode($lines), 'The gateway starts this program')]);
        $this->serve('Pilotlight\serve(fn () => null);')->send(Wire::reset(0, Wire::PROTOCOL, 'the token is wrong'));
        $this->same(1, $this->exitStatus());
        $this->contains('the token is wrong', $this->said());
    }
}
