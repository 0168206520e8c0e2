//! Commands on keys, whatever their objects are, several in one step.

use super::{Id, Keys, Kind, Shape, Spec};

pub(super) const KEYS: &[Spec] = specs! {
    Rename "rename" 3 Slot (1 2 1 "RW access delete|OW update") "write" "@keyspace @write @slow"
        "generic" "1.0.0" "key newkey"
        "Give an object another name",
    RenameNx "renamenx" 3 Slot (1 2 1 "RW access delete|OW insert") "write fast" "@keyspace @write @fast"
        "generic" "1.0.0" "key newkey"
        "Give an object another name unless there is an object of that name",
    Copy "copy" -3 Slot (1 2 1 "RO access|OW update") "write denyoom" "@keyspace @write @slow"
        "generic" "6.2.0" "source destination [REPLACE]"
        "Make a copy of an object under another name",
    MSetNx "msetnx" -3 Slot (1 -1 2 "OW insert") "write denyoom" "@write @string @slow"
        "string" "1.0.1" "key value [key value ...]"
        "Set multiple keys to multiple values, only if none of the keys exist",
};
