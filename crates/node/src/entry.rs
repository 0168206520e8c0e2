//! The operations that this node's clients wait for.
//!
//! Numbers rise by one from one operation to the next, so that a ring finds each without hashing. Every operation is
//! kept with its encoded command until it is answered or its deadline has passed, since only the entry node sends a
//! command again, under the same ticket.

use std::collections::VecDeque;

use quorate_protocol::{GroupId, Instant, NodeId, Slot, Stamp};

use crate::envelope::Envelope;
use crate::frame::Access;
use crate::host::{RoutedRead, RoutedWrite};
use crate::own_place::OwnPlace;
use crate::volume::volume_of;

/// Operations kept at once; beyond it clients are asked to try again.
pub const OPERATION_COUNT_MAX: usize = 1 << 20;
/// Bytes of their commands: with more, no other is taken before some are answered.
pub const OPERATION_BYTES_MAX: usize = 256 << 20;

/// What a new buffer for a command has room for.
const BUFFER_BYTES: usize = 128;

/// What an operation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Slot { namespace: u32, slot: u16 },
    Volume { namespace: u32, index: u32 },
    Root,
}

#[derive(Debug)]
pub struct Operation {
    pub number: u64,
    pub target: Target,
    /// The own group of its object, as far as known; without, the volume is asked.
    pub own: Option<Box<OwnPlace>>,
    /// The group that it was sent to last.
    pub was_sent_to: Option<GroupId>,
    /// A write to a register that this node may have carried out in this start of its: elsewhere it would be another write.
    pub bound_to: Option<(NodeId, u32)>,
    /// It was sent to another group before.
    pub has_moved: bool,
    /// The number of the latest own group of its object that a volume has told of, and the latest slot at which one did.
    pub away_number: Option<u64>,
    pub away_at: Option<Slot>,
    /// An own group that ends, and that it waits for.
    pub awaits: Option<GroupId>,
    /// An own group that is a register and has refused it, which holds if its object is to stay there: the volume is asked.
    pub refused_by: Option<GroupId>,
    /// The read before it was answered by another group: slots do not tell which answer is older.
    pub is_doubtful: bool,
    /// Another operation asks in its place, and its answer counts.
    pub is_asked_anew: bool,
    /// It is not sent before its predecessor is answered, whatever the two are: its group orders nothing.
    pub in_turn: bool,
    pub access: Access,
    /// When whoever asked is told that there is no answer.
    pub give_up_at: Instant,
    /// The connection's latest operation on the same object that was unanswered when this one came; 0 if none.
    pub predecessor: u64,
    /// The one that names this as its predecessor, if there is one.
    pub successor: Option<u64>,
    /// Not sent while its predecessor is unanswered.
    pub parked: bool,
    /// When it will be sent again, if that is wished for.
    pub retry_at: Option<Instant>,
    /// The read before it saw the group's history up to here: an answer from before is too old.
    pub not_before: Slot,
    pub envelope: Vec<u8>,
    /// How long the envelope is, also while it is being sent.
    pub envelope_length: usize,
    /// The coordinator that was asked last had too much waiting.
    pub is_overload: bool,
    pub sent_to: Option<NodeId>,
    /// Who coordinates, in the words of the node that was asked last; it may know more than the replica here.
    pub told: Option<NodeId>,
    pub sent_at: Instant,
    /// Copies sent that may have been executed, for all that we have heard.
    pub copies_at_large: u32,
    /// How often it was sent, or since [`Operation::count_anew`].
    pub attempts: u32,
    /// Of a write that this node's router counts until it is answered.
    pub(crate) routed_write: Option<RoutedWrite>,
    /// Of a read that was sent to another member than the coordinator.
    pub(crate) routed_read: Option<RoutedRead>,
    /// Answers other than the plain one that somebody waits for.
    pub purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Client,
    /// The node's own question to the root.
    Directory,
    /// An administrative command of a client's operation.
    Admin {
        operation: u64,
    },
    /// A parent's business with its groups: whoever asked looks at what has become of it.
    Settling,
    /// A move of a replica that whoever coordinates the root has planned.
    Placing,
    /// The same, of this volume and of no other that has taken its place.
    OfVolume {
        volume: GroupId,
    },
    /// Own groups of this volume are to begin anew.
    Renewed {
        volume: GroupId,
    },
    /// A volume is to say that no own group names a node which is to be removed.
    Shunned {
        removal: u64,
        volume: GroupId,
    },
    /// Own groups of this volume are to leave nodes that are to be emptied.
    MovedOff {
        volume: GroupId,
    },
    /// What an own group had come to when it stopped: once the volume has answered, the group is over.
    Returned {
        group: GroupId,
    },
    /// What there is of own groups of a volume that is not here.
    Words {
        volume: GroupId,
    },
    /// The same question once more, for an operation whose answers may be too old.
    Again {
        operation: u64,
    },
    /// The deletion of a volume's objects, for a client's operation.
    Flush {
        operation: u64,
        namespace: u32,
        volume: u32,
    },
    /// The names of those that have groups of their own.
    FlushedNames {
        flush: u64,
    },
    /// The deletion of one that has a group of its own.
    FlushedName {
        flush: u64,
    },
    /// A part of an administrative command on many names.
    Batch {
        batch: u64,
        part: u32,
    },
    /// What one of these names is, before it may become something else.
    Type {
        batch: u64,
        at: usize,
    },
}

impl Purpose {
    /// The only volume that is meant, where the namespace may have been dropped and made anew meanwhile.
    pub(crate) fn volume(self) -> Option<GroupId> {
        match self {
            Purpose::OfVolume { volume }
            | Purpose::Renewed { volume }
            | Purpose::MovedOff { volume }
            | Purpose::Shunned { volume, .. }
            | Purpose::Words { volume } => Some(volume),
            Purpose::Returned { group } => volume_of(group).map(|(volume, _)| volume),
            _ => None,
        }
    }
}

/// What is left to do for an operation that has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub predecessor: u64,
    pub successor: Option<u64>,
    /// It was under way when the one before it was answered, or that one was so.
    pub follows: bool,
    /// A member of a register may have carried it out: nothing orders it with what follows.
    pub was_bound: bool,
    pub(crate) routed_write: Option<RoutedWrite>,
    pub purpose: Purpose,
}

/// One ring of operations, numbered from `base`.
#[derive(Debug)]
pub struct Operations {
    base: u64,
    ring: VecDeque<Option<Operation>>,
    count: usize,
    /// Of all envelopes.
    bytes: usize,
    spare: Vec<Vec<u8>>,
}

impl Operations {
    pub fn new(first_number: u64) -> Operations {
        Operations { base: first_number, ring: VecDeque::new(), count: 0, bytes: 0, spare: Vec::new() }
    }

    pub fn is_full(&self) -> bool {
        self.count >= OPERATION_COUNT_MAX
            || self.ring.len() >= 8 * OPERATION_COUNT_MAX
            || self.bytes >= OPERATION_BYTES_MAX
    }

    /// How many have no answer yet.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The oldest that has no answer yet.
    pub fn oldest(&self) -> Option<u64> {
        (!self.ring.is_empty()).then_some(self.base)
    }

    pub fn number_next(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// A buffer for an envelope; it comes back with the operation.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Numbers must rise; those passed over are not operations.
    pub fn insert(&mut self, operation: Operation) {
        assert!(operation.number >= self.number_next(), "{} after {}", operation.number, self.number_next());
        if self.ring.is_empty() {
            self.base = operation.number;
        }
        while self.number_next() < operation.number {
            self.ring.push_back(None);
        }
        self.bytes += operation.envelope_length;
        self.ring.push_back(Some(operation));
        self.count += 1;
    }

    pub fn find_mut(&mut self, number: u64) -> Option<&mut Operation> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.ring.get_mut(at)?.as_mut()
    }

    pub fn find(&self, number: u64) -> Option<&Operation> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        self.ring.get(at)?.as_ref()
    }

    pub fn contains(&self, number: u64) -> bool {
        self.find(number).is_some()
    }

    /// Takes an operation out: it has its answer.
    pub fn take(&mut self, number: u64) -> Option<Taken> {
        let at = usize::try_from(number.checked_sub(self.base)?).ok()?;
        let place = self.ring.get_mut(at)?;
        let operation = place.as_mut()?;
        let Operation { predecessor, successor, purpose, bound_to, routed_write, .. } = *operation;
        let follows = operation.is_doubtful || operation.not_before > Slot(0);
        let envelope = std::mem::take(&mut operation.envelope);
        self.count -= 1;
        self.bytes -= operation.envelope_length;
        *place = None;
        self.recycle(envelope);
        while self.ring.front().is_some_and(Option::is_none) {
            self.ring.pop_front();
            self.base += 1;
        }
        Some(Taken { predecessor, successor, follows, was_bound: bound_to.is_some(), routed_write, purpose })
    }

    /// The oldest operation, if it is to be given up.
    pub fn overdue(&self, now: Instant) -> Option<u64> {
        let oldest = self.ring.front()?.as_ref()?;
        (oldest.give_up_at <= now).then_some(oldest.number)
    }

    pub fn give_up_at(&self) -> Option<Instant> {
        Some(self.ring.front()?.as_ref()?.give_up_at)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.ring.iter().flatten()
    }

    /// Takes a buffer back. One that is empty was lent out, and comes back by itself.
    pub fn recycle(&mut self, mut buffer: Vec<u8>) {
        const SPARE_COUNT_MAX: usize = 4096;
        const SPARE_BYTES_MAX: usize = 4096;
        if self.spare.len() < SPARE_COUNT_MAX && (1..=SPARE_BYTES_MAX).contains(&buffer.capacity()) {
            buffer.clear();
            self.spare.push(buffer);
        }
    }
}

impl Access {
    fn is_read(self) -> bool {
        self != Access::Write
    }

    /// Whether a command must not leave before the one before it on its connection and object is answered.
    ///
    /// A write behind a write leaves at once: it names its predecessor, and is not executed before it. A read behind a
    /// read leaves at once too: an answer that overtakes, or is from before what the first one saw, is thrown away, and
    /// the read is sent again. A read and a write know nothing of each other, so the second waits.
    pub(crate) fn waits_for(self, predecessor: Access) -> bool {
        self.is_read() != predecessor.is_read()
    }
}

impl Operation {
    /// Without a predecessor, and with nothing known of its object.
    pub fn unsent(number: u64, target: Target, access: Access, envelope: Vec<u8>, purpose: Purpose) -> Operation {
        Operation {
            number,
            target,
            own: None,
            was_sent_to: None,
            bound_to: None,
            has_moved: false,
            away_number: None,
            away_at: None,
            awaits: None,
            refused_by: None,
            is_doubtful: false,
            is_asked_anew: false,
            in_turn: false,
            access,
            give_up_at: Instant(0),
            predecessor: 0,
            successor: None,
            parked: false,
            retry_at: None,
            not_before: Slot(0),
            envelope_length: envelope.len(),
            envelope,
            is_overload: false,
            sent_to: None,
            told: None,
            sent_at: Instant(0),
            copies_at_large: 0,
            attempts: 0,
            routed_write: None,
            routed_read: None,
            purpose,
        }
    }

    /// Until when it may be executed, in group time: the same for all copies, so that a result can be forgotten. Given
    /// with the first copy, when this node's clock is known to be right.
    pub fn set_deadline_once(&mut self, now: Instant, stamp: Stamp) {
        if self.attempts == 0 {
            let wait_ms = self.give_up_at.0.saturating_sub(now.0) / 1000;
            Envelope::set_deadline(&mut self.envelope, Stamp(stamp.0 + wait_ms));
        }
    }

    /// Its object's own group ends, or there is a new one. Whoever waited the longer the more of them it has missed would
    /// find none alive where they live briefly.
    pub fn count_anew(&mut self) {
        self.attempts = self.attempts.min(1);
    }

    /// Names the predecessor that is still unanswered, or none, in the encoded command.
    pub fn set_predecessor(&mut self, unanswered: bool) {
        let distance = self.number.saturating_sub(self.predecessor);
        let named = if unanswered && self.predecessor != 0 { u32::try_from(distance).unwrap_or(0) } else { 0 };
        Envelope::set_predecessor(&mut self.envelope, named);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(number: u64) -> Operation {
        let unsent = Operation::unsent(number, Target::Root, Access::Write, vec![0; 32], Purpose::Client);
        Operation { give_up_at: Instant(number), ..unsent }
    }

    #[test]
    fn operations_are_found_by_number_whatever_order_they_are_answered_in() {
        let mut operations = Operations::new(1);
        for number in [1, 2, 5, 6] {
            operations.insert(operation(number));
        }
        assert!(!operations.contains(3));
        let taken = Taken {
            predecessor: 0,
            successor: None,
            follows: false,
            was_bound: false,
            routed_write: None,
            purpose: Purpose::Client,
        };
        assert_eq!(operations.take(2), Some(taken));
        assert!(operations.take(2).is_none());
        assert!(operations.contains(6));
        assert_eq!(operations.overdue(Instant(2)), Some(1));
        operations.take(1);
        assert_eq!(operations.overdue(Instant(9)), Some(5));
        operations.take(6);
        operations.take(5);
        assert_eq!((operations.count, operations.bytes), (0, 0));
        assert_eq!((operations.count, operations.overdue(Instant(99))), (0, None));
        operations.insert(operation(100));
        assert!(operations.contains(100) && !operations.contains(1));
    }

    #[test]
    fn a_buffer_is_used_again_also_if_the_answer_came_while_it_was_being_sent() {
        let mut operations = Operations::new(1);
        let mut buffer = operations.buffer();
        buffer.extend_from_slice(&[7; 300]);
        let memory = buffer.as_ptr();
        operations.insert(Operation { envelope: buffer, ..operation(1) });
        let lent = std::mem::take(&mut operations.find_mut(1).unwrap().envelope);
        operations.take(1);
        operations.recycle(lent);
        let again = operations.buffer();
        assert!(again.is_empty() && again.as_ptr() == memory);
        let other = operations.buffer();
        assert_ne!(other.as_ptr(), memory, "kept once");
    }

    #[test]
    fn what_is_kept_for_clients_is_bounded_in_bytes() {
        let mut operations = Operations::new(1);
        let half = OPERATION_BYTES_MAX / 2;
        operations.insert(Operation { envelope_length: half, ..operation(1) });
        operations.insert(Operation { envelope_length: half - 1, ..operation(2) });
        assert!(!operations.is_full());
        operations.insert(Operation { envelope_length: 1, ..operation(3) });
        assert!(operations.is_full());
        operations.take(2);
        assert!(!operations.is_full());
    }
}
