//! What a parent's coordinator proposes there by itself: that it takes office, and changes of chains under it.

use quorate_protocol::{Ballot, GroupId, Stamp};

use super::super::Host;
use super::PROPOSAL;
use crate::envelope::{Envelope, NOTHING_SETTLED, Ticket};
use crate::office::Office;
use crate::root::{ROOT, RootCommand};
use crate::volume::VolumeCommand;

/// A command to take office that may still be executed.
pub(super) struct Taking {
    pub number: u64,
    deadline: Stamp,
}

impl Host {
    /// Whether whoever coordinates this parent, here, is in office; if not, it is about to be.
    pub(super) fn takes_office(&mut self, index: u32, parent: GroupId) -> bool {
        let Some(ballot) = self.ballot_coordinated(index) else { return false };
        let now = self.clock.now();
        self.terms.note_coordinated(parent, Some(ballot), now);
        let office = Office::from(ballot);
        if self.groups[index as usize].machine.office() == office {
            return true;
        }
        let stamp = self.clock.stamp();
        let coordinated = self.terms.coordinated.get(&parent);
        let is_taking = coordinated.and_then(|known| known.taking.as_ref()).is_some_and(|it| stamp <= it.deadline);
        if !is_taking {
            let mut command = Vec::new();
            match parent {
                ROOT => RootCommand::TakeOffice { office }.encode(&mut command),
                _ => VolumeCommand::TakeOffice { office }.encode(&mut command),
            }
            let (number, deadline) = self.propose_here(index, &command);
            if let Some(coordinated) = self.terms.coordinated.get_mut(&parent) {
                coordinated.taking = Some(Taking { number, deadline });
            }
        }
        false
    }

    /// At which ballot this replica coordinates.
    pub(in crate::host) fn ballot_coordinated(&self, index: u32) -> Option<Ballot> {
        let replica = self.groups[index as usize].replica.paxos()?;
        replica.is_coordinating().then(|| replica.position().promised)
    }

    /// Not as a client's command, which another coordinator might execute without knowing of the terms that were given here.
    /// Its number, and until when it may be executed.
    pub(super) fn propose_here(&mut self, index: u32, command: &[u8]) -> (u64, Stamp) {
        self.terms.proposal_count += 1;
        let number = PROPOSAL | self.terms.proposal_count;
        let deadline = Stamp(self.clock.stamp().0 + self.settings.timeout_ms);
        let ticket = Ticket { node: self.settings.node, start: self.settings.start, number };
        let mut envelope = Vec::new();
        Envelope::encode(ticket, deadline, 0, NOTHING_SETTLED, |out| out.extend_from_slice(command), &mut envelope);
        self.gather(index, &envelope);
        (number, deadline)
    }
}
