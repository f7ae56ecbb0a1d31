package pilotlight;

import java.time.Duration;

/** Thrown by a handler that has not begun to answer: ends the exchange without an answer. */
public final class Reset extends Exception {
    private static final long serialVersionUID = 1;
    final int code;
    final int retryAfterMs;

    private Reset(int code, String text, long retryAfterMs) {
        super(text, null, false, false);
        this.code = code;
        this.retryAfterMs = (int) Math.min(Math.max(0, retryAfterMs), Integer.MAX_VALUE);
    }

    /** Nothing has happened: the gateway may send the request to another instance, whatever its method (P-29). */
    public static Reset refused(String text) {
        return new Reset(Wire.REFUSED, text, 0);
    }

    /** As `refused`, and this instance has too much to do for that long: 503 with Retry-After. */
    public static Reset overloaded(String text, Duration retryAfter) {
        return new Reset(Wire.OVERLOADED, text, retryAfter.toMillis());
    }

    /** The body of the request is larger than the handler takes: 413. */
    public static Reset tooLarge(String text) {
        return new Reset(Wire.TOO_LARGE, text, 0);
    }
}
