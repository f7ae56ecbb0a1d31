<?php

declare(strict_types=1);

/** The gateway's side of Pipe/1 for the tests: a real Unix socket, real processes, every wait bounded. */

use Pilotlight\Wire;

require_once __DIR__ . '/../src/Wire.php';

const LIMIT = 20; // seconds

/** A frame from the service. */
final class Frame
{
    public int $status = 0, $code = 0;
    public string $body = '';
    /** @var list<array{string, string}> */
    public array $fields = [];

    public function __construct(public int $type, public int $flags, public int $exchange, public string $payload)
    {
        $this->body = $payload;
        if ($type === Wire::RESPONSE || $type === Wire::INFO) {
            ['s' => $size, 'c' => $this->status] = unpack('Vs/vc', $payload);
            $this->fields = array_chunk(Wire::parse(substr($payload, 8, $size)), 2);
            $this->body = substr($payload, 8 + $size);
        } elseif ($type === Wire::RESET) {
            $this->code = unpack('v', $payload)[1];
        }
    }

    public function isEnd(): bool
    {
        return ($this->flags & Wire::END) !== 0;
    }

    public function field(string $name): ?string
    {
        foreach ($this->fields as [$key, $value]) {
            if ($key === $name) {
                return $value;
            }
        }
        return null;
    }
}

/** A connection that a service has dialled. */
final class Peer
{
    public string $hello;

    /** @param resource $stream */
    public function __construct(public $stream)
    {
        stream_set_timeout($stream, LIMIT);
        $this->hello = $this->next()->payload;
        $this->send(Wire::frame(Wire::WELCOME, 0, 0, "PIPE/1\nworker=0\nmax_frame=65536\nminor=1\n"));
    }

    public function send(string ...$frames): void
    {
        fwrite($this->stream, implode('', $frames));
    }

    /** So many bytes; fewer only at the end of the stream. */
    public function bytes(int $count): string
    {
        $data = '';
        while (strlen($data) < $count && ($piece = fread($this->stream, $count - strlen($data))) !== '' && $piece !== false) {
            $data .= $piece;
        }
        stream_get_meta_data($this->stream)['timed_out'] && throw new Exception('nothing came in time');
        return $data;
    }

    /** The next frame; null at the end of the stream. */
    public function next(): ?Frame
    {
        $header = $this->bytes(8);
        if ($header === '') {
            return null;
        }
        ['s' => $size, 't' => $type, 'f' => $flags, 'x' => $exchange] = unpack('Vs/Ct/Cf/vx', $header);
        return new Frame($type, $flags, $exchange, $this->bytes($size));
    }

    /** All of an answer: RESPONSE, its body, and the frame that ends it. */
    public function answer(): array
    {
        $first = $last = $this->next();
        for ($body = $first->body; !$last->isEnd() && !in_array($last->type, [Wire::TRAILERS, Wire::RESET], true);) {
            $last = $this->next();
            $body .= $last->type === Wire::DATA ? $last->body : '';
        }
        return [$first, $body, $last];
    }
}

/** Tests are the public methods `test…`; each has a folder, a listening socket and at most one service. */
abstract class PipeTest
{
    protected string $folder;
    /** @var resource */
    protected $listener;
    /** @var list<Peer> which stay open */
    private array $peers = [];
    /** @var resource|null */
    private $process = null;
    private ?int $status = null;

    public static function run(): int
    {
        $failed = 0;
        foreach (get_class_methods(static::class) as $name) {
            if (!str_starts_with($name, 'test') || !str_contains($name, $GLOBALS['argv'][1] ?? '')) {
                continue;
            }
            $begin = microtime(true);
            $test = new static();
            try {
                $test->setUp();
                $test->$name();
                $problem = null;
            } catch (Throwable $error) {
                $problem = "$error\nthe service said: {$test->said()}";
                $failed++;
            } finally {
                $test->tearDown();
            }
            printf("%s %s.%s %.2f s\n%s", $problem ? 'FAIL' : 'ok  ', static::class, $name, microtime(true) - $begin, $problem);
        }
        return $failed;
    }

    private function setUp(): void
    {
        $this->folder = sys_get_temp_dir() . '/pl' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $this->listener = stream_socket_server("unix://$this->folder/s");
    }

    private function tearDown(): void
    {
        if ($this->process) {
            $this->status ?? proc_terminate($this->process, 9);
            proc_close($this->process);
        }
        fclose($this->listener);
        array_map('unlink', glob("$this->folder/*"));
        rmdir($this->folder);
    }

    /** Starts a service from PHP source, or from a file of it; returns its first connection. */
    protected function serve(string $source, bool $accepts = true): ?Peer
    {
        $file = $source;
        if (!str_ends_with($source, '.php')) {
            $file = "$this->folder/service.php";
            file_put_contents($file, "<?php\nuse Pilotlight\\{Request, Instance};\nrequire '" . dirname(__DIR__) . "/pilotlight.php';\n$source");
        }
        $log = ['file', "$this->folder/log", 'a'];
        $environment = ['PILOTLIGHT_SOCKET' => "$this->folder/s", 'PILOTLIGHT_TOKEN' => str_repeat('0', 32)] + getenv();
        $this->process = proc_open([PHP_BINARY, $file], [['file', '/dev/null', 'r'], $log, $log], $pipes, $this->folder, $environment);
        return $accepts ? $this->accept() : null;
    }

    /** Another service may be started: the one before has ended. */
    protected function again(): void
    {
        proc_close($this->process);
        $this->process = $this->status = null;
    }

    protected function said(): string
    {
        return @file_get_contents("$this->folder/log") ?: '';
    }

    protected function accept(): Peer
    {
        return $this->peers[] = new Peer(stream_socket_accept($this->listener, LIMIT));
    }

    protected function own(Peer $shared): Peer
    {
        $shared->send(Wire::frame(Wire::MORE, 0, 0, pack('vvV', 1, 1, 0)));
        return $this->accept();
    }

    protected function request(
        int $exchange,
        string $target = '/',
        array $fields = [],
        string $body = '',
        int $flags = Wire::END,
        string $method = 'GET',
        int $deadline = 0,
    ): string {
        $texts = [$method, 'http', 'demo.test:8080', $target, 'HTTP/1.1', '127.0.0.1:5', 'r-1'];
        foreach ($fields as [$name, $value]) {
            array_push($texts, $name, $value);
        }
        $block = implode("\0", $texts) . "\0";
        return Wire::frame(Wire::REQUEST, $flags, $exchange, pack('VV', strlen($block), $deadline) . $block . $body);
    }

    protected function signal(int $number): void
    {
        proc_terminate($this->process, $number);
    }

    protected function exitStatus(): int
    {
        $this->eventually('the service ends', function (): bool {
            $state = proc_get_status($this->process);
            $this->status ??= $state['running'] ? null : $state['exitcode'];
            return $this->status !== null;
        });
        return $this->status;
    }

    protected function eventually(string $what, callable $check): void
    {
        for ($limit = microtime(true) + LIMIT; !$check(); usleep(10_000)) {
            microtime(true) < $limit || throw new Exception("not within " . LIMIT . " s: $what");
        }
    }

    protected function same(mixed $expected, mixed $actual): void
    {
        $expected === $actual || throw new Exception('expected ' . var_export($expected, true) . ', got ' . var_export($actual, true));
    }

    protected function contains(string $part, string $text): void
    {
        str_contains($text, $part) || throw new Exception("expected $part in $text");
    }
}
