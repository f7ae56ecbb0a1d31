<?php

declare(strict_types=1);

namespace Pilotlight;

/**
 * One connection to the gateway: shared, own or answer, or one that has switched to another protocol (upgraded).
 *
 * Invariant: of a body, what one read brings is all that is held in memory in each direction.
 *
 * @internal
 */
final class Link
{
    /** P-11: what the gateway may send on each kind of connection, besides RESET on exchange 0. */
    private const RULES = [
        'shared' => [Wire::REQUEST => 1, Wire::RESET => 1, Wire::PING => 1, Wire::MORE => 1, Wire::DRAIN => 1],
        'own' => [Wire::REQUEST => 1, Wire::RESET => 1, Wire::PING => 1, Wire::DATA => 1, Wire::TRAILERS => 1],
        'answer' => [],
    ];

    /** @var resource */
    public $stream;
    /** @var array<int, Request> */
    public array $open = [];
    public string $out = '';
    public bool $isClosed = false;
    public int $minor = 0;
    private string $tail = '';
    private int $maxFrame = Wire::MAX_HELLO;
    private array $rules = [Wire::WELCOME => 1];

    public function __construct(public readonly Instance $instance, public string $kind, public ?int $worker = null)
    {
        $stream = @stream_socket_client("unix://$instance->path", $code, $text);
        if ($stream === false) {
            throw new \RuntimeException("cannot dial the gateway at $instance->path: $text");
        }
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
        stream_set_write_buffer($stream, 0);
        stream_set_chunk_size($stream, Wire::MAX_FRAME);
        $this->stream = $stream;
        $hello = "PIPE/1\ntoken=$instance->token\nkind=$kind\nsdk=pilotlight-php/" . VERSION . "\npid=" . getmypid() . "\n";
        $hello .= 'minor=' . Wire::MINOR . "\n" . ($worker === null ? '' : "worker=$worker\n");
        $hello .= $kind === 'shared' ? "exchanges=$instance->exchanges\nmax_own=$instance->maxOwn\n" : '';
        $this->send(Wire::frame(Wire::HELLO, 0, 0, $hello)); // P-1
    }

    /** Puts a frame, or bytes of another protocol, into what leaves at the end of this turn (P-18). */
    public function send(string $bytes): void
    {
        if ($this->out === '') {
            $this->instance->unsent[] = $this;
        }
        $this->out .= $bytes;
    }

    /** Sends what the socket takes. */
    public function flush(): void
    {
        if ($this->out === '' || $this->isClosed) {
            return;
        }
        $sent = @fwrite($this->stream, $this->out);
        if ($sent === false) {
            $this->close();
            return;
        }
        $this->out = $sent === strlen($this->out) ? '' : substr($this->out, $sent);
        if ($this->out === '' && $this->kind !== 'shared') {
            $this->wake();
        }
    }

    /** Whether to read: not while a body is there that its handler has not read (P-22). */
    public function wantsInput(): bool
    {
        if ($this->kind === 'own' || $this->kind === 'upgraded') {
            foreach ($this->open as $request) {
                return !$request->hasInput();
            }
        }
        return true;
    }

    /** Reads once and handles the frames that are whole. */
    public function read(): void
    {
        $data = @fread($this->stream, Wire::MAX_FRAME);
        if ($this->kind === 'upgraded') {
            foreach ($this->open as $request) {
                $request->raw((string) $data);
            }
            return;
        }
        if ($data === '' || $data === false) {
            $this->close();
            return;
        }
        try {
            $data = $this->tail === '' ? $data : $this->tail . $data;
            $start = $this->handle($data);
            $this->tail = $start === strlen($data) ? '' : substr($data, $start);
        } catch (Violation $violation) {
            $this->close($violation->getMessage());
        }
    }

    /** Ends the connection and its exchanges (P-34); `$violation` says why (P-10). */
    public function close(?string $violation = null): void
    {
        if ($this->isClosed) {
            return;
        }
        if ($violation !== null) {
            fwrite(STDERR, "pilotlight: $this->kind connection closed: $violation\n");
            $this->send(Wire::reset(0, Wire::PROTOCOL, $violation));
            @fwrite($this->stream, $this->out);
        }
        $this->isClosed = true;
        $this->out = '';
        foreach ($this->open as $request) {
            $request->abandon();
        }
        @stream_socket_shutdown($this->stream, STREAM_SHUT_RDWR);
        fclose($this->stream);
        $this->instance->left($this, $violation === null ? 0 : 1);
    }

    /** Handles the whole frames of `$data`; returns where the rest begins. */
    private function handle(string $data): int
    {
        $start = 0;
        $length = strlen($data);
        while ($length - $start >= Wire::HEADER_BYTES && !$this->isClosed) {
            ['s' => $size, 't' => $type, 'f' => $flags, 'x' => $exchange] = unpack('Vs/Ct/Cf/vx', $data, $start);
            if ($size > $this->maxFrame) {
                throw new Violation("P-6: a frame of $size bytes, the limit is $this->maxFrame");
            }
            if ($start + Wire::HEADER_BYTES + $size > $length) {
                break;
            }
            $this->take($type, $flags, $exchange, substr($data, $start + Wire::HEADER_BYTES, $size));
            $start += Wire::HEADER_BYTES + $size;
        }
        return $start;
    }

    private function take(int $type, int $flags, int $exchange, string $payload): void
    {
        if ($type === Wire::RESET && $exchange === 0) {
            fwrite(STDERR, 'pilotlight: the gateway says: ' . substr($payload, 8) . "\n");
            $this->instance->status = $this->kind === 'shared' ? 1 : $this->instance->status;
            $this->close();
            return;
        }
        if (!isset($this->rules[$type])) {
            $isKnown = $type >= Wire::HELLO && $type <= Wire::LOG;
            Wire::check(!$isKnown, "P-11: type $type on a connection of kind $this->kind, or too early");
            Wire::check(($flags & Wire::IGNORABLE) !== 0, "P-7: a frame of the unknown type $type");
            return;
        }
        match ($type) {
            Wire::REQUEST => $this->onRequest($flags, $exchange, $payload),
            Wire::RESET, Wire::DATA, Wire::TRAILERS => $this->onPart($type, $flags, $exchange, $payload),
            Wire::PING => $this->send(Wire::frame(Wire::PONG, 0, 0, $payload)), // P-35
            Wire::DRAIN => $this->instance->drain(),
            Wire::MORE => $this->onMore($payload),
            Wire::WELCOME => $this->onWelcome($payload),
        };
    }

    private function onWelcome(string $payload): void
    {
        $lines = explode("\n", $payload);
        $keys = [];
        foreach ($lines as $line) {
            [$key, $value] = explode('=', $line, 2) + [1 => ''];
            $keys[$key] = $value;
        }
        Wire::check(isset($keys['PIPE/1'], $keys['worker'], $keys['max_frame']), 'P-3: not a WELCOME of PIPE/1');
        $this->worker = (int) $keys['worker'];
        $this->maxFrame = max((int) $keys['max_frame'], Wire::MAX_FRAME);
        $this->minor = (int) ($keys['minor'] ?? 0);
        $this->rules = self::RULES[$this->kind];
    }

    private function onRequest(int $flags, int $exchange, string $payload): void
    {
        $isShared = $this->kind === 'shared';
        Wire::check($isShared || !$this->open, 'P-19: REQUEST before the exchange before it has ended');
        Wire::check(!$isShared || ($flags & Wire::END), 'P-14: REQUEST without END on a shared connection');
        Wire::check(count($this->open) < $this->instance->exchanges, 'P-14: too many exchanges at once');
        Wire::check($exchange !== 0 && !isset($this->open[$exchange]), "P-15: the exchange id $exchange is 0 or open");
        $request = $this->open[$exchange] = new Request($this, $exchange, $flags, $payload);
        $this->instance->begin($request);
    }

    private function onPart(int $type, int $flags, int $exchange, string $payload): void
    {
        $request = $this->open[$exchange] ?? null;
        if ($type !== Wire::RESET && ($request === null || $request->hasEnded())) {
            throw new Violation("P-11: type $type, exchange $exchange is not open");
        }
        $request?->part($type, $flags, $payload); // P-26: it may have ended
    }

    private function onMore(string $payload): void
    {
        Wire::check(strlen($payload) >= 8, 'P-11: MORE of ' . strlen($payload) . ' bytes');
        ['k' => $kind, 'c' => $count, 'w' => $worker] = unpack('vk/vc/Vw', $payload);
        $this->instance->dial($kind === 1 ? 'own' : 'shared', $count, $worker);
    }

    private function wake(): void
    {
        foreach ($this->open as $request) {
            $this->instance->wake($request);
        }
    }
}
