//! What a node counts of itself, for metrics and for tests.

use super::DigestCounts;

/// Plain counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub nonsense: u64,
    /// Frames that had arrived before, or so late that nobody can tell.
    pub frames_repeated: u64,
    pub stamps_not_believed: u64,
    pub reads_leased: u64,
    pub slots_applied: u64,
    pub commands_applied: u64,
    pub snapshots_sent: u64,
    /// Those of them that were read from the store.
    pub snapshots_copied: u64,
    pub snapshots_installed: u64,
    pub learned_sent: u64,
    pub answered_again: u64,
    pub resent: u64,
    pub checkpoints: u64,
    /// Those of them that took several turns.
    pub checkpoints_in_turns: u64,
    /// Those asked for because nobody used the volume any more.
    pub stored_unused: u64,
    /// Groups of which records were appended again, so that an old segment of the log could go.
    pub carried: u64,
    /// Proposals that came back with their fate unknown: the coordinator changed while they were in flight.
    pub uncertain: u64,
    /// What replicas here have said to those of other nodes.
    pub messages_sent: u64,
    /// Promises refused because a lease binds this node.
    pub busy_sent: u64,
    /// Messages of quorum rounds for reads.
    pub confirm_rounds: u64,
    /// Commands that had been executed before, and were answered what they were answered then.
    pub answered_from_window: u64,
    pub out_of_order: u64,
    pub handed_over: u64,
    /// Volumes that this node has handed over to where their commands enter.
    pub followed: u64,
    /// Replicas that were given up because their code panicked.
    pub quarantined: u64,
    /// Replicas that had forgotten what they said and were taken in again.
    pub readmitted: u64,
    /// Seats in volumes of `paxos` that changed hands, as replicas here have followed it, and those that were this node's.
    pub seats_changed: u64,
    pub seats_left: u64,
    /// As the first of these, in the root.
    pub root_seats_changed: u64,
    /// Replicas of chains here that had forgotten what they said, were left out and begin anew.
    pub chains_left: u64,
    /// Reads that panicked.
    pub reads_failed: u64,
    pub own_groups_born: u64,
    pub own_groups_ended: u64,
    /// Own groups that became others, by the volumes' replicas here.
    pub own_groups_changed: u64,
    /// Own groups that began anew because this node's replicas of them could not speak.
    pub own_groups_renewed: u64,
    /// Own groups that this node, where it coordinated their volumes, has had leave nodes that are to be emptied.
    pub own_groups_moved_off: u64,
    /// Replicas of own groups that were born and ended here on their volume's word, without a replica of it.
    pub outside_born: u64,
    pub outside_ended: u64,
    /// Own groups that came to rest, and that were woken.
    pub rested: u64,
    /// Those of them that lacked a quorum for what they had accepted.
    pub paused_stranded: u64,
    pub woken_from_memory: u64,
    pub woken_from_store: u64,
    /// Records of own groups of which only the checkpoint store has the names from then on.
    pub records_swapped: u64,
    /// Records whose names came back.
    pub records_swapped_in: u64,
    /// Configurations of chains that this node has proposed.
    pub chains_changed: u64,
    /// Members of chains that were moved behind the tail.
    pub chains_turned: u64,
    /// Members of chains that are to leave, since others have come in their place.
    pub chains_replaced: u64,
    /// Moves of replicas that this node, where it coordinated the root, has proposed.
    pub moves_planned: u64,
    /// Likewise, away from nodes that were absent.
    pub replicas_replaced: u64,
    /// Nodes that this one, where it coordinated the root, took for absent, and ...
    pub absences: u64,
    /// ... for back.
    pub absences_over: u64,
    /// Configurations of registers that this node has begun to make ready to be retired.
    pub registers_retired: u64,
    /// Own groups that were registers, as far as a replica here told what they ended with.
    pub registers_ended: u64,
    /// Groups of registers that this node was a member of and left: own ones that it has forgotten, and those whose members
    /// decide.
    pub registers_left: u64,
    /// Replicas that came to life on the word of others, where members decide.
    pub members_born: u64,
    /// Tombstones of registers that this node has seen to being forgotten.
    pub tombstones_forgotten: u64,
    /// Reads of registers for which replicas here asked members once, and those for which they asked again or stored first.
    pub register_reads_one_round: u64,
    pub register_reads_more_rounds: u64,
    pub register_messages: crate::register::RegisterMessages,
    /// Reads that members answered for routers, those of them that the router's own replica answered, and those that were
    /// turned back.
    pub reads_routed: u64,
    pub reads_routed_here: u64,
    pub reads_turned_back: u64,
    /// Kgroups that were shared with routers, and recalled.
    pub shared: u64,
    pub recalls_sent: u64,
    /// Reads that members of chains answered without asking.
    pub reads_clean: u64,
    pub digests: DigestCounts,
}
