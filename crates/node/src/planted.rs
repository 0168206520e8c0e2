//! Bugs planted on purpose, one at a time, to show that the simulator's general checks find them.
//!
//! Without the feature `planted` the question is a constant and the compiler removes what depends on it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Planted {
    /// A command sent again is executed again.
    SessionForgotten = 1,
    /// A command is executed although the one before it on its connection was not.
    PipelineOrderIgnored,
    /// A late copy of a command that nobody waits for is executed once what it was answered is forgotten.
    SettledRunsAgain,
    /// What waits for the disk does not wait.
    DurableSentAtOnce,
    /// A checkpoint claims one slot more than it holds.
    CheckpointAhead,
    /// A read past a deadline is answered before the expiry is decided.
    ExpiryIgnored,
    /// A snapshot leaves out what was executed before it.
    SnapshotWithoutResults,
    /// A node believes its wall clock, whatever the others' show.
    EveryClockTrusted,
    /// What a group needs of an old segment is not carried on when the segment goes.
    CarriedRecordDropped,
    /// What is left in the log of a quarantined replica is not carried on: it holds on to the log's old end.
    QuarantinedPinsLog,
    /// An object that gets a group of its own leaves behind what was executed on it.
    PromoteLosesResults,
    /// An own group speaks before its birth is on disk.
    BornTooEarly,
    /// What was executed in an own group is forgotten when its object comes back.
    ReturnLosesResults,
    /// An own group comes to rest although the store holds an older state of it.
    RestsBeforeItIsStored,
    /// What a checkpoint that took several turns claims to hold is what was executed at its end.
    PositionOfTheEnd,
    /// A snapshot that is read from the store goes on although another checkpoint has come.
    PagesOfTwoCheckpoints,
    /// The names of own groups leave memory before the checkpoint store has them.
    SwapsBeforeItIsStored,
    /// A group that was paused does not know what it has promised when it wakes.
    WakeForgetsPromise,
    /// A group without a quorum is paused without what it has accepted.
    PausedLosesAccepted,
    /// Whatever epoch of a chain a node asks about is confirmed to it.
    AnyEpochConfirmed,
    /// A chain's head does not look for a command among its updates in flight before it executes it.
    AheadForgetsOutcomes,
    /// A member of a chain that is to stand behind the tail is left out while it may answer reads.
    TurnedWhileBound,
    /// An own chain comes to rest with updates in flight.
    ChainRestsInFlight,
    /// A write to a register that one member may have carried out is asked of another.
    RegisterAskedElsewhere,
    /// A member carries out a write that was meant for an earlier start of its node.
    RegisterStartIgnored,
    /// A checkpoint leaves out the versions that were stored last.
    RegisterVersionsUnsaved,
    /// A pipeline of writes to one register leaves at once.
    RegisterOutOfTurn,
    /// A write that a member of an own register may have carried out is asked of the volume once the register has ended.
    OwnRegisterUnbound,
    /// A pipeline of writes to one own register leaves at once.
    OwnRegisterOutOfTurn,
    /// A volume gives up what own groups begin with as soon as one member has it.
    CompletedByOne,
    /// A command whose body is missing where it is referred to is taken to be empty.
    BodyLeftOut,
    /// Where members decide: a member goes that only the newest configuration does not name ...
    MemberLeavesEarly,
    /// ... and is born again, in an epoch of which it has forgotten what it said.
    MemberBornAgain,
    /// A volume gives up what an own group begins with before members that have no replica of the volume have it.
    CompletedWithoutOutside,
    /// A member of a chain that has forgotten what it said begins anew although it has not been left out.
    ForgottenChainTooEarly,
    /// A replica that has forgotten what it said votes again once one other member has testified ...
    ReadmittedByOne,
    /// ... or before it has executed what they had.
    ReadmittedBehind,
    /// A node whose directory is new in place of one that was lost takes its groups for new as well.
    LostGroupsBornAnew,
    /// Own groups that a replica of their volume had forgotten are born again where that executes their births once more.
    ForgottenBirthsExecuted,
    /// What was on its way from a volume when an own group ended at a node bears that group there once more.
    OutsideBornAgain,
    /// A member answers a router before it has executed what it would have to.
    RoutedReadTooEarly,
    /// Whoever comes to coordinate does not wait until sessions that others have granted are over.
    RoutedWriteTooEarly,
    /// A kgroup is shared while a write on it is in hand.
    SharedWhileWritten,
    /// Who takes a seat takes part at once.
    SeatWithoutTestimonies,
    /// A member that was away from its seat takes part with what it knew.
    SeatTakenTwice,
    /// A seat changes hands while own groups go by whoever the volume's members are.
    SeatBeforeClear,
    /// Who does not know where the root is, is not told.
    RootNotTold,
    /// Who is to come into the root applies its log to nothing.
    RootLogOnNothing,
}

impl Planted {
    /// In chains.
    pub const IN_CHAIN: [Planted; 3] =
        [Planted::AnyEpochConfirmed, Planted::AheadForgetsOutcomes, Planted::TurnedWhileBound];

    /// In registers.
    pub const IN_REGISTER: [Planted; 4] = [
        Planted::RegisterAskedElsewhere,
        Planted::RegisterStartIgnored,
        Planted::RegisterVersionsUnsaved,
        Planted::RegisterOutOfTurn,
    ];

    /// In own groups that their volume leads.
    pub const IN_LED: [Planted; 4] = [
        Planted::OwnRegisterUnbound,
        Planted::OwnRegisterOutOfTurn,
        Planted::CompletedByOne,
        Planted::ChainRestsInFlight,
    ];

    /// In registers whose members decide.
    pub const IN_SUCCESSION: [Planted; 2] = [Planted::MemberLeavesEarly, Planted::MemberBornAgain];

    /// In replicas that have forgotten what they said.
    pub const IN_READMISSION: [Planted; 4] = [
        Planted::ReadmittedByOne,
        Planted::ReadmittedBehind,
        Planted::LostGroupsBornAnew,
        Planted::ForgottenBirthsExecuted,
    ];

    /// In members of chains that have forgotten what they said.
    pub const IN_FORGETFUL_CHAINS: [Planted; 1] = [Planted::ForgottenChainTooEarly];

    /// In own groups with members that have no replica of the volume.
    pub const IN_OUTSIDE: [Planted; 2] = [Planted::CompletedWithoutOutside, Planted::OutsideBornAgain];

    /// In volumes whose members are replaced.
    pub const IN_SEATS: [Planted; 3] =
        [Planted::SeatWithoutTestimonies, Planted::SeatTakenTwice, Planted::SeatBeforeClear];

    /// In the root's own seats.
    pub const IN_ROOT: [Planted; 2] = [Planted::RootNotTold, Planted::RootLogOnNothing];

    /// In reads through routers.
    pub const IN_ROUTING: [Planted; 3] =
        [Planted::RoutedReadTooEarly, Planted::RoutedWriteTooEarly, Planted::SharedWhileWritten];

    /// In commands that come when nobody waits for them any more.
    pub const IN_LATENESS: [Planted; 1] = [Planted::SettledRunsAgain];

    /// In replicas that were given up.
    pub const IN_QUARANTINE: [Planted; 1] = [Planted::QuarantinedPinsLog];

    pub const ALL: [Planted; 18] = [
        Planted::SessionForgotten,
        Planted::PipelineOrderIgnored,
        Planted::DurableSentAtOnce,
        Planted::CheckpointAhead,
        Planted::PositionOfTheEnd,
        Planted::PagesOfTwoCheckpoints,
        Planted::ExpiryIgnored,
        Planted::SnapshotWithoutResults,
        Planted::EveryClockTrusted,
        Planted::CarriedRecordDropped,
        Planted::PromoteLosesResults,
        Planted::BornTooEarly,
        Planted::ReturnLosesResults,
        Planted::RestsBeforeItIsStored,
        Planted::SwapsBeforeItIsStored,
        Planted::WakeForgetsPromise,
        Planted::PausedLosesAccepted,
        Planted::BodyLeftOut,
    ];
}

#[cfg(feature = "planted")]
mod selected {
    use std::sync::atomic::{AtomicU32, Ordering};

    static SELECTED: AtomicU32 = AtomicU32::new(0);

    /// Plants one bug in this whole process, or none.
    pub fn select(planted: Option<super::Planted>) {
        SELECTED.store(planted.map_or(0, |planted| planted as u32), Ordering::Relaxed);
    }

    pub(crate) fn is(planted: super::Planted) -> bool {
        SELECTED.load(Ordering::Relaxed) == planted as u32
    }
}

#[cfg(feature = "planted")]
pub(crate) use selected::is;
#[cfg(feature = "planted")]
pub use selected::select;

#[cfg(not(feature = "planted"))]
pub(crate) const fn is(_: Planted) -> bool {
    false
}
