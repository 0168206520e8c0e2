//! Requests about objects to operations: one for an object, one for each of several keys, one for each volume.

use quorate_object::{Command, Condition, Expiry, SetAnswer, slot_of_key};
use quorate_resp::parse_integer;

use crate::backend::{Backend, Request, Target};
use crate::front::Front;
use crate::gather::{Collected, Gathering, Parts, ScanParts};
use crate::object_command::{self, Call};
use crate::operations::{Asker, Waiter};
use crate::refusal::Refusal;
use crate::scan::{Cursor, SCAN_COUNT_DEFAULT, VOLUMES_MAX, parse_cursor};
use crate::specs::{Id, Shape};
use crate::{application, slot_command, transaction};

/// Turns the call into operations and queues its reply.
pub(crate) fn execute<B: Backend>(front: &mut Front, index: usize, call: &Call<'_>, backend: &mut B) {
    let refused = match call.spec.shape {
        Shape::Object => submit_object(front, index, call, backend),
        Shape::Keys => submit_each_key(front, index, call, backend),
        Shape::Slot => submit_on_keys(front, index, call, backend),
        Shape::Transaction => transaction::submit(front, index, call, backend),
        Shape::Application => application::submit(front, index, call, backend),
        Shape::Volumes => submit_volumes(front, index, call, backend),
        Shape::Admin => {
            submit_admin(front, index, call, backend);
            Ok(())
        }
        Shape::Connection => unreachable!("{} concerns no object", call.spec.name),
    };
    if let Err(refusal) = refused {
        front.connections[index].refuse(&refusal);
    }
}

fn submit_object<B: Backend>(front: &mut Front, index: usize, call: &Call<'_>, backend: &mut B) -> Result<(), Refusal> {
    let key = call.word(1);
    match object_command::parse(call) {
        Ok(command) => submit_one(front, index, key, command, backend),
        Err(refusal) if is_told_late(call.spec.id, &refusal) => {
            let nil_without = call.spec.id == Id::GetEx;
            let gathering = Gathering::new(Collected::Late { refusal, nil_without }, Parts::Read, 1);
            let sequence = front.connections[index].await_answers(front.operations.next(), gathering);
            begin_on_object(front, index, sequence, key, Command::Get { key }, backend);
        }
        Err(refusal) => return Err(refusal),
    }
    Ok(())
}

/// What Redis finds wrong only once it has looked at the object.
fn is_told_late(id: Id, refusal: &Refusal) -> bool {
    match id {
        Id::GetEx => *refusal != Refusal::SYNTAX,
        Id::IncrByFloat => true,
        Id::SetRange => *refusal == Refusal::STRING_TOO_LARGE,
        _ => false,
    }
}

/// One operation that answers the request alone.
fn submit_one<'a, B: Backend>(front: &mut Front, index: usize, key: &'a [u8], command: Command<'a>, backend: &mut B) {
    let sequence = front.connections[index].await_answer(front.operations.next());
    begin_on_object(front, index, sequence, key, command, backend);
}

fn begin_on_object<'a, B: Backend>(
    front: &mut Front,
    index: usize,
    sequence: u32,
    key: &'a [u8],
    command: Command<'a>,
    backend: &mut B,
) {
    let connection = &mut front.connections[index];
    let namespace = connection.client.namespace;
    let key_hash = hash_of_key(namespace, key);
    let link = connection.link(front.operations.next(), key_hash, &mut front.operations);
    connection.note_operation();
    let waiter = Waiter { connection: index as u32, generation: connection.generation, sequence };
    let operation = front.operations.add(Asker::Client(waiter), key_hash, link.previous);
    let target = Target::Object { slot: slot_of_key(key), key, command };
    backend.submit(Request { operation, predecessor: link.predecessor, namespace, target });
}

/// An operation on no single object. It is behind everything before it anyway, see [`Connection::bar`].
///
/// [`Connection::bar`]: crate::connection::Connection::bar
pub(crate) fn begin<B: Backend>(
    front: &mut Front,
    index: usize,
    sequence: u32,
    namespace: u32,
    target: Target<'_>,
    backend: &mut B,
) {
    let connection = &mut front.connections[index];
    connection.note_operation();
    connection.bar();
    let waiter = Waiter { connection: index as u32, generation: connection.generation, sequence };
    let operation = front.operations.add(Asker::Client(waiter), 0, 0);
    backend.submit(Request { operation, predecessor: None, namespace, target });
}

/// MGET, MSET, DEL, UNLINK, EXISTS.
fn submit_each_key<B: Backend>(
    front: &mut Front,
    index: usize,
    call: &Call<'_>,
    backend: &mut B,
) -> Result<(), Refusal> {
    let key_count = count_keys(call)?;
    let gathering = match call.spec.id {
        Id::MGet => Gathering::new(Collected::Values(vec![None; key_count]), Parts::Read, key_count),
        // The outcome of one key is the whole reply.
        _ if key_count == 1 => {
            let (key, command) = command_on_key(call, 0);
            submit_one(front, index, key, command, backend);
            return Ok(());
        }
        Id::MSet => Gathering::new(Collected::AllOk, Parts::Written("keys"), key_count),
        Id::Exists => Gathering::new(Collected::Sum(0), Parts::Read, key_count),
        _ => Gathering::new(Collected::Sum(0), Parts::Written("keys"), key_count),
    };
    let sequence = front.connections[index].await_answers(front.operations.next(), gathering);
    for number in 0..key_count {
        let (key, command) = command_on_key(call, number);
        begin_on_object(front, index, sequence, key, command, backend);
    }
    Ok(())
}

/// One operation on the objects of all keys.
fn submit_on_keys<B: Backend>(
    front: &mut Front,
    index: usize,
    call: &Call<'_>,
    backend: &mut B,
) -> Result<(), Refusal> {
    let command = slot_command::parse(call)?;
    let key = command.keys().next().unwrap_or_default();
    let connection = &mut front.connections[index];
    let namespace = connection.client.namespace;
    let sequence = connection.await_answer(front.operations.next());
    let target = Target::Object { slot: slot_of_key(key), key, command };
    begin(front, index, sequence, namespace, target, backend);
    Ok(())
}

/// How many keys a command on each of several has.
pub(crate) fn count_keys(call: &Call<'_>) -> Result<usize, Refusal> {
    let (words, step) = (call.words.len() - 1, call.spec.keys.step as usize);
    if words.is_multiple_of(step) { Ok(words / step) } else { Err(Refusal::wrong_arity(call.spec)) }
}

/// Such a command's key of this number, and what it is for that key.
pub(crate) fn command_on_key<'a>(call: &Call<'a>, number: usize) -> (&'a [u8], Command<'a>) {
    let place = 1 + number * call.spec.keys.step as usize;
    let key = call.word(place);
    let command = match call.spec.id {
        Id::MGet => Command::Get { key },
        Id::MSet => Command::Set {
            key,
            value: call.word(place + 1),
            condition: Condition::Always,
            expiry: Expiry::Unset,
            answer: SetAnswer::Ok,
        },
        Id::Exists => Command::Exists { key },
        _ => Command::Del { key },
    };
    (key, command)
}

/// DBSIZE, KEYS, SCAN, FLUSHDB, FLUSHALL.
fn submit_volumes<B: Backend>(
    front: &mut Front,
    index: usize,
    call: &Call<'_>,
    backend: &mut B,
) -> Result<(), Refusal> {
    let namespace = front.connections[index].client.namespace;
    let volume_count = backend.volumes(namespace).ok_or(Refusal::LOADING)?.min(VOLUMES_MAX);
    // It was dropped while the connection was in it. Every namespace that there is has volumes.
    if volume_count == 0 && call.spec.id != Id::FlushAll {
        return Err(Refusal::NO_NAMESPACE);
    }
    let all = |namespace: u32, count: u32| (0..count).map(move |volume| (namespace, volume));
    match call.spec.id {
        Id::DbSize => {
            let volumes: Vec<_> = all(namespace, volume_count).collect();
            let gathering = Gathering::new(Collected::Sum(0), Parts::Read, volumes.len());
            begin_all(front, index, gathering, &volumes, &Command::Count, backend);
        }
        Id::Keys => {
            let volumes: Vec<_> = all(namespace, volume_count).collect();
            let gathering = Gathering::new(Collected::Keys(Vec::new()), Parts::Read, volumes.len());
            let command = Command::Keys { pattern: call.word(1) };
            begin_all(front, index, gathering, &volumes, &command, backend);
        }
        Id::Scan => return submit_scan(front, index, call, volume_count, backend),
        flush => {
            check_flush_mode(call)?;
            let namespaces = if flush == Id::FlushAll { backend.namespaces() } else { vec![namespace] };
            let count = |namespace| backend.volumes(namespace).unwrap_or(0);
            let volumes: Vec<_> =
                namespaces.into_iter().flat_map(|namespace| all(namespace, count(namespace))).collect();
            let parts = Parts::Written("volumes");
            let gathering = Gathering::new(Collected::AllOk, parts, volumes.len());
            begin_all(front, index, gathering, &volumes, &Command::Flush, backend);
        }
    }
    Ok(())
}

/// The same command for each of these volumes, given as (namespace, volume).
fn begin_all<B: Backend>(
    front: &mut Front,
    index: usize,
    gathering: Gathering,
    volumes: &[(u32, u32)],
    command: &Command<'_>,
    backend: &mut B,
) {
    // A namespace that has just been dropped has no volumes; nobody will answer for it.
    if gathering.is_complete() {
        return front.connections[index].reply(|writer| gathering.write(writer));
    }
    let sequence = front.connections[index].await_answers(front.operations.next(), gathering);
    for &(namespace, volume) in volumes {
        let target = Target::Volume { index: volume, command: command.clone() };
        begin(front, index, sequence, namespace, target, backend);
    }
}

/// Flushing is always the same here, so its two modes are only checked.
fn check_flush_mode(call: &Call<'_>) -> Result<(), Refusal> {
    let is_mode = |word: &[u8]| word.eq_ignore_ascii_case(b"ASYNC") || word.eq_ignore_ascii_case(b"SYNC");
    match call.words.len() {
        1 => Ok(()),
        2 if is_mode(call.word(1)) => Ok(()),
        _ => Err(Refusal::SYNTAX),
    }
}

/// What SCAN's options say.
struct ScanOptions<'a> {
    cursor: u64,
    count: u32,
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

/// Volumes that one SCAN asks at most: enough that a small namespace is scanned in one call, as it is in Redis.
const SCAN_VOLUMES_MAX: u32 = 64;

/// Keys that one SCAN gathers at most, some of them for nothing.
const SCAN_KEYS_MAX: u32 = 65_536;

/// At the start of a volume the following ones are asked with it, in case they hold little. Inside of a volume they are
/// not, for then volumes hold much.
fn submit_scan<B: Backend>(
    front: &mut Front,
    index: usize,
    call: &Call<'_>,
    volume_count: u32,
    backend: &mut B,
) -> Result<(), Refusal> {
    let options = parse_scan(call, front.limits.scan_count_max)?;
    let from = Cursor::decode(options.cursor);
    let volumes_left = volume_count.saturating_sub(from.volume);
    let part_count = match from.place {
        0 => volumes_left.min(SCAN_VOLUMES_MAX).min(SCAN_KEYS_MAX / options.count).max(1),
        _ => 1,
    }
    .min(volumes_left);
    let scan = ScanParts::new(from.volume, part_count as usize, volume_count, options.count as usize);
    let gathering = Gathering::new(Collected::Scan(scan), Parts::Read, part_count as usize);
    let namespace = front.connections[index].client.namespace;
    let volumes: Vec<_> = (from.volume..from.volume + part_count).map(|volume| (namespace, volume)).collect();
    let ScanOptions { count, pattern, type_name, .. } = options;
    let command = Command::Scan { from: from.place, count, pattern, type_name };
    begin_all(front, index, gathering, &volumes, &command, backend);
    Ok(())
}

fn parse_scan<'a>(call: &Call<'a>, count_max: u32) -> Result<ScanOptions<'a>, Refusal> {
    let mut options = ScanOptions {
        cursor: parse_cursor(call.word(1)).ok_or(Refusal::fixed("ERR invalid cursor"))?,
        count: SCAN_COUNT_DEFAULT,
        pattern: None,
        type_name: None,
    };
    let mut words = call.words.from(2).iter();
    while let Some(option) = words.next() {
        let value = words.next().ok_or(Refusal::SYNTAX)?;
        if option.eq_ignore_ascii_case(b"COUNT") {
            let count = parse_integer(value).ok_or(Refusal::NOT_AN_INTEGER)?;
            if count < 1 {
                return Err(Refusal::SYNTAX);
            }
            options.count = u32::try_from(count).unwrap_or(u32::MAX).min(count_max);
        } else if option.eq_ignore_ascii_case(b"MATCH") {
            options.pattern = Some(value).filter(|pattern| *pattern != b"*");
        } else if option.eq_ignore_ascii_case(b"TYPE") {
            options.type_name = Some(value);
        } else {
            return Err(Refusal::SYNTAX);
        }
    }
    Ok(options)
}

fn submit_admin<B: Backend>(front: &mut Front, index: usize, call: &Call<'_>, backend: &mut B) {
    let connection = &mut front.connections[index];
    let namespace = connection.client.namespace;
    let sequence = connection.await_answer(front.operations.next());
    let words = call.words.iter().map(<[u8]>::to_vec).collect();
    begin(front, index, sequence, namespace, Target::Admin { words }, backend);
}

/// Tells the keys of one connection apart. Somebody who forges collisions only confuses the order of their own requests.
fn hash_of_key(namespace: u32, key: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(MULTIPLIER);
        product as u64 ^ (product >> 64) as u64
    };
    // Neither zero nor small, so that short keys and low namespaces are spread as well.
    let mut hash = mix(!MULTIPLIER, u64::from(namespace) << 32 | key.len() as u64 & 0xffff_ffff);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash, u64::from_le_bytes(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_hashes_tell_keys_and_namespaces_apart() {
        let mut hashes = std::collections::HashSet::new();
        let mut key_count = 0;
        for namespace in 0..4 {
            for number in 0..10_000 {
                for key in [format!("key:{number}"), format!("{number:012}"), "x".repeat(number % 40)] {
                    if number < 40 || key.len() > 4 && !key.starts_with('x') {
                        hashes.insert(hash_of_key(namespace, key.as_bytes()));
                        key_count += 1;
                    }
                }
            }
        }
        assert_eq!(hashes.len(), key_count);
    }
}
