import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.ObjectReader;
import io.vertx.core.Future;
import io.vertx.core.VerticleBase;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.HttpMethod;
import io.vertx.core.http.HttpServerRequest;
import io.vertx.core.http.HttpServerResponse;
import java.io.IOException;

/** The routes. One of it runs on each event loop; they share the port. */
final class Api extends VerticleBase {
    private static final String USERS = "/users";
    private static final int DEFAULT_LIMIT = 20;
    private static final int MAX_LIMIT = 100;
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final ObjectReader NEW_USER = JSON.readerFor(User.New.class);
    private static final Buffer MISSING = Buffer.buffer("{\"error\":\"User not found\"}");
    private static final Buffer DELETED = Buffer.buffer("{\"message\":\"User deleted\"}");

    private final Store store;
    private final Cache cache;
    private final int port;

    Api(Store store, Cache cache, int port) {
        this.store = store;
        this.cache = cache;
        this.port = port;
    }

    @Override
    public Future<?> start() {
        return vertx.createHttpServer().requestHandler(this::answer).listen(port, "127.0.0.1");
    }

    private void answer(HttpServerRequest request) {
        HttpServerResponse response = request.response();
        Future.succeededFuture(request).compose(this::route).onFailure(failure -> {
            if (!response.ended()) send(response, 500, Buffer.buffer(String.valueOf(failure)));
        });
    }

    private Future<Void> route(HttpServerRequest request) {
        HttpMethod method = request.method();
        if (request.path().equals(USERS)) return method == HttpMethod.POST ? create(request) : page(request);
        long id = id(request.path());
        if (id == 0) return send(request.response(), 404, MISSING);
        if (method == HttpMethod.PUT) return replace(request, id);
        if (method == HttpMethod.DELETE) return delete(request, id);
        return one(request, id);
    }

    private Future<Void> one(HttpServerRequest request, long id) {
        return cache.get(id).compose(cached -> {
            if (cached != null) return send(request.response(), 200, Buffer.buffer(cached));
            return store.one(id).compose(user -> {
                if (user == null) return send(request.response(), 404, MISSING);
                byte[] bytes = bytes(user);
                return cache.put(id, bytes).compose(kept -> send(request.response(), 200, Buffer.buffer(bytes)));
            });
        });
    }

    private Future<Void> page(HttpServerRequest request) {
        int page = parameter(request, "page", 1);
        int limit = Math.min(parameter(request, "limit", DEFAULT_LIMIT), MAX_LIMIT);
        return store.page(page, limit).compose(users -> send(request.response(), 200, json(new User.Page(page, limit, users))));
    }

    private Future<Void> create(HttpServerRequest request) {
        HttpServerResponse response = request.response();
        return request.body().compose(body -> store.create(newUser(body)))
                .compose(user -> cache.remove(user.id())
                        .compose(removed -> send(response.putHeader("location", USERS + "/" + user.id()), 201, json(user))));
    }

    private Future<Void> replace(HttpServerRequest request, long id) {
        HttpServerResponse response = request.response();
        return request.body().compose(body -> store.replace(id, newUser(body))).compose(user -> {
            if (user == null) return send(response, 404, MISSING);
            return cache.remove(id).compose(removed -> send(response, 200, json(user)));
        });
    }

    private Future<Void> delete(HttpServerRequest request, long id) {
        HttpServerResponse response = request.response();
        return store.delete(id).compose(wasThere -> {
            if (!wasThere) return send(response, 404, MISSING);
            return cache.remove(id).compose(removed -> send(response, 200, DELETED));
        });
    }

    private static Future<Void> send(HttpServerResponse response, int status, Buffer body) {
        return response.setStatusCode(status).putHeader("content-type", "application/json").end(body);
    }

    /** 0: the path is no user's. */
    private static long id(String path) {
        if (!path.startsWith(USERS + "/")) return 0;
        try {
            return Long.parseLong(path.substring(USERS.length() + 1));
        } catch (NumberFormatException failure) {
            return 0;
        }
    }

    private static int parameter(HttpServerRequest request, String name, int otherwise) {
        String value = request.getParam(name);
        return value == null ? otherwise : Integer.parseInt(value);
    }

    private static User.New newUser(Buffer body) {
        try {
            return NEW_USER.readValue(body.getBytes());
        } catch (IOException failure) {
            throw new IllegalArgumentException(failure);
        }
    }

    private static Buffer json(Object value) {
        return Buffer.buffer(bytes(value));
    }

    private static byte[] bytes(Object value) {
        try {
            return JSON.writeValueAsBytes(value);
        } catch (JsonProcessingException failure) {
            throw new IllegalArgumentException(failure);
        }
    }
}
