//! An object that holds elements: what hashes, lists, sets and sorted sets have in common.
//!
//! A type has a module of its own with its structure, what can be asked of it (its *operations*), and what those come down to
//! (its *changes*), which is all that ever alters it. Elements keep an order that follows from the changes alone, so that
//! replicas agree on what a random choice or a scan meets.

use std::hash::BuildHasher;

use siphasher::sip::SipHasher13;

use crate::OBJECT_BYTES_MAX;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_optional_bytes};
use crate::glob;
use crate::hash::{Hash, HashChange, HashOp};
use crate::list::{List, ListChange, ListOp};
use crate::outcome::Outcome;
use crate::set::{Set, SetChange, SetOp};
use crate::sorted_set::{SortedSet, SortedSetChange, SortedSetOp};

pub(crate) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
pub(crate) const TOO_LARGE: &str = "ERR the object would be larger than 16 MiB";
pub(crate) const ANSWER_TOO_LONG: &str = "ERR the answer would be longer than 16 MiB: ask for fewer elements";
const SYNTAX: &str = "ERR syntax error";
pub(crate) const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

/// What each byte string of an object costs in stored bytes and in answers besides itself.
pub(crate) const PIECE_BYTES: usize = 5;

/// What is stored besides the elements: how many there are.
pub(crate) const HEAD_BYTES: usize = 4;

/// Elements that one scan looks at, whatever it asks for.
const SCANNED_MAX: u32 = 1000;

/// With no more elements than this, removing one leaves the others in their order, and a scan shows all of them at once.
const FEW: usize = 128;

/// A collection with its name and expiry.
#[derive(Debug)]
pub(crate) struct Collection {
    name: Box<[u8]>,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) elements: Elements,
}

#[derive(Debug)]
pub(crate) enum Elements {
    Hash(Hash),
    List(List),
    Set(Set),
    SortedSet(SortedSet),
}

/// What can be asked of the elements of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Op<'a> {
    Hash(HashOp<'a>),
    List(ListOp<'a>),
    Set(SetOp<'a>),
    SortedSet(SortedSetOp<'a>),
}

/// What an operation does to the elements of one object.
#[derive(Clone, Debug, PartialEq)]
pub enum OpChange<'a> {
    Hash(HashChange<'a>),
    List(ListChange<'a>),
    Set(SetChange<'a>),
    SortedSet(SortedSetChange<'a>),
}

/// The same for each type of `$of`, whose content is `$inner`.
macro_rules! of_each_type {
    ($of:ident, $value:expr, $inner:pat => $result:expr) => {
        match $value {
            $of::Hash($inner) => $result,
            $of::List($inner) => $result,
            $of::Set($inner) => $result,
            $of::SortedSet($inner) => $result,
        }
    };
}

impl Collection {
    pub(crate) fn new(name: &[u8], elements: Elements) -> Collection {
        Collection { name: name.into(), expires_ms: None, elements }
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Bytes allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Collection>()
            + self.name.len()
            + of_each_type!(Elements, &self.elements, elements => elements.heap_bytes())
    }
}

impl Elements {
    /// None yet, of the kind that this changes.
    pub(crate) fn for_change(change: &OpChange<'_>, key: HashKey) -> Elements {
        match change {
            OpChange::Hash(_) => Elements::Hash(Hash::new(key)),
            OpChange::List(_) => Elements::List(List::new()),
            OpChange::Set(_) => Elements::Set(Set::new(key)),
            OpChange::SortedSet(_) => Elements::SortedSet(SortedSet::new(key)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        of_each_type!(Elements, self, elements => elements.is_empty())
    }

    pub(crate) fn stored_bytes(&self) -> usize {
        of_each_type!(Elements, self, elements => elements.stored_bytes())
    }

    /// A change of another kind does nothing.
    pub(crate) fn apply(&mut self, change: OpChange<'_>) {
        match (self, change) {
            (Elements::Hash(hash), OpChange::Hash(change)) => hash.apply(change),
            (Elements::List(list), OpChange::List(change)) => list.apply(change),
            (Elements::Set(set), OpChange::Set(change)) => set.apply(change),
            (Elements::SortedSet(set), OpChange::SortedSet(change)) => set.apply(change),
            _ => {}
        }
    }

    /// What TYPE answers.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Elements::Hash(_) => "hash",
            Elements::List(_) => "list",
            Elements::Set(_) => "set",
            Elements::SortedSet(_) => "zset",
        }
    }

    /// What stands for the type where an object is stored.
    pub(crate) fn type_code(&self) -> u8 {
        match self {
            Elements::Hash(_) => TYPE_HASH,
            Elements::List(_) => TYPE_LIST,
            Elements::Set(_) => TYPE_SET,
            Elements::SortedSet(_) => TYPE_SORTED_SET,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        of_each_type!(Elements, self, elements => elements.encode(out));
    }

    pub(crate) fn decode(type_code: u8, encoded: &[u8], key: HashKey) -> Result<Elements, Malformed> {
        let mut reader = Reader::new(encoded);
        let elements = match type_code {
            TYPE_HASH => Elements::Hash(Hash::decode(&mut reader, key)?),
            TYPE_LIST => Elements::List(List::decode(&mut reader)?),
            TYPE_SET => Elements::Set(Set::decode(&mut reader, key)?),
            TYPE_SORTED_SET => Elements::SortedSet(SortedSet::decode(&mut reader, key)?),
            _ => return malformed("unknown type of object"),
        };
        reader.end()?;
        if elements.is_empty() { malformed("a collection without elements") } else { Ok(elements) }
    }
}

const TYPE_HASH: u8 = 2;
const TYPE_LIST: u8 = 3;
const TYPE_SET: u8 = 4;
const TYPE_SORTED_SET: u8 = 5;

impl<'a> Op<'a> {
    /// What it changes, and what it answers; `elements` are those of the object that there is. Nothing but a change by
    /// [`Elements::apply`] alters them.
    pub(crate) fn execute(&self, elements: Option<&Elements>, seed: u64) -> (Option<OpChange<'a>>, Outcome) {
        /// On the structure of that type, if there is one.
        macro_rules! execute {
            ($type:ident, $op:expr) => {{
                let elements = match elements {
                    None => None,
                    Some(Elements::$type(elements)) => Some(elements),
                    Some(_) => return (None, error(WRONG_TYPE)),
                };
                let (change, outcome) = $op.execute(elements, seed);
                (change.map(OpChange::$type), outcome)
            }};
        }
        match self {
            Op::Hash(op) => execute!(Hash, op),
            Op::List(op) => execute!(List, op),
            Op::Set(op) => execute!(Set, op),
            Op::SortedSet(op) => execute!(SortedSet, op),
        }
    }

    /// Whether it never changes anything.
    pub fn is_read(&self) -> bool {
        of_each_type!(Op, self, op => op.is_read())
    }

    /// By how many bytes the object may be larger afterwards, about; `None` if it is served also when there is no memory.
    pub fn growth_bytes_max(&self) -> Option<usize> {
        of_each_type!(Op, self, op => op.growth_bytes_max())
    }

    pub(crate) fn opcode(&self) -> u8 {
        match self {
            Op::Hash(_) => OP_HASH,
            Op::List(_) => OP_LIST,
            Op::Set(_) => OP_SET,
            Op::SortedSet(_) => OP_SORTED_SET,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        of_each_type!(Op, self, op => op.encode(out));
    }

    pub(crate) fn decode(opcode: u8, r: &mut Reader<'a>) -> Result<Op<'a>, Malformed> {
        match opcode {
            OP_HASH => HashOp::decode(r).map(Op::Hash),
            OP_LIST => ListOp::decode(r).map(Op::List),
            OP_SET => SetOp::decode(r).map(Op::Set),
            OP_SORTED_SET => SortedSetOp::decode(r).map(Op::SortedSet),
            _ => malformed("unknown command"),
        }
    }
}

const OP_HASH: u8 = 0x20;
const OP_LIST: u8 = 0x21;
const OP_SET: u8 = 0x22;
const OP_SORTED_SET: u8 = 0x23;

impl<'a> OpChange<'a> {
    pub(crate) fn code(&self) -> u8 {
        match self {
            OpChange::Hash(_) => CHANGE_HASH,
            OpChange::List(_) => CHANGE_LIST,
            OpChange::Set(_) => CHANGE_SET,
            OpChange::SortedSet(_) => CHANGE_SORTED_SET,
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        of_each_type!(OpChange, self, change => change.encode(out));
    }

    pub(crate) fn decode(code: u8, r: &mut Reader<'a>) -> Result<OpChange<'a>, Malformed> {
        match code {
            CHANGE_HASH => HashChange::decode(r).map(OpChange::Hash),
            CHANGE_LIST => ListChange::decode(r).map(OpChange::List),
            CHANGE_SET => SetChange::decode(r).map(OpChange::Set),
            CHANGE_SORTED_SET => SortedSetChange::decode(r).map(OpChange::SortedSet),
            _ => malformed("unknown change"),
        }
    }
}

const CHANGE_HASH: u8 = 6;
const CHANGE_LIST: u8 = 7;
const CHANGE_SET: u8 = 8;
const CHANGE_SORTED_SET: u8 = 9;

/// Keeps clients from choosing elements that collide. Nothing that anybody sees depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashKey(pub(crate) [u8; 16]);

impl BuildHasher for HashKey {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}

/// HSCAN, SSCAN and ZSCAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementScan<'a> {
    pub from: u64,
    pub count: u32,
    pub pattern: Option<&'a [u8]>,
    /// What is wrong with the options: told only where there is an object.
    pub wrong: Option<Wrong>,
}

/// What is wrong with words that are looked at late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Syntax,
    NotAnInteger,
    WeightNotAFloat,
    NegativeLimit,
}

impl Wrong {
    pub(crate) fn outcome(self) -> Outcome {
        error(match self {
            Wrong::Syntax => SYNTAX,
            Wrong::NotAnInteger => NOT_AN_INTEGER,
            Wrong::WeightNotAFloat => "ERR weight value is not a float",
            Wrong::NegativeLimit => "ERR LIMIT can't be negative",
        })
    }

    pub(crate) fn encode(wrong: Option<Wrong>) -> u8 {
        match wrong {
            None => 0,
            Some(Wrong::Syntax) => 1,
            Some(Wrong::NotAnInteger) => 2,
            Some(Wrong::WeightNotAFloat) => 3,
            Some(Wrong::NegativeLimit) => 4,
        }
    }

    pub(crate) fn decode(code: u8) -> Result<Option<Wrong>, Malformed> {
        match code {
            0 => Ok(None),
            1 => Ok(Some(Wrong::Syntax)),
            2 => Ok(Some(Wrong::NotAnInteger)),
            3 => Ok(Some(Wrong::WeightNotAFloat)),
            4 => Ok(Some(Wrong::NegativeLimit)),
            _ => malformed("unknown mistake"),
        }
    }
}

impl<'a> ElementScan<'a> {
    /// The places of a page among `len` elements, and the cursor to go on with, 0 at the end. A large collection is walked
    /// backwards: an element that is removed is replaced by the last one, which has been shown.
    fn page(&self, len: usize) -> (std::ops::Range<usize>, u64) {
        // A cursor may be of when there were more of them, in another order.
        if len <= FEW {
            return (0..len, 0);
        }
        let end = match self.from {
            0 => len,
            from => usize::try_from(from).unwrap_or(usize::MAX).min(len),
        };
        let start = end.saturating_sub(self.count.clamp(1, SCANNED_MAX) as usize);
        (start..end, start as u64)
    }

    /// The answer: `show` appends what is shown of the element at a place, if the pattern matches its `name`.
    pub(crate) fn answer<'e>(
        &self,
        len: usize,
        name: impl Fn(usize) -> &'e [u8],
        show: impl Fn(usize, &mut Vec<Outcome>),
    ) -> Outcome {
        if let Some(wrong) = self.wrong.filter(|_| len > 0) {
            return wrong.outcome();
        }
        if self.pattern.is_some_and(|pattern| pattern.len() > glob::PATTERN_BYTES_MAX) {
            return Outcome::Error(format!("ERR pattern is longer than {} bytes", glob::PATTERN_BYTES_MAX));
        }
        let (places, next) = self.page(len);
        let mut shown = Vec::new();
        for place in places {
            if self.pattern.is_none_or(|pattern| glob::matches(pattern, name(place))) {
                show(place, &mut shown);
            }
        }
        Outcome::List(vec![bulk(next.to_string().as_bytes()), Outcome::List(shown)])
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.from.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        write_optional_bytes(out, self.pattern);
        out.push(Wrong::encode(self.wrong));
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<ElementScan<'a>, Malformed> {
        Ok(ElementScan {
            from: r.u64()?,
            count: r.u32()?,
            pattern: r.optional(Reader::bytes)?,
            wrong: Wrong::decode(r.u8()?)?,
        })
    }
}

/// Some of `len` elements, chosen by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance {
    /// `None` for one element in place of a list of them; negative for elements that may come several times.
    pub count: Option<i64>,
    pub seed: u64,
}

impl Chance {
    /// The places of those chosen among `len`, of which each takes what `bytes_at` says in an answer; an error if that is too long.
    pub(crate) fn places(self, len: usize, bytes_at: impl Fn(usize) -> usize) -> Result<Vec<usize>, Outcome> {
        let count = usize::try_from(self.count.unwrap_or(1).unsigned_abs()).unwrap_or(usize::MAX);
        let mut random = Random(self.seed);
        if len == 0 || count == 0 {
            return Ok(Vec::new());
        }
        if self.count.is_some_and(|count| count < 0) {
            let mut left = Some(OBJECT_BYTES_MAX);
            let mut choose = |_| {
                let place = random.below(len);
                left = left?.checked_sub(PIECE_BYTES + bytes_at(place));
                left.map(|_| place)
            };
            return (0..count).map(&mut choose).collect::<Option<_>>().ok_or_else(|| error(ANSWER_TOO_LONG));
        }
        if count >= len {
            return Ok((0..len).collect());
        }
        // Floyd's way: each new place is one of those so far, or else the last.
        let mut chosen = std::collections::BTreeSet::new();
        let mut places = Vec::with_capacity(count);
        for last in len - count..len {
            let place = random.below(last + 1);
            let place = if chosen.insert(place) { place } else { last };
            chosen.insert(place);
            places.push(place);
        }
        Ok(places)
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.push(u8::from(self.count.is_some()));
        self.count.iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        out.extend_from_slice(&self.seed.to_le_bytes());
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Chance, Malformed> {
        Ok(Chance { count: r.optional(Reader::i64)?, seed: r.u64()? })
    }
}

/// SplitMix64: the same choices at every replica.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * bound as u128) >> 64) as usize
    }
}

/// Whether the element at some place of a collection of `len` is removed without a change to the order of the others.
pub(crate) fn keeps_order(len: usize) -> bool {
    len <= FEW
}

/// Room for fewer elements than this is kept, however few there are.
const ROOM_KEPT: usize = 64;

/// For how many elements there is to be room, where there is room for far more than there are: nothing gives it back by itself.
pub(crate) fn room_to_keep(len: usize, room: usize) -> Option<usize> {
    (room > ROOM_KEPT && room / 4 > len).then_some(len * 2)
}

/// Those of the items for which `is_one` holds, each once, in their order.
pub(crate) fn distinct<'a>(items: impl Iterator<Item = &'a [u8]>, is_one: impl Fn(&[u8]) -> bool) -> Vec<&'a [u8]> {
    let mut seen = std::collections::BTreeSet::new();
    items.filter(|item| is_one(item) && seen.insert(*item)).collect()
}

pub(crate) fn bulk(bytes: &[u8]) -> Outcome {
    Outcome::Bulk(bytes.to_vec())
}

pub(crate) fn int(number: usize) -> Outcome {
    Outcome::Int(number as i64)
}

pub(crate) fn error(line: &str) -> Outcome {
    Outcome::Error(line.to_owned())
}

pub(crate) fn write_list<'b>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = &'b [u8]>) {
    crate::codec::write_len(out, items.len());
    items.for_each(|item| write_bytes(out, item));
}

pub(crate) fn read_list<'b>(r: &mut Reader<'b>) -> Result<Vec<&'b [u8]>, Malformed> {
    // Not allocated from the declared count: an item that is not there ends the reading.
    let count = r.u32()?;
    (0..count).map(|_| r.bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_given_back_where_there_is_far_more_than_is_needed() {
        assert_eq!((room_to_keep(0, ROOM_KEPT), room_to_keep(100, 400)), (None, None));
        assert_eq!((room_to_keep(0, ROOM_KEPT + 1), room_to_keep(99, 400)), (Some(0), Some(198)));
    }

    #[test]
    fn chance_chooses_each_element_at_most_once_unless_it_may_come_again() {
        for (len, count) in [(1, 1), (5, 3), (100, 99), (1000, 10), (10, 10), (10, 50)] {
            for seed in 0..20 {
                let places = Chance { count: Some(count), seed }.places(len, |_| 1).expect("short");
                let distinct: std::collections::BTreeSet<_> = places.iter().collect();
                assert_eq!((places.len(), distinct.len()), (len.min(count as usize), places.len()));
                assert!(places.iter().all(|place| *place < len));
                let again = Chance { count: Some(-count), seed }.places(len, |_| 1).expect("short");
                assert_eq!(again.len(), count as usize);
                assert!(again.iter().all(|place| *place < len));
            }
        }
        assert!(Chance { count: Some(i64::MIN), seed: 0 }.places(1, |_| 0).is_err());
        assert_eq!(Chance { count: Some(7), seed: 0 }.places(0, |_| 1), Ok(Vec::new()));
        let met: std::collections::BTreeSet<_> =
            (0..500).flat_map(|seed| Chance { count: None, seed }.places(7, |_| 1).expect("short")).collect();
        assert_eq!(met.len(), 7, "each of seven elements is chosen some time");
    }

    #[test]
    fn a_scan_meets_every_element_that_stays() {
        let scan = |from, count| ElementScan { from, count, pattern: None, wrong: None };
        assert_eq!(scan(0, 1).page(FEW), (0..FEW, 0));
        assert_eq!(scan(0, 10).page(200), (190..200, 190));
        assert_eq!(scan(190, 10).page(200), (180..190, 180));
        assert_eq!(scan(190, 10).page(185), (175..185, 175));
        assert_eq!(scan(5, 10).page(200), (0..5, 0));
        assert_eq!(scan(u64::MAX, 0).page(200), (199..200, 199));
        assert_eq!(scan(7, 1).page(0), (0..0, 0));
        assert_eq!(scan(100, 10).page(FEW), (0..FEW, 0));
    }
}
