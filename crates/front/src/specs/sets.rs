//! Commands on sets.

use super::{Id, Keys, Kind, Shape, Spec};

pub(super) const SETS: &[Spec] = specs! {
    SAdd "sadd" -3 Object (1 1 1 "RW insert") "write denyoom fast" "@write @set @fast"
        "set" "1.0.0" "key member [member ...]"
        "Add members to a set, and count the new ones",
    SRem "srem" -3 Object (1 1 1 "RW delete") "write fast" "@write @set @fast"
        "set" "1.0.0" "key member [member ...]"
        "Remove members from a set",
    SIsMember "sismember" 3 Object (1 1 1 "RO") "readonly fast" "@read @set @fast"
        "set" "1.0.0" "key member"
        "Tell whether a set has a member",
    SMIsMember "smismember" -3 Object (1 1 1 "RO access") "readonly fast" "@read @set @fast"
        "set" "6.2.0" "key member [member ...]"
        "Tell of each of these whether a set has it",
    SMembers "smembers" 2 Object (1 1 1 "RO access") "readonly" "@read @set @slow"
        "set" "1.0.0" "key"
        "Get all members of a set",
    SCard "scard" 2 Object (1 1 1 "RO") "readonly fast" "@read @set @fast"
        "set" "1.0.0" "key"
        "Count the members of a set",
    SPop "spop" -2 Object (1 1 1 "RW access delete") "write fast" "@write @set @fast"
        "set" "1.0.0" "key [count]"
        "Take members from a set by chance",
    SRandMember "srandmember" -2 Object (1 1 1 "RO access") "readonly" "@read @set @slow"
        "set" "1.0.0" "key [count]"
        "Get members of a set by chance",
    SScan "sscan" -3 Object (1 1 1 "RO access") "readonly" "@read @set @slow"
        "set" "2.8.0" "key cursor [MATCH pattern] [COUNT count]"
        "Walk the members of a set, some at a time",
    SMove "smove" 4 Slot (1 2 1 "RW access delete|RW insert") "write fast" "@write @set @fast"
        "set" "1.0.0" "source destination member"
        "Move a member from one set to another",
    SInterCard "sintercard" -3 Slot (0 0 0 "RO access") "readonly movablekeys" "@read @set @slow"
        "set" "7.0.0" "numkeys key [key ...] [LIMIT limit]"
        "Count the members that all of these sets have",
    SInter "sinter" -2 Slot (1 -1 1 "RO access") "readonly" "@read @set @slow"
        "set" "1.0.0" "key [key ...]"
        "Get the members that all of these sets have",
    SInterStore "sinterstore" -3 Slot (1 -1 1 "RW update|RO access") "write denyoom" "@write @set @slow"
        "set" "1.0.0" "destination key [key ...]"
        "Store the members that all of these sets have",
    SUnion "sunion" -2 Slot (1 -1 1 "RO access") "readonly" "@read @set @slow"
        "set" "1.0.0" "key [key ...]"
        "Get the members that any of these sets has",
    SUnionStore "sunionstore" -3 Slot (1 -1 1 "OW update|RO access") "write denyoom" "@write @set @slow"
        "set" "1.0.0" "destination key [key ...]"
        "Store the members that any of these sets has",
    SDiff "sdiff" -2 Slot (1 -1 1 "RO access") "readonly" "@read @set @slow"
        "set" "1.0.0" "key [key ...]"
        "Get the members of the first set that none of the others has",
    SDiffStore "sdiffstore" -3 Slot (1 -1 1 "OW update|RO access") "write denyoom" "@write @set @slow"
        "set" "1.0.0" "destination key [key ...]"
        "Store the members of the first set that none of the others has",
};
