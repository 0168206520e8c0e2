//! What an object is, as requests that make it.

use quorate_resp::{Value, write_request};

use super::VALUE_BYTES_MAX;

/// Elements of one request.
const ELEMENTS_MAX: usize = 10_000;
/// Bytes of one request, if it has more than one element.
const BYTES_MAX: usize = 1 << 20;

/// Types of objects, and how each is read whole and made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    String,
    List,
    Hash,
    Set,
    SortedSet,
}

impl Type {
    /// By the answer of `TYPE`.
    pub(super) fn of(word: &str) -> Option<Type> {
        Some(match word {
            "string" => Type::String,
            "list" => Type::List,
            "hash" => Type::Hash,
            "set" => Type::Set,
            "zset" => Type::SortedSet,
            _ => return None,
        })
    }

    /// The request that reads all of it.
    pub(super) fn reads<'a>(self, key: &'a [u8]) -> Vec<&'a [u8]> {
        let words: &[&'a [u8]] = match self {
            Type::String => &[b"GET", key],
            Type::List => &[b"LRANGE", key, b"0", b"-1"],
            Type::Hash => &[b"HGETALL", key],
            Type::Set => &[b"SMEMBERS", key],
            Type::SortedSet => &[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"],
        };
        words.to_vec()
    }

    /// The request that adds elements, and of how many words each is.
    fn adds(self) -> (&'static [u8], usize) {
        match self {
            Type::String => (b"SET", 1),
            Type::List => (b"RPUSH", 1),
            Type::Hash => (b"HSET", 2),
            Type::Set => (b"SADD", 1),
            Type::SortedSet => (b"ZADD", 2),
        }
    }
}

/// Appends the requests that make an object of what was read of it; `expires_ms` is what `PEXPIRETIME` said. False if there was none.
///
/// Made twice, it is what it is when made once.
pub(super) fn write_object(key: &[u8], kind: Type, value: &Value, expires_ms: i64, out: &mut Vec<u8>) -> bool {
    let expiry = expires_ms.to_string();
    let expiry = (expires_ms >= 0).then_some(expiry.as_bytes());
    match (kind, value) {
        (Type::String, Value::Bulk(bytes)) => {
            let mut words: Vec<&[u8]> = vec![b"SET", key, bytes];
            expiry.iter().for_each(|expiry| words.extend([b"PXAT", *expiry]));
            write_request(out, &words);
            true
        }
        (Type::String, _) => false,
        (_, Value::Array(elements)) if !elements.is_empty() => {
            let elements: Vec<&[u8]> = elements.iter().map(bytes).collect();
            write_elements(key, kind, &elements, out);
            if let Some(expiry) = expiry {
                write_request(out, &[b"PEXPIREAT", key, expiry]);
            }
            true
        }
        _ => false,
    }
}

/// Whether nodes take no value that is as large as one of these.
pub(super) fn is_too_large(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(|element| bytes(element).len() > VALUE_BYTES_MAX),
        value => bytes(value).len() > VALUE_BYTES_MAX,
    }
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Bulk(bytes) => bytes,
        Value::Simple(text) => text.as_bytes(),
        _ => b"",
    }
}

fn write_elements(key: &[u8], kind: Type, mut left: &[&[u8]], out: &mut Vec<u8>) {
    write_request(out, &[b"DEL".as_slice(), key]);
    let (verb, width) = kind.adds();
    while !left.is_empty() {
        let (mut count, mut length) = (0, 0);
        while count + width <= left.len() && count < ELEMENTS_MAX * width {
            let next: usize = left[count..count + width].iter().map(|word| word.len()).sum();
            if count > 0 && length + next > BYTES_MAX {
                break;
            }
            (count, length) = (count + width, length + next);
        }
        // Half an element is no answer of a server's.
        let (now, later) = left.split_at(count.max(1));
        let mut words = vec![verb, key];
        match kind {
            // The score comes first where it is written, and last where it is read.
            Type::SortedSet => now.chunks(2).for_each(|pair| words.extend(pair.iter().rev())),
            _ => words.extend(now),
        }
        write_request(out, &words);
        left = later;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    fn requests(kind: Type, value: &Value, expires_ms: i64) -> String {
        let mut out = Vec::new();
        write_object(b"k", kind, value, expires_ms, &mut out);
        let text = String::from_utf8(out).expect("text");
        let words = text.split("\r\n").filter(|line| !line.starts_with('$'));
        words.collect::<Vec<_>>().join(" ").replace("*", "\n*").trim().to_owned()
    }

    #[test]
    fn a_string_is_one_request() {
        assert_eq!(requests(Type::String, &bulk("v"), -1), "*3 SET k v");
        assert_eq!(requests(Type::String, &bulk("v"), 1_700_000_000_000), "*5 SET k v PXAT 1700000000000");
        assert_eq!(requests(Type::String, &Value::Null, -2), "");
    }

    #[test]
    fn others_are_deleted_first_filled_and_given_their_time_to_live() {
        let pairs = Value::Array(vec![bulk("a"), bulk("1"), bulk("b"), bulk("2.5")]);
        assert_eq!(requests(Type::Hash, &pairs, -1), "*2 DEL k \n*6 HSET k a 1 b 2.5");
        assert_eq!(requests(Type::SortedSet, &pairs, 5), "*2 DEL k \n*6 ZADD k 1 a 2.5 b \n*3 PEXPIREAT k 5");
        assert_eq!(requests(Type::List, &Value::Array(Vec::new()), -2), "");
    }

    #[test]
    fn a_request_has_so_many_elements_and_bytes_and_no_pair_is_parted() {
        let many = Value::Array((0..2 * ELEMENTS_MAX + 2).map(|number| bulk(&number.to_string())).collect());
        let text = requests(Type::Hash, &many, -1);
        assert!(text.contains(&format!("*{} HSET", 2 + 2 * ELEMENTS_MAX)) && text.contains("*4 HSET"));
        let large = bulk(&"x".repeat(BYTES_MAX * 2 / 3));
        let text = requests(Type::List, &Value::Array(vec![large.clone(), large]), -1);
        assert_eq!(text.matches("*3 RPUSH").count(), 2);
    }
}
