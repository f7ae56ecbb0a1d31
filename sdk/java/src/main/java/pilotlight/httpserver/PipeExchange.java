package pilotlight.httpserver;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpContext;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpPrincipal;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.UnknownHostException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import pilotlight.Request;
import pilotlight.Response;

/** One exchange as handlers of `com.sun.net.httpserver` know it. */
final class PipeExchange extends HttpExchange {
    private static final long STREAM = 0, NO_BODY = -1; // lengths of sendResponseHeaders

    private final HttpContext context;
    private final Request request;
    private final Response response;
    private final Headers requestHeaders = new Headers(), responseHeaders = new Headers();
    private final CountDownLatch ended = new CountDownLatch(1);
    private final URI uri;
    private final Body body;
    private InputStream input;
    private OutputStream output;
    private int status = -1;
    private boolean cut;
    HttpPrincipal principal;

    PipeExchange(HttpContext context, Request request, Response response) {
        this.context = context;
        this.request = request;
        this.response = response;
        uri = uri(request);
        if (!request.authority().isEmpty()) requestHeaders.add("Host", request.authority());
        pilotlight.Headers fields = request.headers();
        for (int i = 0; i < fields.size(); i++) requestHeaders.add(fields.name(i), fields.value(i));
        input = request.body();
        output = body = new Body(response.body());
    }

    static URI uri(Request request) {
        try {
            return URI.create(request.target());
        } catch (IllegalArgumentException error) { // what browsers send and java.net.URI does not take
            try {
                return new URI(null, null, request.path(), request.query().isEmpty() ? null : request.query(), null);
            } catch (java.net.URISyntaxException late) {
                throw error;
            }
        }
    }

    /** Waits for handlers that end their exchange on a thread of their own. */
    void await() throws IOException, InterruptedException {
        if (ended.getCount() > 0) {
            request.onCancel(ended::countDown);
            ended.await();
        }
        if (status < 0 || cut) throw new IOException("the exchange has ended without its whole answer");
    }

    @Override
    public void sendResponseHeaders(int status, long length) throws IOException {
        if (this.status >= 0) throw new IOException("headers already sent");
        this.status = status;
        response.status(status);
        for (Map.Entry<String, List<String>> field : responseHeaders.entrySet()) {
            for (String value : field.getValue()) response.header(field.getKey(), value);
        }
        if (length > 0) response.headers().set("content-length", Long.toString(length));
        body.isStream = length == STREAM;
        body.left = Math.max(0, length);
        if (length <= NO_BODY) body.close();
    }

    private final class Body extends FilterOutputStream {
        private boolean isStream;
        private long left; // unless it is a stream

        Body(OutputStream out) {
            super(out);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            if (status < 0) throw new IOException("response headers not sent yet");
            if (!isStream && length > left) throw new IOException("too many bytes to write to stream");
            if (!request.method().equals("HEAD")) out.write(bytes, from, length);
            left -= isStream ? 0 : length;
            if (!isStream && left == 0) close();
        }

        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void flush() throws IOException {
            if (isStream || left > 0) out.flush();
        }

        @Override
        public void close() throws IOException {
            cut |= left > 0 && !request.method().equals("HEAD");
            left = 0;
            try {
                if (cut) throw new IOException("insufficient bytes written");
                if (status >= 0) out.close();
            } finally {
                ended.countDown();
            }
        }
    }

    @Override
    public void close() {
        try {
            output.close();
        } catch (IOException error) {
            ended.countDown(); // the client has gone, or the answer is cut
        }
    }

    @Override
    public Headers getRequestHeaders() {
        return requestHeaders;
    }

    @Override
    public Headers getResponseHeaders() {
        return responseHeaders;
    }

    @Override
    public URI getRequestURI() {
        return uri;
    }

    @Override
    public String getRequestMethod() {
        return request.method();
    }

    @Override
    public HttpContext getHttpContext() {
        return context;
    }

    @Override
    public InputStream getRequestBody() {
        return input;
    }

    @Override
    public OutputStream getResponseBody() {
        return output;
    }

    /** The client's address, as the gateway has seen it. */
    @Override
    public InetSocketAddress getRemoteAddress() {
        String peer = request.peer();
        int colon = peer.lastIndexOf(':');
        if (colon < 0) return InetSocketAddress.createUnresolved("", 0);
        try { // a literal, so nothing is looked up
            String host = peer.substring(0, colon).replaceAll("^\\[|\\]$", "");
            return new InetSocketAddress(InetAddress.getByName(host), Integer.parseInt(peer.substring(colon + 1)));
        } catch (UnknownHostException | NumberFormatException error) {
            return InetSocketAddress.createUnresolved(peer, 0);
        }
    }

    @Override
    public int getResponseCode() {
        return status;
    }

    @Override
    public InetSocketAddress getLocalAddress() {
        return context.getServer().getAddress();
    }

    @Override
    public String getProtocol() {
        return request.protocol();
    }

    @Override
    public Object getAttribute(String name) {
        return context.getAttributes().get(name);
    }

    @Override
    public void setAttribute(String name, Object value) {
        if (value == null) context.getAttributes().remove(name);
        else context.getAttributes().put(name, value);
    }

    @Override
    public void setStreams(InputStream input, OutputStream output) {
        if (input != null) this.input = input;
        if (output != null) this.output = output;
    }

    @Override
    public HttpPrincipal getPrincipal() {
        return principal;
    }
}
