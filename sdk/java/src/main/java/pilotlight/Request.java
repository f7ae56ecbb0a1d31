package pilotlight;

import static pilotlight.Wire.check;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.locks.ReentrantLock;

/** What a client asks. */
public final class Request {
    /** How much a log line matters. */
    public enum Level { ERROR, WARN, INFO, DEBUG, TRACE }

    private static final int METHOD = 0, SCHEME = 1, AUTHORITY = 2, TARGET = 3, PROTOCOL = 4, PEER = 5, ID = 6,
        TEXTS = 7;

    private final Exchange exchange;
    private final byte[] head; // the strings, and what came of the body with them
    private final int[] ends = new int[TEXTS];
    private final int strings, headEnd;
    private final long due;
    private String method, target;
    private Headers headers;
    private InputStream stream;
    private byte[] body; // what has come of the body and was not read: from bodyAt to bodyEnd
    private int bodyAt, bodyEnd;
    Headers trailers = new Headers();
    Upgraded upgraded;

    Request(Exchange exchange, byte[] in, int from, int length) {
        this.exchange = exchange;
        int block = length < 8 ? -1 : Wire.u32(in, from);
        check(block >= 0 && block <= length - 8, "P-8: head_length is larger than the payload");
        int deadline = Wire.u32(in, from + 4);
        due = deadline == 0 ? 0 : System.nanoTime() + (deadline & 0xffff_ffffL) * 1_000_000 | 1;
        head = body = Arrays.copyOfRange(in, from + 8, from + length);
        headEnd = bodyAt = block;
        bodyEnd = head.length;
        strings = Wire.strings(head, 0, block, TEXTS);
        for (int i = 0, at = 0; i < TEXTS; i++, at++) {
            while (head[at] != 0) at++;
            ends[i] = at;
        }
    }

    private String text(int which) {
        int from = which == 0 ? 0 : ends[which - 1] + 1;
        return new String(head, from, ends[which] - from, StandardCharsets.ISO_8859_1);
    }

    /** For example `GET`. */
    public String method() {
        return method == null ? method = text(METHOD) : method;
    }

    /** `http` or `https`. */
    public String scheme() {
        return text(SCHEME);
    }

    /** What the client has said in `host`. */
    public String authority() {
        return text(AUTHORITY);
    }

    /** Path and query as the client has sent them. */
    public String target() {
        return target == null ? target = text(TARGET) : target;
    }

    /** The part of the target before `?`, not decoded. */
    public String path() {
        int mark = target().indexOf('?');
        return mark < 0 ? target : target.substring(0, mark);
    }

    /** The part of the target behind `?`, not decoded; empty if there is none. */
    public String query() {
        int mark = target().indexOf('?');
        return mark < 0 ? "" : target.substring(mark + 1);
    }

    /** For example `HTTP/1.1`. */
    public String protocol() {
        return text(PROTOCOL);
    }

    /** Address and port of the client, or empty. */
    public String peer() {
        return text(PEER);
    }

    /** The gateway's id of this request. */
    public String id() {
        return text(ID);
    }

    /** The header fields; `host` is not among them, see {@link #authority}. */
    public Headers headers() {
        return headers == null ? headers = new Headers(head, ends[ID] + 1, headEnd, strings - TEXTS) : headers;
    }

    /** The trailer fields: none until the body has been read to its end. */
    public Headers trailers() {
        return trailers;
    }

    /** The time left for the answer, or empty if there is no limit. */
    public Optional<Duration> timeLeft() {
        return due == 0 ? Optional.empty() : Optional.of(Duration.ofNanos(Math.max(0, due - System.nanoTime())));
    }

    /** Whether the client has gone, or the deadline is over. */
    public boolean isCancelled() {
        return exchange.reset != 0;
    }

    /** Has `action` run, on a thread of the SDK that must not be held up, when the request is cancelled. */
    public void onCancel(Runnable action) {
        exchange.onCancel(action);
    }

    /** Writes a log line that belongs to this request. */
    public void log(Level level, String text) {
        boolean switched = exchange.switched; // P-41: there are no frames on its connection
        Link link = switched ? exchange.link.service.anyShared() : exchange.link;
        if (link == null) return;
        byte[] payload = Wire.payload(switched ? "[" + id() + "] " + text : text, 0);
        payload[3] = (byte) (level.ordinal() + 1);
        link.append(Wire.LOG, 0, switched ? 0 : exchange.id, Arrays.copyOfRange(payload, 3, payload.length));
        link.tryFlush();
    }

    /** The body as it comes. Its methods throw {@link Cancelled} when the client has gone. */
    public InputStream body() {
        return stream == null ? stream = new Body() : stream;
    }

    /** The protocols, in lower case, that the client may switch to with this request. */
    public List<String> offers() {
        List<String> found = new ArrayList<>();
        for (String value : exchange.offered ? headers().all("upgrade") : List.<String>of()) {
            for (String one : value.split(",")) if (!one.isBlank()) found.add(one.trim().toLowerCase(Locale.ROOT));
        }
        return found;
    }

    /**
     * Answers 101: the connection is `protocol`'s, one of {@link #offers}, until the handler returns.
     * @throws Reset if as many connections have switched as may: the handler need not catch it
     */
    public Upgraded upgrade(String protocol, String... fields) throws Reset, IOException {
        if (!offers().contains(protocol.toLowerCase(Locale.ROOT))) {
            throw new IllegalArgumentException(protocol + " is not among what the client offers: " + offers());
        }
        Headers headers = new Headers();
        for (int i = 0; i < fields.length; i += 2) headers.add(fields[i], fields[i + 1]);
        headers.put("upgrade", protocol);
        if (exchange.done || exchange.response.begun) throw new IllegalStateException("the answer has begun");
        upgraded = new Upgraded(exchange.link);
        exchange.finish();
        exchange.switched = true;
        exchange.link.send(Wire.RESPONSE, Wire.UPGRADE, exchange.id, 101, headers, Wire.EMPTY, 0, 0);
        upgraded.begin();
        return upgraded;
    }

    /** Whether a read has to wait. */
    boolean isStarved() {
        return bodyAt == bodyEnd && !exchange.ended;
    }

    /** A piece of the body, in the connection's buffer. The handler reads it before the connection reads on. */
    void body(byte[] in, int from, int length, boolean last) {
        if (exchange.done) return; // P-21
        body = last ? Arrays.copyOfRange(in, from, from + length) : in;
        bodyAt = last ? 0 : from;
        bodyEnd = bodyAt + length;
    }

    private final class Body extends InputStream {
        private final ReentrantLock reading = new ReentrantLock(); // not a monitor, which would hold a carrier thread

        @Override
        public int read(byte[] to, int from, int length) throws IOException {
            if (length == 0) return 0;
            reading.lock();
            try {
                while (isStarved() && !exchange.done) exchange.link.pump(Request.this);
                if (exchange.reset != 0) throw new Cancelled();
                if (bodyAt == bodyEnd || exchange.done) return -1;
                int count = Math.min(length, bodyEnd - bodyAt);
                System.arraycopy(body, bodyAt, to, from, count);
                bodyAt += count;
                return count;
            } finally {
                reading.unlock();
            }
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int available() {
            return bodyEnd - bodyAt;
        }
    }
}
