//! Commands on lists.

use super::{Id, Keys, Kind, Shape, Spec};

pub(super) const LISTS: &[Spec] = specs! {
    LPush "lpush" -3 Object (1 1 1 "RW insert") "write denyoom fast" "@write @list @fast"
        "list" "1.0.0" "key element [element ...]"
        "Put elements before the first of a list",
    RPush "rpush" -3 Object (1 1 1 "RW insert") "write denyoom fast" "@write @list @fast"
        "list" "1.0.0" "key element [element ...]"
        "Put elements after the last of a list",
    LPushX "lpushx" -3 Object (1 1 1 "RW insert") "write denyoom fast" "@write @list @fast"
        "list" "2.2.0" "key element [element ...]"
        "Put elements before the first of a list that there is",
    RPushX "rpushx" -3 Object (1 1 1 "RW insert") "write denyoom fast" "@write @list @fast"
        "list" "2.2.0" "key element [element ...]"
        "Put elements after the last of a list that there is",
    LPop "lpop" -2 Object (1 1 1 "RW access delete") "write fast" "@write @list @fast"
        "list" "1.0.0" "key [count]"
        "Take elements from the left of a list",
    RPop "rpop" -2 Object (1 1 1 "RW access delete") "write fast" "@write @list @fast"
        "list" "1.0.0" "key [count]"
        "Take elements from the right of a list",
    LLen "llen" 2 Object (1 1 1 "RO") "readonly fast" "@read @list @fast"
        "list" "1.0.0" "key"
        "Count the elements of a list",
    LRange "lrange" 4 Object (1 1 1 "RO access") "readonly" "@read @list @slow"
        "list" "1.0.0" "key start stop"
        "Get the elements from one index to another",
    LIndex "lindex" 3 Object (1 1 1 "RO access") "readonly" "@read @list @slow"
        "list" "1.0.0" "key index"
        "Get the element at an index",
    LSet "lset" 4 Object (1 1 1 "RW update") "write denyoom" "@write @list @slow"
        "list" "1.0.0" "key index element"
        "Replace the element at an index",
    LInsert "linsert" 5 Object (1 1 1 "RW insert") "write denyoom" "@write @list @slow"
        "list" "2.2.0" "key BEFORE|AFTER pivot element"
        "Put an element next to another one",
    LRem "lrem" 4 Object (1 1 1 "RW delete") "write" "@write @list @slow"
        "list" "1.0.0" "key count element"
        "Remove elements that are equal to this one",
    LTrim "ltrim" 4 Object (1 1 1 "RW delete") "write" "@write @list @slow"
        "list" "1.0.0" "key start stop"
        "Keep only the elements from one index to another",
    LPos "lpos" -3 Object (1 1 1 "RO access") "readonly" "@read @list @slow"
        "list" "6.0.6" "key element [RANK rank] [COUNT num-matches] [MAXLEN len]"
        "Find the indexes of elements that are equal to this one",
    LMove "lmove" 5 Slot (1 2 1 "RW access delete|RW insert") "write denyoom" "@write @list @slow"
        "list" "6.2.0" "source destination LEFT|RIGHT LEFT|RIGHT"
        "Take an element from one list and put it into another",
    RPopLPush "rpoplpush" 3 Slot (1 2 1 "RW access delete|RW insert") "write denyoom" "@write @list @slow"
        "list" "1.2.0" "source destination"
        "Take the last element of one list and put it before the first of another",
    LMPop "lmpop" -4 Slot (0 0 0 "RW access delete") "write movablekeys" "@write @list @slow"
        "list" "7.0.0" "numkeys key [key ...] LEFT|RIGHT [COUNT count]"
        "Take elements from the first list that there is",
};
