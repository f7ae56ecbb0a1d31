import io.vertx.core.DeploymentOptions;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;

/**
 * The API of examples/users on Vert.x, Lettuce and sqlite-jdbc. Environment: {@code PORT}, {@code SQLITE_DB}, {@code REDIS_PORT}, {@code REDIS_CLUSTER}
 * (1: a cluster).
 */
public final class Main {
    public static void main(String[] arguments) {
        int cores = Runtime.getRuntime().availableProcessors();
        Vertx vertx = Vertx.vertx(new VertxOptions().setPreferNativeTransport(true).setEventLoopPoolSize(cores));
        Store store = new Store(vertx, environment("SQLITE_DB", "users.db"), 2 * cores);
        Cache cache = new Cache(number("REDIS_PORT", "6379"), environment("REDIS_CLUSTER", "0").equals("1"));
        int port = number("PORT", "8330");
        vertx.deployVerticle(() -> new Api(store, cache, port), new DeploymentOptions().setInstances(cores)).onFailure(Main::fail);
    }

    private static String environment(String name, String otherwise) {
        return System.getenv().getOrDefault(name, otherwise);
    }

    private static int number(String name, String otherwise) {
        return Integer.parseInt(environment(name, otherwise));
    }

    private static void fail(Throwable failure) {
        failure.printStackTrace();
        System.exit(1);
    }
}
