package pilotlight;

import java.io.IOException;

/**
 * One request and its answer. Invariant: exactly one final frame leaves for each (P-16); `finish` is before all of
 * them.
 */
final class Exchange implements Runnable {
    final Link link; // of the request
    final int id;
    final boolean offered; // a switch to another protocol
    final Request request;
    final Response response;
    Link out; // of the answer
    long turn;
    volatile boolean ended, done, switched; // the request direction; the answer; the connection's protocol
    volatile int reset; // the code by which it was cancelled
    private Runnable onCancel;

    Exchange(Link link, int id, byte[] in, int from, int length, boolean ended, boolean offered) {
        this.link = link;
        this.out = link;
        this.id = id;
        this.ended = ended;
        this.offered = offered;
        this.request = new Request(this, in, from, length);
        this.response = new Response(this);
    }

    /** Runs the handler and ends its answer; whatever it throws, only this exchange ends by it. */
    @Override
    public void run() {
        long begin = turn == 0 ? System.nanoTime() : 0;
        try {
            link.service.handler.handle(request, response);
            if (!switched) response.end();
        } catch (Throwable error) {
            fail(error);
        } finally {
            Thread.interrupted(); // what a handler has left of it is not for the next one
            if (switched) request.upgraded.close();
            if (turn == 0) {
                link.took(System.nanoTime() - begin);
                link.tryFlush();
            }
            link.service.open.decrementAndGet();
        }
    }

    private void fail(Throwable error) {
        if (!(error instanceof Reset) && reset == 0 && !(switched && error instanceof IOException)) {
            System.err.print("pilotlight: " + request.method() + " " + request.target() + ": the handler failed: ");
            error.printStackTrace();
        }
        if (done) return;
        Reset asked = error instanceof Reset && !response.begun ? (Reset) error : null; // P-29
        String text = asked != null ? asked.getMessage() : reset != 0 ? "cancelled"
            : "the handler failed, its log says why";
        int code = asked != null ? asked.code : reset != 0 ? Wire.CANCELLED : Wire.INTERNAL;
        reset(code, text == null ? "" : text, asked == null ? 0 : asked.retryAfterMs);
    }

    private void reset(int code, String text, int retryAfterMs) {
        Link to = out;
        finish();
        to.append(Wire.RESET, 0, id, Wire.payload(text, code, retryAfterMs));
        if (to != link) to.tryFlush();
        release();
    }

    /** This instance is to end: the request may go to another one (P-31). */
    void refuse() {
        reset(Wire.REFUSED, "this instance is draining", 0);
        link.service.open.decrementAndGet();
    }

    /** The final frame is about to be sent: the gateway may use the id again as soon as it sees it (P-15). */
    void finish() {
        done = true;
        if (out != link) out.open.remove(id, this);
        if (ended) link.open.remove(id, this);
        else link.append(Wire.STOP, 0, id, Wire.EMPTY); // P-21
    }

    /** The final frame has been sent: the answer connection may carry another answer (P-25). */
    void release() {
        if (out != link) link.service.release(out);
    }

    /** The connection for frames that must not be on a shared one (P-17, P-24). */
    Link stream() throws IOException {
        if (!out.isShared()) return out;
        link.handOver(turn);
        out = link.service.answer(link.worker);
        out.open.put(id, this); // its end is that of the exchange (P-34)
        if (out.closed) cancel(Wire.CANCELLED);
        return out;
    }

    /** The client has gone, the deadline is over (P-26), or the connection is gone (P-34). */
    void cancel(int code) {
        Runnable tell;
        synchronized (this) {
            if (done || reset != 0) return;
            reset = code == 0 ? Wire.CANCELLED : code;
            tell = onCancel;
        }
        if (tell != null) tell.run();
    }

    void onCancel(Runnable action) {
        synchronized (this) {
            if (reset == 0) {
                Runnable before = onCancel;
                onCancel = before == null ? action : () -> {
                    before.run();
                    action.run();
                };
                return;
            }
        }
        action.run();
    }
}
