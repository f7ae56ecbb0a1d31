package pilotlight;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * The answer to a request. It ends when the handler returns, or closes its body. If it fits one frame by then (64 KiB
 * with its head) it leaves in one, together with others; a flush of the body, or more of it, makes it a stream.
 */
public final class Response {
    private static final int STREAM_BYTES = 16_384; // that a stream gathers between two flushes

    private final Exchange exchange;
    private final Headers headers = new Headers();
    private int status = 200;
    private Headers trailers;
    private Body stream;
    private byte[] buffer = Wire.EMPTY;
    private int size; // of what is in `buffer`
    boolean begun; // a frame of it has been sent

    Response(Exchange exchange) {
        this.exchange = exchange;
    }

    /** Sets the status, 200 if nobody does. */
    public Response status(int status) {
        if (status < 200 || status > 999) throw new IllegalArgumentException(status + " is no answer's status");
        this.status = status;
        return this;
    }

    /** Adds a header field. */
    public Response header(String name, String value) {
        headers.add(name, value);
        return this;
    }

    /** The header fields, until the first flush of the body. */
    public Headers headers() {
        return headers;
    }

    /** The trailer fields; an answer that has any is a stream. Clients get those that the field `trailer` names. */
    public Headers trailers() {
        return trailers == null ? trailers = new Headers() : trailers;
    }

    /** Sends an informational answer (103 and the like) ahead of this one: names and values of its fields. */
    public void inform(int status, String... fields) throws IOException {
        if (status < 102 || status > 199 || begun) throw new IllegalArgumentException("too late, or not 102 to 199");
        Headers head = new Headers();
        for (int i = 0; i < fields.length; i += 2) head.add(fields[i], fields[i + 1]);
        exchange.stream().send(Wire.INFO, 0, exchange.id, status, head, Wire.EMPTY, 0, 0);
    }

    /** Writes all of the body, as UTF-8. */
    public void send(String text) throws IOException {
        send(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Writes all of the body, and ends the answer. */
    public void send(byte[] bytes) throws IOException {
        body().write(bytes, 0, bytes.length);
        end();
    }

    /** The body. Its methods throw {@link Cancelled} when the client has gone. */
    public OutputStream body() {
        return stream == null ? stream = new Body() : stream;
    }

    /** Ends the answer: in one frame if it fits, and nothing of it was sent. */
    void end() throws IOException {
        if (exchange.done) return;
        if (exchange.reset != 0) throw new Cancelled();
        if (!begun && trailers == null && headers.bytes() + size + 8 <= Wire.MIN_MAX_FRAME) {
            exchange.finish();
            exchange.out.append(Wire.RESPONSE, Wire.END, exchange.id, status, headers, buffer, 0, size, size);
            if (exchange.out != exchange.link) exchange.out.tryFlush();
        } else if (trailers == null) {
            push(buffer, 0, size, Wire.END);
        } else {
            if (!begun || size > 0) push(buffer, 0, size, 0);
            if (trailers.bytes() > Wire.MIN_MAX_FRAME) throw new IOException("trailers beyond max_frame");
            exchange.finish();
            exchange.out.send(Wire.TRAILERS, Wire.END, exchange.id, 0, trailers, Wire.EMPTY, 0, 0);
        }
        size = 0;
        exchange.release();
    }

    /** Sends a part of a stream, the head before it, in as many frames as it takes. */
    private void push(byte[] bytes, int from, int length, int flags) throws IOException {
        if (headers.bytes() + 8 > Wire.MIN_MAX_FRAME) throw new IOException("headers beyond max_frame");
        Link out = exchange.stream();
        do {
            if (exchange.reset != 0) throw new Cancelled();
            int count = Math.min(length, begun ? out.maxFrame : Wire.MIN_MAX_FRAME - headers.bytes() - 8);
            boolean last = count == length;
            if (last && flags != 0) exchange.finish();
            int type = begun ? Wire.DATA : Wire.RESPONSE;
            out.send(type, last ? flags : 0, exchange.id, status, begun ? null : headers, bytes, from, count);
            begun = true;
            from += count;
            length -= count;
        } while (length > 0);
    }

    private final class Body extends OutputStream {
        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            if (exchange.reset != 0) throw new Cancelled();
            if (exchange.done) throw new IOException("the answer has ended");
            int room = begun ? STREAM_BYTES : Wire.MIN_MAX_FRAME - headers.bytes() - 8;
            if (size + length > room) {
                int queued = size;
                size = 0;
                if (queued > 0 || !begun) push(buffer, 0, queued, 0);
                if (length >= STREAM_BYTES) {
                    push(bytes, from, length, 0);
                    return;
                }
            }
            if (size + length > buffer.length) {
                buffer = Arrays.copyOf(buffer, Math.max(size + length, buffer.length * 2));
            }
            System.arraycopy(bytes, from, buffer, size, length);
            size += length;
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void flush() throws IOException {
            if (exchange.done || begun && size == 0) return;
            int queued = size;
            size = 0;
            push(buffer, 0, queued, 0);
        }

        @Override
        public void close() throws IOException {
            end();
        }
    }
}
