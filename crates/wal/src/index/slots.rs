//! The positions of the slot records of a group that has many.
//!
//! Slots come almost in order and go from the low end, so the positions of neighbouring slots lie side by side.

use std::collections::VecDeque;
use std::ops::Range;

use super::position::Position;

/// Slots this close are kept in one run, with empty places between them; farther ones (a replica that installed a
/// snapshot skips slots by the million) begin a run of their own.
const GAP_MAX: u64 = 64;

/// Runs, ascending, without overlap.
#[derive(Default)]
pub(super) struct Slots {
    runs: Vec<Run>,
    /// Memory beside this.
    heap_bytes: usize,
}

/// Consecutive slots from `base` on. Places inside may be empty; the first and the last are not.
pub(super) struct Run {
    base: u64,
    positions: VecDeque<Position>,
}

impl Slots {
    /// Puts the position of a slot's newest record in; gives back that of the one it replaces.
    pub(super) fn insert(&mut self, slot: u64, position: Position) -> Option<Position> {
        let Slots { runs, heap_bytes } = self;
        let next = runs.partition_point(|run| run.base <= slot);
        if let Some(run) = next.checked_sub(1).map(|at| &mut runs[at]) {
            if slot < run.end() {
                let place = &mut run.positions[(slot - run.base) as usize];
                let before = std::mem::replace(place, position);
                return (!before.is_none()).then_some(before);
            }
            if slot - run.end() <= GAP_MAX {
                let bytes = run.heap_bytes();
                run.positions.resize((slot - run.base) as usize, Position::NONE);
                run.positions.push_back(position);
                *heap_bytes += run.heap_bytes() - bytes;
                return None;
            }
        }
        if let Some(run) = runs.get_mut(next)
            && run.base - slot <= GAP_MAX
        {
            let bytes = run.heap_bytes();
            for _ in slot + 1..run.base {
                run.positions.push_front(Position::NONE);
            }
            run.positions.push_front(position);
            run.base = slot;
            *heap_bytes += run.heap_bytes() - bytes;
            return None;
        }
        let runs_before = runs.capacity();
        if runs.is_empty() {
            // Most groups never have a second one.
            runs.reserve_exact(1);
        }
        let run = Run::new(slot, position);
        *heap_bytes += run.heap_bytes();
        runs.insert(next, run);
        *heap_bytes += (runs.capacity() - runs_before) * size_of::<Run>();
        None
    }

    pub(super) fn position(&self, slot: u64) -> Option<Position> {
        let run = &self.runs[self.runs.partition_point(|run| run.base <= slot).checked_sub(1)?];
        let place = usize::try_from(slot - run.base).ok()?;
        run.positions.get(place).copied().filter(|position| !position.is_none())
    }

    /// The newest run, and the newest place in it.
    pub(super) fn look(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.base)
    }

    pub(super) fn look_deeper(&self) -> u64 {
        self.runs.last().and_then(|run| run.positions.back()).map_or(0, |position| position.bytes())
    }

    /// From the lowest slot to the one after the highest; some between them may be empty.
    pub(super) fn range(&self) -> Option<Range<u64>> {
        Some(self.runs.first()?.base..self.runs.last()?.end())
    }

    /// Takes out every slot below `below` and calls their positions back.
    pub(super) fn release(&mut self, below: u64, mut each: impl FnMut(Position)) {
        for run in self.runs.iter_mut().take_while(|run| run.base < below) {
            run.release(below, &mut each);
        }
        let heap_bytes = &mut self.heap_bytes;
        self.runs.retain(|run| {
            *heap_bytes -= if run.positions.is_empty() { run.heap_bytes() } else { 0 };
            !run.positions.is_empty()
        });
    }

    /// None if there is no slot, and what there is if that is only one.
    pub(super) fn only(&self) -> Option<Option<(u64, Position)>> {
        match &self.runs[..] {
            [] => None,
            [run] if run.positions.len() == 1 => Some(Some((run.base, run.positions[0]))),
            _ => Some(None),
        }
    }

    /// Whether `holds` is true of every slot and its position.
    pub(super) fn all(&self, holds: &mut impl FnMut(u64, Position) -> bool) -> bool {
        let slots = self.runs.iter().flat_map(|run| (run.base..).zip(&run.positions));
        slots.filter(|(_, position)| !position.is_none()).all(|(slot, position)| holds(slot, *position))
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.heap_bytes
    }
}

impl Run {
    fn new(base: u64, position: Position) -> Run {
        Run { base, positions: VecDeque::from([position]) }
    }

    fn heap_bytes(&self) -> usize {
        self.positions.capacity() * size_of::<Position>()
    }

    fn end(&self) -> u64 {
        self.base + self.positions.len() as u64
    }

    fn release(&mut self, below: u64, each: &mut impl FnMut(Position)) {
        while let Some(&position) = self.positions.front()
            && (self.base < below || position.is_none())
        {
            if !position.is_none() {
                each(position);
            }
            self.positions.pop_front();
            self.base += 1;
        }
    }
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
        for _ in 0..300 {
            let (mut slots, mut model) = (Slots::default(), BTreeMap::new());
            let mut base = 1000;
            for step in 0..200 {
                let slot = match random() % 20 {
                    0 => base + random() % 1_000_000,
                    1 => base - random() % 500,
                    _ => base + random() % 90,
                };
                let position = Position::new(1 + random() % 50, step * 100, 100);
                assert_eq!(slots.insert(slot, position), model.insert(slot, position));
                if random() % 30 == 0 {
                    base += random() % 60;
                    let mut released = Vec::new();
                    slots.release(base, |position| released.push(position));
                    let kept = model.split_off(&base);
                    assert_eq!(released, model.into_values().collect::<Vec<_>>());
                    model = kept;
                }
                let held = slots.runs.iter().map(Run::heap_bytes).sum::<usize>();
                assert_eq!(slots.heap_bytes(), held + slots.runs.capacity() * size_of::<Run>());
                let range = model.first_key_value().map(|(first, _)| *first..*model.keys().last().unwrap() + 1);
                assert_eq!(slots.range(), range);
                assert_eq!(slots.position(slot), model.get(&slot).copied());
            }
            for slot in base - 600..base + 200 {
                assert_eq!(slots.position(slot), model.get(&slot).copied(), "slot {slot}");
            }
            let mut all = Vec::new();
            slots.all(&mut |slot, position| {
                all.push((slot, position));
                true
            });
            assert_eq!(all, model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_skip_of_a_million_slots_costs_no_memory() {
        let mut slots = Slots::default();
        for slot in [5, 6, 1_000_000_000, 1_000_000_001] {
            slots.insert(slot, Position::new(1, slot % 1000 + 72, 24));
        }
        assert_eq!(slots.runs.iter().map(|run| run.positions.len()).collect::<Vec<_>>(), [2, 2]);
    }
}
