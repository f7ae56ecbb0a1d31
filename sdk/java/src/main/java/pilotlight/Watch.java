package pilotlight;

import java.util.Set;
import java.util.concurrent.locks.LockSupport;

/**
 * Looks every few milliseconds whether a handler holds up the connection that it was read from; sleeps while nothing
 * moves. So quick handlers cost no handing over to other threads, and slow ones hold up the others for two looks at
 * most.
 */
final class Watch implements Runnable {
    private static final long TICK_NS = 2_000_000;
    private static final int QUIET_TICKS = 50;

    private final Set<Link> links;
    private volatile Thread thread;
    private volatile boolean asleep;

    Watch(Set<Link> links) {
        this.links = links;
    }

    /** A handler is about to run. */
    void wake() {
        if (!asleep) return;
        asleep = false;
        LockSupport.unpark(thread);
    }

    @Override
    public void run() {
        thread = Thread.currentThread();
        for (int quiet = 0;;) {
            LockSupport.parkNanos(TICK_NS);
            boolean moved = false;
            for (Link link : links) moved |= link.look();
            quiet = moved ? 0 : quiet + 1;
            if (quiet > QUIET_TICKS) sleep();
        }
    }

    private void sleep() {
        asleep = true;
        for (Link link : links) if (link.isWatchable()) asleep = false; // it has not seen that this sleeps
        while (asleep) LockSupport.park(this);
    }
}
