<?php

declare(strict_types=1);

namespace Pilotlight;

/**
 * This instance: its connections, and the loop that waits for them.
 *
 * `serve` gives each exchange a fiber, which is used again for a later one. A turn of the loop reads each connection that
 * has something, runs the handlers that can go on, and then writes: one read and one write serve a batch (P-18).
 */
final class Instance
{
    private const MAX_SHARED = 64, MAX_LINKS = 1_000; // select() takes 1,024 descriptors
    private const DRAIN_SECONDS = 1.0; // after SIGTERM, for the gateway's DRAIN
    private const NOT_STARTED = "pilotlight: PILOTLIGHT_SOCKET is not set.\n"
        . "The gateway starts this program; name it in pilotlight.toml:\n\n"
        . "    [services.hello]\n    command = [\"php\", \"hello.php\"]\n    transport = \"pipe\"\n";

    /** @internal */
    public readonly string $path, $token;
    /** @internal */
    public ?int $status = null;
    /** @internal */
    public bool $isDraining = false;
    /** @internal @var list<Link> connections that have something to send */
    public array $unsent = [];
    /** @var array<int, Link> by the number of their stream */
    private array $links = [];
    /** @var array<int, Request> every exchange without a final frame, and every connection that has switched */
    private array $busy = [];
    /** @var list<Request> */
    private array $queue = [], $awake = [];
    /** @var list<\Fiber> */
    private array $idle = [];
    /** @var array<int, list<Link>> answer connections that are idle, by worker */
    private array $answers = [];
    private \SplMinHeap $timers;
    private ?\Closure $handler = null;
    private ?Request $current = null;
    private bool $isReleased = false, $isOver = false;
    private float $until = INF;

    /** One exchange at a time by default: then superglobals, `echo` and calls that block do no harm. */
    public function __construct(
        public readonly int $exchanges = 1,
        public readonly int $maxOwn = 1,
        public readonly int $maxBody = 64 << 20,
        private readonly int $maxUpgraded = 512,
    ) {
        Wire::check($maxOwn + $maxUpgraded <= 900, 'maxOwn and maxUpgraded must be 900 together: select() takes 1,024');
        foreach ([$exchanges, $maxOwn] as $number) {
            Wire::check($number >= 1 && $number <= 4096, "exchanges and maxOwn must be 1 to 4096, not $number");
        }
        [$path, $token] = [getenv('PILOTLIGHT_SOCKET'), getenv('PILOTLIGHT_TOKEN')];
        if ($path === false || $token === false) {
            fwrite(STDERR, self::NOT_STARTED);
            exit(2);
        }
        [$this->path, $this->token, $this->timers] = [$path, $token, new \SplMinHeap()];
        if (function_exists('pcntl_async_signals')) {
            pcntl_async_signals(true);
            foreach ([SIGTERM, SIGINT] as $signal) {
                pcntl_signal($signal, fn () => $this->leave(true));
            }
        }
        if (!in_array(ini_get('display_errors'), ['', '0', 'stderr'], true)) {
            ini_set('display_errors', ini_get('log_errors') ? '0' : 'stderr'); // what is printed may be a body
        }
        register_shutdown_function(fn () => $this->atShutdown());
        $this->dial('shared', 1);
        $this->links || exit(1);
        $this->flush();
    }

    /** Runs until the instance is to end. @param callable(Request): ?array $handler */
    public function serve(callable $handler): void
    {
        $this->handler = $handler(...);
        while (!$this->isOver()) {
            $this->turn();
        }
        $this->end();
    }

    /** The next request, or null when the instance is to end. The one before must have been answered; else it fails. */
    public function accept(): ?Request
    {
        if ($this->current !== null) {
            $this->settle($this->current, fn (Request $request) => throw new Reset('the script did not answer'));
            $this->current = null;
        }
        $this->flush();
        while (!$this->isOver()) {
            while ($request = array_shift($this->queue)) {
                if (!$request->isOver()) {
                    return $this->current = $request;
                }
                $this->settle($request, fn () => null);
            }
            $this->turn();
        }
        $this->end();
        return null;
    }

    /** @internal opens `$count` connections of a kind, never more than its limit (P-23) */
    public function dial(string $kind, int $count, ?int $worker = null): void
    {
        $limit = $kind === 'own' ? $this->maxOwn : self::MAX_SHARED;
        $room = $limit - count(array_filter($this->links, fn (Link $link) => $link->kind === $kind));
        for ($number = min($count, $room); $number > 0; $number--) {
            $this->connect($kind, $worker);
        }
    }

    /** @internal an answer connection (P-24), idle (P-25) or new */
    public function answerLink(int $worker): Link
    {
        while ($this->answers[$worker] ?? []) {
            $link = array_pop($this->answers[$worker]);
            if (!$link->isClosed) {
                return $link;
            }
        }
        return $this->connect('answer', $worker) ?? throw new Reset('no answer connection');
    }

    /** @internal */
    public function keepAnswerLink(Link $link): void
    {
        $this->answers[$link->worker][] = $link;
    }

    /** @internal */
    public function anyShared(): ?Link
    {
        foreach ($this->links as $link) {
            if ($link->kind === 'shared') {
                return $link;
            }
        }
        return null;
    }

    /** @internal a connection is to leave the protocol: it counts no longer for `maxOwn` (P-42) */
    public function switch(Link $link): void
    {
        $count = count(array_filter($this->links, fn (Link $other) => $other->kind === 'upgraded'));
        $count < $this->maxUpgraded || throw new Overloaded("$count connections have switched protocols already");
        $link->kind = 'upgraded';
    }

    /** @internal */
    public function begin(Request $request): void
    {
        $this->isDraining && $request->refuse(); // P-31
        $this->busy[spl_object_id($request)] = $request;
        $this->queue[] = $request;
    }

    /** @internal the gateway has said DRAIN (P-31) */
    public function drain(): void
    {
        $this->isReleased = true;
        $this->leave(false);
    }

    /** @internal a connection has ended */
    public function left(Link $link, int $status): void
    {
        unset($this->links[(int) $link->stream]);
        if ($link->kind === 'shared' && $this->anyShared() === null) {
            $this->status ??= $status; // P-33
            $this->isOver = true;
        }
    }

    /** @internal */
    public function wake(Request $request): void
    {
        if (!$request->isAwake) {
            $request->isAwake = true;
            $this->awake[] = $request;
        }
    }

    /** @internal wakes it at this time, though not in this turn */
    public function wakeAt(float $time, Request $request): void
    {
        $this->timers->insert([$time, spl_object_id($request), $request]);
    }

    /** @internal returns when something has happened to the exchange; other ones go on meanwhile */
    public function wait(Request $request): void
    {
        $request->isAwake = false;
        if ($request->fiber !== null && $request->fiber === \Fiber::getCurrent()) {
            \Fiber::suspend();
            return;
        }
        while (!$request->isAwake && !$this->isOver) {
            $this->turn();
        }
        $this->isOver && $request->abandon();
    }

    private function connect(string $kind, ?int $worker): ?Link
    {
        try {
            count($this->links) < self::MAX_LINKS || throw new \RuntimeException('too many connections');
            $link = new Link($this, $kind, $worker);
            return $this->links[(int) $link->stream] = $link;
        } catch (\RuntimeException $error) {
            fwrite(STDERR, "pilotlight: {$error->getMessage()}\n");
            return null;
        }
    }

    /** One turn: waits for connections and timers, reads, runs what can go on, writes. */
    private function turn(): void
    {
        [$reads, $writes, $none] = [[], [], null];
        foreach ($this->links as $link) {
            $link->wantsInput() && $reads[] = $link->stream;
            $link->out === '' || $writes[] = $link->stream;
        }
        $wait = $this->awake || ($this->handler && $this->queue) ? 0.0 : $this->patience();
        if (@stream_select($reads, $writes, $none, (int) $wait, (int) (fmod($wait, 1) * 1e6)) === false) {
            return; // a signal
        }
        foreach ($writes as $stream) {
            ($this->links[(int) $stream] ?? null)?->flush();
        }
        foreach ($reads as $stream) {
            ($this->links[(int) $stream] ?? null)?->read();
        }
        $this->run();
        $this->flush();
    }

    /** The seconds until the next timer. */
    private function patience(): float
    {
        $next = $this->timers->isEmpty() ? INF : $this->timers->top()[0];
        $until = $this->isDraining && !$this->busy ? $this->until : INF;
        return min(max(0.0, min($next, $until) - microtime(true)), 3600.0);
    }

    private function run(): void
    {
        $now = microtime(true);
        while (!$this->timers->isEmpty() && $this->timers->top()[0] <= $now) {
            $this->wake($this->timers->extract()[2]);
        }
        [$awake, $this->awake] = [$this->awake, []];
        foreach ($awake as $request) {
            $this->current = $this->handler ? $request : $this->current;
            $request->fiber?->resume();
        }
        while ($this->handler && $this->queue) {
            $request = array_shift($this->queue);
            $fiber = array_pop($this->idle) ?? $this->newFiber();
            $this->current = $request;
            $request->fiber = $fiber;
            $fiber->resume($request);
        }
        $this->current = $this->handler ? null : $this->current;
    }

    /** A fiber that handles one exchange after the other. */
    private function newFiber(): \Fiber
    {
        $fiber = new \Fiber(function (): void {
            while (true) {
                $request = \Fiber::suspend();
                $this->settle($request, $this->handler);
                $this->idle[] = \Fiber::getCurrent();
            }
        });
        $fiber->start();
        return $fiber;
    }

    /** Runs a handler and sends what it returns; whatever it throws, only this exchange ends by it. */
    private function settle(Request $request, \Closure $handler): void
    {
        try {
            if (!$request->isDone()) {
                $request->raiseIfOver(); // it has been cancelled, or refused
                $answer = $handler($request);
                $request->isDone() || $request->respond(...$answer);
            }
        } catch (\Throwable $error) {
            $error instanceof Reset || fwrite(STDERR, "$error\n");
            $request->fail($error);
        } finally {
            $request->isSwitched() && $request->close();
            $request->fiber = null;
            unset($this->busy[spl_object_id($request)]);
        }
    }

    private function flush(): void
    {
        [$links, $this->unsent] = [$this->unsent, []];
        foreach ($links as $link) {
            $link->flush();
        }
    }

    /** The instance is to end: tells the gateway (P-32), or has been told. */
    private function leave(bool $tellsGateway): void
    {
        if ($this->isDraining) {
            return;
        }
        $this->isDraining = true;
        $this->until = microtime(true) + self::DRAIN_SECONDS;
        foreach ($tellsGateway ? $this->links : [] as $link) {
            $link->kind === 'shared' && $link->send(Wire::frame(Wire::DRAIN, 0, 0, "\0\0\0\0"));
        }
        foreach ($this->busy as $request) {
            $request->drain(); // P-43
        }
    }

    private function isOver(): bool
    {
        if ($this->isOver || !$this->isDraining || $this->busy) {
            return $this->isOver;
        }
        foreach ($this->links as $link) {
            if ($link->out !== '') {
                return false;
            }
        }
        return $this->isReleased || microtime(true) >= $this->until;
    }

    private function end(): void
    {
        $this->isOver = true;
        foreach ($this->links as $link) {
            $link->isClosed || fclose($link->stream);
        }
        $this->links = [];
        $this->status && exit($this->status);
    }

    /** The script has ended in the middle of exchanges, by `exit` or a fatal error. */
    private function atShutdown(): void
    {
        if ($this->isOver) {
            return;
        }
        $isFatal = ((error_get_last()['type'] ?? 0) & (E_ERROR | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR)) !== 0;
        foreach ($this->busy as $request) {
            $request->abort($isFatal, $request === $this->current);
        }
        foreach ($this->links as $link) {
            stream_set_blocking($link->stream, true);
            $link->flush();
        }
    }
}
