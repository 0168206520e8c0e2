import java.util.List;

/** A library as Main asks it. */
interface Client extends AutoCloseable {
    String name();

    /** A class of the library, whose archive tells the version. */
    Class<?> library();

    String ping();

    String set(String key, String value, long seconds);

    String get(String key);

    long ttl(String key);

    long incrementBy(String key, long delta);

    double incrementByFloat(String key, double delta);

    String setMany(String... keysAndValues);

    /** Null for what is not there. */
    List<String> getMany(String... keys);

    long delete(String... keys);

    int scan(String pattern);

    /** The replies to so many increments, sent at once. */
    List<Long> incrementInPipeline(String key, int count);
}
