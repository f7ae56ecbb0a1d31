package pilotlight.httpserver;

import com.sun.net.httpserver.Authenticator;
import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpContext;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import pilotlight.Pilotlight;
import pilotlight.Request;
import pilotlight.Response;

/**
 * An {@link HttpServer} whose requests come from the Pilotlight gateway, so that handlers run unchanged. It listens
 * nowhere: addresses and backlog mean nothing. Without an executor handlers run several at a time.
 */
public final class PipeServer extends HttpServer {
    private final Map<String, Context> contexts = new ConcurrentHashMap<>();
    private final Pilotlight.Options options;
    private InetSocketAddress address = InetSocketAddress.createUnresolved("localhost", 0);
    private Executor executor;
    private boolean started;

    /** A server with the usual limits. */
    public PipeServer() {
        this(new Pilotlight.Options());
    }

    /** A server with these limits. */
    public PipeServer(Pilotlight.Options options) {
        this.options = options;
    }

    @Override
    public void bind(InetSocketAddress address, int backlog) {
        this.address = address;
    }

    /** Serves from now on, on threads of its own; the program ends when the instance does. */
    @Override
    public synchronized void start() {
        if (started) throw new IllegalStateException("the server has been started");
        started = true;
        new Thread(() -> Pilotlight.serve(this::answer, options), "pilotlight-server").start();
    }

    /** Does nothing: the gateway ends instances, which finish what is open. */
    @Override
    public void stop(int delay) {}

    @Override
    public void setExecutor(Executor executor) {
        this.executor = executor;
    }

    @Override
    public Executor getExecutor() {
        return executor;
    }

    @Override
    public HttpContext createContext(String path, HttpHandler handler) {
        if (!path.startsWith("/")) throw new IllegalArgumentException(path + " does not begin with /");
        Context context = new Context(path, handler);
        if (contexts.putIfAbsent(path, context) == null) return context;
        throw new IllegalArgumentException("there is a context for " + path + " already");
    }

    @Override
    public HttpContext createContext(String path) {
        return createContext(path, null);
    }

    @Override
    public void removeContext(String path) {
        if (contexts.remove(path) == null) throw new IllegalArgumentException("there is no context for " + path);
    }

    @Override
    public void removeContext(HttpContext context) {
        contexts.remove(context.getPath());
    }

    @Override
    public InetSocketAddress getAddress() {
        return address;
    }

    private void answer(Request request, Response response) throws Exception {
        String path = PipeExchange.uri(request).getPath();
        Context found = null;
        for (Context one : contexts.values()) {
            boolean longer = found == null || one.path.length() > found.path.length();
            if (longer && path != null && path.startsWith(one.path)) found = one;
        }
        if (found == null || found.handler == null) {
            response.status(404).send("<h1>404 Not Found</h1>No context found for request");
            return;
        }
        PipeExchange exchange = new PipeExchange(found, request, response);
        Context context = found;
        if (executor == null) {
            context.handle(exchange);
        } else {
            FutureTask<Void> task = new FutureTask<>(() -> context.handle(exchange), null);
            executor.execute(task);
            try {
                task.get();
            } catch (ExecutionException error) {
                throw error.getCause() instanceof Exception ? (Exception) error.getCause() : error;
            }
        }
        exchange.await();
    }

    private final class Context extends HttpContext {
        private final String path;
        private final Map<String, Object> attributes = new ConcurrentHashMap<>();
        private final List<Filter> filters = new ArrayList<>();
        private HttpHandler handler;
        private Authenticator authenticator;

        Context(String path, HttpHandler handler) {
            this.path = path;
            this.handler = handler;
        }

        void handle(PipeExchange exchange) {
            try {
                boolean passes = authenticator == null || isAuthentic(exchange);
                if (passes) new Filter.Chain(filters, handler).doFilter(exchange);
            } catch (IOException error) {
                throw new Failed(error);
            }
        }

        private boolean isAuthentic(PipeExchange exchange) throws IOException {
            Authenticator.Result result = authenticator.authenticate(exchange);
            if (result instanceof Authenticator.Success) {
                exchange.principal = ((Authenticator.Success) result).getPrincipal();
                return true;
            }
            int status = result instanceof Authenticator.Retry ? ((Authenticator.Retry) result).getResponseCode()
                : ((Authenticator.Failure) result).getResponseCode();
            exchange.sendResponseHeaders(status, -1);
            return false;
        }

        @Override
        public HttpHandler getHandler() {
            return handler;
        }

        @Override
        public void setHandler(HttpHandler handler) {
            if (this.handler != null) throw new IllegalArgumentException("the context has a handler already");
            this.handler = handler;
        }

        @Override
        public String getPath() {
            return path;
        }

        @Override
        public HttpServer getServer() {
            return PipeServer.this;
        }

        @Override
        public Map<String, Object> getAttributes() {
            return attributes;
        }

        @Override
        public List<Filter> getFilters() {
            return filters;
        }

        @Override
        public Authenticator setAuthenticator(Authenticator authenticator) {
            Authenticator before = this.authenticator;
            this.authenticator = authenticator;
            return before;
        }

        @Override
        public Authenticator getAuthenticator() {
            return authenticator;
        }
    }

    /** What a handler has thrown. */
    private static final class Failed extends RuntimeException {
        private static final long serialVersionUID = 1;

        Failed(IOException cause) {
            super(cause);
        }
    }
}
