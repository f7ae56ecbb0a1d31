<?php

declare(strict_types=1);

use Pilotlight\Wire;

require_once __DIR__ . '/harness.php';

/** `accept`: one exchange at a time, superglobals, what is printed, scripts that end. */
final class AcceptTest extends PipeTest
{
    private const GLOBALS = <<<'PHP'
        $instance = new Instance();
        while ($request = $instance->accept()) {
            $request->globals();
            $request->capture();
            foreach ($_FILES as $file) {
                foreach ((array) $file['tmp_name'] as $path) {
                    echo $path === '' ? '' : file_get_contents($path);
                }
            }
            echo json_encode([$_GET, $_POST, $_COOKIE, $_FILES, array_intersect_key($_SERVER, array_flip(explode(' ', $_GET['show'] ?? '')))]);
            $request->respond(200, ['content-type' => 'text/html']);
        }
        PHP;

    public function testSuperglobals(): void
    {
        $shared = $this->serve(self::GLOBALS);
        $this->contains("exchanges=1\nmax_own=1\n", $shared->hello);
        $show = 'REQUEST_METHOD+REQUEST_URI+QUERY_STRING+HTTP_HOST+SERVER_NAME+SERVER_PORT+REMOTE_ADDR+CONTENT_TYPE+HTTP_X_A+HTTP_X_B';
        $fields = [['content-type', 'application/x-www-form-urlencoded'], ['cookie', 'a=1; b=%20'], ['x-a', '1'], ['x_b', 'no']];
        $shared->send($this->request(1, "/x?show=$show&q[]=1&q[]=2", $fields, 'p=a%20b', method: 'POST'));
        [$get, $post, $cookie, $files, $server] = json_decode($shared->next()->body, true);
        $this->same([['1', '2'], ['p' => 'a b'], ['a' => '1', 'b' => ' '], []], [$get['q'], $post, $cookie, $files]);
        ksort($server);
        $this->same([
            'CONTENT_TYPE' => 'application/x-www-form-urlencoded', 'HTTP_HOST' => 'demo.test:8080', 'HTTP_X_A' => '1',
            'QUERY_STRING' => "show=$show&q[]=1&q[]=2", 'REMOTE_ADDR' => '127.0.0.1', 'REQUEST_METHOD' => 'POST',
            'REQUEST_URI' => "/x?show=$show&q[]=1&q[]=2", 'SERVER_NAME' => 'demo.test', 'SERVER_PORT' => '8080',
        ], $server);
        $shared->send($this->request(1)); // nothing of the request before is left
        $this->same([[], [], [], [], []], json_decode($shared->next()->body, true));
    }

    public function testUploadedFiles(): void
    {
        $own = $this->own($this->serve(self::GLOBALS));
        $part = fn (string $head, string $data) => "--b\r\nContent-Disposition: form-data; $head\r\n\r\n$data\r\n";
        $body = $part('name="a[x]"', "1\r\n2") . $part("name=\"f\"; filename=\"../n.txt\"\r\nContent-Type: text/plain", "by\0tes")
            . $part('name="g[]"; filename="g"', 'G') . $part('name="g[]"; filename=""', '') . "--b--\r\n";
        $fields = [['content-type', 'multipart/form-data; boundary=b']];
        $own->send($this->request(1, '/', $fields, substr($body, 0, 50), 0, 'POST'), Wire::frame(Wire::DATA, Wire::END, 1, substr($body, 50)));
        $answer = $own->next()->body;
        $this->same("by\0tesG", substr($answer, 0, 7));
        [, $post, , $files] = json_decode(substr($answer, 7), true);
        $this->same(['a' => ['x' => "1\r\n2"]], $post);
        $paths = [$files['f']['tmp_name'], $files['g']['tmp_name'][0]];
        unset($files['f']['tmp_name'], $files['g']['tmp_name']);
        $this->same([
            'f' => ['name' => 'n.txt', 'type' => 'text/plain', 'error' => 0, 'size' => 6],
            'g' => ['name' => ['g', ''], 'type' => ['', ''], 'error' => [0, 4], 'size' => [1, 0]],
        ], $files);
        $own->send($this->request(2));
        $own->next();
        $this->same([false, false], array_map('file_exists', $paths)); // they lived until the next request
    }

    public function testARequestWithoutAnAnswerFails(): void
    {
        $shared = $this->serve(<<<'PHP'
            $instance = new Instance();
            while ($request = $instance->accept()) {
                $request->capture();
                echo 'dropped';
                $request->path === '/' || $request->respond(200, [], 'given');
            }
            PHP);
        $shared->send($this->request(1));
        $this->same([Wire::RESET, Wire::INTERNAL], [($final = $shared->next())->type, $final->code]);
        $shared->send($this->request(1, '/answered'));
        $this->same('given', $shared->next()->body);
        $this->same('', $this->said());
    }

    public function testScriptsThatEnd(): void
    {
        $source = <<<'PHP'
            ini_set('memory_limit', '32M');
            $instance = new Instance();
            while ($request = $instance->accept()) {
                $request->capture();
                echo 'printed';
                match ($request->path) {
                    '/exit' => exit, '/throw' => throw new Exception('as asked'), '/fatal' => str_repeat('x', 1 << 28),
                };
            }
            PHP;
        foreach (['/exit' => [200, 'printed', 0], '/throw' => [500, "the script failed\n", 255], '/fatal' => [500, "the script failed\n", 255]] as $path => $expected) {
            $shared = $this->serve($source);
            $shared->send($this->request(1, $path));
            $answer = $shared->next();
            $this->same($expected, [$answer->status, $answer->body, $this->exitStatus()]);
            $this->again();
        }
        $this->contains('as asked', $this->said());
        $this->contains('Allowed memory size', $this->said());
    }

    public function testStreamsAndCancelWithoutFibers(): void
    {
        $own = $this->own($this->serve(<<<'PHP'
            $instance = new Instance();
            while ($request = $instance->accept()) {
                $request->respond(200, [], (function () use ($request) {
                    while (($piece = $request->readSome()) !== '') {
                        yield $piece;
                    }
                })());
            }
            PHP));
        $own->send($this->request(1, body: 'one', flags: 0, method: 'PUT'));
        $this->same('one', $own->next()->body);
        $own->send(Wire::frame(Wire::DATA, Wire::END, 1, 'two'));
        $this->same('two', $own->next()->body);
        $this->same(true, $own->next()->isEnd());
        $own->send($this->request(2, body: 'one', flags: 0, method: 'PUT'));
        $this->same('one', $own->next()->body);
        $own->send(Wire::reset(2, Wire::CANCELLED, ''));
        $this->same(Wire::CANCELLED, $own->next()->code);
        $own->send($this->request(3, body: 'again', method: 'PUT'));
        $this->same('again', $own->answer()[1]);
    }

    public function testDrain(): void
    {
        $shared = $this->serve(<<<'PHP'
            $instance = new Instance();
            while ($request = $instance->accept()) {
                usleep(200_000);
                $request->respond(200, [], 'done');
            }
            echo 'ended';
            PHP);
        $shared->send($this->request(1), Wire::frame(Wire::DRAIN, 0, 0, pack('V', 5000)));
        $this->same('done', $shared->next()->body);
        $this->same(null, $shared->next());
        $this->same([0, 'ended'], [$this->exitStatus(), $this->said()]);
    }
}
