import com.sun.management.OperatingSystemMXBean;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.resource.ClientResources;
import io.lettuce.core.resource.DefaultClientResources;
import io.lettuce.core.resource.NettyCustomizer;
import io.netty.channel.Channel;
import io.netty.handler.flush.FlushConsolidationHandler;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/**
 * The workloads of the Rust harness on Lettuce: {@code WORKLOAD key=value…}. {@code io=N}: I/O threads, 2 if not given; {@code consolidate=N}: Netty's flush
 * consolidation.
 */
public final class Lettuce {
    private static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] words) throws InterruptedException {
        Workload workload = Workload.named(words[0]);
        Map<String, String> options = new HashMap<>(Map.of("secs", "1", "warm", "1", "io", "2", "consolidate", "0"));
        for (String word : Arrays.asList(words).subList(1, words.length)) {
            String[] pair = word.split("=", 2);
            options.put(pair[0], pair[1]);
        }

        StatefulRedisClusterConnection<String, byte[]> connection = connect(options);
        if (workload.isBatch()) connection.setAutoFlushCommands(false);
        byte[] value = new byte[workload.valueBytes()];
        Arrays.fill(value, (byte) 'x');
        String[] keys = workload.keys();
        CountDownLatch ended = new CountDownLatch(workload.tasks());
        List<User> users = new ArrayList<>();
        for (int id = 0; id < workload.tasks(); id++) users.add(new User(id, workload, connection, keys, value, ended));
        users.forEach(User::start);

        sleep(options.get("warm"));
        System.out.println("START");
        long cpuBefore = SYSTEM.getProcessCpuTime();
        long begun = System.nanoTime();
        User.phase = User.Phase.MEASURED;
        sleep(options.get("secs"));
        User.phase = User.Phase.OVER;
        long cpuNs = SYSTEM.getProcessCpuTime() - cpuBefore;
        double seconds = (System.nanoTime() - begun) / 1e9;
        ended.await();
        print(workload, users, cpuNs, seconds);
        Runtime.getRuntime().halt(0); // at once, without the quiet period of the client's threads
    }

    private static StatefulRedisClusterConnection<String, byte[]> connect(Map<String, String> options) {
        DefaultClientResources.Builder resources = DefaultClientResources.builder().ioThreadPoolSize(Integer.parseInt(options.get("io")));
        int consolidate = Integer.parseInt(options.get("consolidate"));
        if (consolidate > 0) resources.nettyCustomizer(flushConsolidation(consolidate));
        ClientResources shared = resources.build();

        List<RedisURI> nodes = new ArrayList<>();
        for (String port : options.get("ports").split(",")) nodes.add(RedisURI.create("127.0.0.1", Integer.parseInt(port)));
        RedisClusterClient client = RedisClusterClient.create(shared, nodes);
        client.setOptions(ClusterClientOptions.builder()
                .validateClusterNodeMembership(false)
                .timeoutOptions(TimeoutOptions.create())
                .build());
        return client.connect(RedisCodec.of(new StringCodec(StandardCharsets.US_ASCII), ByteArrayCodec.INSTANCE));
    }

    private static NettyCustomizer flushConsolidation(int flushes) {
        return new NettyCustomizer() {
            @Override
            public void afterChannelInitialized(Channel channel) {
                channel.pipeline().addFirst(new FlushConsolidationHandler(flushes, true));
            }
        };
    }

    private static void sleep(String seconds) throws InterruptedException {
        Thread.sleep((long) (Double.parseDouble(seconds) * 1000));
    }

    private static void print(Workload workload, List<User> users, long cpuNs, double seconds) {
        long answers = users.stream().mapToLong(user -> user.answers).sum();
        long errors = users.stream().mapToLong(user -> user.errors).sum();
        int[] timesNs = users.stream().flatMapToInt(user -> Arrays.stream(user.timesNs, 0, user.timesCount)).sorted().toArray();
        System.out.printf(Locale.ROOT,
                "END {\"workload\":\"%s\",\"ops\":%d,\"errors\":%d,\"secs\":%.4f,\"ops_s\":%.0f,\"cpu_us\":%.4f,\"p50\":%.2f,\"p99\":%.2f,\"p999\":%.2f}%n",
                workload.name(), answers, errors, seconds, answers / seconds, cpuNs / 1e3 / Math.max(answers, 1),
                quantile(timesNs, 0.5), quantile(timesNs, 0.99), quantile(timesNs, 0.999));
        System.out.flush();
    }

    /** In microseconds. */
    private static double quantile(int[] sortedNs, double part) {
        if (sortedNs.length == 0) return 0;
        return sortedNs[Math.min((int) (sortedNs.length * part), sortedNs.length - 1)] / 1e3;
    }
}
