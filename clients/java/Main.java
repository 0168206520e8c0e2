import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;

/** Jedis or Lettuce against a node: see clients/README.md. */
final class Main {
    private static final int PIPELINE_LENGTH = 1000;
    private static final long PATIENCE_MS = 30_000;
    private static final long PAUSE_MS = 5;

    public static void main(String[] words) throws Exception {
        String host = words[1];
        int port = Integer.parseInt(words[2]);
        int protocol = Integer.parseInt(words[3]);
        boolean isJedis = words[0].equals("jedis");
        try (Client client = isJedis ? new JedisClient(host, port, protocol) : new LettuceClient(host, port, protocol)) {
            String prefix = client.name() + ":" + protocol + ":";
            commands(client, prefix);
            pipeline(client, prefix);
            restart(client, prefix);
            System.out.println("ok " + client.name() + " " + version(client.library()) + " RESP" + protocol);
        }
        System.exit(0);
    }

    private static void commands(Client client, String prefix) {
        String key = prefix + "key";
        equal(client.ping(), "PONG");
        equal(client.set(key, "text \r\n", 3600), "OK");
        equal(client.get(key), "text \r\n");
        long left = client.ttl(key);
        check(left > 3590 && left <= 3600, "TTL is " + left);
        equal(client.get(prefix + "nothing"), null);
        try {
            client.incrementBy(key, 1);
            check(false, "text was incremented");
        } catch (RuntimeException error) {
            check(String.valueOf(error.getMessage()).contains("not an integer"), "INCR of text: " + error);
        }
        equal(client.setMany(prefix + "a", "1", prefix + "b", "2"), "OK");
        equal(client.getMany(prefix + "a", prefix + "nothing", prefix + "b"), Arrays.asList("1", null, "2"));
        equal(client.incrementBy(prefix + "a", 41), 42L);
        equal(client.incrementByFloat(prefix + "b", 0.5), 2.5);
        equal(client.scan(prefix + "*"), 3);
        equal(client.delete(key, prefix + "a", prefix + "b", prefix + "nothing"), 3L);
    }

    private static void pipeline(Client client, String prefix) {
        List<Long> expected = LongStream.rangeClosed(1, PIPELINE_LENGTH).boxed().toList();
        equal(client.incrementInPipeline(prefix + "pipeline", PIPELINE_LENGTH), expected);
        client.delete(prefix + "pipeline");
    }

    /** The node is killed and started again while this counts. */
    private static void restart(Client client, String prefix) throws Exception {
        String counter = prefix + "counter";
        client.delete(counter);
        Thread restarted = new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException error) {
                throw new java.io.UncheckedIOException(error);
            }
        });
        restarted.setDaemon(true);
        restarted.start();
        System.out.println("ready");
        long counted = 0;
        while (restarted.isAlive()) {
            try {
                client.incrementBy(counter, 1);
                counted += 1;
            } catch (RuntimeException lost) {
                // Unknown whether it was counted.
            }
            Thread.sleep(PAUSE_MS);
        }
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!answers(client)) {
            check(System.currentTimeMillis() < deadline, "not connected again after " + PATIENCE_MS + " ms");
            Thread.sleep(PAUSE_MS);
        }
        long value = Long.parseLong(client.get(counter));
        check(value >= counted, "counted " + counted + " times, but the counter is " + value);
        pipeline(client, prefix);
    }

    private static boolean answers(Client client) {
        try {
            return client.ping().equals("PONG");
        } catch (RuntimeException lost) {
            return false;
        }
    }

    private static String version(Class<?> library) {
        String archive = library.getProtectionDomain().getCodeSource().getLocation().getPath();
        return archive.replaceAll(".*/[a-z-]+-(.*)\\.jar", "$1");
    }

    private static void equal(Object got, Object want) {
        check(Objects.equals(got, want), "got " + got + ", want " + want);
    }

    private static void check(boolean holds, String message) {
        if (!holds) {
            throw new AssertionError(message);
        }
    }
}
