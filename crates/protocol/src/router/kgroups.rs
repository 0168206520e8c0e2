//! The units of which it is known whether they are stable.

/// Kgroups of a group. As many as a volume has hash slots where a namespace has 64 volumes.
pub const KGROUP_COUNT: usize = 256;

const WORDS: usize = KGROUP_COUNT / 64;

/// The keys of one group with equal low bits of the hash slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kgroup(u16);

impl Kgroup {
    pub fn of_hash_slot(hash_slot: u16) -> Kgroup {
        Kgroup(hash_slot % KGROUP_COUNT as u16)
    }

    pub fn number(self) -> u16 {
        self.0
    }

    pub(super) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    One(Kgroup),
    All,
}

impl Scope {
    pub fn contains(self, kgroup: Kgroup) -> bool {
        self == Scope::All || self == Scope::One(kgroup)
    }

    pub fn overlaps(self, other: Scope) -> bool {
        match other {
            Scope::One(kgroup) => self.contains(kgroup),
            Scope::All => true,
        }
    }
}

/// A set of kgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct KgroupSet([u64; WORDS]);

impl KgroupSet {
    pub(super) fn insert(&mut self, kgroup: Kgroup) {
        self.0[kgroup.index() / 64] |= 1 << (kgroup.index() % 64);
    }

    pub(super) fn holds_any_of(&self, scope: Scope) -> bool {
        match scope {
            Scope::One(kgroup) => self.0[kgroup.index() / 64] >> (kgroup.index() % 64) & 1 == 1,
            Scope::All => self.0.iter().any(|&word| word != 0),
        }
    }

    pub(super) fn remove(&mut self, scope: Scope) {
        match scope {
            Scope::One(kgroup) => self.0[kgroup.index() / 64] &= !(1 << (kgroup.index() % 64)),
            Scope::All => *self = KgroupSet::default(),
        }
    }
}
