import java.util.ArrayList;
import java.util.List;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

final class JedisClient implements Client {
    private final RedisClient redis;

    JedisClient(String host, int port, int protocol) {
        RedisProtocol version = protocol == 3 ? RedisProtocol.RESP3 : RedisProtocol.RESP2;
        redis = RedisClient.builder()
                .hostAndPort(new HostAndPort(host, port))
                .clientConfig(DefaultJedisClientConfig.builder().protocol(version).build())
                .build();
    }

    public String name() {
        return "jedis";
    }

    public Class<?> library() {
        return RedisClient.class;
    }

    public String ping() {
        return redis.ping();
    }

    public String set(String key, String value, long seconds) {
        return redis.set(key, value, SetParams.setParams().ex(seconds));
    }

    public String get(String key) {
        return redis.get(key);
    }

    public long ttl(String key) {
        return redis.ttl(key);
    }

    public long incrementBy(String key, long delta) {
        return redis.incrBy(key, delta);
    }

    public double incrementByFloat(String key, double delta) {
        return redis.incrByFloat(key, delta);
    }

    public String setMany(String... keysAndValues) {
        return redis.mset(keysAndValues);
    }

    public List<String> getMany(String... keys) {
        return redis.mget(keys);
    }

    public long delete(String... keys) {
        return redis.del(keys);
    }

    public int scan(String pattern) {
        int found = 0;
        String cursor = ScanParams.SCAN_POINTER_START;
        do {
            ScanResult<String> part = redis.scan(cursor, new ScanParams().match(pattern));
            found += part.getResult().size();
            cursor = part.getCursor();
        } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
        return found;
    }

    public List<Long> incrementInPipeline(String key, int count) {
        List<Response<Long>> replies = new ArrayList<>();
        try (Pipeline pipeline = (Pipeline) redis.pipelined()) {
            for (int number = 0; number < count; number++) {
                replies.add(pipeline.incr(key));
            }
            pipeline.sync();
        }
        return replies.stream().map(Response::get).toList();
    }

    public void close() {
        redis.close();
    }
}
