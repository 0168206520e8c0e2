//! Whether a replica takes part in its group.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Its birth is not on disk yet: it says nothing.
    Unborn,
    Alive,
    /// It may have said what it does not remember: it neither votes nor serves until it is taken in again.
    Forgetful,
    /// Its part of the log, or its checkpoint, is damaged, and it cannot be taken in again: likewise, for good.
    Damaged,
    /// Its code panicked, or could not read what is on the disk: nothing of it is trusted any more.
    Quarantined,
    /// The node is being stopped, and what the replica says from now on could not be kept.
    Closed,
}

impl GroupState {
    /// Whether the replica neither votes nor serves as long as its node runs.
    pub fn is_silent(self) -> bool {
        matches!(self, GroupState::Forgetful | GroupState::Damaged | GroupState::Quarantined)
    }
}
