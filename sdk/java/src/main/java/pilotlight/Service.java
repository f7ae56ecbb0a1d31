package pilotlight;

import java.io.IOException;
import java.time.Duration;
import java.util.Deque;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;
import sun.misc.Signal;
import sun.misc.SignalHandler;

/** This instance: what its connections share, and when it ends. */
final class Service implements ThreadFactory, SignalHandler {
    private static final int MAX_SHARED = 64, REST_POLL_MS = 5;
    private static final long DRAIN_REPLY_NS = 1_000_000_000; // after SIGTERM: how long to wait for the gateway's DRAIN

    final Handler handler;
    final String path, token;
    final int exchanges, maxOwn, maxUpgraded;
    final Set<Link> links = ConcurrentHashMap.newKeySet();
    final Set<Upgraded> upgraded = ConcurrentHashMap.newKeySet();
    final AtomicInteger open = new AtomicInteger(); // exchanges
    final Watch watch = new Watch(links);
    volatile boolean draining;
    private final Deque<Link> idle = new ConcurrentLinkedDeque<>(); // answer connections
    private final Executor threads = Executors.newCachedThreadPool(this), tasks = virtual(threads);
    private boolean released; // nothing holds this instance but open exchanges
    private int status = -1;

    Service(Handler handler, String path, String token, Pilotlight.Options options) {
        this.handler = handler;
        this.path = path;
        this.token = token;
        exchanges = options.exchanges;
        maxOwn = options.maxOwn;
        maxUpgraded = options.maxUpgraded;
    }

    /** An executor with a virtual thread for each task, where there are any (Java 21). */
    private static Executor virtual(Executor otherwise) {
        if (Runtime.version().feature() < 21) return otherwise;
        try {
            return (Executor) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        } catch (ReflectiveOperationException error) {
            return otherwise;
        }
    }

    @Override
    public Thread newThread(Runnable task) {
        Thread thread = new Thread(task, "pilotlight");
        thread.setDaemon(true);
        return thread;
    }

    /** Serves until the gateway, or a signal, ends it; the status to exit with. */
    int run() {
        dial("shared", 1, -1);
        if (links.isEmpty()) return 1;
        newThread(watch).start();
        for (String name : new String[] {"TERM", "INT"}) {
            try {
                Signal.handle(new Signal(name), this);
            } catch (IllegalArgumentException error) {
                // the JVM was started with -Xrs
            }
        }
        return await();
    }

    private synchronized int await() {
        long until = 0;
        while (status < 0) {
            try {
                wait(draining ? REST_POLL_MS : 0);
            } catch (InterruptedException error) {
                return 0;
            }
            if (draining && until == 0) until = System.nanoTime() + DRAIN_REPLY_NS;
            if (draining && (released || System.nanoTime() > until) && isAtRest()) return 0;
        }
        return status;
    }

    private boolean isAtRest() {
        if (open.get() > 0) return false;
        for (Link link : links) if (!link.isFlushed()) return false;
        return true;
    }

    /** Opens connections, never more of a kind than its limit (P-23). */
    private synchronized void dial(String kind, int count, int worker) {
        int most = Math.min(count, (kind == "own" ? maxOwn : MAX_SHARED) - count(kind));
        try {
            for (int i = 0; i < most; i++) {
                Link link = new Link(this, kind, worker);
                links.add(link);
                lead(link);
            }
        } catch (IOException error) {
            System.err.println("pilotlight: cannot dial the gateway at " + path + ": " + error.getMessage());
        }
    }

    private int count(String kind) {
        int count = 0;
        for (Link link : links) if (link.kind == kind) count++;
        return count;
    }

    void more(int kind, int count, int worker) {
        Wire.check(kind == 1 || kind == 2, "P-11: MORE of an unknown kind");
        threads.execute(() -> dial(kind == 1 ? "own" : "shared", draining ? 0 : count, worker));
    }

    /**
     * Gives a connection a thread that leads it: the shared ones one of the system, which never waits for a carrier.
     */
    void lead(Link link) {
        (link.isShared() ? threads : tasks).execute(link);
    }

    void run(Exchange exchange) {
        tasks.execute(exchange);
    }

    /** An answer connection of this worker, an idle one (P-25) or a new one (P-24). */
    Link answer(int worker) throws IOException {
        for (Link link : idle) if (link.worker == worker && idle.remove(link) && !link.closed) return link;
        Link link = new Link(this, "answer", worker);
        links.add(link);
        lead(link);
        return link;
    }

    void release(Link answer) {
        if (!answer.closed) idle.addFirst(answer);
    }

    Link anyShared() {
        for (Link link : links) if (link.isShared()) return link;
        return null;
    }

    void enter(Upgraded one, Link link) throws Reset {
        if (upgraded.size() >= maxUpgraded) {
            throw Reset.overloaded("as many connections have switched as may", Duration.ofSeconds(1));
        }
        upgraded.add(one);
        links.remove(link); // P-42, before the gateway can know
    }

    /** SIGTERM or SIGINT: says so to the gateway (P-32). */
    @Override
    public void handle(Signal signal) {
        for (Link link : links) {
            if (!link.isShared()) continue;
            link.append(Wire.DRAIN, 0, 0, Wire.u32(0));
            link.tryFlush();
        }
        drain(false);
    }

    /** Finishes what is open and refuses the rest (P-31). */
    void drain(boolean byGateway) {
        synchronized (this) {
            draining = true;
            released |= byGateway;
            notifyAll();
        }
        for (Upgraded one : upgraded) tasks.execute(one::drain);
    }

    /** A connection has ended. P-33: without a shared one there is no gateway. */
    synchronized void closed(Link link, boolean failed) {
        links.remove(link);
        idle.remove(link);
        if (!link.isShared() || count("shared") > 0) return;
        status = failed ? 1 : 0;
        notifyAll();
    }
}
