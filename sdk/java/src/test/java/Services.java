import com.sun.net.httpserver.Filter;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import pilotlight.Pilotlight;
import pilotlight.Request;
import pilotlight.Reset;
import pilotlight.Response;
import pilotlight.Upgraded;

/** The services that sdk/java/tests drives: `Services handlers FIFO` or `Services server`. */
public final class Services {
    private Services() {}

    public static void main(String[] arguments) throws IOException {
        if (arguments[0].equals("server")) {
            server();
            return;
        }
        Pilotlight.Options options = new Pilotlight.Options();
        options.maxUpgraded = 1;
        Pilotlight.serve((request, response) -> handle(request, response, arguments[1]), options);
    }

    private static void handle(Request request, Response response, String fifo) throws Exception {
        switch (request.path()) {
            case "/thread": response.send("" + Thread.currentThread().getId()); break;
            case "/block":
                try (InputStream gate = new FileInputStream(fifo)) {
                    gate.read(); // until the test has opened and closed it
                }
                response.send("unblocked");
                break;
            case "/fields":
                response.header("X-A", "1").header("X-B", "2").header("Connection", "close, x-b").header("X-B", "3")
                    .header("Transfer-Encoding", "x").header("Set-Cookie", "a").header("set-cookie", "b");
                response.headers().set("x-a", "4");
                break;
            case "/bad-value": response.header("x-a", "1\r\nx-b: 2"); break;
            case "/echo": request.body().transferTo(new Flushing(response)); break;
            case "/trailers": request.body().readAllBytes(); response.send("" + request.trailers().get("x-sum")); break;
            case "/wait":
                CountDownLatch gone = new CountDownLatch(1);
                request.onCancel(gone::countDown);
                try {
                    response.body().flush();
                    gone.await();
                } finally {
                    System.out.println("cancelled " + request.isCancelled());
                }
                break;
            case "/fail-late":
                response.body().write('x');
                response.body().flush();
                throw new IllegalStateException("late");
            case "/overloaded": throw Reset.overloaded("busy", Duration.ofSeconds(2));
            case "/too-large": throw Reset.tooLarge("no more than a byte");
            case "/hints": response.inform(103, "link", "</a.css>"); response.send("hinted"); break;
            case "/log": request.log(Request.Level.WARN, "from the handler"); break;
            case "/interrupt": Thread.currentThread().interrupt(); break;
            case "/stream": response.body().flush(); response.body().write(request.query().getBytes()); break;
            case "/switch":
                Upgraded connection = request.upgrade("echo", "x-extra", "1");
                connection.onDrain(() -> {
                    try {
                        connection.output().write("bye".getBytes());
                        connection.output().close();
                    } catch (IOException error) {
                        error.printStackTrace();
                    }
                });
                connection.input().transferTo(connection.output());
                break;
            default:
                if (request.path().startsWith("/slow")) Thread.sleep(3);
                response.send(request.path());
        }
    }

    /** Sends on each piece as it comes. */
    private static final class Flushing extends java.io.FilterOutputStream {
        Flushing(Response response) {
            super(response.body());
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            out.write(bytes, from, length);
            out.flush();
        }
    }

    /** A program of HttpServer's that knows nothing of Pilotlight. */
    private static void server() throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/", exchange -> text(exchange, 200, exchange.getRequestMethod() + " "
            + exchange.getRequestURI() + " " + exchange.getRequestHeaders().getFirst("HOST") + " "
            + exchange.getRemoteAddress().getPort() + " " + Thread.currentThread().getName()));
        server.createContext("/echo", exchange -> {
            exchange.getResponseHeaders().add("X-Type", exchange.getRequestHeaders().getFirst("content-type"));
            exchange.sendResponseHeaders(201, 0);
            exchange.getRequestBody().transferTo(exchange.getResponseBody());
            exchange.close();
        });
        server.createContext("/filtered", exchange -> text(exchange, 200, "" + exchange.getAttribute("by")))
            .getFilters().add(Filter.beforeHandler("marks", exchange -> exchange.setAttribute("by", "filter")));
        server.createContext("/later", exchange -> new Thread(() -> {
            try {
                text(exchange, 200, "by another thread");
            } catch (IOException error) {
                error.printStackTrace();
            }
        }).start());
        server.createContext("/none", exchange -> exchange.sendResponseHeaders(204, -1));
        server.createContext("/unanswered", HttpExchange::close);
        server.createContext("/cut", exchange -> {
            exchange.sendResponseHeaders(200, 10);
            exchange.getResponseBody().write('x');
            exchange.close();
        });
        server.createContext("/throws", exchange -> {
            throw new IOException("as asked");
        });
        server.setExecutor(Executors.newFixedThreadPool(2, task -> new Thread(task, "own-executor")));
        server.start();
    }

    private static void text(HttpExchange exchange, int status, String text) throws IOException {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
    }
}
