//! Commands on the objects of several keys, which lie in one hash slot: what they change and what they answer, in one step.
//!
//! They are executed where all of their objects are, so an object that is held elsewhere is in none but one on itself alone. What
//! moves is told by the changes of each object; what becomes another object, or is made of others, is stored as a whole. What the
//! types of objects have is not known here, but for what [`combine`] asks of sets.
//!
//! # Bytes
//!
//! Whether all keys are the same u8, the first key, a list of the others, and the operation: see `on_keys/operation.rs`.

mod combine;
mod operation;

use std::borrow::Cow;

pub use self::operation::{Aggregate, Combination, Combined, KeysOp};
use crate::change::Change;
use crate::codec::{Malformed, Reader, malformed, write_bytes};
use crate::collection::{
    Collection, Elements, HashKey, OpChange, PIECE_BYTES, WRONG_TYPE, bulk, error, int, read_list, write_list,
};
use crate::command::Access;
use crate::list::{self, List, ListChange, ListOp, ListSide};
use crate::object::Object;
use crate::objects::{NAME_BYTES_MAX, OBJECT_BYTES_MAX, Objects};
use crate::outcome::Outcome;
use crate::set::{Set, SetOp};
use crate::slot::slot_of_key;
use crate::sorted_set::{SortedSet, SortedSetOp};
use crate::transaction::APART;

/// An operation and the keys that it is on, in the order in which a client names them.
#[derive(Clone, Debug, PartialEq)]
pub struct OnKeys<'a> {
    keys: Vec<&'a [u8]>,
    op: KeysOp<'a>,
}

/// Elements that a command on several keys may look at, and so may all of a transaction together: nothing else is done meanwhile.
pub(crate) const LOOKS_MAX: usize = 1 << 20;
pub(crate) const TOO_MANY_LOOKS: &str =
    "ERR not executed: more than 1048576 elements would be looked at in one step: name fewer or smaller objects";

/// A change, if there is any, and the answer; or the error that is answered.
type Effect<'a> = Result<(Option<Change<'a>>, Outcome), Outcome>;

impl<'a> OnKeys<'a> {
    /// `None` if the keys lie apart, if one is too long, or if the operation is for another number of them.
    pub fn new(keys: Vec<&'a [u8]>, op: KeysOp<'a>) -> Option<OnKeys<'a>> {
        let slot = slot_of_key(keys.first()?);
        let is_key = |key: &&[u8]| key.len() <= NAME_BYTES_MAX && slot_of_key(key) == slot;
        (op.takes(keys.len()) && keys.iter().all(is_key)).then_some(OnKeys { keys, op })
    }

    pub fn keys(&self) -> &[&'a [u8]] {
        &self.keys
    }

    /// The one key that there is, however often it is named.
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        let first = *self.keys.first()?;
        self.keys.iter().all(|key| *key == first).then_some(first)
    }

    pub(crate) fn access(&self) -> Access {
        if self.op.is_read() { Access::Read } else { Access::Write }
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        let names = self.keys.iter().map(|key| key.len()).sum::<usize>();
        Some(names + self.op.growth_bytes_max()?)
    }

    /// What it would change, and what it answers, as [`Command::execute_among`](crate::Command::execute_among).
    pub(crate) fn execute<'o>(&self, of: &dyn Fn(&[u8]) -> &'o Objects, time_ms: u64) -> (Option<Change<'a>>, Outcome) {
        if self.keys.iter().any(|key| of(key).away(key).is_some()) {
            return (None, error(APART));
        }
        if self.looks(of, time_ms) > LOOKS_MAX {
            return (None, error(TOO_MANY_LOOKS));
        }
        self.effect(&View { of, time_ms }).unwrap_or_else(|refused| (None, refused))
    }

    /// How many elements it looks at, at most, where what it answers says nothing of that.
    pub(crate) fn looks<'o>(&self, of: &dyn Fn(&[u8]) -> &'o Objects, time_ms: u64) -> usize {
        let view = View { of, time_ms };
        let len = |key: &&[u8]| match view.elements(key) {
            Ok(Some(Elements::Set(set))) => set.len(),
            Ok(Some(Elements::SortedSet(set))) => set.len(),
            _ => 0,
        };
        match &self.op {
            KeysOp::CombineSets { how, result, .. } | KeysOp::CombineSortedSets { how, result, .. } => {
                combine::looks(*how, combine::combined_keys(&self.keys, *result).iter().map(len))
            }
            KeysOp::StoreRange { .. } => len(&self.keys[1]),
            _ => 0,
        }
    }

    /// How much of what objects hold it would store once more, at most.
    pub(crate) fn copied_bytes(&self, objects: &Objects) -> usize {
        let held = |key: &&[u8]| objects.held_bytes(key);
        let bytes = match &self.op {
            KeysOp::Copy { .. } => held(&self.keys[0]),
            KeysOp::StoreRange { .. } => held(&self.keys[1]),
            KeysOp::CombineSets { how, result: Combined::Stored }
            | KeysOp::CombineSortedSets { how, result: Combined::Stored, .. } => {
                let mut combined = self.keys[1..].iter().map(held);
                match how {
                    Combination::Union => combined.sum(),
                    Combination::Intersection => combined.min().unwrap_or(0),
                    Combination::Difference => combined.next().unwrap_or(0),
                }
            }
            _ => 0,
        };
        bytes.min(OBJECT_BYTES_MAX)
    }

    fn effect(&self, view: &View<'_, '_>) -> Effect<'a> {
        let keys = &self.keys;
        match &self.op {
            KeysOp::MoveElement { from, to } => move_element(view, keys[0], keys[1], *from, *to),
            KeysOp::MoveMember { member } => move_member(view, keys[0], keys[1], member),
            KeysOp::Rename { if_absent } => rename(view, keys[0], keys[1], *if_absent),
            KeysOp::Copy { replace } => copy(view, keys[0], keys[1], *replace),
            KeysOp::SetIfAllAbsent { values } => set_if_all_absent(view, keys, values),
            KeysOp::PopElements { side, count } => pop_elements(view, keys, *side, *count),
            KeysOp::PopMembers { highest, count } => pop_members(view, keys, *highest, *count),
            KeysOp::StoreRange { span, offset, count, reversed } => {
                let scored = match view.sorted_set(keys[1])? {
                    Some(set) => set.scored_in(span, *offset, *count, *reversed),
                    None => Vec::new(),
                };
                let stored = SortedSet::of(scored, view.hash_key(keys[0]));
                view.store(keys[0], stored.len(), stored.stored_bytes(), Elements::SortedSet(stored))
            }
            KeysOp::CombineSets { how, result } => combine::sets(view, keys, *how, *result),
            KeysOp::CombineSortedSets { how, weights, aggregate, result, wrong } => {
                combine::sorted_sets(view, keys, *how, weights, *aggregate, *result, *wrong)
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.key().is_some()));
        write_bytes(out, self.keys[0]);
        write_list(out, self.keys[1..].iter().copied());
        self.op.encode(out);
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<OnKeys<'a>, Malformed> {
        let is_on_one = r.flag()?;
        let mut keys = vec![r.bytes()?];
        keys.extend(read_list(r)?);
        match OnKeys::new(keys, KeysOp::decode(r)?) {
            Some(on_keys) if on_keys.key().is_some() == is_on_one => Ok(on_keys),
            _ => malformed("not an operation on these keys"),
        }
    }
}

/// The objects that a command looks at, as they are at a group time.
struct View<'v, 'o> {
    of: &'v dyn Fn(&[u8]) -> &'o Objects,
    time_ms: u64,
}

impl<'o> View<'_, 'o> {
    fn object(&self, key: &[u8]) -> Option<&'o Object> {
        (self.of)(key).live_of(key, self.time_ms)
    }

    fn hash_key(&self, key: &[u8]) -> HashKey {
        (self.of)(key).hash_key
    }

    fn elements(&self, key: &[u8]) -> Result<Option<&'o Elements>, Outcome> {
        crate::read::elements_of(self.object(key))
    }

    fn list(&self, key: &[u8]) -> Result<Option<&'o List>, Outcome> {
        match self.elements(key)? {
            None => Ok(None),
            Some(Elements::List(list)) => Ok(Some(list)),
            Some(_) => Err(error(WRONG_TYPE)),
        }
    }

    fn set(&self, key: &[u8]) -> Result<Option<&'o Set>, Outcome> {
        match self.elements(key)? {
            None => Ok(None),
            Some(Elements::Set(set)) => Ok(Some(set)),
            Some(_) => Err(error(WRONG_TYPE)),
        }
    }

    fn sorted_set(&self, key: &[u8]) -> Result<Option<&'o SortedSet>, Outcome> {
        match self.elements(key)? {
            None => Ok(None),
            Some(Elements::SortedSet(set)) => Ok(Some(set)),
            Some(_) => Err(error(WRONG_TYPE)),
        }
    }

    /// These elements, of which there are so many, become the object, which never expires; without any there is none.
    fn store<'a>(&self, key: &'a [u8], len: usize, bytes: usize, elements: Elements) -> Effect<'a> {
        if bytes > OBJECT_BYTES_MAX {
            return Err(error(crate::collection::TOO_LARGE));
        }
        let change = match len {
            0 => self.object(key).map(|_| Change::Delete { key }),
            _ => Some(store(key, &Object::Collection(Box::new(Collection::new(key, elements))))),
        };
        Ok((change, int(len)))
    }
}

fn store<'a>(key: &'a [u8], object: &Object) -> Change<'a> {
    let mut encoded = Vec::new();
    object.encode(&mut encoded);
    Change::Store { key, object: Cow::Owned(encoded) }
}

/// LMOVE.
fn move_element<'a>(
    view: &View<'_, '_>,
    source: &'a [u8],
    destination: &'a [u8],
    from: ListSide,
    to: ListSide,
) -> Effect<'a> {
    let Some(list) = view.list(source)? else { return Ok((None, Outcome::Nil)) };
    let (taken, moved) = ListOp::Pop { side: from, count: None }.execute(Some(list), 0);
    let (Some(taken), Outcome::Bulk(element)) = (taken, &moved) else { return Ok((None, moved)) };
    let values = vec![Cow::Owned(element.clone())];
    let put = match source == destination {
        // Taking the only one would be the end of the object, and of when it expires.
        true if list.len() == 1 => return Ok((None, moved)),
        // It has room where it was.
        true => ListChange::Push { side: to, values },
        false => match list::push(view.list(destination)?, to, values) {
            (Some(put), _) => put,
            (None, refused) => return Err(refused),
        },
    };
    let changes = [(source, taken), (destination, put)];
    let changes = changes.map(|(key, change)| Change::Elements { key, change: OpChange::List(change) });
    Ok((Some(Change::Several(changes.into())), moved))
}

/// SMOVE.
fn move_member<'a>(view: &View<'_, '_>, source: &'a [u8], destination: &'a [u8], member: &'a [u8]) -> Effect<'a> {
    let Some(set) = view.set(source)? else { return Ok((None, int(0))) };
    let other = view.set(destination)?;
    let (taken, count) = SetOp::Remove { members: vec![member] }.execute(Some(set), 0);
    let Some(taken) = taken.filter(|_| source != destination) else { return Ok((None, count)) };
    let (put, added) = SetOp::Add { members: vec![member] }.execute(other, 0);
    if let Outcome::Error(_) = added {
        return Err(added);
    }
    let changes = [Some((source, taken)), put.map(|put| (destination, put))].into_iter().flatten();
    let changes = changes.map(|(key, change)| Change::Elements { key, change: OpChange::Set(change) });
    Ok((Some(Change::Several(changes.collect())), count))
}

/// RENAME and RENAMENX.
fn rename<'a>(view: &View<'_, '_>, source: &'a [u8], destination: &'a [u8], if_absent: bool) -> Effect<'a> {
    let Some(object) = view.object(source) else { return Err(error("ERR no such key")) };
    if if_absent && view.object(destination).is_some() {
        return Ok((None, int(0)));
    }
    let outcome = if if_absent { int(1) } else { Outcome::Ok };
    if source == destination {
        return Ok((None, outcome));
    }
    let changes = vec![store(destination, object), Change::Delete { key: source }];
    Ok((Some(Change::Several(changes)), outcome))
}

/// COPY.
fn copy<'a>(view: &View<'_, '_>, source: &[u8], destination: &'a [u8], replace: bool) -> Effect<'a> {
    if source == destination {
        return Err(error("ERR source and destination objects are the same"));
    }
    match view.object(source) {
        Some(object) if replace || view.object(destination).is_none() => Ok((Some(store(destination, object)), int(1))),
        _ => Ok((None, int(0))),
    }
}

/// MSETNX.
fn set_if_all_absent<'a>(view: &View<'_, '_>, keys: &[&'a [u8]], values: &[&'a [u8]]) -> Effect<'a> {
    if values.iter().any(|value| value.len() > OBJECT_BYTES_MAX) {
        return Err(error(crate::write::TOO_LARGE));
    }
    if keys.iter().any(|key| view.object(key).is_some()) {
        return Ok((None, int(0)));
    }
    let pairs = keys.iter().zip(values);
    let changes = pairs.map(|(key, value)| Change::Put { key, value: Cow::Borrowed(*value), expires_ms: None });
    Ok((Some(Change::Several(changes.collect())), int(1)))
}

/// LMPOP: of the first list that there is.
fn pop_elements<'a>(view: &View<'_, '_>, keys: &[&'a [u8]], side: ListSide, count: u64) -> Effect<'a> {
    for &key in keys {
        if let Some(list) = view.list(key)? {
            let (change, popped) = ListOp::Pop { side, count: Some(count) }.execute(Some(list), 0);
            let change = change.map(|change| Change::Elements { key, change: OpChange::List(change) });
            return Ok((change, Outcome::List(vec![bulk(key), popped])));
        }
    }
    Ok((None, Outcome::NilList))
}

/// ZMPOP: of the first sorted set that there is.
fn pop_members<'a>(view: &View<'_, '_>, keys: &[&'a [u8]], highest: bool, count: u64) -> Effect<'a> {
    for &key in keys {
        if let Some(set) = view.sorted_set(key)? {
            let (change, popped) = SortedSetOp::Pop { highest, count: Some(count) }.execute(Some(set), 0);
            let change = change.map(|change| Change::Elements { key, change: OpChange::SortedSet(change) });
            let Outcome::Pairs(popped) = popped else { return Ok((change, popped)) };
            combine::check_answer(popped.iter().map(|word| word.encoded_bytes() + PIECE_BYTES).sum())?;
            // Each with its score, also in RESP2.
            let pairs = popped.chunks(2).map(|pair| Outcome::List(pair.to_vec()));
            return Ok((change, Outcome::List(vec![bulk(key), Outcome::List(pairs.collect())])));
        }
    }
    Ok((None, Outcome::NilList))
}
