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
    /// A member of a chain answers without a lease.
    ChainLeaseIgnored = 101,
    /// What a successor is sent leaves out the first update that it lacks.
    ChainRepairTooShort = 102,
    /// A member acknowledges what the tail has not got.
    ChainAcknowledgementOvertakes = 103,
    /// A node that has joined acts as the tail before the old one knows.
    ChainActivatesEarly = 104,
    /// A message of an old epoch is acted on.
    ChainOldEpochAccepted = 105,
    /// An update is forwarded before it is on the own disk.
    ChainForwardsBeforeDurable = 106,
    /// A new tail reads before it has decided what it holds.
    ChainReadsBeforeLevel = 107,
    /// A node that joins anew keeps updates that it had and nobody else may have.
    ChainRejoinKeepsSuffix = 108,
    /// A joining node counts as complete when it has only begun.
    ChainJoinedTooEarly = 109,
    /// A configuration is acted on without a record of it.
    ChainAdoptedNotPersisted = 110,
    /// A tail forgets at a restart that it decides nothing without the joining node.
    ChainJoinedNotPersisted = 111,
    /// A joining node counts as complete without what the tail before may have answered.
    ChainJoinedBelowFloor = 112,
    /// A removed member forgets at a restart what it knew as decided.
    ChainRemovalForgetsDecided = 113,
    /// A tail decides what is not on its disk.
    ChainDecidesBeforeDurable = 114,

    /// A member that had forgotten votes again without what the others have accepted.
    ReadmittedWithoutValues = 151,
    /// ... or without what they have promised.
    ReadmittedWithoutPromises = 152,

    /// A register's read answers with a version that may be at no write quorum.
    RegisterNoWriteBack = 201,
    /// While two configurations are in use, phases complete with quorums of the old one.
    RegisterOldConfigurationOnly = 202,
    /// Tombstones are forgotten that some member may lack, while older operations go on.
    RegisterForgetsEarly = 203,
    /// Tags say neither the start of their node nor its operation.
    RegisterTagReused = 204,
    /// A configuration is retired before its versions are moved.
    RegisterRetiresEarly = 205,
    /// A register's member answers before what it says is on its disk.
    RegisterAnswersBeforeDurable = 206,
    /// After a resize reads look no further than their own size.
    RegisterSmallerReadQuorum = 207,
    /// An expiry's tombstone takes a tag like any write's.
    RegisterExpiryTakesNewTag = 208,
    /// Where members decide: a promise does not tell what was voted for.
    RegisterVoteUntold = 209,
    /// A successor counts as decided when a read quorum has voted.
    RegisterDecidesByReadQuorum = 210,
    /// A sealed member goes on answering.
    RegisterSealedAnswers = 211,
    /// A listing says what one member holds.
    RegisterListsFromOne = 212,
    /// What was confirmed of a version counts for the one that takes its place.
    RegisterConfirmedForOthers = 213,
    /// What was confirmed at the sizes of one configuration is read at those of the next without a look back.
    RegisterConfirmedForEver = 214,
    /// A router goes on reading at members once its lease is over.
    RouterLeaseIgnored = 301,
    /// A router confirms a recall and takes no notice of it.
    RouterIgnoresRecall = 302,
    /// A router takes a kgroup for stable while it waits for a write of its own.
    RouterWritesUncounted = 303,
}

impl Planted {
    /// In Multi-Paxos.
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

    /// In members that have forgotten what they said.
    pub const IN_READMISSION: [Planted; 1] = [Planted::ReadmittedWithoutValues];

    /// In members that are replaced.
    pub const IN_SEATS: [Planted; 2] = [Planted::ReadmittedWithoutValues, Planted::ReadmittedWithoutPromises];

    /// In chains.
    pub const IN_CHAIN: [Planted; 14] = [
        Planted::ChainLeaseIgnored,
        Planted::ChainRepairTooShort,
        Planted::ChainAcknowledgementOvertakes,
        Planted::ChainActivatesEarly,
        Planted::ChainOldEpochAccepted,
        Planted::ChainForwardsBeforeDurable,
        Planted::ChainReadsBeforeLevel,
        Planted::ChainRejoinKeepsSuffix,
        Planted::ChainJoinedTooEarly,
        Planted::ChainAdoptedNotPersisted,
        Planted::ChainJoinedNotPersisted,
        Planted::ChainJoinedBelowFloor,
        Planted::ChainRemovalForgetsDecided,
        Planted::ChainDecidesBeforeDurable,
    ];

    /// In registers, likewise.
    pub const IN_REGISTER: [Planted; 11] = [
        Planted::RegisterNoWriteBack,
        Planted::RegisterOldConfigurationOnly,
        Planted::RegisterForgetsEarly,
        Planted::RegisterTagReused,
        Planted::RegisterRetiresEarly,
        Planted::RegisterAnswersBeforeDurable,
        Planted::RegisterSmallerReadQuorum,
        Planted::RegisterExpiryTakesNewTag,
        Planted::RegisterListsFromOne,
        Planted::RegisterConfirmedForOthers,
        Planted::RegisterConfirmedForEver,
    ];

    /// In reads through routers.
    pub const IN_ROUTING: [Planted; 3] =
        [Planted::RouterLeaseIgnored, Planted::RouterIgnoresRecall, Planted::RouterWritesUncounted];

    /// In registers whose members decide their successors.
    pub const IN_SUCCESSION: [Planted; 2] = [Planted::RegisterVoteUntold, Planted::RegisterDecidesByReadQuorum];
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
