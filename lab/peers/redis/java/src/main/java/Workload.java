import java.util.Map;

/** What is asked for, and by how many at once. */
record Workload(String name, int tasks, String prefix, int valueBytes, int setPercent, int timedEvery) {
    static final int KEYS = 100_000;
    static final int BATCH = 64;

    private static final Map<String, Workload> ALL = Map.of(
            "w1", new Workload("w1", 256, "key", 64, 0, 4),
            "w1k", new Workload("w1k", 256, "kib", 1024, 0, 4),
            "w2", new Workload("w2", 16, "key", 64, 0, 1),
            "w3", new Workload("w3", 256, "key", 64, 100, 4),
            "w4", new Workload("w4", 256, "key", 64, 20, 4),
            "w5", new Workload("w5", 1, "{one}", 64, 0, 1));

    static Workload named(String name) {
        Workload workload = ALL.get(name);
        if (workload == null) throw new IllegalArgumentException("no workload " + name);
        return workload;
    }

    boolean isBatch() {
        return name.equals("w2");
    }

    String[] keys() {
        String[] keys = new String[KEYS];
        for (int number = 0; number < KEYS; number++) keys[number] = prefix + ":" + number;
        return keys;
    }

    boolean nextIsSet(Random random) {
        return setPercent == 100 || setPercent > 0 && random.below(100) < setPercent;
    }

    /** xorshift64*. */
    static final class Random {
        private long state;

        Random(long seed) {
            state = seed * 0x9E3779B97F4A7C15L | 1;
        }

        int below(int bound) {
            state ^= state >>> 12;
            state ^= state << 25;
            state ^= state >>> 27;
            long high = state * 0x2545F4914F6CDD1DL >>> 32;
            return (int) (high * bound >>> 32);
        }
    }
}
