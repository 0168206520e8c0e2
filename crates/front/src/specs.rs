//! The table of commands: everything that the front knows of a command but its meaning.
//!
//! Look-up, arity check, `COMMAND`, `COMMAND DOCS` and the `HELP` subcommands all read this one table. Its entries say what
//! Redis 7.0 says; `SET ... IFEQ`, `CLIENT SETINFO` and `CLIENT NO-TOUCH`, which are younger, and `QUORATE` are added.

use quorate_resp::Arguments;

use crate::refusal::Refusal;

/// A command, or a subcommand under its full name such as `client|id`.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) id: Id,
    /// Lower case.
    pub(crate) name: &'static str,
    /// The number of words with the name; negative for at least so many.
    pub(crate) arity: i32,
    pub(crate) shape: Shape,
    pub(crate) kind: Kind,
    pub(crate) keys: Keys,
    /// Separated by spaces, as are the categories.
    pub(crate) flags: &'static str,
    pub(crate) categories: &'static str,
    pub(crate) group: &'static str,
    pub(crate) since: &'static str,
    pub(crate) syntax: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) subcommands: &'static [Spec],
}

/// What a command is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One operation, on the object that the second word names.
    Object,
    /// One operation for each key.
    Keys,
    /// One operation on the objects of all keys, which lie in one hash slot.
    Slot,
    /// One operation for all that was queued since MULTI.
    Transaction,
    /// Some operations on the object that it names, around what an application does.
    Application,
    /// One operation for each volume.
    Volumes,
    /// One operation for whoever administers the cluster.
    Admin,
    /// None: answered at once.
    Connection,
}

/// What kind of work a command is, for those who watch a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads objects by their keys.
    Read,
    /// Writes objects by their keys.
    Write,
    /// Asks every volume of a namespace.
    Volumes,
    /// Administers the cluster.
    Admin,
    /// Is answered by the node alone, at once.
    Connection,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Read, Kind::Write, Kind::Volumes, Kind::Admin, Kind::Connection];
    pub const COUNT: usize = Kind::ALL.len();

    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Volumes => "volumes",
            Kind::Admin => "admin",
            Kind::Connection => "connection",
        }
    }

    /// The flags of a command on objects begin with what it does to them.
    const fn of(shape: Shape, flags: &str) -> Kind {
        match shape {
            Shape::Object | Shape::Keys | Shape::Slot => match flags.as_bytes() {
                [b'w', ..] => Kind::Write,
                _ => Kind::Read,
            },
            Shape::Application if flags.as_bytes()[0] == b'r' => Kind::Read,
            Shape::Application | Shape::Transaction => Kind::Write,
            Shape::Volumes => Kind::Volumes,
            Shape::Admin => Kind::Admin,
            Shape::Connection => Kind::Connection,
        }
    }
}

/// Where a command's keys are among its words, as `COMMAND` tells it: 0 for nowhere, a negative `last` from the end. Where keys are
/// movable, as the flags say, there is a number of them behind `last`, and so many more behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) first: i32,
    pub(crate) last: i32,
    pub(crate) step: i32,
    /// What is done with them, in the words of Redis's key specifications, separated by spaces. Between bars, it is said of one key
    /// after the other, and the last of all that are left.
    pub(crate) access: &'static str,
}

/// Which command it is; a subcommand's begins with its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "CLIENT ID is the command's name")]
pub(crate) enum Id {
    Get,
    Set,
    SetNx,
    SetEx,
    PSetEx,
    GetSet,
    GetDel,
    GetEx,
    Append,
    Strlen,
    Incr,
    Decr,
    IncrBy,
    DecrBy,
    IncrByFloat,
    GetRange,
    SetRange,
    Type,
    Ttl,
    PTtl,
    Expire,
    PExpire,
    ExpireAt,
    PExpireAt,
    ExpireTime,
    PExpireTime,
    Persist,
    HSet,
    HSetNx,
    HMSet,
    HGet,
    HMGet,
    HGetAll,
    HKeys,
    HVals,
    HLen,
    HExists,
    HStrlen,
    HDel,
    HIncrBy,
    HIncrByFloat,
    HScan,
    HRandField,
    LPush,
    RPush,
    LPushX,
    RPushX,
    LPop,
    RPop,
    LLen,
    LRange,
    LIndex,
    LSet,
    LInsert,
    LRem,
    LTrim,
    LPos,
    SAdd,
    SRem,
    SIsMember,
    SMIsMember,
    SMembers,
    SCard,
    SPop,
    SRandMember,
    SScan,
    ZAdd,
    ZRem,
    ZScore,
    ZMScore,
    ZIncrBy,
    ZCard,
    ZCount,
    ZLexCount,
    ZRange,
    ZRevRange,
    ZRangeByScore,
    ZRevRangeByScore,
    ZRangeByLex,
    ZRevRangeByLex,
    ZRank,
    ZRevRank,
    ZPopMin,
    ZPopMax,
    ZRemRangeByScore,
    ZRemRangeByRank,
    ZRemRangeByLex,
    ZScan,
    ZRandMember,
    LMove,
    RPopLPush,
    LMPop,
    SMove,
    SInter,
    SUnion,
    SDiff,
    SInterCard,
    SInterStore,
    SUnionStore,
    SDiffStore,
    ZInter,
    ZUnion,
    ZDiff,
    ZInterCard,
    ZInterStore,
    ZUnionStore,
    ZDiffStore,
    ZRangeStore,
    ZMPop,
    Rename,
    RenameNx,
    Copy,
    MSetNx,
    MGet,
    MSet,
    Del,
    Unlink,
    Exists,
    Scan,
    Keys,
    DbSize,
    FlushDb,
    FlushAll,
    Ping,
    Echo,
    Auth,
    Hello,
    Select,
    Client,
    Command,
    Info,
    Config,
    Time,
    Reset,
    Quit,
    Multi,
    Exec,
    Discard,
    Fcall,
    FcallRo,
    ClientId,
    ClientSetName,
    ClientGetName,
    ClientInfo,
    ClientList,
    ClientKill,
    ClientReply,
    ClientNoEvict,
    ClientSetInfo,
    ClientNoTouch,
    ClientHelp,
    CommandCount,
    CommandDocs,
    CommandInfo,
    CommandHelp,
    ConfigGet,
    ConfigSet,
    ConfigResetStat,
    ConfigRewrite,
    ConfigHelp,
    SlowLog,
    SlowLogGet,
    SlowLogLen,
    SlowLogReset,
    SlowLogHelp,
    Quorate,
}

impl Spec {
    /// The name of a subcommand without that of its container.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, short)| short)
    }

    /// Whether it may be called before the password is given.
    pub(crate) fn is_for_guests(&self) -> bool {
        self.flags.split(' ').any(|flag| flag == "no_auth")
    }

    fn accepts(&self, word_count: usize) -> bool {
        let words = i32::try_from(word_count).unwrap_or(i32::MAX);
        if self.arity >= 0 { words == self.arity } else { words >= -self.arity }
    }
}

/// The command or subcommand that `words`, of which there is at least one, call, with a number of words that it takes.
pub(crate) fn resolve(words: Arguments<'_>) -> Result<&'static Spec, Refusal> {
    let command = find(&words[0]).ok_or_else(|| Refusal::unknown_command(words))?;
    let spec = match words.at(1) {
        Some(word) if !command.subcommands.is_empty() => {
            find_subcommand(command, word).ok_or_else(|| Refusal::unknown_subcommand(command, word))?
        }
        _ => command,
    };
    if spec.accepts(words.len()) { Ok(spec) } else { Err(Refusal::wrong_arity(spec)) }
}

/// The command or, with a bar in the name, the subcommand; in any case of letters.
pub(crate) fn find_by_full_name(name: &[u8]) -> Option<&'static Spec> {
    match name.iter().position(|&byte| byte == b'|') {
        Some(bar) => find_subcommand(find(&name[..bar])?, &name[bar + 1..]),
        None => find(name),
    }
}

fn find_subcommand(container: &'static Spec, word: &[u8]) -> Option<&'static Spec> {
    container.subcommands.iter().find(|subcommand| subcommand.short_name().as_bytes().eq_ignore_ascii_case(word))
}

fn find(name: &[u8]) -> Option<&'static Spec> {
    if name.len() > NAME_LENGTH_MAX {
        return None;
    }
    let mut place = name_hash(name);
    loop {
        let (table, number) = INDEX[place];
        let spec = TABLES.get(usize::from(table).checked_sub(1)?)?.get(usize::from(number))?;
        if spec.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(spec);
        }
        place = (place + 1) % INDEX_LENGTH;
    }
}

/// No name of a command is longer.
const NAME_LENGTH_MAX: usize = 16;

/// Several times the number of commands, so that a name is found at the first or second look.
const INDEX_LENGTH: usize = 512;

/// An open-addressing hash table from names to one more than their table's place in `TABLES`, and their place there; table 0
/// is a free place.
static INDEX: [(u8, u8); INDEX_LENGTH] = index();

const fn index() -> [(u8, u8); INDEX_LENGTH] {
    let mut index = [(0, 0); INDEX_LENGTH];
    let mut table = 0;
    while table < TABLES.len() {
        let mut number = 0;
        while number < TABLES[table].len() {
            let name = TABLES[table][number].name.as_bytes();
            assert!(name.len() <= NAME_LENGTH_MAX);
            let mut place = name_hash(name);
            while index[place].0 != 0 {
                place = (place + 1) % INDEX_LENGTH;
            }
            index[place] = (table as u8 + 1, number as u8);
            number += 1;
        }
        table += 1;
    }
    index
}

/// FNV-1a, folded, blind to the case of letters.
const fn name_hash(name: &[u8]) -> usize {
    let mut hash: u32 = 0x811c_9dc5;
    let mut position = 0;
    while position < name.len() {
        hash = (hash ^ (name[position] | 0x20) as u32).wrapping_mul(0x0100_0193);
        position += 1;
    }
    ((hash ^ hash >> 16) as usize) % INDEX_LENGTH
}

/// Each row: id, name, arity, shape, (first key, last key, step, access), flags, categories, group, since, syntax,
/// summary, and the table of subcommands if there is one.
macro_rules! specs {
    ($($id:ident $name:literal $arity:literal $shape:ident ($first:literal $last:literal $step:literal $access:literal)
        $flags:literal $categories:literal $group:literal $since:literal $syntax:literal $summary:literal
        $(=> $subcommands:ident)?,)*) => {
        &[$(Spec {
            id: Id::$id,
            name: $name,
            arity: $arity,
            shape: Shape::$shape,
            kind: Kind::of(Shape::$shape, $flags),
            keys: Keys { first: $first, last: $last, step: $step, access: $access },
            flags: $flags,
            categories: $categories,
            group: $group,
            since: $since,
            syntax: $syntax,
            summary: $summary,
            subcommands: specs!(@subcommands $($subcommands)?),
        }),*]
    };
    (@subcommands $subcommands:ident) => { $subcommands };
    (@subcommands) => { &[] };
}

mod applications;
mod hashes;
mod keys;
mod lists;
mod sets;
mod sorted_sets;
mod transactions;

/// All commands, by what they are about.
const TABLES: &[&[Spec]] = &[
    COMMANDS,
    keys::KEYS,
    hashes::HASHES,
    lists::LISTS,
    sets::SETS,
    sorted_sets::SORTED_SETS,
    transactions::TRANSACTIONS,
    applications::APPLICATIONS,
];

/// All commands.
pub(crate) fn all() -> impl Iterator<Item = &'static Spec> {
    TABLES.iter().copied().flatten()
}

const COMMANDS: &[Spec] = specs! {
    Get "get" 2 Object (1 1 1 "RO access") "readonly fast" "@read @string @fast"
        "string" "1.0.0" "key"
        "Get the value of a key",
    Set "set" -3 Object (1 1 1 "RW access update variable_flags") "write denyoom" "@write @string @slow"
        "string" "1.0.0" "key value [NX|XX|IFEQ value] [GET] [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|KEEPTTL]"
        "Set the string value of a key",
    SetNx "setnx" 3 Object (1 1 1 "OW insert") "write denyoom fast" "@write @string @fast"
        "string" "1.0.0" "key value"
        "Set the value of a key, only if the key does not exist",
    SetEx "setex" 4 Object (1 1 1 "OW update") "write denyoom" "@write @string @slow"
        "string" "2.0.0" "key seconds value"
        "Set the value and expiration of a key",
    PSetEx "psetex" 4 Object (1 1 1 "OW update") "write denyoom" "@write @string @slow"
        "string" "2.6.0" "key milliseconds value"
        "Set the value and expiration in milliseconds of a key",
    GetSet "getset" 3 Object (1 1 1 "RW access update") "write denyoom fast" "@write @string @fast"
        "string" "1.0.0" "key value"
        "Set the string value of a key and return its old value",
    GetDel "getdel" 2 Object (1 1 1 "RW access delete") "write fast" "@write @string @fast"
        "string" "6.2.0" "key"
        "Get the value of a key and delete the key",
    GetEx "getex" -2 Object (1 1 1 "RW access update") "write fast" "@write @string @fast"
        "string" "6.2.0" "key [EX seconds|PX milliseconds|EXAT unix-time-seconds|PXAT unix-time-milliseconds|PERSIST]"
        "Get the value of a key and optionally set its expiration",
    Append "append" 3 Object (1 1 1 "RW insert") "write denyoom fast" "@write @string @fast"
        "string" "2.0.0" "key value"
        "Append a value to a key",
    Strlen "strlen" 2 Object (1 1 1 "RO") "readonly fast" "@read @string @fast"
        "string" "2.2.0" "key"
        "Get the length of the value stored in a key",
    Incr "incr" 2 Object (1 1 1 "RW access update") "write denyoom fast" "@write @string @fast"
        "string" "1.0.0" "key"
        "Increment the integer value of a key by one",
    Decr "decr" 2 Object (1 1 1 "RW access update") "write denyoom fast" "@write @string @fast"
        "string" "1.0.0" "key"
        "Decrement the integer value of a key by one",
    IncrBy "incrby" 3 Object (1 1 1 "RW access update") "write denyoom fast" "@write @string @fast"
        "string" "1.0.0" "key increment"
        "Increment the integer value of a key by the given amount",
    DecrBy "decrby" 3 Object (1 1 1 "RW access update") "write denyoom fast" "@write @string @fast"
        "string" "1.0.0" "key decrement"
        "Decrement the integer value of a key by the given number",
    IncrByFloat "incrbyfloat" 3 Object (1 1 1 "RW access update") "write denyoom fast" "@write @string @fast"
        "string" "2.6.0" "key increment"
        "Increment the float value of a key by the given amount",
    GetRange "getrange" 4 Object (1 1 1 "RO access") "readonly" "@read @string @slow"
        "string" "2.4.0" "key start end"
        "Get a substring of the string stored at a key",
    SetRange "setrange" 4 Object (1 1 1 "RW update") "write denyoom" "@write @string @slow"
        "string" "2.2.0" "key offset value"
        "Overwrite part of a string at key starting at the specified offset",
    Type "type" 2 Object (1 1 1 "RO") "readonly fast" "@keyspace @read @fast"
        "generic" "1.0.0" "key"
        "Determine the type stored at key",
    Ttl "ttl" 2 Object (1 1 1 "RO access") "readonly fast" "@keyspace @read @fast"
        "generic" "1.0.0" "key"
        "Get the time to live for a key in seconds",
    PTtl "pttl" 2 Object (1 1 1 "RO access") "readonly fast" "@keyspace @read @fast"
        "generic" "2.6.0" "key"
        "Get the time to live for a key in milliseconds",
    Expire "expire" -3 Object (1 1 1 "RW update") "write fast" "@keyspace @write @fast"
        "generic" "1.0.0" "key seconds [NX|XX|GT|LT]"
        "Set a key's time to live in seconds",
    PExpire "pexpire" -3 Object (1 1 1 "RW update") "write fast" "@keyspace @write @fast"
        "generic" "2.6.0" "key milliseconds [NX|XX|GT|LT]"
        "Set a key's time to live in milliseconds",
    ExpireAt "expireat" -3 Object (1 1 1 "RW update") "write fast" "@keyspace @write @fast"
        "generic" "1.2.0" "key unix-time-seconds [NX|XX|GT|LT]"
        "Set the expiration for a key as a UNIX timestamp",
    PExpireAt "pexpireat" -3 Object (1 1 1 "RW update") "write fast" "@keyspace @write @fast"
        "generic" "2.6.0" "key unix-time-milliseconds [NX|XX|GT|LT]"
        "Set the expiration for a key as a UNIX timestamp specified in milliseconds",
    ExpireTime "expiretime" 2 Object (1 1 1 "RO access") "readonly fast" "@keyspace @read @fast"
        "generic" "7.0.0" "key"
        "Get the expiration Unix timestamp for a key",
    PExpireTime "pexpiretime" 2 Object (1 1 1 "RO access") "readonly fast" "@keyspace @read @fast"
        "generic" "7.0.0" "key"
        "Get the expiration Unix timestamp for a key in milliseconds",
    Persist "persist" 2 Object (1 1 1 "RW update") "write fast" "@keyspace @write @fast"
        "generic" "2.2.0" "key"
        "Remove the expiration from a key",
    MGet "mget" -2 Keys (1 -1 1 "RO access") "readonly fast" "@read @string @fast"
        "string" "1.0.0" "key [key ...]"
        "Get the values of all the given keys",
    MSet "mset" -3 Keys (1 -1 2 "OW update") "write denyoom" "@write @string @slow"
        "string" "1.0.1" "key value [key value ...]"
        "Set multiple keys to multiple values",
    Del "del" -2 Keys (1 -1 1 "RM delete") "write" "@keyspace @write @slow"
        "generic" "1.0.0" "key [key ...]"
        "Delete a key",
    Unlink "unlink" -2 Keys (1 -1 1 "RM delete") "write fast" "@keyspace @write @fast"
        "generic" "4.0.0" "key [key ...]"
        "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.",
    Exists "exists" -2 Keys (1 -1 1 "RO") "readonly fast" "@keyspace @read @fast"
        "generic" "1.0.0" "key [key ...]"
        "Determine if a key exists",
    Scan "scan" -2 Volumes (0 0 0 "") "readonly" "@keyspace @read @slow"
        "generic" "2.8.0" "cursor [MATCH pattern] [COUNT count] [TYPE type]"
        "Incrementally iterate the keys space",
    Keys "keys" 2 Volumes (0 0 0 "") "readonly" "@keyspace @read @slow @dangerous"
        "generic" "1.0.0" "pattern"
        "Find all keys matching the given pattern",
    DbSize "dbsize" 1 Volumes (0 0 0 "") "readonly fast" "@keyspace @read @fast"
        "server" "1.0.0" ""
        "Return the number of keys in the selected database",
    FlushDb "flushdb" -1 Volumes (0 0 0 "") "write" "@keyspace @write @slow @dangerous"
        "server" "1.0.0" "[ASYNC|SYNC]"
        "Remove all keys from the current database",
    FlushAll "flushall" -1 Volumes (0 0 0 "") "write" "@keyspace @write @slow @dangerous"
        "server" "1.0.0" "[ASYNC|SYNC]"
        "Remove all keys from all databases",
    Ping "ping" -1 Connection (0 0 0 "") "fast" "@fast @connection"
        "connection" "1.0.0" "[message]"
        "Ping the server",
    Echo "echo" 2 Connection (0 0 0 "") "loading stale fast" "@fast @connection"
        "connection" "1.0.0" "message"
        "Echo the given string",
    Auth "auth" -2 Connection (0 0 0 "") "noscript loading stale fast no_auth allow_busy" "@fast @connection"
        "connection" "1.0.0" "[username] password"
        "Authenticate to the server",
    Hello "hello" -1 Connection (0 0 0 "") "noscript loading stale fast no_auth allow_busy" "@fast @connection"
        "connection" "6.0.0" "[protover [AUTH username password] [SETNAME clientname]]"
        "Handshake with the server",
    Select "select" 2 Connection (0 0 0 "") "loading stale fast" "@fast @connection"
        "connection" "1.0.0" "index"
        "Change the selected database for the current connection",
    Client "client" -2 Connection (0 0 0 "") "" "@slow"
        "connection" "2.4.0" ""
        "A container for client connection commands" => CLIENT,
    Command "command" -1 Connection (0 0 0 "") "loading stale" "@slow @connection"
        "server" "2.8.13" ""
        "Get array of command details" => COMMAND,
    Info "info" -1 Connection (0 0 0 "") "loading stale" "@slow @dangerous"
        "server" "1.0.0" "[section [section ...]]"
        "Get information and statistics about the server",
    Config "config" -2 Connection (0 0 0 "") "" "@slow"
        "server" "2.0.0" ""
        "A container for server configuration commands" => CONFIG,
    SlowLog "slowlog" -2 Connection (0 0 0 "") "" "@slow"
        "server" "2.2.12" ""
        "A container for slow log commands" => SLOWLOG,
    Time "time" 1 Connection (0 0 0 "") "loading stale fast" "@fast"
        "server" "2.6.0" ""
        "Return the current server time",
    Reset "reset" 1 Connection (0 0 0 "") "noscript loading stale fast no_auth allow_busy" "@fast @connection"
        "connection" "6.2.0" ""
        "Reset the connection",
    Quit "quit" -1 Connection (0 0 0 "") "noscript loading stale fast no_auth allow_busy" "@fast @connection"
        "connection" "1.0.0" ""
        "Close the connection",
    Quorate "quorate" -2 Admin (0 0 0 "") "admin noscript" "@admin @slow @dangerous"
        "server" "0.1.0" "word [word ...]"
        "Administer groups, namespaces and nodes",
};

const CLIENT: &[Spec] = specs! {
    ClientId "client|id" 2 Connection (0 0 0 "") "noscript loading stale" "@slow @connection"
        "connection" "5.0.0" ""
        "Returns the client ID for the current connection",
    ClientSetName "client|setname" 3 Connection (0 0 0 "") "noscript loading stale" "@slow @connection"
        "connection" "2.6.9" "connection-name"
        "Set the current connection name",
    ClientGetName "client|getname" 2 Connection (0 0 0 "") "noscript loading stale" "@slow @connection"
        "connection" "2.6.9" ""
        "Get the current connection name",
    ClientInfo "client|info" 2 Connection (0 0 0 "") "noscript loading stale" "@slow @connection"
        "connection" "6.2.0" ""
        "Returns information about the current client connection.",
    ClientList "client|list" -2 Connection (0 0 0 "") "admin noscript loading stale" "@admin @slow @dangerous @connection"
        "connection" "2.4.0" "[TYPE NORMAL|MASTER|REPLICA|PUBSUB] [ID client-id [client-id ...]]"
        "Get the list of client connections",
    ClientKill "client|kill" -3 Connection (0 0 0 "") "admin noscript loading stale" "@admin @slow @dangerous @connection"
        "connection" "2.4.0" "[ip:port] [ID client-id] [TYPE NORMAL|MASTER|SLAVE|REPLICA|PUBSUB] [USER username] [ADDR ip:port] [LADDR ip:port] [SKIPME yes|no] [MAXAGE seconds]"
        "Kill the connection of a client",
    ClientReply "client|reply" 3 Connection (0 0 0 "") "noscript loading stale" "@slow @connection"
        "connection" "3.2.0" "ON|OFF|SKIP"
        "Instruct the server whether to reply to commands",
    ClientNoEvict "client|no-evict" 3 Connection (0 0 0 "") "admin noscript loading stale" "@admin @slow @dangerous @connection"
        "connection" "7.0.0" "ON|OFF"
        "Set client eviction mode for the current connection",
    ClientSetInfo "client|setinfo" 4 Connection (0 0 0 "") "noscript loading stale" "@slow @connection"
        "connection" "7.2.0" "LIB-NAME library-name|LIB-VER library-version"
        "Set what library the current connection uses",
    ClientNoTouch "client|no-touch" 3 Connection (0 0 0 "") "noscript loading stale" "@slow @connection"
        "connection" "7.2.0" "ON|OFF"
        "Accepted without effect: nothing here depends on when a key was last used",
    ClientHelp "client|help" 2 Connection (0 0 0 "") "loading stale" "@slow @connection"
        "connection" "5.0.0" ""
        "Show helpful text about the different subcommands",
};

const COMMAND: &[Spec] = specs! {
    CommandCount "command|count" 2 Connection (0 0 0 "") "loading stale" "@slow @connection"
        "server" "2.8.13" ""
        "Get total number of commands",
    CommandDocs "command|docs" -2 Connection (0 0 0 "") "loading stale" "@slow @connection"
        "server" "7.0.0" "[command-name [command-name ...]]"
        "Get array of specific command documentation",
    CommandInfo "command|info" -2 Connection (0 0 0 "") "loading stale" "@slow @connection"
        "server" "2.8.13" "[command-name [command-name ...]]"
        "Get array of specific command details, or all when no argument is given.",
    CommandHelp "command|help" 2 Connection (0 0 0 "") "loading stale" "@slow @connection"
        "server" "5.0.0" ""
        "Show helpful text about the different subcommands",
};

const CONFIG: &[Spec] = specs! {
    ConfigGet "config|get" -3 Connection (0 0 0 "") "admin noscript loading stale" "@admin @slow @dangerous"
        "server" "2.0.0" "parameter [parameter ...]"
        "Get the values of configuration parameters",
    ConfigSet "config|set" -4 Connection (0 0 0 "") "admin noscript loading stale" "@admin @slow @dangerous"
        "server" "2.0.0" "parameter value [parameter value ...]"
        "Set configuration parameters to the given values",
    ConfigResetStat "config|resetstat" 2 Connection (0 0 0 "") "admin noscript loading stale" "@admin @slow @dangerous"
        "server" "2.0.0" ""
        "Reset the stats returned by INFO",
    ConfigRewrite "config|rewrite" 2 Connection (0 0 0 "") "admin noscript loading stale" "@admin @slow @dangerous"
        "server" "2.8.0" ""
        "Refused: node.toml is edited by people",
    ConfigHelp "config|help" 2 Connection (0 0 0 "") "loading stale" "@slow"
        "server" "5.0.0" ""
        "Show helpful text about the different subcommands",
};

const SLOWLOG: &[Spec] = specs! {
    SlowLogGet "slowlog|get" -2 Connection (0 0 0 "") "admin loading stale" "@admin @slow @dangerous"
        "server" "2.2.12" "[count]"
        "Get the slow log's entries",
    SlowLogLen "slowlog|len" 2 Connection (0 0 0 "") "admin loading stale" "@admin @slow @dangerous"
        "server" "2.2.12" ""
        "Get the slow log's length",
    SlowLogReset "slowlog|reset" 2 Connection (0 0 0 "") "admin loading stale" "@admin @slow @dangerous"
        "server" "2.2.12" ""
        "Clear all entries from the slow log",
    SlowLogHelp "slowlog|help" 2 Connection (0 0 0 "") "loading stale" "@slow"
        "server" "6.2.0" ""
        "Show helpful text about the different subcommands",
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_in_any_case() {
        for spec in all() {
            for name in [spec.name.to_string(), spec.name.to_ascii_uppercase()] {
                assert_eq!(find_by_full_name(name.as_bytes()).map(|found| found.id), Some(spec.id));
            }
            for subcommand in spec.subcommands {
                assert!(subcommand.name.starts_with(&format!("{}|", spec.name)));
                let found = find_by_full_name(subcommand.name.to_ascii_uppercase().as_bytes());
                assert_eq!(found.map(|found| found.id), Some(subcommand.id));
            }
        }
        for name in ["", "ge", "gett", "client|nosuch", "nosuch|id", "get|", "averyveryverylongname"] {
            assert!(find_by_full_name(name.as_bytes()).is_none(), "{name}");
        }
    }

    #[test]
    fn commands_on_one_object_or_each_have_their_key_first() {
        for spec in all().filter(|spec| spec.shape != Shape::Slot) {
            let has_keys = matches!(spec.shape, Shape::Object | Shape::Keys);
            assert_eq!(spec.keys.first, i32::from(has_keys), "{}", spec.name);
            assert_eq!(spec.keys.last == 1, spec.shape == Shape::Object, "{}", spec.name);
        }
    }
}
