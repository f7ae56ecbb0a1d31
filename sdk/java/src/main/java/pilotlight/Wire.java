package pilotlight;

import java.nio.charset.StandardCharsets;

/** Numbers of Pipe/1 (docs/spec/pipe.md) and how they are written. */
final class Wire {
    static final int HELLO = 1, WELCOME = 2, REQUEST = 3, RESPONSE = 4, INFO = 5, DATA = 6, TRAILERS = 7, STOP = 8,
        RESET = 9, PING = 10, PONG = 11, DRAIN = 12, MORE = 13, LOG = 14;
    static final int END = 0x01, UPGRADE = 0x02, IGNORABLE = 0x80;
    static final int CANCELLED = 1, REFUSED = 3, OVERLOADED = 4, INTERNAL = 5, PROTOCOL = 6, TOO_LARGE = 7;
    static final int HEADER_BYTES = 8, MIN_MAX_FRAME = 65_536, MAX_WELCOME = 4_096, MAX_LIMIT = 4_096;
    /** Of a RESET's or LOG's text: at most 3 bytes each, 1,024 are allowed. */
    private static final int MAX_TEXT_CHARS = 341;
    static final byte[] EMPTY = {};

    private Wire() {}

    static int u16(byte[] bytes, int at) {
        return bytes[at] & 0xff | (bytes[at + 1] & 0xff) << 8;
    }

    static int u32(byte[] bytes, int at) {
        return u16(bytes, at) | u16(bytes, at + 2) << 16;
    }

    static void put(byte[] bytes, int at, int number) {
        bytes[at] = (byte) number;
        bytes[at + 1] = (byte) (number >>> 8);
        bytes[at + 2] = (byte) (number >>> 16);
        bytes[at + 3] = (byte) (number >>> 24);
    }

    static byte[] u32(int number) {
        byte[] bytes = new byte[4];
        put(bytes, 0, number);
        return bytes;
    }

    /** Numbers of 32 bits, and then text as far as it may go. */
    static byte[] payload(String text, int... numbers) {
        byte[] cut = (text.length() > MAX_TEXT_CHARS ? text.substring(0, MAX_TEXT_CHARS) : text)
            .getBytes(StandardCharsets.UTF_8);
        byte[] bytes = new byte[numbers.length * 4 + cut.length];
        for (int i = 0; i < numbers.length; i++) put(bytes, i * 4, numbers[i]);
        System.arraycopy(cut, 0, bytes, numbers.length * 4, cut.length);
        return bytes;
    }

    /** P-8: how many strings a block has, each ended by a zero byte: `first` ones, then names and values. */
    static int strings(byte[] bytes, int from, int to, int first) {
        check(from == to || bytes[to - 1] == 0, "P-8: the last string has no final zero byte");
        int count = 0;
        for (int i = from; i < to; i++) if (bytes[i] == 0) count++;
        check(count >= first && (count - first) % 2 == 0, "P-8: a name without a value, or too few strings");
        return count;
    }

    static void check(boolean kept, String rule) {
        if (!kept) throw new Violation(rule);
    }

    /** The gateway has broken a rule of the specification (P-10). */
    static final class Violation extends RuntimeException {
        private static final long serialVersionUID = 1;

        Violation(String rule) {
            super(rule, null, false, false);
        }
    }
}
