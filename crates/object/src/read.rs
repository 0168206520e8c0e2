//! What reading commands answer: Redis 7.0's answers.

use std::ops::ControlFlow;

use crate::collection::{Elements, WRONG_TYPE};
use crate::command::{Command, TtlUnit};
use crate::glob;
use crate::object::Object;
use crate::objects::{AWAY, Objects};
use crate::outcome::Outcome;
use crate::table::{Entry, HASH_BITS};
use crate::text::Text;

/// Names that one SCAN looks at, whatever it asks for.
pub const SCAN_COUNT_MAX: u32 = 65_536;
/// Memory that the names in one answer take: more has no room in what carries it between nodes.
pub const NAMES_BYTES_MAX: usize = 32 << 20;
/// ... and those in one page of a scan, which goes on behind them.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// Answers a command that reads one object, of this value and expiry if there is one. Panics on any other.
pub fn read_value(command: &Command<'_>, value: Option<(&[u8], Option<u64>)>, time_ms: u64) -> Outcome {
    let object = value.map(|(value, expires_ms)| Object::String(Text::new(b"", value, expires_ms)));
    read_object(command, object.as_ref().filter(|object| !object.is_due(time_ms)), time_ms)
}

/// `object` is the live object that the command names.
fn read_object(command: &Command<'_>, object: Option<&Object>, time_ms: u64) -> Outcome {
    if let Some(Object::Away(_)) = object {
        return Outcome::Error(AWAY.into());
    }
    if command.is_of_strings() && matches!(object, Some(Object::Collection(_))) {
        return Outcome::Error(WRONG_TYPE.into());
    }
    let value = object.and_then(Object::text).map(Text::value);
    match *command {
        Command::Get { .. } | Command::GetEx { .. } => {
            value.map_or(Outcome::Nil, |value| Outcome::Bulk(value.to_vec()))
        }
        Command::Strlen { .. } => Outcome::Int(value.map_or(0, <[u8]>::len) as i64),
        Command::GetRange { start, end, .. } => {
            Outcome::Bulk(byte_range(value.unwrap_or_default(), start, end).to_vec())
        }
        Command::Elements { ref op, .. } => match elements_of(object) {
            Ok(elements) => op.execute(elements, 0).1,
            Err(refused) => refused,
        },
        Command::Exists { .. } => Outcome::Int(i64::from(object.is_some())),
        Command::Type { .. } => Outcome::Word(object.and_then(Object::type_name).unwrap_or("none")),
        Command::Ttl { unit, .. } => Outcome::Int(time_to_live(object, unit, time_ms)),
        _ => unreachable!("{command:?} reads no object"),
    }
}

/// Those of the live object that a command on elements names, if there is one.
pub(crate) fn elements_of(object: Option<&Object>) -> Result<Option<&Elements>, Outcome> {
    match object {
        None => Ok(None),
        Some(Object::Collection(collection)) => Ok(Some(&collection.elements)),
        Some(_) => Err(Outcome::Error(WRONG_TYPE.into())),
    }
}

impl Objects {
    /// `object` is the live object that the command names, if it names one.
    pub(crate) fn read_at(&self, command: &Command<'_>, object: Option<&Object>, time_ms: u64) -> Outcome {
        match *command {
            Command::Count => Outcome::Int((self.count() - self.expiries.due_count(time_ms)) as i64),
            Command::Keys { pattern } => self.keys(pattern, time_ms),
            Command::Scan { from, count, pattern, type_name } => self.scan(from, count, pattern, type_name, time_ms),
            _ => read_object(command, object, time_ms),
        }
    }

    fn keys(&self, pattern: &[u8], time_ms: u64) -> Outcome {
        if pattern.len() > glob::PATTERN_BYTES_MAX {
            return pattern_too_long();
        }
        let (mut keys, mut bytes) = (Vec::new(), 0);
        self.table.visit_leaves(0, &mut |entries| {
            let live = entries.iter().filter(|entry| !entry.object.is_due(time_ms));
            let mut found: Vec<&Entry> = live.filter(|entry| glob::matches(pattern, entry.object.name())).collect();
            // Replicas may hold a leaf in different order.
            found.sort_unstable_by_key(|entry| in_scan_order(entry));
            for entry in found {
                bytes += name_bytes(entry);
                if bytes > NAMES_BYTES_MAX {
                    return ControlFlow::Break(());
                }
                keys.push(entry.object.name().to_vec());
            }
            ControlFlow::Continue(())
        });
        if bytes > NAMES_BYTES_MAX { too_many_keys() } else { Outcome::Keys(keys) }
    }

    /// Looks at the objects from hash `from` on, until it has seen `count` and all those of the last one's hash. The cursor is
    /// a hash, so an object that stays is met by whoever passes it, whatever comes and goes around it.
    fn scan(&self, from: u64, count: u32, pattern: Option<&[u8]>, type_name: Option<&[u8]>, time_ms: u64) -> Outcome {
        if pattern.is_some_and(|pattern| pattern.len() > glob::PATTERN_BYTES_MAX) {
            return pattern_too_long();
        }
        let (seen, next) = self.page(from, count.clamp(1, SCAN_COUNT_MAX) as usize);
        let objects = seen.iter().map(|entry| &entry.object);
        let wanted = objects.filter(|object| {
            !object.is_due(time_ms)
                && type_name
                    .zip(object.type_name())
                    .is_none_or(|(wanted, found)| wanted.eq_ignore_ascii_case(found.as_bytes()))
                && pattern.is_none_or(|pattern| glob::matches(pattern, object.name()))
        });
        Outcome::Scan { next, keys: wanted.map(|object| object.name().to_vec()).collect() }
    }

    /// The names from hash `from` on whose objects have groups of their own: at least one, unless there is none, and as many as
    /// make an answer. Beside them the hash from which others follow.
    pub fn page_away(&self, mut from: u64) -> (Vec<Vec<u8>>, Option<u64>) {
        loop {
            let (names, next) = self.away_among(from, SCAN_COUNT_MAX as usize);
            match next.filter(|_| names.is_empty()) {
                Some(next) => from = next,
                None => return (names, next),
            }
        }
    }

    /// The names of those of the `count` objects from hash `from` on, or somewhat more, that have groups of their own.
    pub fn away_among(&self, from: u64, count: usize) -> (Vec<Vec<u8>>, Option<u64>) {
        let (seen, next) = self.page(from, count);
        let away = seen.iter().filter(|entry| matches!(entry.object, Object::Away(_)));
        (away.map(|entry| entry.object.name().to_vec()).collect(), next)
    }

    /// The first `count` objects from hash `from` on, more if the last shares its hash, or fewer if their names are long, and
    /// the hash of the one after them.
    fn page(&self, from: u64, count: usize) -> (Vec<&Entry>, Option<u64>) {
        let mut seen: Vec<&Entry> = Vec::new();
        let mut next = None;
        if from >> HASH_BITS != 0 {
            return (seen, next);
        }
        self.table.visit_leaves(from, &mut |entries| {
            let mut ahead: Vec<&Entry> = entries.iter().filter(|entry| entry.hash() >= from).collect();
            let missing = count.saturating_sub(seen.len());
            if ahead.len() > missing && missing > 0 {
                // Sorting a whole leaf for ten names would take most of SCAN's time.
                let (_, last, _) = ahead.select_nth_unstable_by_key(missing - 1, |entry| entry.hash());
                let last = last.hash();
                next = ahead.iter().map(|entry| entry.hash()).filter(|hash| *hash > last).min();
                ahead.retain(|entry| entry.hash() <= last);
            } else if missing == 0 {
                next = ahead.iter().map(|entry| entry.hash()).min();
                ahead.clear();
            }
            ahead.sort_unstable_by_key(|entry| in_scan_order(entry));
            seen.append(&mut ahead);
            if next.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if let Some(end) = end_of_page(&seen) {
            next = Some(seen[end].hash());
            seen.truncate(end);
        }
        (seen, next)
    }
}

fn name_bytes(entry: &Entry) -> usize {
    entry.object.name().len() + size_of::<Vec<u8>>()
}

/// Where a page has to end because of what its names take: between two hashes, and behind at least one.
fn end_of_page(seen: &[&Entry]) -> Option<usize> {
    let mut bytes = 0;
    let full = seen.iter().position(|entry| {
        bytes += name_bytes(entry);
        bytes > PAGE_BYTES_MAX
    })?;
    let begins = |at: &usize| seen[*at].hash() != seen[at - 1].hash();
    (1..=full).rev().find(begins).or_else(|| (full.max(1)..seen.len()).find(begins))
}

fn in_scan_order(entry: &Entry) -> (u64, &[u8]) {
    (entry.hash(), entry.object.name())
}

/// To a command that lists more than [`NAMES_BYTES_MAX`].
pub fn too_many_keys() -> Outcome {
    Outcome::Error("ERR there are too many keys for one answer: use SCAN".into())
}

fn pattern_too_long() -> Outcome {
    Outcome::Error(format!("ERR pattern is longer than {} bytes", glob::PATTERN_BYTES_MAX))
}

/// The bytes from `start` to `end`, both included; a negative place counts from the end.
fn byte_range(value: &[u8], start: i64, end: i64) -> &[u8] {
    let len = value.len() as i64;
    if len == 0 || (start < 0 && end < 0 && start > end) {
        return b"";
    }
    let absolute = |place: i64| {
        if place < 0 { (len + place).max(0) } else { place }
    };
    let (start, end) = (absolute(start), absolute(end).min(len - 1));
    if start > end { b"" } else { &value[start as usize..=end as usize] }
}

/// -2 without an object, -1 without an expiry.
fn time_to_live(object: Option<&Object>, unit: TtlUnit, time_ms: u64) -> i64 {
    let Some(object) = object else { return -2 };
    let Some(expires_ms) = object.expires_ms() else {
        return -1;
    };
    let expires_ms = i64::try_from(expires_ms).unwrap_or(i64::MAX);
    let left_ms = expires_ms.saturating_sub_unsigned(time_ms).max(0);
    match unit {
        TtlUnit::Seconds => to_seconds(left_ms),
        TtlUnit::Milliseconds => left_ms,
        TtlUnit::UnixSeconds => to_seconds(expires_ms),
        TtlUnit::UnixMilliseconds => expires_ms,
    }
}

fn to_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}
