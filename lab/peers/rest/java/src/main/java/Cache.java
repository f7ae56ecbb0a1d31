import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.async.RedisClusterAsyncCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.NettyCustomizer;
import io.netty.channel.Channel;
import io.netty.handler.flush.FlushConsolidationHandler;
import io.vertx.core.Future;
import io.vertx.core.Vertx;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletionStage;

/** Users in Redis as the bytes of their JSON, on one connection to each node that all threads share. A Redis that fails is a miss. */
final class Cache {
    private static final long TTL_MS = 60_000;
    /** Commands that are written together at most. */
    private static final int FLUSH = 256;

    private final RedisClusterAsyncCommands<String, byte[]> redis;

    Cache(int port, boolean isCluster) {
        RedisURI address = RedisURI.create("127.0.0.1", port);
        ClientResources resources = ClientResources.builder().nettyCustomizer(new Consolidated()).build();
        RedisCodec<String, byte[]> codec = RedisCodec.of(new StringCodec(StandardCharsets.US_ASCII), ByteArrayCodec.INSTANCE);
        redis = isCluster
                ? RedisClusterClient.create(resources, address).connect(codec).async()
                : RedisClient.create(resources, address).connect(codec).async();
    }

    /** Null: it is not there. */
    Future<byte[]> get(long id) {
        return result(redis.get(key(id)));
    }

    Future<String> put(long id, byte[] user) {
        return result(redis.psetex(key(id), TTL_MS, user));
    }

    Future<Long> remove(long id) {
        return result(redis.del(key(id)));
    }

    private static String key(long id) {
        return "user:" + id;
    }

    /** On the event loop that has asked. */
    private static <T> Future<T> result(CompletionStage<T> reply) {
        return Future.fromCompletionStage(reply, Vertx.currentContext()).otherwiseEmpty();
    }

    /** Commands of many requests leave in one write. */
    private static final class Consolidated implements NettyCustomizer {
        @Override
        public void afterChannelInitialized(Channel channel) {
            channel.pipeline().addFirst(new FlushConsolidationHandler(FLUSH, true));
        }
    }
}
