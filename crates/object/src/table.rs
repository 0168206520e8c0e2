//! Objects by name: a trie over the leading bits of the name's hash whose leaves are small hash tables.
//!
//! A leaf that is full becomes a branch of 64 leaves, so that growth never moves more than one leaf's objects, a group with one
//! object costs one small leaf, and whoever walks the objects in hash order holds one leaf at a time. It knows nothing of what
//! objects are, except their names.

use std::ops::ControlFlow;

use hashbrown::HashTable;

use crate::object::Object;

/// Bits of a name's hash, few enough that a SCAN cursor can name the group as well. Equal hashes are allowed everywhere.
pub const HASH_BITS: u32 = 48;

/// Objects in a leaf before it becomes a branch. Moving them takes about a quarter of a millisecond.
const LEAF_OBJECTS_MAX: usize = 4096;

const BRANCH_BITS: u32 = 6;

/// A leaf with less of its hash left to tell its objects apart does not branch any more.
const LEAF_BITS_MIN: u32 = 24;

/// An object in its leaf.
#[derive(Debug)]
pub(crate) struct Entry {
    hash: u64,
    pub(crate) object: Object,
}

/// Marks in `Entry::hash` an object that changed in a [`Round`].
const MARKS: [u64; 2] = [1 << 62, 1 << 63];

/// From one checkpoint to the next. What changed in a round is saved during the next one, while other objects change: the two
/// have marks of their own, and of more than two nothing is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round(bool);

impl Round {
    fn other(self) -> Round {
        Round(!self.0)
    }

    fn mark(self) -> u64 {
        MARKS[usize::from(self.0)]
    }
}

impl Entry {
    pub(crate) fn hash(&self) -> u64 {
        self.hash & !(MARKS[0] | MARKS[1])
    }

    fn is_marked(&self, round: Round) -> bool {
        self.hash & round.mark() != 0
    }

    fn is_dirty(&self) -> bool {
        self.hash & (MARKS[0] | MARKS[1]) != 0
    }
}

/// Where an object is in its leaf, until the next insertion or removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

#[derive(Debug)]
pub(crate) struct Table {
    root: Node,
    count: usize,
    /// The one that changes are marked for.
    round: Round,
}

#[derive(Debug)]
enum Node {
    Leaf(Leaf),
    /// By the next bits of the hash.
    Branch(Box<[Node]>),
}

impl Table {
    pub(crate) fn new() -> Table {
        Table { root: Node::Leaf(Leaf::default()), count: 0, round: Round(false) }
    }

    /// A byte of the first name, which cannot be told without looking at an entry and a name.
    pub(crate) fn look(&self) -> u8 {
        match &self.root {
            Node::Leaf(leaf) => leaf.entries.first().map_or(0, |entry| entry.object.look()),
            Node::Branch(_) => 0,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Where an object of this hash may well be. Names are not compared: neither entry nor name is looked at.
    pub(crate) fn guess(&self, hash: u64) -> Option<Slot> {
        self.leaf(hash).index.find(index_hash(hash), |_| true).copied().map(Slot)
    }

    /// The hash of the entry that `guess` has found.
    pub(crate) fn hash_at(&self, hash: u64, slot: Slot) -> u64 {
        self.leaf(hash).entries[slot.0 as usize].hash()
    }

    pub(crate) fn find(&self, hash: u64, name: &[u8]) -> Option<Slot> {
        self.find_by(hash, |object| object.name() == name)
    }

    /// An object with this hash for which `is_it` holds.
    pub(crate) fn find_by(&self, hash: u64, is_it: impl Fn(&Object) -> bool) -> Option<Slot> {
        self.leaf(hash).find_by(hash, is_it).map(Slot)
    }

    /// The object that `find` found there.
    pub(crate) fn at(&self, hash: u64, slot: Slot) -> &Object {
        &self.leaf(hash).entries[slot.0 as usize].object
    }

    /// The object that `find` found there, to be changed: it counts as dirty from here.
    pub(crate) fn at_mut(&mut self, hash: u64, slot: Slot) -> &mut Object {
        let round = self.round;
        let leaf = self.leaf_mut(hash).0;
        leaf.mark(slot.0, round);
        &mut leaf.entries[slot.0 as usize].object
    }

    /// Adds an object whose name is not in the table.
    pub(crate) fn insert(&mut self, hash: u64, object: Object, dirty: bool) {
        let entry = Entry { hash: hash | if dirty { self.round.mark() } else { 0 }, object };
        let (leaf, bits_left) = self.leaf_mut(hash);
        leaf.insert(entry);
        if leaf.entries.len() > LEAF_OBJECTS_MAX && bits_left > LEAF_BITS_MIN {
            self.split(hash);
        }
        self.count += 1;
    }

    pub(crate) fn remove(&mut self, hash: u64, slot: Slot) -> Object {
        self.count -= 1;
        self.leaf_mut(hash).0.remove(slot.0).object
    }

    /// Shows the objects of every leaf that may hold a hash of at least `from`, leaf by leaf in hash order, unordered within one.
    pub(crate) fn visit_leaves<'t>(&'t self, from: u64, visit: &mut impl FnMut(&'t [Entry]) -> ControlFlow<()>) {
        // Whoever visits breaks off because it has enough; there is nothing to tell the caller.
        let _ = self.root.visit(HASH_BITS, from, &mut |leaf| visit(&leaf.entries));
    }

    /// Takes the clean objects for which `goes` holds out of a leaf for hash `from`, with their hashes. Says from which hash on
    /// the next leaf is, if there is one.
    pub(crate) fn take_clean(
        &mut self,
        from: u64,
        goes: impl Fn(&Object) -> bool,
    ) -> (Vec<(u64, Object)>, Option<u64>) {
        let (leaf, bits_left) = self.leaf_mut(from);
        let taken = leaf.take_clean(goes);
        self.count -= taken.len();
        (taken, next_leaf(from, bits_left))
    }

    /// What is dirty is to be saved from here on, and what changes from here on next time. Nothing must be left to be saved.
    pub(crate) fn turn_round(&mut self) {
        self.round = self.round.other();
    }

    /// Shows each object of a leaf for hash `from` that is to be saved, which then is. Says how many there were, and from which
    /// hash on the next leaf is, if there is one.
    pub(crate) fn save_leaf(&mut self, from: u64, each: &mut impl FnMut(&Object)) -> (usize, Option<u64>) {
        let round = self.round.other();
        let (leaf, bits_left) = self.leaf_mut(from);
        (leaf.unmark(round, each), next_leaf(from, bits_left))
    }

    /// The object that `find` found there if it is to be saved, which it then is.
    pub(crate) fn save(&mut self, hash: u64, slot: Slot) -> Option<&Object> {
        let round = self.round.other();
        self.leaf_mut(hash).0.unmark_one(slot.0, round)
    }

    /// Everything counts as changed.
    pub(crate) fn mark_all(&mut self) {
        let round = self.round;
        self.root.each_leaf_mut(&mut |leaf| (0..leaf.entries.len() as u32).for_each(|slot| leaf.mark(slot, round)));
    }

    /// Nothing counts as changed, nor is anything to be saved.
    pub(crate) fn unmark_all(&mut self) {
        for round in [self.round, self.round.other()] {
            self.root.each_leaf_mut(&mut |leaf| {
                leaf.unmark(round, &mut |_| {});
            });
        }
    }

    fn leaf(&self, hash: u64) -> &Leaf {
        let mut node = &self.root;
        let mut bits_left = HASH_BITS;
        loop {
            match node {
                Node::Leaf(leaf) => return leaf,
                Node::Branch(children) => {
                    bits_left -= BRANCH_BITS;
                    node = &children[child_index(hash, bits_left)];
                }
            }
        }
    }

    /// The leaf for `hash`, and how many bits of the hash differ among its objects.
    fn leaf_mut(&mut self, hash: u64) -> (&mut Leaf, u32) {
        let mut node = &mut self.root;
        let mut bits_left = HASH_BITS;
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, bits_left),
                Node::Branch(children) => {
                    bits_left -= BRANCH_BITS;
                    node = &mut children[child_index(hash, bits_left)];
                }
            }
        }
    }

    /// Makes a branch of the leaf for `hash`.
    fn split(&mut self, hash: u64) {
        let mut node = &mut self.root;
        let mut bits_left = HASH_BITS;
        while let Node::Branch(children) = node {
            bits_left -= BRANCH_BITS;
            node = &mut children[child_index(hash, bits_left)];
        }
        if let Node::Leaf(leaf) = node {
            *node = Node::Branch(leaf.split(bits_left - BRANCH_BITS));
        }
    }
}

fn next_leaf(hash: u64, bits_left: u32) -> Option<u64> {
    let next = ((hash >> bits_left) + 1) << bits_left;
    (next >> HASH_BITS == 0).then_some(next)
}

fn child_index(hash: u64, bits_left: u32) -> usize {
    (hash >> bits_left) as usize & ((1 << BRANCH_BITS) - 1)
}

impl Node {
    fn visit<'t>(
        &'t self,
        bits_left: u32,
        from: u64,
        visit: &mut impl FnMut(&'t Leaf) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match self {
            Node::Leaf(leaf) => visit(leaf),
            Node::Branch(children) => {
                let bits_left = bits_left - BRANCH_BITS;
                let first = child_index(from, bits_left);
                children[first].visit(bits_left, from, visit)?;
                children[first + 1..].iter().try_for_each(|child| child.visit(bits_left, 0, visit))
            }
        }
    }

    fn each_leaf_mut(&mut self, each: &mut impl FnMut(&mut Leaf)) {
        match self {
            Node::Leaf(leaf) => each(leaf),
            Node::Branch(children) => children.iter_mut().for_each(|child| child.each_leaf_mut(each)),
        }
    }
}

/// The objects whose hashes share their leading bits: dense in `entries`, found through `index`.
#[derive(Debug, Default)]
struct Leaf {
    index: HashTable<u32>,
    entries: Vec<Entry>,
    /// How many are marked, by round.
    marked: [u32; 2],
}

impl Leaf {
    fn find_by(&self, hash: u64, is_it: impl Fn(&Object) -> bool) -> Option<u32> {
        let entries = &self.entries;
        let found = self.index.find(index_hash(hash), |&slot| {
            let entry = &entries[slot as usize];
            entry.hash() == hash && is_it(&entry.object)
        });
        found.copied()
    }

    fn insert(&mut self, entry: Entry) {
        // Doubling would leave a quarter of the entries unused on average.
        if self.entries.len() == self.entries.capacity() {
            self.entries.reserve_exact(self.entries.len() / 4 + 1);
        }
        let slot = self.entries.len() as u32;
        self.count_marks(&entry, 1);
        let hash = index_hash(entry.hash());
        self.entries.push(entry);
        let entries = &self.entries;
        self.index.insert_unique(hash, slot, |&slot| index_hash(entries[slot as usize].hash()));
    }

    fn remove(&mut self, slot: u32) -> Entry {
        let last = (self.entries.len() - 1) as u32;
        self.index_entry(slot).remove();
        if slot != last {
            // The last entry takes the place of the removed one.
            *self.index_entry(last).get_mut() = slot;
        }
        let entry = self.entries.swap_remove(slot as usize);
        self.count_marks(&entry, -1);
        if self.entries.is_empty() {
            *self = Leaf::default();
        }
        entry
    }

    fn index_entry(&mut self, slot: u32) -> hashbrown::hash_table::OccupiedEntry<'_, u32> {
        let hash = index_hash(self.entries[slot as usize].hash());
        let found = self.index.find_entry(hash, |&other| other == slot);
        found.expect("every entry is in the index")
    }

    /// The children by the bits of the hash above `bits_left`. Leaves nothing in this leaf.
    fn split(&mut self, bits_left: u32) -> Box<[Node]> {
        let mut leaves: Vec<Leaf> = Vec::new();
        leaves.resize_with(1 << BRANCH_BITS, Leaf::default);
        for entry in std::mem::take(self).entries {
            leaves[child_index(entry.hash(), bits_left)].insert(entry);
        }
        leaves.into_iter().map(Node::Leaf).collect()
    }

    fn take_clean(&mut self, goes: impl Fn(&Object) -> bool) -> Vec<(u64, Object)> {
        let goes = |entry: &Entry| !entry.is_dirty() && goes(&entry.object);
        if !self.entries.iter().any(goes) {
            return Vec::new();
        }
        let (taken, kept): (Vec<_>, Vec<_>) = std::mem::take(self).entries.into_iter().partition(goes);
        kept.into_iter().for_each(|entry| self.insert(entry));
        taken.into_iter().map(|entry| (entry.hash(), entry.object)).collect()
    }

    fn count_marks(&mut self, entry: &Entry, change: i32) {
        for round in [Round(false), Round(true)].into_iter().filter(|round| entry.is_marked(*round)) {
            let marked = &mut self.marked[usize::from(round.0)];
            *marked = marked.checked_add_signed(change).expect("what is marked is counted");
        }
    }

    fn mark(&mut self, slot: u32, round: Round) {
        let entry = &mut self.entries[slot as usize];
        self.marked[usize::from(round.0)] += u32::from(!entry.is_marked(round));
        entry.hash |= round.mark();
    }

    fn unmark_one(&mut self, slot: u32, round: Round) -> Option<&Object> {
        let entry = &mut self.entries[slot as usize];
        if !entry.is_marked(round) {
            return None;
        }
        entry.hash &= !round.mark();
        self.marked[usize::from(round.0)] -= 1;
        Some(&entry.object)
    }

    /// Shows each object that is marked, and takes its mark. Says how many there were.
    fn unmark(&mut self, round: Round, each: &mut impl FnMut(&Object)) -> usize {
        let count = std::mem::take(&mut self.marked[usize::from(round.0)]);
        if count > 0 {
            for entry in self.entries.iter_mut().filter(|entry| entry.is_marked(round)) {
                each(&entry.object);
                entry.hash &= !round.mark();
            }
        }
        count as usize
    }
}

/// What the index makes of a hash. It takes buckets from the low bits and tags from the top seven, which are all alike within a
/// leaf, if there are any: middle bits stand in for them.
fn index_hash(hash: u64) -> u64 {
    hash ^ hash << 40
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::{Entry, HASH_BITS, LEAF_OBJECTS_MAX, Slot, Table};
    use crate::object::Object;
    use crate::text::Text;

    #[test]
    fn an_entry_is_32_bytes() {
        assert_eq!(size_of::<Entry>(), 32);
    }

    #[test]
    fn objects_are_found_through_splits_and_removals() {
        let object = |name: u32| Object::String(Text::new(&name.to_le_bytes(), b"", None));
        // Multiplying by an odd number spreads the hashes without making two alike.
        let hash = |name: u32| u64::from(name).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS);
        let count = 20 * LEAF_OBJECTS_MAX as u32;
        let mut table = Table::new();
        for name in 0..count {
            table.insert(hash(name), object(name), false);
        }
        for name in (0..count).filter(|name| name % 3 == 0) {
            let slot = table.find(hash(name), &name.to_le_bytes()).unwrap();
            assert_eq!(table.remove(hash(name), slot).name(), name.to_le_bytes());
        }
        for name in 0..count {
            let found = table.find(hash(name), &name.to_le_bytes());
            assert_eq!(found.is_some(), name % 3 != 0, "{name}");
            // No two hashes are alike here: a guess of this hash is the object.
            let guessed = table.guess(hash(name));
            assert!(found.is_none() || guessed.is_some(), "{name}");
            assert_eq!(
                guessed.filter(|&slot| table.hash_at(hash(name), slot) == hash(name)).is_some(),
                found.is_some() && guessed == found
            );
        }
        let mut leaf_count = 0;
        let mut last_max = 0;
        table.visit_leaves(0, &mut |entries| {
            leaf_count += 1;
            assert!(entries.iter().all(|entry| entry.hash() >= last_max), "leaves out of order");
            last_max = entries.iter().map(Entry::hash).max().unwrap_or(last_max);
            ControlFlow::Continue(())
        });
        assert_eq!(leaf_count, 64);
    }

    #[test]
    fn names_of_one_hash_live_together() {
        let mut table = Table::new();
        let count = LEAF_OBJECTS_MAX as u32 + 10;
        for name in 0..count {
            table.insert(7, Object::String(Text::new(&name.to_le_bytes(), b"", None)), true);
        }
        assert_eq!(table.count(), count as usize);
        for name in [0, 5, count - 1] {
            let slot: Slot = table.find(7, &name.to_le_bytes()).unwrap();
            assert_eq!(table.at(7, slot).name(), name.to_le_bytes());
        }
        assert_eq!(table.find(7, b"absent"), None);
        table.turn_round();
        assert_eq!(table.save_leaf(7, &mut |_| {}).0, count as usize);
        assert_eq!(table.save_leaf(7, &mut |object| panic!("{object:?} is still to be saved")).0, 0);
    }
}
