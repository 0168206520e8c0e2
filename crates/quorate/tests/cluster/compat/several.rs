//! Which commands on several keys two correct servers must answer alike.

/// Those whose keys lie in one hash slot: Redis takes others as well. Any command that is on one key.
pub(super) fn is_comparable(words: &[Vec<u8>]) -> bool {
    let name = words[0].to_ascii_uppercase();
    let number = |place: usize| -> Option<i64> { str::from_utf8(words.get(place)?).ok()?.parse().ok() };
    let counted = |place: usize| {
        let keys = words.get(place + 1..).unwrap_or_default();
        let count = number(place).and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
        &keys[..count.min(keys.len())]
    };
    let keys = match &name[..] {
        b"LMOVE" | b"RPOPLPUSH" | b"SMOVE" | b"RENAME" | b"RENAMENX" | b"ZRANGESTORE" => words.get(1..3),
        // Redis copies to another database.
        b"COPY"
            if (4..words.len())
                .any(|place| words[place - 1].eq_ignore_ascii_case(b"DB") && number(place).is_some()) =>
        {
            return false;
        }
        b"COPY" => words.get(1..3),
        b"SINTER" | b"SUNION" | b"SDIFF" | b"SINTERSTORE" | b"SUNIONSTORE" | b"SDIFFSTORE" => words.get(1..),
        b"MSETNX" => return words.iter().skip(1).step_by(2).all(|key| is_tagged(key)),
        // Redis counts to beyond the largest number, and then looks there.
        b"LMPOP" | b"ZMPOP" if number(1).is_some_and(|count| count > 1_000_000) => return false,
        b"SINTERCARD" | b"LMPOP" | b"ZUNION" | b"ZINTER" | b"ZDIFF" | b"ZINTERCARD" | b"ZMPOP" => Some(counted(1)),
        b"ZUNIONSTORE" | b"ZINTERSTORE" | b"ZDIFFSTORE" => {
            return counted(2).iter().chain(words.get(1)).all(|key| is_tagged(key));
        }
        _ => None,
    };
    keys.unwrap_or_default().iter().all(|key| is_tagged(key))
}

fn is_tagged(key: &[u8]) -> bool {
    key.starts_with(b"{tag}")
}
