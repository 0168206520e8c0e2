//! Quorum systems: which sets of members may decide. A set is a `u64` of positions among a configuration's members.

/// Every read quorum (phase 1) meets every write quorum (phase 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuorumSystem {
    Majority,
    /// Any `read` members are a read quorum, any `write` members a write quorum; `read + write` exceeds the members.
    Threshold {
        read: u8,
        write: u8,
    },
}

impl QuorumSystem {
    /// Phase 1 of Paxos; a register's query.
    pub fn is_read_quorum(&self, members: usize, set: u64) -> bool {
        let count = set.count_ones() as usize;
        match self {
            QuorumSystem::Majority => count > members / 2,
            QuorumSystem::Threshold { read, .. } => count >= usize::from(*read),
        }
    }

    /// Phase 2 of Paxos; a register's store.
    pub fn is_write_quorum(&self, members: usize, set: u64) -> bool {
        let count = set.count_ones() as usize;
        match self {
            QuorumSystem::Majority => count > members / 2,
            QuorumSystem::Threshold { write, .. } => count >= usize::from(*write),
        }
    }
}
