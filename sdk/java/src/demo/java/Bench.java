import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import pilotlight.Pilotlight;
import pilotlight.httpserver.PipeServer;

/**
 * What sdk/conformance/cpu.py measures: 200 bytes of JSON, by an HttpServer on PORT or of the pipe, or by a Handler.
 */
public final class Bench {
    private static final byte[] ANSWER = ("{\"id\":42,\"pad\":\"" + "x".repeat(182) + "\"}").getBytes(StandardCharsets.US_ASCII);

    private Bench() {}

    public static void main(String[] arguments) throws IOException {
        if (arguments.length > 0) {
            Pilotlight.serve((request, response) -> {
                response.header("content-type", "application/json").header("x-pid", pid());
                response.send(ANSWER);
            });
        }
        String port = System.getenv("PORT");
        HttpServer server = port == null ? new PipeServer()
            : HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(port)), 0);
        server.createContext("/", Bench::answer);
        server.start();
    }

    private static String pid() {
        return Long.toString(ProcessHandle.current().pid());
    }

    private static void answer(HttpExchange exchange) throws IOException {
        exchange.getResponseHeaders().add("content-type", "application/json");
        exchange.getResponseHeaders().add("x-pid", pid());
        exchange.sendResponseHeaders(200, ANSWER.length);
        exchange.getResponseBody().write(ANSWER);
        exchange.close();
    }
}
