<?php

declare(strict_types=1);

namespace Pilotlight;

/** The bytes of Pipe/1: frames, heads and fields; no sockets. */
final class Wire
{
    public const HELLO = 1, WELCOME = 2, REQUEST = 3, RESPONSE = 4, INFO = 5, DATA = 6, TRAILERS = 7, STOP = 8;
    public const RESET = 9, PING = 10, PONG = 11, DRAIN = 12, MORE = 13, LOG = 14;
    public const CANCELLED = 1, DEADLINE = 2, REFUSED = 3, OVERLOADED = 4, INTERNAL = 5, PROTOCOL = 6, TOO_LARGE = 7;
    public const END = 0x01, UPGRADE = 0x02, IGNORABLE = 0x80;
    public const HEADER_BYTES = 8, HEAD_BYTES = 8, MAX_FRAME = 65_536, MAX_HELLO = 4_096, MAX_TEXT = 1_024;
    public const MINOR = 1; // P-37
    public const LEVELS = ['error' => 1, 'warn' => 2, 'info' => 3, 'debug' => 4, 'trace' => 5];
    private const DROPPED = [ // P-9
        'connection' => 1, 'keep-alive' => 1, 'proxy-connection' => 1, 'te' => 1, 'transfer-encoding' => 1,
        'upgrade' => 1, 'expect' => 1, 'host' => 1,
    ];

    /** Throws Violation unless the condition holds. */
    public static function check(bool $condition, string $rule): void
    {
        $condition || throw new Violation($rule);
    }

    /** A whole frame. */
    public static function frame(int $type, int $flags, int $exchange, string $payload = ''): string
    {
        return pack('VCCv', strlen($payload), $type, $flags, $exchange) . $payload;
    }

    /** A RESET frame. */
    public static function reset(int $exchange, int $code, string $text, float $retryAfter = 0): string
    {
        return self::frame(self::RESET, 0, $exchange, pack('vvV', $code, 0, (int) ($retryAfter * 1000)) . self::cut($text));
    }

    /** `$text` in at most MAX_TEXT bytes, whole characters of UTF-8. */
    public static function cut(string $text): string
    {
        $text = substr($text, 0, self::MAX_TEXT);
        for ($tries = 0; $tries < 4 && preg_match('//u', $text) !== 1; $tries++) {
            $text = substr($text, 0, -1);
        }
        return preg_match('//u', $text) === 1 ? $text : preg_replace('/[^\x20-\x7e\t\n]/', '?', $text);
    }

    /**
     * The strings of a head: `$fixed` ones, then name, value, name, value … (P-8).
     *
     * @return list<string>
     */
    public static function parse(string $block, int $fixed = 0): array
    {
        $texts = explode("\0", $block);
        $count = count($texts) - 1;
        if (array_pop($texts) !== '' || $count < $fixed || ($count - $fixed) % 2 !== 0) {
            throw new Violation("P-8: $count strings, which are not $fixed and pairs, or no zero byte behind them");
        }
        return $texts;
    }

    /**
     * Encodes header fields, without those that must not cross (P-8, P-9).
     *
     * @param iterable<int|string, mixed> $headers name => value, name => list of values, or a list of [name, value]
     */
    public static function fields(iterable $headers, string $block = ''): string
    {
        $texts = substr_count($block, "\0");
        $dropped = self::DROPPED;
        foreach ($headers as $name => $value) {
            if (is_string($name) ? $name === 'connection' || strcasecmp($name, 'connection') === 0 : strcasecmp($value[0], 'connection') === 0) {
                $named = is_string($name) ? implode(',', (array) $value) : $value[1];
                $dropped += array_flip(array_map('trim', explode(',', strtolower($named))));
            }
        }
        foreach ($headers as $name => $values) {
            [$name, $values] = is_string($name) ? [$name, $values] : [$values[0], $values[1]];
            $name = strtolower($name);
            foreach (isset($dropped[$name]) ? [] : (is_array($values) ? $values : [$values]) as $value) {
                $block .= "$name\0$value\0";
                $texts += 2;
            }
        }
        if (strcspn($block, "\r\n") !== strlen($block) || substr_count($block, "\0") !== $texts) {
            throw new Violation('P-8: a zero byte, CR or LF in the fields ' . json_encode(substr($block, 0, 200), JSON_INVALID_UTF8_SUBSTITUTE));
        }
        self::check(strlen($block) <= self::MAX_FRAME - self::HEAD_BYTES, 'P-6: ' . strlen($block) . ' bytes of headers do not fit a frame');
        return $block;
    }

    /** The head of RESPONSE or INFO. */
    public static function head(int $status, string $block): string
    {
        return pack('Vvv', strlen($block), $status, 0) . $block;
    }
}
