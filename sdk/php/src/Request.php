<?php

declare(strict_types=1);

namespace Pilotlight;

/** One exchange: what the client asks, and the ways to answer. */
final class Request
{
    public readonly string $method, $scheme, $authority, $target, $protocol, $peer, $id, $path, $query;
    /** @var array<string, string> fields of the body's end, there when the body has been read */
    public array $trailers = [];
    /** @internal what resumes its handler */
    public ?\Fiber $fiber = null;
    /** @internal whether `wait` may return */
    public bool $isAwake = false;
    /** @var array<string, list<string>>|null */
    private ?array $headers = null;
    private readonly array $texts;
    private readonly ?float $due;
    private string $ahead;
    private string $head = '';
    private bool $hasEnded, $isDone = false, $hasBegun = false, $isSwitched = false;
    private readonly bool $isOffered;
    private int $code = 0;
    private Link $link;
    private readonly Instance $instance;
    private ?string $captured = null;
    private int $level = 0;
    private ?\Closure $onDrain = null;

    /** @internal */
    public function __construct(private readonly Link $source, private readonly int $exchange, int $flags, string $payload)
    {
        Wire::check(strlen($payload) >= Wire::HEAD_BYTES, 'P-8: a REQUEST without a head');
        ['s' => $size, 'd' => $deadline] = unpack('Vs/Vd', $payload);
        Wire::check($size <= strlen($payload) - Wire::HEAD_BYTES, "P-8: head_length is $size, the payload shorter");
        $texts = $this->texts = Wire::parse(substr($payload, Wire::HEAD_BYTES, $size), 7);
        [$this->method, $this->scheme, $this->authority, $this->target, $this->protocol, $this->peer, $this->id] = $texts;
        [$this->path, $this->query] = explode('?', $this->target, 2) + [1 => ''];
        $this->due = $deadline ? microtime(true) + $deadline / 1000 : null;
        $this->ahead = substr($payload, Wire::HEAD_BYTES + $size);
        $this->hasEnded = (bool) ($flags & Wire::END);
        $this->isOffered = ($flags & Wire::UPGRADE) && $source->kind === 'own' && $source->minor > 0;
        Wire::check($this->hasEnded || !$this->isOffered, 'P-38: REQUEST with UPGRADE and without END');
        $this->link = $source;
        $this->instance = $source->instance;
    }

    /** @return array<string, list<string>> the fields: name in lower case => values in their order */
    public function headers(): array
    {
        if ($this->headers === null) {
            $this->headers = [];
            for ($index = 7, $count = count($this->texts); $index < $count; $index += 2) {
                $this->headers[$this->texts[$index]][] = $this->texts[$index + 1];
            }
        }
        return $this->headers;
    }

    /** The values of a field, as one; null if there is none. */
    public function header(string $name): ?string
    {
        $name = strtolower($name);
        $values = $this->headers()[$name] ?? null;
        return $values === null ? null : implode($name === 'cookie' ? '; ' : ', ', $values);
    }

    /** The seconds left for the answer, or null. */
    public function deadline(): ?float
    {
        return $this->due === null ? null : max(0.0, $this->due - microtime(true));
    }

    /** The whole body; throws TooLarge (413) beyond `$maxBody` bytes. */
    public function body(): string
    {
        $body = $this->read($this->instance->maxBody + 1);
        return strlen($body) <= $this->instance->maxBody ? $body : throw new TooLarge('the body is larger than maxBody');
    }

    /** The next `$size` bytes of the body, fewer only at its end. */
    public function read(int $size): string
    {
        $data = '';
        while (strlen($data) < $size && ($piece = $this->readSome($size - strlen($data))) !== '') {
            $data .= $piece;
        }
        return $data;
    }

    /** What has come of the body, at least one byte of it and `$size` bytes at most; empty at its end. */
    public function readSome(int $size = PHP_INT_MAX): string
    {
        while ($this->ahead === '' && !$this->hasEnded && $this->code === 0) {
            $this->wait();
        }
        $this->raiseIfOver();
        $piece = substr($this->ahead, 0, $size);
        $this->ahead = substr($this->ahead, strlen($piece));
        return $piece;
    }

    /** Waits so long while other exchanges go on; throws Cancelled when the client has gone. */
    public function sleep(float $seconds): void
    {
        $until = microtime(true) + $seconds;
        $this->instance->wakeAt($until, $this);
        while (microtime(true) < $until && $this->code === 0) {
            $this->wait();
        }
        $this->raiseIfOver();
    }

    /** Whether the client has gone or the deadline is over; lets other exchanges go on meanwhile. */
    public function cancelled(): bool
    {
        $this->pause();
        return $this->code !== 0;
    }

    /** Writes a log line that belongs to this request; `$level` is a key of Wire::LEVELS. */
    public function log(string $text, string $level = 'info'): void
    {
        $link = $this->isSwitched ? $this->instance->anyShared() : $this->link; // P-41: it has no frames any more
        $text = $this->isSwitched ? "[$this->id] $text" : $text;
        $link?->send(Wire::frame(Wire::LOG, 0, $this->isSwitched ? 0 : $this->exchange, chr(Wire::LEVELS[$level]) . Wire::cut($text)));
    }

    /** Sends an answer ahead of the answer: 103 with `link` fields, say. */
    public function inform(int $status, iterable $headers): void
    {
        $this->raiseIfOver();
        $this->leaveShared();
        $this->hasBegun = true;
        $this->link->send(Wire::frame(Wire::INFO, 0, $this->exchange, Wire::head($status, Wire::fields($headers))));
    }

    /**
     * Answers. `serve` calls it with what a handler returns; in a loop with `accept` it is yours to call.
     *
     * @param string|iterable<string>|null $body null: what was printed since `capture`
     */
    public function respond(int $status, iterable $headers = [], string|iterable|null $body = null, iterable $trailers = []): void
    {
        try {
            $this->answer($status, $headers, $body, $trailers);
        } catch (Cancelled $cancelled) {
            $this->fiber === null ? $this->fail($cancelled) : throw $cancelled;
        }
    }

    private function answer(int $status, iterable $headers, string|iterable|null $body, iterable $trailers): void
    {
        Wire::check(!$this->isDone, 'this request has been answered');
        Wire::check($status >= 200 && $status <= 999, "the status is $status, it must be 200 to 999");
        $body ??= $this->takeCaptured();
        $block = Wire::fields($headers);
        $trailers = Wire::fields($trailers);
        $hasNoBody = $this->method === 'HEAD' || $status === 204 || $status === 304;
        if ($hasNoBody) {
            $body = '';
        }
        $head = Wire::head($status, $block);
        if (is_string($body) && $trailers === '' && strlen($head) + strlen($body) <= Wire::MAX_FRAME && $this->code === 0) {
            $this->stop();
            $this->finish();
            $this->link->send(Wire::frame(Wire::RESPONSE, Wire::END, $this->exchange, $head . $body));
            return;
        }
        $this->head = $head;
        foreach (is_string($body) ? [$body] : $body as $piece) {
            $this->write((string) $piece);
        }
        $this->stop();
        if ($trailers === '') {
            $this->write('', Wire::DATA, Wire::END);
            return;
        }
        $this->write(''); // the head, if nothing was sent
        $this->write($trailers, Wire::TRAILERS, Wire::END);
    }

    /** Fills $_SERVER, $_GET, $_POST, $_COOKIE, $_REQUEST and $_FILES. For one exchange at a time: see the README. */
    public function globals(): void
    {
        require_once __DIR__ . '/Globals.php';
        Globals::fill($this);
    }

    /** What is printed from now on is the body of the answer, until `respond` without a body. For one exchange at a time. */
    public function capture(): void
    {
        [$this->captured, $this->level] = ['', ob_get_level()];
        ob_start(function (string $text): string {
            $this->captured .= $text;
            return '';
        });
    }

    /** @return list<string> the protocols, in lower case, that the client may switch to with this request (RFC 9110 §7.8) */
    public function offers(): array
    {
        return $this->isOffered ? array_map('trim', explode(',', strtolower($this->header('upgrade') ?? ''))) : [];
    }

    /** Answers 101: the connection is `$protocol`'s, one of `offers`. What the handler returns counts no more. */
    public function upgrade(string $protocol, iterable $headers = []): Connection
    {
        Wire::check(in_array(strtolower($protocol), $this->offers(), true), "$protocol is not what the client offers");
        $this->raiseIfOver();
        $this->instance->switch($this->source);
        $head = Wire::head(101, Wire::fields($headers, "upgrade\0$protocol\0"));
        Wire::check(strlen($head) <= Wire::MAX_FRAME, 'P-6: the headers do not fit a frame');
        $this->link->send(Wire::frame(Wire::RESPONSE, Wire::UPGRADE, $this->exchange, $head));
        $this->isSwitched = $this->isDone = true;
        $this->hasEnded = false; // the bytes of the other protocol take the place of the body
        return new Connection($this, $this->source);
    }

    /** Calls this once if the instance is to end while the connection is open: end it by the means of its protocol (P-43). */
    public function onDrain(\Closure $callback): void
    {
        $this->onDrain = $callback;
        $this->instance->isDraining && $this->drain();
    }

    /** @internal */
    public function drain(): void
    {
        [$callback, $this->onDrain] = [$this->onDrain, null];
        $callback && $callback();
    }

    /** @internal a frame of the request direction */
    public function part(int $type, int $flags, string $payload): void
    {
        Wire::check(!$this->isOffered || $this->hasBegun, "P-39: type $type before the answer to an offered switch");
        match ($type) {
            Wire::RESET => $this->code = strlen($payload) >= 2 ? unpack('v', $payload)[1] : Wire::CANCELLED,
            Wire::TRAILERS => $this->trailers = self::pairs(Wire::parse($payload)),
            default => $this->isDone || $this->ahead .= $payload,
        };
        $this->hasEnded = $this->hasEnded || $type !== Wire::DATA || ($flags & Wire::END) !== 0;
        if ($this->isDone && $this->hasEnded) {
            unset($this->source->open[$this->exchange]);
        }
        $this->instance->wake($this);
    }

    /** @internal bytes of another protocol; none at their end */
    public function raw(string $data): void
    {
        $this->ahead .= $data;
        $this->hasEnded = $this->hasEnded || $data === '';
        $this->instance->wake($this);
    }

    /** @internal its connection has ended (P-34) */
    public function abandon(): void
    {
        $this->code = $this->code ?: Wire::CANCELLED;
        $this->hasEnded = true;
        $this->instance->wake($this);
    }

    /** @internal P-31 */
    public function refuse(): void
    {
        $this->code = $this->code ?: Wire::REFUSED;
    }

    /** @internal whether `Link` shall not read more */
    public function hasInput(): bool
    {
        return $this->ahead !== '' || ($this->isSwitched && $this->hasEnded);
    }

    /** @internal */
    public function hasEnded(): bool
    {
        return $this->hasEnded;
    }

    /** @internal whether the exchange has had its final frame */
    public function isDone(): bool
    {
        return $this->isDone;
    }

    /** @internal */
    public function isSwitched(): bool
    {
        return $this->isSwitched;
    }

    /** @internal ends the exchange with a RESET, if it has not ended */
    public function fail(\Throwable $error): void
    {
        if ($this->isDone) {
            return;
        }
        $isReset = $error instanceof Reset;
        $code = $this->code ?: ($this->hasBegun || !$isReset ? Wire::INTERNAL : $error::CODE); // P-29
        $this->finish();
        $text = $isReset ? $error->getMessage() : $error::class . ' in the handler';
        $this->link->send(Wire::reset($this->exchange, $code, $text, $isReset ? $error->retryAfter : 0));
    }

    /** @internal the script is over: by a fatal error or `exit`, in this exchange or in another one */
    public function abort(bool $isFatal, bool $isCulprit): void
    {
        $text = $this->captured;
        match (true) {
            $this->isDone => null,
            $isCulprit && !$this->hasBegun && $this->code === 0 && ($isFatal || $text !== null) => $this->respond(
                $isFatal ? 500 : 200,
                $isFatal ? ['content-type' => 'text/plain'] : ['content-type' => 'text/html; charset=utf-8'],
                $isFatal ? "the script failed\n" : null,
            ),
            default => $this->fail(new Reset('the script has ended')),
        };
    }

    /** @internal the handler has ended that had switched protocols */
    public function close(): void
    {
        $this->link->close();
    }

    /** @internal whether nobody waits for the answer */
    public function isOver(): bool
    {
        return $this->code !== 0;
    }

    /** @internal */
    public function raiseIfOver(): void
    {
        if ($this->code !== 0) {
            throw new Cancelled('nobody waits for the answer');
        }
    }

    /** @internal waits until what was sent has left, and at least until the next turn; not in another exchange's fiber */
    public function pause(): void
    {
        if (\Fiber::getCurrent() !== $this->fiber) {
            return;
        }
        $this->instance->wakeAt(0.0, $this);
        do {
            $this->wait();
        } while ($this->link->out !== '' && $this->code === 0 && !$this->link->isClosed);
    }

    private function wait(): void
    {
        $this->instance->wait($this);
    }

    /** Sends part of a stream, the head before it, in as many frames as it takes, while somebody waits for it. */
    private function write(string $data, int $type = Wire::DATA, int $flags = 0): void
    {
        while ($data !== '' || $flags !== 0 || $this->head !== '') {
            $this->raiseIfOver();
            $this->leaveShared();
            $piece = $this->head . substr($data, 0, Wire::MAX_FRAME - strlen($this->head));
            $data = substr($data, strlen($piece) - strlen($this->head));
            if ($data === '' && $flags !== 0) {
                $this->finish();
            }
            $now = $data === '' ? $flags : 0;
            $this->link->send(Wire::frame($this->head === '' ? $type : Wire::RESPONSE, $now, $this->exchange, $piece));
            [$this->head, $this->hasBegun] = ['', true];
            if ($this->isDone) {
                return;
            }
            $this->pause(); // P-22
        }
    }

    /** P-17, P-24: more than one frame is not sent on a shared connection. */
    private function leaveShared(): void
    {
        if ($this->link->kind === 'shared') {
            $this->link = $this->instance->answerLink($this->source->worker ?? 0);
            $this->link->open[$this->exchange] = $this;
        }
    }

    /** P-21: nobody will read the rest of the request. */
    private function stop(): void
    {
        $this->hasEnded || $this->source->send(Wire::frame(Wire::STOP, 0, $this->exchange));
    }

    /** The final frame is about to be sent: the gateway may use the id again as soon as it sees it (P-15). */
    private function finish(): void
    {
        $this->isDone = true;
        $this->ahead = '';
        $this->takeCaptured();
        if ($this->hasEnded) {
            unset($this->source->open[$this->exchange]);
        }
        if ($this->link !== $this->source) {
            unset($this->link->open[$this->exchange]);
            $this->instance->keepAnswerLink($this->link);
        }
    }

    private function takeCaptured(): string
    {
        if ($this->captured === null) {
            return '';
        }
        while (ob_get_level() > $this->level) {
            ob_end_flush();
        }
        [$text, $this->captured] = [$this->captured, null];
        return $text;
    }

    /** @param list<string> $texts */
    private static function pairs(array $texts): array
    {
        $pairs = [];
        foreach (array_chunk($texts, 2) as [$name, $value]) {
            $pairs[$name] = isset($pairs[$name]) ? "$pairs[$name], $value" : $value;
        }
        return $pairs;
    }
}
