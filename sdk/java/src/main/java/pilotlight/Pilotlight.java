package pilotlight;

/**
 * Answers the HTTP requests that the Pilotlight gateway sends over Pipe/1: a Unix socket, no web server.
 *
 * <pre>{@code Pilotlight.serve((request, response) -> response.send("hello"));}</pre>
 */
public final class Pilotlight {
    private static final String REMEDY = "the gateway does that: add the program to pilotlight.toml"
        + " (command = [\"java\", …], transport = \"pipe\") and run `pilotlight`";

    private Pilotlight() {}

    /** Limits of an instance, 1 to 4,096 each. */
    public static final class Options {
        /** Exchanges at once on a shared connection. */
        public int exchanges = 64;
        /** Connections for large and streamed requests. */
        public int maxOwn = 64;
        /** Connections that have switched to another protocol. */
        public int maxUpgraded = 1024;
    }

    /** As the other, with the usual limits. */
    public static void serve(Handler handler) {
        serve(handler, new Options());
    }

    /**
     * Answers requests with `handler` until the gateway, SIGTERM or SIGINT ends the instance, which finishes what is
     * open, and exits: with status 0; 1 if the gateway has refused it or broken the protocol; 2 if this program was not
     * started by the gateway. Shutdown hooks run then.
     */
    public static void serve(Handler handler, Options options) {
        String path = System.getenv("PILOTLIGHT_SOCKET"), token = System.getenv("PILOTLIGHT_TOKEN");
        if (path == null || token == null || path.isEmpty() || token.isEmpty()) {
            System.err.println("pilotlight: PILOTLIGHT_SOCKET or PILOTLIGHT_TOKEN is not set, " + REMEDY);
            System.exit(2);
        }
        for (int limit : new int[] {options.exchanges, options.maxOwn, options.maxUpgraded}) {
            if (limit < 1 || limit > Wire.MAX_LIMIT) throw new IllegalArgumentException("a limit of " + limit);
        }
        System.exit(new Service(handler, path, token, options).run());
    }
}
