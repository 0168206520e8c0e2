//! Commands on hashes.

use super::{Id, Keys, Kind, Shape, Spec};

pub(super) const HASHES: &[Spec] = specs! {
    HSet "hset" -4 Object (1 1 1 "RW update") "write denyoom fast" "@write @hash @fast"
        "hash" "2.0.0" "key field value [field value ...]"
        "Set fields of a hash, and count the new ones",
    HSetNx "hsetnx" 4 Object (1 1 1 "RW insert") "write denyoom fast" "@write @hash @fast"
        "hash" "2.0.0" "key field value"
        "Set a field of a hash unless it has one of that name",
    HMSet "hmset" -4 Object (1 1 1 "RW update") "write denyoom fast" "@write @hash @fast"
        "hash" "2.0.0" "key field value [field value ...]"
        "Set fields of a hash",
    HGet "hget" 3 Object (1 1 1 "RO access") "readonly fast" "@read @hash @fast"
        "hash" "2.0.0" "key field"
        "Get the value of one field",
    HMGet "hmget" -3 Object (1 1 1 "RO access") "readonly fast" "@read @hash @fast"
        "hash" "2.0.0" "key field [field ...]"
        "Get the values of several fields",
    HGetAll "hgetall" 2 Object (1 1 1 "RO access") "readonly" "@read @hash @slow"
        "hash" "2.0.0" "key"
        "Get all fields with their values",
    HKeys "hkeys" 2 Object (1 1 1 "RO access") "readonly" "@read @hash @slow"
        "hash" "2.0.0" "key"
        "Get the names of all fields",
    HVals "hvals" 2 Object (1 1 1 "RO access") "readonly" "@read @hash @slow"
        "hash" "2.0.0" "key"
        "Get the values of all fields",
    HLen "hlen" 2 Object (1 1 1 "RO") "readonly fast" "@read @hash @fast"
        "hash" "2.0.0" "key"
        "Count the fields of a hash",
    HExists "hexists" 3 Object (1 1 1 "RO") "readonly fast" "@read @hash @fast"
        "hash" "2.0.0" "key field"
        "Tell whether a hash has a field",
    HStrlen "hstrlen" 3 Object (1 1 1 "RO") "readonly fast" "@read @hash @fast"
        "hash" "3.2.0" "key field"
        "Get how long the value of a field is",
    HDel "hdel" -3 Object (1 1 1 "RW delete") "write fast" "@write @hash @fast"
        "hash" "2.0.0" "key field [field ...]"
        "Delete fields of a hash",
    HIncrBy "hincrby" 4 Object (1 1 1 "RW access update") "write denyoom fast" "@write @hash @fast"
        "hash" "2.0.0" "key field increment"
        "Add an integer to the value of a field",
    HIncrByFloat "hincrbyfloat" 4 Object (1 1 1 "RW access update") "write denyoom fast" "@write @hash @fast"
        "hash" "2.6.0" "key field increment"
        "Add a number to the value of a field",
    HScan "hscan" -3 Object (1 1 1 "RO access") "readonly" "@read @hash @slow"
        "hash" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Walk the fields of a hash, some at a time",
    HRandField "hrandfield" -2 Object (1 1 1 "RO access") "readonly" "@read @hash @slow"
        "hash" "6.2.0" "key [count [WITHVALUES]]"
        "Get fields of a hash by chance",
};
