//! Where replies need not be equal byte for byte, and what they must be instead.
//!
//! Each rule is a row of the table in docs/compatibility.md, in the same words.

use quorate_resp::{ReplyLimits, ReplyParser, Value};

/// A command and what the two servers said to it.
pub(crate) struct Exchange<'a> {
    /// Upper case.
    pub(crate) command: Vec<String>,
    pub(crate) words: &'a [Vec<u8>],
    pub(crate) redis: Value,
    pub(crate) quorate: Value,
}

pub(crate) struct Rule {
    /// The commands that it is about.
    pub(crate) commands: &'static str,
    /// What is compared instead, and why.
    pub(crate) text: &'static str,
    holds: fn(&Exchange<'_>) -> bool,
}

pub(crate) const RULES: &[Rule] = &[
    Rule {
        commands: "TTL PTTL EXPIRETIME PEXPIRETIME",
        text: "two positive numbers within 2 s of each other: the two servers took the command at different moments",
        holds: |exchange| {
            let apart = match exchange.command[0].as_str() {
                "TTL" | "EXPIRETIME" => 2,
                _ => 2000,
            };
            matches!((&exchange.redis, &exchange.quorate), (Value::Integer(redis), Value::Integer(quorate))
                if *redis > 0 && *quorate > 0 && redis.abs_diff(*quorate) <= apart)
        },
    },
    Rule {
        commands: "TIME",
        text: "two numbers, the first within 10 s of Redis's: it is another clock",
        holds: |exchange| {
            let seconds = |reply: &Value| match reply {
                Value::Array(parts) if parts.len() == 2 => texts(reply).first()?.parse::<u64>().ok(),
                _ => None,
            };
            let (redis, quorate) = (seconds(&exchange.redis), seconds(&exchange.quorate));
            redis.zip(quorate).is_some_and(|(redis, quorate)| redis.abs_diff(quorate) <= 10)
        },
    },
    Rule {
        commands: "KEYS",
        text: "the same keys in any order: Redis promises none",
        holds: |exchange| sorted(&exchange.redis).is_some_and(|redis| Some(redis) == sorted(&exchange.quorate)),
    },
    Rule {
        commands: "SCAN",
        text: "one call: a cursor and keys, since where a scan pauses is each server's own; from 0 to 0: the same keys",
        holds: |exchange| is_scan_reply(&exchange.redis) && is_scan_reply(&exchange.quorate),
    },
    Rule {
        commands: "HELLO",
        text: "equal but for `id`, the number of the connection",
        holds: |exchange| {
            let fields = |reply: &Value| match reply {
                Value::Map(pairs) => Some(pairs.clone()),
                Value::Array(items) => {
                    Some(items.chunks(2).map(|pair| (pair[0].clone(), pair[pair.len() - 1].clone())).collect())
                }
                _ => None,
            };
            let without_id = |reply: &Value| {
                let mut fields = fields(reply)?;
                fields.retain(|(name, _)| *name != Value::Bulk(b"id".to_vec()));
                Some(fields)
            };
            without_id(&exchange.redis).is_some_and(|redis| Some(redis) == without_id(&exchange.quorate))
        },
    },
    Rule {
        commands: "CLIENT|ID",
        text: "a number: that of the connection",
        holds: |exchange| matches!((&exchange.redis, &exchange.quorate), (Value::Integer(_), Value::Integer(_))),
    },
    Rule {
        commands: "CLIENT|INFO CLIENT|LIST",
        text: "every field of Redis is there, and `name`, `flags`, `db`, `sub`, `psub`, `ssub`, `multi`, `cmd`, `user`, `redir`, \
               `resp` of one's own line are equal: addresses, ages and buffers are each server's own",
        holds: describe_alike,
    },
    Rule {
        commands: "INFO",
        text: "text, as both are of different servers",
        holds: |exchange| text(&exchange.redis).is_some() && text(&exchange.quorate).is_some(),
    },
    Rule {
        commands: "CONFIG|GET",
        text: "every name that Quorate knows is answered as Redis names it; fewer are known, and values are its own",
        holds: |exchange| {
            let names = |reply: &Value| match reply {
                Value::Map(pairs) => Some(pairs.iter().filter_map(|(name, _)| text(name)).collect::<Vec<_>>()),
                Value::Array(_) => Some(texts(reply).into_iter().step_by(2).collect()),
                _ => None,
            };
            let (redis, quorate) = (names(&exchange.redis), names(&exchange.quorate));
            redis.zip(quorate).is_some_and(|(redis, quorate)| quorate.iter().all(|name| redis.contains(name)))
        },
    },
    Rule {
        commands: "SLOWLOG|GET SLOWLOG|LEN",
        text: "a list, and a number: what was slow was so in one of the two",
        holds: |exchange| {
            matches!((&exchange.redis, &exchange.quorate), (Value::Integer(_), Value::Integer(_)))
                || matches!((&exchange.redis, &exchange.quorate), (Value::Array(_), Value::Array(_)))
        },
    },
    Rule {
        commands: "COMMAND|COUNT",
        text: "a number: there are fewer commands",
        holds: |exchange| matches!((&exchange.redis, &exchange.quorate), (Value::Integer(_), Value::Integer(_))),
    },
    Rule {
        commands: "COMMAND|DOCS",
        text: "the same commands: the syntax is told as one text for hints, not as a tree",
        holds: |exchange| {
            let names = |reply: &Value| match reply {
                Value::Map(pairs) => Some(pairs.iter().filter_map(|(name, _)| text(name)).collect()),
                Value::Array(_) => Some(texts(reply)),
                _ => None,
            };
            let (redis, quorate): (Option<Vec<_>>, Option<Vec<_>>) = (names(&exchange.redis), names(&exchange.quorate));
            redis.is_some() && redis == quorate
        },
    },
    Rule {
        commands: "CLIENT|HELP COMMAND|HELP CONFIG|HELP SLOWLOG|HELP",
        text: "the first line: there are fewer subcommands",
        holds: |exchange| {
            let first = |reply: &Value| match reply {
                Value::Array(lines) => lines.first().cloned(),
                _ => None,
            };
            first(&exchange.redis).is_some_and(|redis| Some(redis) == first(&exchange.quorate))
        },
    },
    Rule {
        commands: "HGETALL HKEYS HVALS SMEMBERS SINTER SUNION SDIFF",
        text: "the same fields or members in any order: Redis keeps the order of small hashes only",
        holds: |exchange| {
            let width = if exchange.command[0] == "HGETALL" { 2 } else { 1 };
            unordered(&exchange.redis, width).is_some_and(|redis| Some(redis) == unordered(&exchange.quorate, width))
        },
    },
    Rule {
        commands: "HSCAN SSCAN",
        text: "a cursor and elements, if both are at the end the same in any order: where a scan pauses is each server's own",
        holds: |exchange| {
            let width = if exchange.command[0] == "HSCAN" { 2 } else { 1 };
            match (element_scan(&exchange.redis, width), element_scan(&exchange.quorate, width)) {
                (Some((0, redis)), Some((0, quorate))) => redis == quorate,
                (redis, quorate) => redis.is_some() && quorate.is_some(),
            }
        },
    },
    Rule {
        commands: "HRANDFIELD SRANDMEMBER ZRANDMEMBER SPOP",
        text: "an element, or as many: which is left to chance",
        holds: |exchange| match (&exchange.redis, &exchange.quorate) {
            (Value::Array(redis), Value::Array(quorate)) | (Value::Set(redis), Value::Set(quorate)) => {
                redis.len() == quorate.len()
            }
            (redis, quorate) => text(redis).is_some() && text(quorate).is_some(),
        },
    },
    Rule {
        commands: "INCRBYFLOAT HINCRBYFLOAT",
        text: "numbers that differ by less than one part in 10^14: Redis adds long doubles and shows their rounding, Quorate adds \
               decimals; hexadecimal floats and those beyond a double are refused",
        holds: |exchange| match (&exchange.redis, &exchange.quorate) {
            (Value::Bulk(_), Value::Bulk(_)) => {
                let number = |reply: &Value| text(reply)?.parse::<f64>().ok();
                let (redis, quorate) = (number(&exchange.redis), number(&exchange.quorate));
                let delta = exchange.words.last().cloned().unwrap_or_default();
                let delta = number(&Value::Bulk(delta)).unwrap_or(0.0);
                redis.zip(quorate).is_some_and(|(redis, quorate)| {
                    redis == quorate || (redis - quorate).abs() <= 1e-14 * redis.abs().max(delta.abs()).max(1.0)
                })
            }
            (redis, Value::Error(error)) => {
                let is_refused = error.contains("not a valid float") || error.contains("NaN or Infinity");
                let word = exchange.words.last().cloned().unwrap_or_default();
                let delta = String::from_utf8_lossy(&word);
                let is_hexadecimal = delta.contains("0x");
                let is_large = text(redis).is_some_and(|sum| sum.len() > 300)
                    || delta.parse().is_ok_and(|delta: f64| delta.is_infinite() && word.contains(&b'0'));
                is_refused && (is_hexadecimal || is_large)
            }
            _ => false,
        },
    },
];

impl<'a> Exchange<'a> {
    /// None if one of the replies is none.
    pub(crate) fn new(words: &'a [Vec<u8>], redis: &[u8], quorate: &[u8]) -> Option<Exchange<'a>> {
        let command = words.iter().take(2).map(|word| String::from_utf8_lossy(word).to_uppercase()).collect();
        Some(Exchange { command, words, redis: parsed(redis)?, quorate: parsed(quorate)? })
    }

    /// The rule that lets the replies differ.
    pub(crate) fn excused(&self) -> Option<&'static Rule> {
        let is_about = |name: &str| match name.split_once('|') {
            Some((container, subcommand)) => {
                self.command.first().is_some_and(|word| word == container)
                    && self.command.get(1).is_some_and(|word| word == subcommand)
            }
            None => self.command.first().is_some_and(|word| word == name),
        };
        RULES.iter().find(|rule| rule.commands.split_whitespace().any(is_about) && (rule.holds)(self))
    }
}

fn parsed(reply: &[u8]) -> Option<Value> {
    ReplyParser::new(ReplyLimits::default()).parse(reply).ok()?.1
}

fn text(reply: &Value) -> Option<String> {
    match reply {
        Value::Bulk(text) | Value::Verbatim { text, .. } => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    }
}

fn texts(reply: &Value) -> Vec<String> {
    match reply {
        Value::Array(items) => items.iter().filter_map(text).collect(),
        _ => Vec::new(),
    }
}

/// The elements of an array of strings.
pub(crate) fn sorted(reply: &Value) -> Option<Vec<Vec<u8>>> {
    let Value::Array(items) = reply else { return None };
    let mut strings: Vec<Vec<u8>> = Vec::new();
    for item in items {
        match item {
            Value::Bulk(string) => strings.push(string.clone()),
            _ => return None,
        }
    }
    strings.sort_unstable();
    Some(strings)
}

/// The elements of a reply, `width` together, in an order that both servers' have.
fn unordered(reply: &Value, width: usize) -> Option<Vec<String>> {
    let flat: Vec<&Value> = match reply {
        Value::Map(pairs) => pairs.iter().flat_map(|(name, value)| [name, value]).collect(),
        Value::Array(items) | Value::Set(items) => items.iter().collect(),
        _ => return None,
    };
    let mut elements: Vec<String> = flat.chunks(width).map(|element| format!("{element:?}")).collect();
    elements.sort_unstable();
    Some(elements)
}

/// The cursor and the elements of HSCAN and the like.
fn element_scan(reply: &Value, width: usize) -> Option<(u64, Vec<String>)> {
    match reply {
        Value::Array(parts) if parts.len() == 2 => Some((text(&parts[0])?.parse().ok()?, unordered(&parts[1], width)?)),
        _ => None,
    }
}

/// SCAN's cursor and keys.
pub(crate) fn scan_reply(reply: &[u8]) -> Option<(String, Vec<Vec<u8>>)> {
    let reply = parsed(reply)?;
    if !is_scan_reply(&reply) {
        return None;
    }
    let Value::Array(parts) = reply else { return None };
    Some((text(&parts[0])?, sorted(&parts[1])?))
}

fn is_scan_reply(reply: &Value) -> bool {
    let Value::Array(parts) = reply else { return false };
    parts.len() == 2
        && text(&parts[0]).is_some_and(|cursor| cursor.parse::<u64>().is_ok())
        && sorted(&parts[1]).is_some()
}

fn describe_alike(exchange: &Exchange<'_>) -> bool {
    const EQUAL: [&str; 11] = ["name", "flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user", "redir", "resp"];
    let (Some(redis), Some(quorate)) = (text(&exchange.redis), text(&exchange.quorate)) else { return false };
    let (redis, quorate) = (redis.lines().next().unwrap_or_default(), quorate.lines().next().unwrap_or_default());
    let fields = |line: &str| -> Vec<(String, String)> {
        let fields = line.split(' ').filter_map(|field| field.split_once('='));
        fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let (redis, quorate) = (fields(redis), fields(quorate));
    redis.iter().all(|(name, value)| {
        quorate
            .iter()
            .any(|(other, other_value)| name == other && (value == other_value || !EQUAL.contains(&name.as_str())))
    })
}
