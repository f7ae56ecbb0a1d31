package pilotlight;

import static pilotlight.Wire.check;

import java.io.EOFException;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One connection to the gateway. The thread that leads it reads a batch, runs the handlers of its requests one after
 * the
 * other, and writes all answers at once (P-18). When a handler takes long, another thread leads: see {@link #handOver}.
 * Invariants: only the leader parses, or the handler that it runs and that reads its body; no memory is sized by a
 * length
 * that has not been checked.
 */
final class Link implements Runnable {
    private static final int READ_BYTES = 8_192, SHARED_READ_BYTES = 65_536, FLUSH_BYTES = 65_536, KEPT_BYTES = 262_144;
    /** So many quick handlers in a row, and they are run by the leader again. */
    private static final int QUICK_HANDLERS = 256;
    private static final long QUICK_NS = 200_000, LAST_WORDS_MS = 1_000;

    final Service service;
    final String kind;
    final SocketChannel channel;
    volatile int worker, maxFrame = Wire.MIN_MAX_FRAME, minor;
    volatile boolean closed;
    private final AtomicBoolean closing = new AtomicBoolean();
    private boolean welcomed;
    /** Exchanges that expect or owe frames here; not the one that the leader of a shared connection is about. */
    final Map<Integer, Exchange> open = new ConcurrentHashMap<>();

    private final ReentrantLock reading = new ReentrantLock();
    private byte[] in;
    private ByteBuffer inBuffer;
    private int at, end; // of what was read and not handled
    private Exchange arrived; // a request that was read, and whose handler is next

    private final ReentrantLock writing = new ReentrantLock();
    private byte[] out = new byte[1_024], spare = new byte[1_024];
    private ByteBuffer outBuffer;
    private volatile int size; // of what is in `out`
    private boolean over; // nothing more is sent

    /** Whose handler the leader runs: its turn; 0: it runs none; negative: nobody else may lead. */
    private final AtomicLong current = new AtomicLong();
    private volatile Exchange running;
    private long turns, seen, seenTurns;
    private volatile boolean dispatching; // handlers of this shared connection take long: each has a thread
    private volatile int quick;

    Link(Service service, String kind, int worker) throws IOException {
        this.service = service;
        this.kind = kind;
        this.worker = worker;
        in = new byte[kind.equals("shared") ? SHARED_READ_BYTES : READ_BYTES];
        inBuffer = ByteBuffer.wrap(in);
        channel = SocketChannel.open(UnixDomainSocketAddress.of(service.path));
        String hello = "PIPE/1\ntoken=" + service.token + "\nkind=" + kind + "\nsdk=pilotlight-java/0.1.0\npid="
            + ProcessHandle.current().pid() + "\nminor=1\nmax_own=" + service.maxOwn + "\n"; // P-1, P-37
        if (isShared()) hello += "exchanges=" + service.exchanges + "\n";
        if (worker >= 0) hello += "worker=" + worker + "\n";
        append(Wire.HELLO, 0, 0, hello.getBytes(StandardCharsets.ISO_8859_1));
    }

    boolean isShared() {
        return kind == "shared";
    }

    /** Leads until another thread does, or the connection has ended. */
    @Override
    public void run() {
        try {
            flush();
            while (perform(next())) if (size > FLUSH_BYTES) flush();
        } catch (Throwable error) {
            close(error);
        }
    }

    /** The next request; all other frames are handled here. */
    private Exchange next() throws IOException {
        reading.lock();
        try {
            while (arrived == null) if (!frame()) fill();
            Exchange found = arrived;
            arrived = null;
            return found;
        } finally {
            reading.unlock();
        }
    }

    /** Handles frames until there is more of this body, or its end; for the handler. */
    void pump(Request request) {
        reading.lock();
        try {
            while (request.isStarved() && !closed) if (!frame()) fill();
        } catch (Throwable error) {
            close(error);
        } finally {
            reading.unlock();
        }
    }

    /** Runs a handler; whether this thread leads still. */
    private boolean perform(Exchange exchange) throws IOException {
        if (dispatching && isShared()) {
            open.put(exchange.id, exchange);
            service.run(exchange);
            return true;
        }
        long turn = ++turns;
        exchange.turn = turn;
        running = exchange;
        current.set(exchange.ended && !exchange.offered ? turn : -turn);
        service.watch.wake();
        exchange.run();
        boolean leads = current.compareAndSet(turn, 0) || current.compareAndSet(-turn, 0);
        if (!leads) flush();
        return leads && !exchange.switched;
    }

    /** The handler of this turn takes long, or becomes a stream: another thread leads from now on. */
    void handOver(long turn) {
        Exchange exchange = running;
        if (turn <= 0 || !current.compareAndSet(turn, 0)) return;
        open.put(exchange.id, exchange);
        if (exchange.done) open.remove(exchange.id, exchange);
        service.lead(this);
    }

    /** Looks whether the leader is in the same handler as the last time; whether anything has moved since. */
    boolean look() {
        long now = current.get();
        if (now > 0 && now == seen) {
            dispatching = true;
            quick = 0;
            handOver(now);
        }
        boolean moved = now > 0 || turns != seenTurns;
        seen = now;
        seenTurns = turns;
        return moved;
    }

    boolean isWatchable() {
        return current.get() > 0;
    }

    /** A handler that had a thread for itself has taken so long. */
    void took(long nanos) {
        quick = nanos < QUICK_NS ? quick + 1 : 0;
        if (quick >= QUICK_HANDLERS) dispatching = false;
    }

    /** The request direction has ended while its handler runs: what comes now is a cancel. */
    private void ended(Exchange exchange) {
        exchange.ended = true;
        if (exchange.done) open.remove(exchange.id, exchange); // P-19, P-21
        else if (current.compareAndSet(-exchange.turn, exchange.turn)) service.watch.wake();
    }

    private void fill() throws IOException {
        flush();
        int left = end - at, need = left < Wire.HEADER_BYTES ? Wire.HEADER_BYTES : Wire.HEADER_BYTES + Wire.u32(in, at);
        if (left == 0 || at + need > in.length) {
            byte[] to = need > in.length ? new byte[need + READ_BYTES] : in;
            System.arraycopy(in, at, to, 0, left);
            if (to != in) inBuffer = ByteBuffer.wrap(in = to);
            at = 0;
            end = left;
        }
        inBuffer.limit(in.length).position(end);
        boolean interrupted = Thread.interrupted(); // or the channel would be closed
        try {
            int count = channel.read(inBuffer);
            if (count < 0) throw new EOFException();
            end += count;
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    /** Handles the next frame, if it is whole. */
    private boolean frame() throws IOException {
        if (end - at < Wire.HEADER_BYTES) return false;
        int length = Wire.u32(in, at), type = in[at + 4] & 0xff, flags = in[at + 5], id = Wire.u16(in, at + 6);
        check(length >= 0 && length <= maxFrame, "P-6: a payload longer than max_frame");
        boolean known = type >= Wire.HELLO && type <= Wire.LOG;
        check(known || (flags & Wire.IGNORABLE) != 0, "P-7: a frame of an unknown type without IGNORABLE");
        if (end - at - Wire.HEADER_BYTES < length) return false;
        int from = at + Wire.HEADER_BYTES;
        at = from + length;
        if (!known) return true;
        boolean refusal = type == Wire.RESET && id == 0;
        check(welcomed != (type == Wire.WELCOME) || refusal, "P-3: WELCOME is the first frame, once");
        if (type == Wire.WELCOME) onWelcome(from, length);
        else if (type == Wire.RESET && length >= 8) onReset(id, from, length);
        else if (type == Wire.REQUEST && kind != "answer") onRequest(flags, id, from, length);
        else if (type == Wire.DATA && kind == "own") onData(exchange(id), flags, from, length);
        else if (type == Wire.TRAILERS && kind == "own") onTrailers(exchange(id), from, length);
        else if (type == Wire.PING && kind != "answer" && length == 8) {
            append(Wire.PONG, 0, 0, java.util.Arrays.copyOfRange(in, from, at)); // P-35
        } else if (type == Wire.DRAIN && isShared()) service.drain(true);
        else if (type == Wire.MORE && isShared() && length >= 8) {
            service.more(Wire.u16(in, from), Wire.u16(in, from + 2), Wire.u32(in, from + 4));
        } else check(type == Wire.PONG,
            "P-11: a frame that does not come on this kind of connection (P-25), or is cut");
        return true;
    }

    private void onWelcome(int from, int length) {
        check(length <= Wire.MAX_WELCOME, "P-6: a WELCOME of more than 4,096 bytes");
        String[] lines = new String(in, from, length, StandardCharsets.UTF_8).split("\n");
        check(lines[0].equals("PIPE/1"), "P-12: WELCOME is not of PIPE/1");
        int named = -1;
        try {
            for (String line : lines) {
                if (line.startsWith("worker=")) named = Integer.parseInt(line.substring(7));
                else if (line.startsWith("max_frame=")) maxFrame = Integer.parseInt(line.substring(10));
                else if (line.startsWith("minor=")) minor = Integer.parseInt(line.substring(6));
            }
        } catch (NumberFormatException error) {
            named = -1;
        }
        check(named >= 0 && maxFrame >= Wire.MIN_MAX_FRAME, "P-3: WELCOME names no worker, or a small max_frame");
        worker = named;
        welcomed = true;
    }

    private void onRequest(int flags, int id, int from, int length) {
        boolean ended = (flags & Wire.END) != 0;
        check(isShared() || open.isEmpty(), "P-19: a REQUEST before the exchange before it has ended");
        check(!isShared() || ended, "P-14: a REQUEST without END on a shared connection");
        check(id != 0 && !open.containsKey(id), "P-15: an exchange id that is 0 or open");
        check(open.size() < service.exchanges || !isShared(), "P-14: more exchanges at once than HELLO allows");
        boolean offered = (flags & Wire.UPGRADE) != 0 && minor > 0 && !isShared();
        check(ended || !offered, "P-38: a REQUEST with UPGRADE and without END");
        Exchange exchange = new Exchange(this, id, in, from, length, ended, offered);
        if (!isShared()) open.put(id, exchange);
        service.open.incrementAndGet();
        if (service.draining) exchange.refuse(); // P-31
        else arrived = exchange;
    }

    private Exchange exchange(int id) {
        Exchange exchange = open.get(id);
        check(exchange != null && !exchange.ended,
            "P-11: a body for an exchange that is not open, or beyond its END (P-20)");
        return exchange;
    }

    private void onData(Exchange exchange, int flags, int from, int length) {
        boolean last = (flags & Wire.END) != 0;
        exchange.request.body(in, from, length, last);
        if (last) ended(exchange);
    }

    private void onTrailers(Exchange exchange, int from, int length) {
        int count = Wire.strings(in, from, at, 0);
        exchange.request.trailers = new Headers(in, from, at, count);
        ended(exchange);
    }

    private void onReset(int id, int from, int length) throws IOException {
        String text = new String(in, from + 8, length - 8, StandardCharsets.UTF_8);
        if (id == 0) throw new Refusal("the gateway says: " + text);
        check(kind != "answer", "P-25: a RESET for an exchange on an answer connection");
        Exchange exchange = open.get(id);
        if (exchange == null) return; // P-26: it has ended
        exchange.cancel(Wire.u16(in, from));
        ended(exchange);
    }

    /** Queues a frame, which leaves with others. */
    void append(int type, int flags, int id, byte[] payload) {
        append(type, flags, id, 0, null, payload, 0, payload.length, payload.length);
    }

    /**
     * As above, of `head`, if there is one, and of `length` bytes of a body, of which the first `copied` are queued.
     */
    synchronized void append(int type, int flags, int id, int status, Headers head, byte[] bytes, int from, int copied,
                             int length) {
        if (over) return;
        boolean hasStatus = type == Wire.RESPONSE || type == Wire.INFO;
        int block = head == null ? 0 : head.bytes(), place = size + Wire.HEADER_BYTES;
        int body = place + block + (hasStatus ? 8 : 0);
        if (body + copied > out.length) out = java.util.Arrays.copyOf(out, Math.max(body + copied, out.length * 2));
        Wire.put(out, size, body - place + length);
        Wire.put(out, size + 4, type | flags << 8 | id << 16);
        if (hasStatus) {
            Wire.put(out, place, block);
            Wire.put(out, place + 4, status);
        }
        if (head != null) head.write(out, body - block);
        System.arraycopy(bytes, from, out, body, copied);
        size = body + copied;
    }

    /** Sends a frame of a stream, behind what is queued; returns when the system has all of it (P-22). */
    void send(int type, int flags, int id, int status, Headers head, byte[] bytes, int from, int length)
        throws Cancelled {
        writing.lock();
        try {
            ByteBuffer queued;
            synchronized (this) {
                if (over) throw new Cancelled();
                append(type, flags, id, status, head, bytes, from, 0, length);
                queued = take();
            }
            write(queued, ByteBuffer.wrap(bytes, from, length));
        } catch (IOException error) {
            close(error);
            throw new Cancelled();
        } finally {
            writing.unlock();
        }
    }

    /** Writes what is queued, or leaves it to the thread that does so already. */
    void flush() throws IOException {
        while (size > 0 && writing.tryLock()) {
            try {
                write(take());
            } finally {
                writing.unlock();
            }
        }
    }

    /** As `flush`, where a failure ends the connection and nothing else. */
    void tryFlush() {
        try {
            flush();
        } catch (IOException error) {
            close(error);
        }
    }

    boolean isFlushed() {
        return closed || size == 0 && !writing.isLocked();
    }

    private synchronized ByteBuffer take() {
        if (outBuffer == null || outBuffer.array() != out) outBuffer = ByteBuffer.wrap(out);
        ByteBuffer taken = outBuffer.limit(size).position(0);
        byte[] other = spare.length > KEPT_BYTES ? new byte[1_024] : spare;
        spare = out;
        out = other;
        outBuffer = null;
        size = 0;
        return taken;
    }

    private void write(ByteBuffer... parts) throws IOException {
        boolean interrupted = Thread.interrupted();
        try {
            ByteBuffer last = parts[parts.length - 1];
            while (parts[0].hasRemaining() || last.hasRemaining()) {
                if (last.hasRemaining() && parts.length > 1) channel.write(parts);
                else channel.write(parts[0]);
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    /** Ends the connection and its exchanges (P-34), and says why (P-10). */
    void close(Throwable error) {
        if (!closing.compareAndSet(false, true)) return;
        boolean violation = error instanceof Wire.Violation;
        if (violation) {
            synchronized (this) {
                append(Wire.RESET, 0, 0, Wire.payload(error.getMessage(), Wire.PROTOCOL, 0));
                over = true; // P-10: nothing follows, whatever handlers still write
            }
        }
        try {
            if (violation && writing.tryLock(LAST_WORDS_MS, TimeUnit.MILLISECONDS)) {
                try { // behind a frame that is being sent
                    flush();
                } finally {
                    writing.unlock();
                }
            }
            channel.close();
        } catch (IOException | InterruptedException late) {
            // the gateway was quicker
        }
        closed = true;
        for (Exchange exchange : open.values()) {
            exchange.cancel(Wire.CANCELLED);
            if (exchange.link == this) exchange.ended = true;
        }
        boolean failed = !(error instanceof IOException) || error instanceof Refusal;
        if (failed) System.err.println("pilotlight: the " + kind + " connection has failed: " + error.getMessage());
        if (failed && !(violation || error instanceof Refusal)) error.printStackTrace();
        service.closed(this, failed);
    }

    /** The connection has left the protocol: what was read already belongs to the other one. */
    byte[] leave() {
        closing.set(true);
        closed = true;
        byte[] rest = java.util.Arrays.copyOfRange(in, at, end);
        in = Wire.EMPTY;
        return rest;
    }

    /** The gateway has refused this connection (P-4), or ended it (P-10). */
    private static final class Refusal extends IOException {
        private static final long serialVersionUID = 1;

        Refusal(String text) {
            super(text);
        }
    }
}
