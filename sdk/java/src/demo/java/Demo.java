import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import pilotlight.Handler;
import pilotlight.Pilotlight;
import pilotlight.Request;
import pilotlight.Reset;
import pilotlight.Response;
import pilotlight.Upgraded;

/** The demo service that every SDK has; sdk/conformance drives it. Start it as a service of the gateway. */
public final class Demo implements Handler {
    private static final int PERIOD = 251; // of the download's bytes
    private static final int BLOCK_BYTES = PERIOD * 256;

    private final Set<String> cancelled = ConcurrentHashMap.newKeySet(), seen = ConcurrentHashMap.newKeySet();

    public static void main(String[] arguments) {
        Pilotlight.serve(new Demo());
    }

    @Override
    public void handle(Request request, Response response) throws Exception {
        String path = request.path();
        if (path.startsWith("/echo")) {
            echo(request, response);
            return;
        }
        switch (path) {
            case "/upload": upload(request, response); break;
            case "/download": download(response, number(request, "bytes")); break;
            case "/slow": slow(request, response); break;
            case "/wait": ticks(request, response); break;
            case "/cancelled":
                json(response, "{\"cancelled\":" + cancelled.contains(parameter(request, "id")) + "}");
                break;
            case "/crash": Runtime.getRuntime().halt(3); break;
            case "/flood": flood(response, number(request, "bytes")); break;
            case "/status": response.status((int) number(request, "code")); break;
            case "/cookies": response.header("set-cookie", "a=1").header("set-cookie", "b=2"); break;
            case "/sleep":
                sleep(request, number(request, "ms"));
                response.send("slept");
                break;
            case "/deadline":
                String left = request.timeLeft().isEmpty() ? "null" : "" + request.timeLeft().get().toMillis();
                json(response, "{\"deadline_ms\":" + left + "}");
                break;
            case "/pid": json(response, "{\"pid\":" + ProcessHandle.current().pid() + "}"); break;
            case "/early": response.status(413).send("too large\n"); break;
            case "/trailers":
                response.header("trailer", "x-trailer").trailers().add("x-trailer", "yes");
                response.send("body");
                break;
            case "/error": throw new IllegalStateException("as asked");
            case "/refuse":
                if (seen.add("" + request.headers().get("x-once"))) throw Reset.refused("the first time");
                response.send("taken");
                break;
            case "/switch": switchAndEcho(request, response); break;
            case "/big-header": response.header("x-big", "x".repeat((int) number(request, "bytes"))); break;
            default: response.status(404).send("not found\n");
        }
    }

    private static void echo(Request request, Response response) throws IOException {
        String type = request.headers().get("content-type");
        if (type != null) response.header("content-type", type);
        response.header("x-method", request.method()).header("x-target", request.target());
        for (int i = 0; i < request.headers().size(); i++) {
            String name = request.headers().name(i);
            if (name.startsWith("x-echo-")) response.header(name, request.headers().value(i));
        }
        response.send(request.body().readAllBytes());
    }

    private static void upload(Request request, Response response) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        byte[] piece = new byte[65_536];
        long total = 0;
        InputStream body = request.body();
        for (int count; (count = body.read(piece)) >= 0; total += count) digest.update(piece, 0, count);
        StringBuilder hex = new StringBuilder();
        for (byte one : digest.digest()) {
            hex.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
        }
        json(response, "{\"bytes\":" + total + ",\"sha256\":\"" + hex + "\"}");
    }

    private static void download(Response response, long bytes) throws IOException {
        byte[] block = new byte[BLOCK_BYTES];
        for (int i = 0; i < block.length; i++) block[i] = (byte) ((i * 31 + 7) % PERIOD);
        response.header("content-type", "application/octet-stream").header("content-length", "" + bytes);
        OutputStream body = response.body();
        for (long left = bytes; left > 0; left -= BLOCK_BYTES) body.write(block, 0, (int) Math.min(left, BLOCK_BYTES));
    }

    private static void slow(Request request, Response response) throws Exception {
        for (int i = 0; i < number(request, "chunks"); i++) {
            if (i > 0) sleep(request, number(request, "ms"));
            response.body().write(("chunk " + i + "\n").getBytes(StandardCharsets.US_ASCII));
            response.body().flush();
        }
    }

    private void ticks(Request request, Response response) throws Exception {
        try {
            while (true) {
                response.body().write("tick\n".getBytes(StandardCharsets.US_ASCII));
                response.body().flush();
                sleep(request, 20);
            }
        } finally {
            cancelled.add(parameter(request, "id"));
        }
    }

    private static void flood(Response response, long bytes) throws IOException {
        byte[] lines = ("f".repeat(99) + "\n").repeat(640).getBytes(StandardCharsets.US_ASCII);
        for (long left = bytes; left > 0; left -= lines.length) {
            System.out.write(lines, 0, (int) Math.min(left, lines.length));
        }
        System.out.flush();
        json(response, "{\"flooded\":" + bytes + "}");
    }

    /** Switches to what is offered first, whatever that is, and sends back the bytes that come. */
    private static void switchAndEcho(Request request, Response response) throws Exception {
        if (request.offers().isEmpty()) {
            response.status(426).send("upgrade required\n");
            return;
        }
        Upgraded connection = request.upgrade(request.offers().get(0));
        connection.input().transferTo(connection.output());
    }

    /** Sleeps, shorter if the client goes. */
    private static void sleep(Request request, long ms) throws InterruptedException {
        CountDownLatch gone = new CountDownLatch(1);
        request.onCancel(gone::countDown);
        gone.await(ms, TimeUnit.MILLISECONDS);
    }

    private static void json(Response response, String text) throws IOException {
        response.header("content-type", "application/json").send(text);
    }

    private static String parameter(Request request, String name) {
        for (String pair : request.query().split("&")) {
            if (pair.startsWith(name + "=")) return pair.substring(name.length() + 1);
        }
        return "";
    }

    private static long number(Request request, String name) {
        return Long.parseLong(parameter(request, name));
    }
}
