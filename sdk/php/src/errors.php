<?php

declare(strict_types=1);

namespace Pilotlight;

/** A rule is broken: one of docs/spec/pipe.md by the gateway (P-10), or one of this SDK by its caller. */
final class Violation extends \RuntimeException
{
}

/** Thrown by a handler: ends the exchange without an answer. The client sees 502 if nothing was sent before. */
class Reset extends \RuntimeException
{
    public const CODE = Wire::INTERNAL;
    public float $retryAfter = 0;
}

/** The client has gone, or the deadline is over: nobody waits for the answer. */
final class Cancelled extends Reset
{
    public const CODE = Wire::CANCELLED;
}

/** Nothing has happened: another instance may take the request, whatever its method (P-29). */
class Refused extends Reset
{
    public const CODE = Wire::REFUSED;
}

/** As `Refused`, and this instance has too much to do for `$retryAfter` seconds. */
final class Overloaded extends Refused
{
    public const CODE = Wire::OVERLOADED;

    public function __construct(string $text = 'too much to do', float $retryAfter = 1)
    {
        parent::__construct($text);
        $this->retryAfter = $retryAfter;
    }
}

/** The body of the request is larger than the handler takes; the client sees 413. */
final class TooLarge extends Refused
{
    public const CODE = Wire::TOO_LARGE;
}
