package pilotlight;

import java.io.IOException;

/** The client has gone, or the deadline is over: nobody waits for the answer. */
public final class Cancelled extends IOException {
    private static final long serialVersionUID = 1;

    Cancelled() {
        super("the client has gone, or the deadline is over");
    }

    @Override
    public synchronized Throwable fillInStackTrace() {
        return this;
    }
}
