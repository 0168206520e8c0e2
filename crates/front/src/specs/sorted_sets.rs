//! Commands on sorted sets.

use super::{Id, Keys, Kind, Shape, Spec};

pub(super) const SORTED_SETS: &[Spec] = specs! {
    ZAdd "zadd" -4 Object (1 1 1 "RW update") "write denyoom fast" "@write @sortedset @fast"
        "sorted-set" "1.2.0" "key [NX|XX] [GT|LT] [CH] [INCR] score member [score member ...]"
        "Set the scores of members",
    ZRem "zrem" -3 Object (1 1 1 "RW delete") "write fast" "@write @sortedset @fast"
        "sorted-set" "1.2.0" "key member [member ...]"
        "Remove members from a sorted set",
    ZScore "zscore" 3 Object (1 1 1 "RO access") "readonly fast" "@read @sortedset @fast"
        "sorted-set" "1.2.0" "key member"
        "Get the score of one member",
    ZMScore "zmscore" -3 Object (1 1 1 "RO access") "readonly fast" "@read @sortedset @fast"
        "sorted-set" "6.2.0" "key member [member ...]"
        "Get the scores of several members",
    ZIncrBy "zincrby" 4 Object (1 1 1 "RW access update") "write denyoom fast" "@write @sortedset @fast"
        "sorted-set" "1.2.0" "key increment member"
        "Add a number to the score of a member",
    ZCard "zcard" 2 Object (1 1 1 "RO") "readonly fast" "@read @sortedset @fast"
        "sorted-set" "1.2.0" "key"
        "Count the members of a sorted set",
    ZCount "zcount" 4 Object (1 1 1 "RO access") "readonly fast" "@read @sortedset @fast"
        "sorted-set" "2.0.0" "key min max"
        "Count the members whose scores are within bounds",
    ZLexCount "zlexcount" 4 Object (1 1 1 "RO access") "readonly fast" "@read @sortedset @fast"
        "sorted-set" "2.8.9" "key min max"
        "Count the members that are within bounds, where all scores are equal",
    ZRange "zrange" -4 Object (1 1 1 "RO access") "readonly" "@read @sortedset @slow"
        "sorted-set" "1.2.0" "key start stop [BYSCORE|BYLEX] [REV] [LIMIT offset count] [WITHSCORES]"
        "Get members by their ranks, scores or names",
    ZRevRange "zrevrange" -4 Object (1 1 1 "RO access") "readonly" "@read @sortedset @slow"
        "sorted-set" "1.2.0" "key start stop [WITHSCORES]"
        "Get members by their ranks from the highest score on",
    ZRangeByScore "zrangebyscore" -4 Object (1 1 1 "RO access") "readonly" "@read @sortedset @slow"
        "sorted-set" "1.0.5" "key min max [WITHSCORES] [LIMIT offset count]"
        "Get the members whose scores are within bounds",
    ZRevRangeByScore "zrevrangebyscore" -4 Object (1 1 1 "RO access") "readonly" "@read @sortedset @slow"
        "sorted-set" "2.2.0" "key max min [WITHSCORES] [LIMIT offset count]"
        "Get the members whose scores are within bounds, from the highest on",
    ZRangeByLex "zrangebylex" -4 Object (1 1 1 "RO access") "readonly" "@read @sortedset @slow"
        "sorted-set" "2.8.9" "key min max [LIMIT offset count]"
        "Get the members that are within bounds, where all scores are equal",
    ZRevRangeByLex "zrevrangebylex" -4 Object (1 1 1 "RO access") "readonly" "@read @sortedset @slow"
        "sorted-set" "2.8.9" "key max min [LIMIT offset count]"
        "Get the members that are within bounds, from the last on, where all scores are equal",
    ZRank "zrank" 3 Object (1 1 1 "RO access") "readonly fast" "@read @sortedset @fast"
        "sorted-set" "2.0.0" "key member"
        "Get the rank of a member",
    ZRevRank "zrevrank" 3 Object (1 1 1 "RO access") "readonly fast" "@read @sortedset @fast"
        "sorted-set" "2.0.0" "key member"
        "Get the rank of a member from the highest score on",
    ZPopMin "zpopmin" -2 Object (1 1 1 "RW access delete") "write fast" "@write @sortedset @fast"
        "sorted-set" "5.0.0" "key [count]"
        "Take the members with the lowest scores away",
    ZPopMax "zpopmax" -2 Object (1 1 1 "RW access delete") "write fast" "@write @sortedset @fast"
        "sorted-set" "5.0.0" "key [count]"
        "Take the members with the highest scores away",
    ZRemRangeByScore "zremrangebyscore" 4 Object (1 1 1 "RW delete") "write" "@write @sortedset @slow"
        "sorted-set" "1.2.0" "key min max"
        "Remove the members whose scores are within bounds",
    ZRemRangeByRank "zremrangebyrank" 4 Object (1 1 1 "RW delete") "write" "@write @sortedset @slow"
        "sorted-set" "2.0.0" "key start stop"
        "Remove members by their ranks",
    ZRemRangeByLex "zremrangebylex" 4 Object (1 1 1 "RW delete") "write" "@write @sortedset @slow"
        "sorted-set" "2.8.9" "key min max"
        "Remove the members that are within bounds, where all scores are equal",
    ZScan "zscan" -3 Object (1 1 1 "RO access") "readonly" "@read @sortedset @slow"
        "sorted-set" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Walk the members of a sorted set with their scores, some at a time",
    ZRandMember "zrandmember" -2 Object (1 1 1 "RO access") "readonly" "@read @sortedset @slow"
        "sorted-set" "6.2.0" "key [count [WITHSCORES]]"
        "Get members of a sorted set by chance",
    ZMPop "zmpop" -4 Slot (0 0 0 "RW access delete") "write movablekeys" "@write @sortedset @slow"
        "sorted-set" "7.0.0" "numkeys key [key ...] MIN|MAX [COUNT count]"
        "Take members from the first sorted set that there is",
    ZRangeStore "zrangestore" -5 Slot (1 2 1 "OW update|RO access") "write denyoom" "@write @sortedset @slow"
        "sorted-set" "6.2.0" "dst src min max [BYSCORE|BYLEX] [REV] [LIMIT offset count]"
        "Store the members that ZRANGE would get",
    ZInterCard "zintercard" -3 Slot (0 0 0 "RO access") "readonly movablekeys" "@read @sortedset @slow"
        "sorted-set" "7.0.0" "numkeys key [key ...] [LIMIT limit]"
        "Count the members that all of these sorted sets have",
    ZInter "zinter" -3 Slot (0 0 0 "RO access") "readonly movablekeys" "@read @sortedset @slow"
        "sorted-set" "6.2.0" "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]"
        "Get the members that all of these sorted sets have",
    ZInterStore "zinterstore" -4 Slot (1 1 1 "OW update|RO access") "write denyoom movablekeys" "@write @sortedset @slow"
        "sorted-set" "2.0.0" "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]"
        "Store the members that all of these sorted sets have",
    ZUnion "zunion" -3 Slot (0 0 0 "RO access") "readonly movablekeys" "@read @sortedset @slow"
        "sorted-set" "6.2.0" "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX] [WITHSCORES]"
        "Get the members that any of these sorted sets has",
    ZUnionStore "zunionstore" -4 Slot (1 1 1 "OW update|RO access") "write denyoom movablekeys" "@write @sortedset @slow"
        "sorted-set" "2.0.0" "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE SUM|MIN|MAX]"
        "Store the members that any of these sorted sets has",
    ZDiff "zdiff" -3 Slot (0 0 0 "RO access") "readonly movablekeys" "@read @sortedset @slow"
        "sorted-set" "6.2.0" "numkeys key [key ...] [WITHSCORES]"
        "Get the members of the first sorted set that none of the others has",
    ZDiffStore "zdiffstore" -4 Slot (1 1 1 "OW update|RO access") "write denyoom movablekeys" "@write @sortedset @slow"
        "sorted-set" "6.2.0" "destination numkeys key [key ...]"
        "Store the members of the first sorted set that none of the others has",
};
