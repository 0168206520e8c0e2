//! The units of which it is known whether they are stable.

/// The keys of one hash slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kgroup(u16);

impl Kgroup {
    pub fn of_hash_slot(hash_slot: u16) -> Kgroup {
        Kgroup(hash_slot)
    }

    pub fn hash_slot(self) -> u16 {
        self.0
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
