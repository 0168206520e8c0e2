//! Mutations that the simulator must find, one at a time. Without the feature `planted` there are none.
//!
//! Each is one line in the protocol, marked by its name, that breaks one of the rules on which safety rests.

/// The rule that is broken. The discriminants are stable: they name a mutation on a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Planted {
    /// A promise is given without a record of it.
    PromiseNotPersisted = 1,
    /// A value is accepted without a record of it.
    AcceptNotPersisted = 2,
    /// An acceptor answers before its record is durable.
    AcceptedBeforeDurable = 3,
    /// An acceptor accepts at a ballot below its promise.
    AcceptLowerBallot = 4,
    /// A frontier decides values accepted at other ballots too.
    FrontierDecidesAnyBallot = 5,
    /// A restart forgets how far the checkpoint reached.
    FrontierLostOnRestart = 6,
    /// A coordinator reads locally without a lease.
    ReadWithoutLease = 7,
    /// An acceptor promises a ballot while its grant binds it to another node.
    PromiseDespiteGrant = 8,
    /// A candidate ignores how far others have executed.
    ProposeBelowHeard = 9,
    /// A candidate adopts the value of the lowest ballot instead of the highest.
    AdoptLowestBallot = 10,
    /// A restart drops accepted values.
    AcceptedSlotDroppedInRecovery = 11,
    /// A coordinator decides without a quorum.
    DecideOnMinority = 12,
    /// A coordinator counts answers that were given under an earlier grant.
    StaleGrantCounts = 13,
}

impl Planted {
    pub const ALL: [Planted; 13] = [
        Planted::PromiseNotPersisted,
        Planted::AcceptNotPersisted,
        Planted::AcceptedBeforeDurable,
        Planted::AcceptLowerBallot,
        Planted::FrontierDecidesAnyBallot,
        Planted::FrontierLostOnRestart,
        Planted::ReadWithoutLease,
        Planted::PromiseDespiteGrant,
        Planted::ProposeBelowHeard,
        Planted::AdoptLowestBallot,
        Planted::AcceptedSlotDroppedInRecovery,
        Planted::DecideOnMinority,
        Planted::StaleGrantCounts,
    ];
}

#[cfg(feature = "planted")]
mod selection {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::Planted;

    static SELECTED: AtomicU32 = AtomicU32::new(0);

    /// From now on, in the whole process.
    pub fn select(planted: Option<Planted>) {
        SELECTED.store(planted.map_or(0, |planted| planted as u32), Ordering::Relaxed);
    }

    pub fn is(planted: Planted) -> bool {
        SELECTED.load(Ordering::Relaxed) == planted as u32
    }
}

#[cfg(feature = "planted")]
pub use selection::{is, select};

#[cfg(not(feature = "planted"))]
pub const fn is(_: Planted) -> bool {
    false
}
