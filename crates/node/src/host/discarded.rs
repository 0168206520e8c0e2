//! Machines and objects that are of no use any more. To free the memory of a million objects takes some 20 ms, in which nobody
//! would be answered, and of very many so long that other nodes would come to suspect this one; so the environment has that
//! done where nobody waits for it.

use super::Host;
use crate::machine::Machine;

/// A machine with no more objects is dropped at once.
const FEW: usize = 4096;

/// Whatever it is, all that is left to do is to drop it.
pub type Discarded = Box<dyn Send>;

impl Host {
    /// What is to be dropped, best by another thread. What is not taken by the next turn is dropped here.
    pub fn take_discarded(&mut self) -> Vec<Discarded> {
        std::mem::take(&mut self.discarded)
    }

    pub(super) fn discard(&mut self, machine: Machine) {
        if machine.objects().is_some_and(|objects| objects.count() > FEW) {
            self.discarded.push(Box::new(machine));
        }
    }

    /// What the group's objects have left that were deleted at once.
    pub(super) fn discard_deleted(&mut self, index: u32) {
        let objects = self.groups.get_mut(index as usize).and_then(|group| group.machine.objects_mut());
        if let Some(discarded) = objects.and_then(|objects| objects.take_discarded()) {
            self.discarded.push(discarded);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_checkpoint::Batch;
    use quorate_object::{Command, Condition, Expiry, Objects, SetAnswer};
    use quorate_protocol::{Instant, Stamp};
    use quorate_wal::memory::MemoryStorage;

    use super::*;
    use crate::Moment;
    use crate::entry::Target;
    use crate::host::dispatch::tests::{first_of, settle};
    use crate::host::{Group, Submission};
    use crate::root::ROOT;

    fn fill(group: &mut Group) {
        let objects = group.machine.objects_mut().expect("of a volume");
        for number in 0..=FEW {
            let (condition, expiry, answer) = (Condition::Always, Expiry::Unset, SetAnswer::Ok);
            objects.run(&Command::Set { key: &number.to_le_bytes(), value: b"v", condition, expiry, answer }, 1, 0);
        }
    }

    #[test]
    fn what_is_deleted_at_once_is_handed_out_and_otherwise_dropped_in_the_next_turn() {
        let mut host = first_of(1);
        settle(&mut host);
        let volume = host.groups().map(Group::id).find(|group| *group != ROOT).expect("it is born");
        let index = host.find(volume).expect("it is here");
        fill(&mut host.groups[index as usize]);
        let target = Target::Volume { namespace: 0, index: 0 };
        host.submit(Submission { number: 1, predecessor: None, target, command: &Command::Flush });
        let (mut storage, mut turn, mut taken) = (MemoryStorage::default(), 0, Vec::new());
        while taken.is_empty() {
            turn += 1;
            assert!(turn < 100, "nothing is handed out");
            host.begin(Moment { now: Instant(3_000_000 + turn * 10_000), wall: Stamp(1_700_000_002_000 + turn * 10) });
            host.end(&storage);
            if let Some(submission) = host.log_mut().submit() {
                submission.perform(&mut storage).expect("it has room");
                host.flushed(submission.lsn);
            }
            taken = host.take_discarded();
        }
        assert_eq!((taken.len(), host.groups[index as usize].machine.objects().map(Objects::count)), (1, Some(0)));
        fill(&mut host.groups[index as usize]);
        host.drop_group(volume, &mut Batch::new());
        assert_eq!(host.discarded.len(), 1);
        host.begin(Moment { now: Instant(9_000_000), wall: Stamp(1_700_000_009_000) });
        assert!(host.take_discarded().is_empty());
    }
}
