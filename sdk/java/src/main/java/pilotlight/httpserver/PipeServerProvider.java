package pilotlight.httpserver;

import com.sun.net.httpserver.HttpServer;
import com.sun.net.httpserver.HttpsServer;
import com.sun.net.httpserver.spi.HttpServerProvider;
import java.net.InetSocketAddress;

/**
 * Makes `HttpServer.create` give servers of the pipe, in a program that is not changed at all:
 * `java -Dcom.sun.net.httpserver.HttpServerProvider=pilotlight.httpserver.PipeServerProvider …`.
 */
public final class PipeServerProvider extends HttpServerProvider {
    @Override
    public HttpServer createHttpServer(InetSocketAddress address, int backlog) {
        PipeServer server = new PipeServer();
        if (address != null) server.bind(address, backlog);
        return server;
    }

    @Override
    public HttpsServer createHttpsServer(InetSocketAddress address, int backlog) {
        throw new UnsupportedOperationException("the gateway speaks TLS, a service on the pipe does not");
    }
}
