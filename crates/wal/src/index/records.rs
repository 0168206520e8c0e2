//! What the index knows of one group: its newest record of every slot, and its newest state record.
//!
//! Most groups of a million have one record that matters. It is kept in place, without an allocation; up to three are kept
//! in one small allocation, and whoever has more is busy and gets the structure for many.

use std::mem;
use std::ops::Range;

use super::position::Position;
use super::slots::Slots;
use crate::{Kind, Lsn};

/// Stands for the state record among slots.
const STATE: u64 = u64::MAX;
const FEW: usize = 3;

/// Never without a record, but between a release and the removal of the entry.
pub(super) enum Records {
    One { key: u64, position: Position },
    Several(Box<Several>),
}

const _: () = assert!(mem::size_of::<Records>() == 16);

pub(super) enum Several {
    /// In the order in which they came; empty places are at the end.
    Few([Option<(u64, Position)>; FEW]),
    Many {
        slots: Slots,
        state: Option<Position>,
    },
}

impl Records {
    pub(super) fn new(kind: Kind, position: Position) -> Records {
        Records::One { key: key_of(kind), position }
    }

    /// Puts the position of a newer record in; gives back that of the one it takes the place of.
    pub(super) fn insert(&mut self, kind: Kind, position: Position) -> Option<Position> {
        let key = key_of(kind);
        match self {
            Records::One { key: same, position: before } if *same == key => Some(mem::replace(before, position)),
            Records::One { key: other, position: first } => {
                let few = [Some((*other, *first)), Some((key, position)), None];
                *self = Records::Several(Box::new(Several::Few(few)));
                None
            }
            Records::Several(several) => several.insert(key, position),
        }
    }

    pub(super) fn position(&self, kind: Kind) -> Option<Position> {
        let key = key_of(kind);
        match self {
            Records::One { key: same, position } => (*same == key).then_some(*position),
            Records::Several(several) => several.position(key),
        }
    }

    /// The allocation, if there is one; then what lies behind that; then the place of the newest slot.
    pub(super) fn look(&self) -> u64 {
        match self {
            Records::One { .. } => 0,
            Records::Several(several) => several.slots_of_many().is_some().into(),
        }
    }

    pub(super) fn look_deeper(&self) -> u64 {
        self.slots_of_many().map_or(0, Slots::look)
    }

    pub(super) fn look_deepest(&self) -> u64 {
        self.slots_of_many().map_or(0, Slots::look_deeper)
    }

    fn slots_of_many(&self) -> Option<&Slots> {
        match self {
            Records::One { .. } => None,
            Records::Several(several) => several.slots_of_many(),
        }
    }

    /// From the lowest slot to the one after the highest; some between them may be empty.
    pub(super) fn slots(&self) -> Option<Range<u64>> {
        match self {
            Records::One { key: STATE, .. } => None,
            Records::One { key, .. } => Some(*key..*key + 1),
            Records::Several(several) => several.slots(),
        }
    }

    /// Takes out slots below `slot_below`, and the state record if it lies before `state_before`; calls their
    /// positions back. Whether nothing is left.
    pub(super) fn release(&mut self, slot_below: u64, state_before: Lsn, mut each: impl FnMut(Position)) -> bool {
        let goes = |key: u64, position: Position| match key {
            STATE => position.lsn() < state_before,
            slot => slot < slot_below,
        };
        match self {
            Records::One { key, position } => {
                let is_last = goes(*key, *position);
                if is_last {
                    each(*position);
                }
                is_last
            }
            Records::Several(several) => {
                several.release(slot_below, goes, &mut each);
                match several.only() {
                    Left::Nothing => return true,
                    Left::One(key, position) => *self = Records::One { key, position },
                    Left::Several => {}
                }
                false
            }
        }
    }

    /// Calls back everything that lies before `segment`.
    pub(super) fn for_each_before(&self, segment: u64, mut each: impl FnMut(Kind, Position)) {
        self.try_each_before(segment, &mut |key, position| {
            each(kind_of(key), position);
            true
        });
    }

    pub(super) fn has_any_before(&self, segment: u64) -> bool {
        !self.try_each_before(segment, &mut |_, _| false)
    }

    /// Until `each` says false; whether it never did.
    fn try_each_before(&self, segment: u64, each: &mut impl FnMut(u64, Position) -> bool) -> bool {
        let mut each = |key: u64, position: Position| position.segment() >= segment || each(key, position);
        match self {
            Records::One { key, position } => each(*key, *position),
            Records::Several(several) => match &**several {
                Several::Few(few) => few.iter().flatten().all(|(key, position)| each(*key, *position)),
                Several::Many { slots, state } => {
                    state.is_none_or(|position| each(STATE, position)) && slots.all(&mut each)
                }
            },
        }
    }

    /// Memory beside the entry itself.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Records::One { .. } => 0,
            Records::Several(several) => {
                let many = match &**several {
                    Several::Few(_) => 0,
                    Several::Many { slots, .. } => slots.heap_bytes(),
                };
                mem::size_of::<Several>().next_multiple_of(16) + many
            }
        }
    }
}

enum Left {
    Nothing,
    One(u64, Position),
    Several,
}

impl Several {
    fn insert(&mut self, key: u64, position: Position) -> Option<Position> {
        match self {
            Several::Few(few) => {
                for place in few.iter_mut() {
                    match place {
                        Some((same, before)) if *same == key => return Some(mem::replace(before, position)),
                        Some(_) => {}
                        None => {
                            *place = Some((key, position));
                            return None;
                        }
                    }
                }
                let few = *few;
                *self = Several::Many { slots: Slots::default(), state: None };
                few.into_iter().flatten().chain([(key, position)]).for_each(|(key, position)| {
                    self.insert(key, position);
                });
                None
            }
            Several::Many { state, .. } if key == STATE => state.replace(position),
            Several::Many { slots, .. } => slots.insert(key, position),
        }
    }

    fn slots_of_many(&self) -> Option<&Slots> {
        match self {
            Several::Few(_) => None,
            Several::Many { slots, .. } => Some(slots),
        }
    }

    fn position(&self, key: u64) -> Option<Position> {
        match self {
            Several::Few(few) => few.iter().flatten().find(|(same, _)| *same == key).map(|(_, position)| *position),
            Several::Many { state, .. } if key == STATE => *state,
            Several::Many { slots, .. } => slots.position(key),
        }
    }

    fn slots(&self) -> Option<Range<u64>> {
        match self {
            Several::Few(few) => {
                let slots = || few.iter().flatten().map(|(key, _)| *key).filter(|key| *key != STATE);
                Some(slots().min()?..slots().max()? + 1)
            }
            Several::Many { slots, .. } => slots.range(),
        }
    }

    fn release(&mut self, slot_below: u64, goes: impl Fn(u64, Position) -> bool, each: &mut impl FnMut(Position)) {
        match self {
            Several::Few(few) => {
                let mut kept = [None; FEW];
                let mut count = 0;
                for (key, position) in few.iter().flatten() {
                    if goes(*key, *position) {
                        each(*position);
                    } else {
                        kept[count] = Some((*key, *position));
                        count += 1;
                    }
                }
                *few = kept;
            }
            Several::Many { slots, state } => {
                slots.release(slot_below, &mut *each);
                state.take_if(|position| goes(STATE, *position)).into_iter().for_each(each);
            }
        }
    }

    fn only(&self) -> Left {
        match self {
            Several::Few([None, ..]) => Left::Nothing,
            Several::Few([Some((key, position)), None, ..]) => Left::One(*key, *position),
            Several::Many { slots, state } => match (slots.only(), state) {
                (None, None) => Left::Nothing,
                (None, Some(position)) => Left::One(STATE, *position),
                (Some(Some((slot, position))), None) => Left::One(slot, position),
                _ => Left::Several,
            },
            Several::Few(_) => Left::Several,
        }
    }
}

fn key_of(kind: Kind) -> u64 {
    match kind {
        Kind::Slot(slot) => slot,
        Kind::State => STATE,
    }
}

fn kind_of(key: u64) -> Kind {
    if key == STATE { Kind::State } else { Kind::Slot(key) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Random inserts and releases against the plainest map there is.
    #[test]
    fn agrees_with_a_map() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for _ in 0..2000 {
            let mut base = 100;
            let kind = |random: u64, base: u64| {
                if random.is_multiple_of(4) { Kind::State } else { Kind::Slot(base + random % 5) }
            };
            let mut segment = 1;
            let first = kind(random(), base);
            let mut records = Records::new(first, Position::new(segment, 72, 100));
            let mut model = BTreeMap::from([(first, Position::new(segment, 72, 100))]);
            for step in 1..12 {
                segment += random() % 2;
                let (kind, position) = (kind(random(), base), Position::new(segment, step * 200, 100));
                assert_eq!(records.insert(kind, position), model.insert(kind, position));
                if random().is_multiple_of(3) {
                    base += random() % 4;
                    let before = Lsn::at(segment, random() % 2 * 5000);
                    let mut released = Vec::new();
                    let is_empty = records.release(base, before, |position| released.push(position));
                    let goes = |kind: &Kind, position: &Position| match kind {
                        Kind::Slot(slot) => *slot < base,
                        Kind::State => position.lsn() < before,
                    };
                    let mut expected: Vec<Position> =
                        model.iter().filter(|(kind, position)| goes(kind, position)).map(|(_, at)| *at).collect();
                    model.retain(|kind, position| !goes(kind, position));
                    released.sort();
                    expected.sort();
                    assert_eq!((released, is_empty), (expected, model.is_empty()));
                    if is_empty {
                        break;
                    }
                }
                for slot in base - 5..base + 10 {
                    assert_eq!(records.position(Kind::Slot(slot)), model.get(&Kind::Slot(slot)).copied());
                }
                assert_eq!(records.position(Kind::State), model.get(&Kind::State).copied());
                let slots: Vec<u64> = model
                    .keys()
                    .filter_map(|kind| if let Kind::Slot(slot) = kind { Some(*slot) } else { None })
                    .collect();
                assert_eq!(records.slots(), slots.first().map(|first| *first..slots[slots.len() - 1] + 1));
                let mut before = Vec::new();
                records.for_each_before(segment, |kind, position| before.push((kind, position)));
                before.sort();
                let expected: Vec<_> = model.iter().map(|(kind, at)| (*kind, *at)).collect();
                let expected: Vec<_> = expected.into_iter().filter(|(_, at)| at.segment() < segment).collect();
                assert_eq!(records.has_any_before(segment), !before.is_empty());
                assert_eq!(before, expected);
            }
        }
    }
}
