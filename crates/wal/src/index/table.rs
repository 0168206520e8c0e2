//! The groups of the index: entries side by side in pieces, and hash tables of their places.
//!
//! A hash table of whole entries would be half empty when it has just grown; a table of places is, and a place takes
//! four bytes. There are several tables, so that one that grows is small and no turn waits long for it.

use std::cell::Cell;

use hashbrown::HashTable;

use super::records::Records;

pub(super) struct Entry {
    pub(super) group: u64,
    pub(super) records: Records,
}

const PIECE: usize = 1024;
const TABLES: usize = 64;
/// Groups whose places are remembered, as long as no other one of the same last bits is looked for: those of a busy node's
/// volumes, whose ids follow one another.
const REMEMBERED: usize = 256;

pub(super) struct Table {
    /// All full but the last.
    pieces: Vec<Vec<Entry>>,
    places: Vec<HashTable<u32>>,
    /// Where groups of these last bits were found last. They may have moved.
    remembered: Box<[Cell<u32>]>,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            pieces: Vec::new(),
            places: (0..TABLES).map(|_| HashTable::new()).collect(),
            remembered: vec![Cell::new(0); REMEMBERED].into_boxed_slice(),
        }
    }
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.pieces.last().map_or(0, |last| (self.pieces.len() - 1) * PIECE + last.len())
    }

    /// The entry at this place. An entry moves only to the place of one that is removed, and from the last one.
    pub(super) fn at(&self, place: usize) -> Option<&Entry> {
        self.pieces.get(place / PIECE)?.get(place % PIECE)
    }

    #[inline]
    pub(super) fn find(&self, group: u64) -> Option<usize> {
        let remembered = &self.remembered[group as usize % REMEMBERED];
        let place = remembered.get() as usize;
        if self.at(place).is_some_and(|entry| entry.group == group) {
            return Some(place);
        }
        let place = self.search(group)?;
        remembered.set(place);
        Some(place as usize)
    }

    fn search(&self, group: u64) -> Option<u32> {
        let hash = hash(group);
        self.places[table_of(hash)].find(hash, |place| group_at(&self.pieces, *place) == group).copied()
    }

    pub(super) fn get(&self, group: u64) -> Option<&Records> {
        Some(&self.at(self.find(group)?)?.records)
    }

    pub(super) fn records_mut(&mut self, place: usize) -> &mut Records {
        &mut self.pieces[place / PIECE][place % PIECE].records
    }

    /// Adds a group that is not there.
    pub(super) fn push(&mut self, entry: Entry) {
        let hash_of_new = hash(entry.group);
        let place = u32::try_from(self.len()).expect("a log of so many groups is beyond all its limits");
        if self.pieces.last().is_none_or(|last| last.len() == PIECE) {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        if let Some(last) = self.pieces.last_mut() {
            last.push(entry);
        }
        let pieces = &self.pieces;
        self.places[table_of(hash_of_new)].insert_unique(hash_of_new, place, |place| hash(group_at(pieces, *place)));
    }

    pub(super) fn remove(&mut self, place: usize) {
        let last = self.len() - 1;
        let (gone, moved) = (hash(group_at(&self.pieces, place as u32)), hash(group_at(&self.pieces, last as u32)));
        if let Ok(found) = self.places[table_of(gone)].find_entry(gone, |found| *found as usize == place) {
            found.remove();
        }
        if let Some(found) = self.places[table_of(moved)].find_mut(moved, |found| *found as usize == last) {
            *found = place as u32;
        }
        let piece = self.pieces.last_mut().expect("what is removed is there");
        let entry = piece.pop().expect("the last piece is never empty");
        if piece.is_empty() {
            self.pieces.pop();
        }
        if place != last {
            self.pieces[place / PIECE][place % PIECE] = entry;
        }
        let places = &mut self.places[table_of(gone)];
        // What a million groups needed is not kept for a thousand.
        if places.capacity() > 64 && places.len() < places.capacity() / 8 {
            let pieces = &self.pieces;
            places.shrink_to(places.len() * 2, |place| hash(group_at(pieces, *place)));
        }
    }

    /// Memory, but for what the entries hold elsewhere.
    pub(super) fn bytes(&self) -> usize {
        let places: usize = self.places.iter().map(HashTable::allocation_size).sum();
        self.pieces.len() * PIECE * size_of::<Entry>() + places
    }
}

fn group_at(pieces: &[Vec<Entry>], place: u32) -> u64 {
    pieces[place as usize / PIECE][place as usize % PIECE].group
}

/// Mixes the bits of a group id. Group ids are given out by parents, never chosen by a client, and runs must repeat:
/// so no random key.
fn hash(group: u64) -> u64 {
    let wide = u128::from(group ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xd6e8_feb8_6659_fd93_u64);
    (wide >> 64) as u64 ^ wide as u64
}

/// Of bits that a table does not look at itself before it is large.
fn table_of(hash: u64) -> usize {
    (hash >> 40) as usize % TABLES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::index::position::Position;

    fn entry(group: u64) -> Entry {
        Entry { group, records: Records::new(Kind::Slot(group), Position::new(1, 72, 24)) }
    }

    #[test]
    fn finds_what_is_there_and_nothing_else_whatever_was_removed() {
        let mut table = Table::default();
        let groups = 5000;
        (0..groups).for_each(|group| table.push(entry(group * 7)));
        for group in (0..groups).filter(|group| group % 3 != 1) {
            let place = table.find(group * 7).unwrap();
            table.remove(place);
        }
        assert_eq!(table.len() as u64, groups / 3 + 1);
        for group in 0..groups {
            let found = table.get(group * 7).and_then(Records::slots);
            assert_eq!(found, (group % 3 == 1).then_some(group * 7..group * 7 + 1));
            assert!(table.get(group * 7 + 1).is_none());
        }
    }

    #[test]
    fn gives_memory_back() {
        let mut table = Table::default();
        (0..100_000).for_each(|group| table.push(entry(group)));
        let full = table.bytes();
        (0..100_000).for_each(|group| {
            let place = table.find(group).unwrap();
            table.remove(place);
        });
        assert_eq!(table.len(), 0);
        assert!(table.bytes() < full / 100, "{} bytes of {full} are left", table.bytes());
    }
}
