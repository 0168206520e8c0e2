//! What commands on several keys choose their words from.

use super::Words;

pub(crate) const TAGGED_LISTS: Words = &[b"{tag}list:1", b"{tag}list:2", b"{tag}list:3"];

pub(crate) const TAGGED_SETS: Words = &[b"{tag}set:1", b"{tag}set:2", b"{tag}set:3"];

pub(crate) const TAGGED_SORTED_SETS: Words = &[b"{tag}zset:1", b"{tag}zset:2", b"{tag}zset:3"];

/// Keys of one hash slot with objects of every type, and some without.
pub(crate) const TAGGED: Words = &[
    b"{tag}1",
    b"{tag}2",
    b"{tag}",
    b"{tag}list:1",
    b"{tag}list:2",
    b"{tag}set:1",
    b"{tag}set:2",
    b"{tag}zset:1",
    b"{tag}zset:2",
    b"{tag}none",
];

pub(crate) const SIDES: Words = &[b"LEFT", b"RIGHT", b"left", b"Right", b"MIDDLE", b""];

/// In place of how many keys there are.
pub(crate) const COUNTS_OF_KEYS: Words = &[b"0", b"1", b"2", b"5", b"-1", b"abc", b"", b"1.5", b"03"];

pub(crate) const WEIGHTS: Words = &[
    b"1", b"1", b"2", b"0", b"-1", b"-0", b".5", b"0.1", b"-2.5", b"1e3", b"1e300", b"inf", b"-inf", b"3", b"1e-300",
    b"0.3",
];

pub(crate) const AGGREGATES: Words = &[b"SUM", b"MIN", b"MAX", b"min", b"Max", b"AVG", b""];

/// Names of commands on several keys.
pub(crate) const SEVERAL_KEYS: Words = &[
    b"lmove",
    b"rpoplpush",
    b"lmpop",
    b"smove",
    b"sinter",
    b"sunion",
    b"sdiff",
    b"sintercard",
    b"sinterstore",
    b"sunionstore",
    b"sdiffstore",
    b"zunion",
    b"zinter",
    b"zdiff",
    b"zintercard",
    b"zunionstore",
    b"zinterstore",
    b"zdiffstore",
    b"zrangestore",
    b"zmpop",
    b"rename",
    b"renamenx",
    b"copy",
    b"msetnx",
];
