import io.lettuce.core.ClientOptions;
import io.lettuce.core.KeyScanCursor;
import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScanArgs;
import io.lettuce.core.ScanCursor;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.protocol.ProtocolVersion;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

final class LettuceClient implements Client {
    private final RedisClient client;
    private final StatefulRedisConnection<String, String> connection;
    private final RedisCommands<String, String> redis;

    LettuceClient(String host, int port, int protocol) {
        client = RedisClient.create(RedisURI.builder().withHost(host).withPort(port).withTimeout(Duration.ofSeconds(5)).build());
        ProtocolVersion version = protocol == 3 ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2;
        client.setOptions(ClientOptions.builder().protocolVersion(version).build());
        connection = client.connect();
        redis = connection.sync();
    }

    public String name() {
        return "lettuce";
    }

    public Class<?> library() {
        return RedisClient.class;
    }

    public String ping() {
        return redis.ping();
    }

    public String set(String key, String value, long seconds) {
        return redis.set(key, value, SetArgs.Builder.ex(seconds));
    }

    public String get(String key) {
        return redis.get(key);
    }

    public long ttl(String key) {
        return redis.ttl(key);
    }

    public long incrementBy(String key, long delta) {
        return redis.incrby(key, delta);
    }

    public double incrementByFloat(String key, double delta) {
        return redis.incrbyfloat(key, delta);
    }

    public String setMany(String... keysAndValues) {
        Map<String, String> values = new HashMap<>();
        for (int place = 0; place < keysAndValues.length; place += 2) {
            values.put(keysAndValues[place], keysAndValues[place + 1]);
        }
        return redis.mset(values);
    }

    public List<String> getMany(String... keys) {
        List<String> values = new ArrayList<>();
        for (KeyValue<String, String> found : redis.mget(keys)) {
            values.add(found.getValueOrElse(null));
        }
        return values;
    }

    public long delete(String... keys) {
        return redis.del(keys);
    }

    public int scan(String pattern) {
        int found = 0;
        ScanCursor cursor = ScanCursor.INITIAL;
        do {
            KeyScanCursor<String> part = redis.scan(cursor, ScanArgs.Builder.matches(pattern));
            found += part.getKeys().size();
            cursor = part;
        } while (!cursor.isFinished());
        return found;
    }

    /** What is not flushed one by one goes as one pipeline. */
    public List<Long> incrementInPipeline(String key, int count) {
        List<RedisFuture<Long>> replies = new ArrayList<>();
        connection.setAutoFlushCommands(false);
        for (int number = 0; number < count; number++) {
            replies.add(connection.async().incr(key));
        }
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        return replies.stream().map(reply -> reply.toCompletableFuture().join()).toList();
    }

    public void close() {
        connection.close();
        client.shutdown();
    }
}
