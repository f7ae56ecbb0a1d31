import io.lettuce.core.RedisFuture;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.async.RedisAdvancedClusterAsyncCommands;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.function.BiConsumer;

/**
 * One caller. Single commands are a chain of completions: each issues the next. Batches are 64 commands, one flush, then all awaited,
 * which is how Lettuce documents pipelining.
 */
final class User implements BiConsumer<Object, Throwable> {
    enum Phase { WARM_UP, MEASURED, OVER }

    static volatile Phase phase = Phase.WARM_UP;

    private final Workload workload;
    private final StatefulRedisClusterConnection<String, byte[]> connection;
    private final RedisAdvancedClusterAsyncCommands<String, byte[]> commands;
    private final String[] keys;
    private final byte[] value;
    private final CountDownLatch ended;
    private final Workload.Random random;
    private int count;

    private Phase phaseOfStep;
    private boolean isGet;
    private boolean isTimed;
    private long begun;

    long answers;
    long errors;
    int[] timesNs = new int[1 << 14];
    int timesCount;

    User(int id, Workload workload, StatefulRedisClusterConnection<String, byte[]> connection, String[] keys, byte[] value, CountDownLatch ended) {
        this.workload = workload;
        this.connection = connection;
        this.commands = connection.async();
        this.keys = keys;
        this.value = value;
        this.ended = ended;
        random = new Workload.Random(id + 1);
        count = id; // so that the users do not all time the same turn
    }

    void start() {
        if (workload.isBatch()) new Thread(this::runBatches).start();
        else issue();
    }

    private void issue() {
        if (!beginStep()) return;
        String key = keys[random.below(Workload.KEYS)];
        isGet = !workload.nextIsSet(random);
        RedisFuture<?> reply = isGet ? commands.get(key) : commands.set(key, value);
        reply.whenComplete(this);
    }

    @Override
    public void accept(Object reply, Throwable failure) {
        if (failure != null) fail(failure);
        endStep(1, !isGet || isRight(reply) ? 0 : 1);
        issue();
    }

    private void runBatches() {
        RedisFuture<?>[] replies = new RedisFuture[Workload.BATCH];
        while (beginStep()) {
            for (int i = 0; i < replies.length; i++) replies[i] = commands.get(keys[random.below(Workload.KEYS)]);
            connection.flushCommands();
            int wrong = 0;
            for (RedisFuture<?> reply : replies) {
                try {
                    if (!isRight(reply.get())) wrong++;
                } catch (InterruptedException | ExecutionException failure) {
                    fail(failure);
                }
            }
            endStep(Workload.BATCH, wrong);
        }
    }

    private boolean isRight(Object reply) {
        return reply instanceof byte[] bytes && bytes.length == value.length;
    }

    /** What a client measures whose commands fail would be worth nothing. */
    private static void fail(Throwable failure) {
        failure.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private boolean beginStep() {
        phaseOfStep = phase;
        if (phaseOfStep == Phase.OVER) {
            ended.countDown();
            return false;
        }
        count++;
        isTimed = count % workload.timedEvery() == 0;
        if (isTimed) begun = System.nanoTime();
        return true;
    }

    private void endStep(int asked, int wrong) {
        errors += wrong;
        if (phaseOfStep != Phase.MEASURED) return;
        answers += asked;
        if (!isTimed) return;
        if (timesCount == timesNs.length) timesNs = Arrays.copyOf(timesNs, timesCount * 2);
        timesNs[timesCount++] = (int) Math.min(System.nanoTime() - begun, Integer.MAX_VALUE);
    }
}
