//! How a volume executes changes of own groups that there are: other members, other quorums, another protocol.
//!
//! A register that stays one gets a successor beside it, and clients go on. Any other group is stopped, and what it has come to
//! begins another one, of another number, in the slot in which the volume takes it back: see docs/decisions/0027.

use quorate_object::is_string;

use crate::machine::Machine;
use crate::quorum::{QUORUM_OF_OTHERS, Quorum};
use crate::record::{GroupRecord, STILL_CHANGING};
use crate::replica::Protocol;
use crate::shunned::SHUNNED;
use crate::volume::{Change, MoveOff, OwnRecord, Plan, Record, Renewed, rotated};

const NO_OWN: &str = "ERR the key has no group of its own: QUORATE GROUP PROMOTE gives it one";
pub(crate) const OUTSIDE: &str = "ERR MEMBERS of a chain or a register must be among those of the key's volume";

impl Record {
    /// What its object goes into once it has come back as this. One that is no string by then goes into no register: a group like
    /// the one that has ended goes on with it.
    pub(crate) fn becoming(&self, object: Option<&[u8]>) -> Option<Box<Plan>> {
        let plan = self.becomes.clone()?;
        if !plan.protocol.is_register() || object.is_none_or(is_string) {
            return Some(plan);
        }
        let (protocol, members) = (self.protocol(), self.place.home());
        Some(Box::new(Plan { protocol, members, quorum: Quorum::default(), ..*plan }))
    }
}

impl Machine {
    pub(crate) fn change_own(&mut self, name: &[u8], change: &Change) -> Result<(), String> {
        let record = self.record_of(name).ok_or(NO_OWN)?;
        let protocol = change.protocol.unwrap_or(record.protocol());
        if change.members.as_deref().is_some_and(|members| self.shuns(members)) {
            return Err(SHUNNED.into());
        }
        if change.quorum.is_some() && !protocol.is_register() {
            return Err(QUORUM_OF_OTHERS.into());
        }
        let members = change.members.clone().unwrap_or_else(|| record.place.home());
        if protocol != Protocol::Paxos && !members.iter().all(|member| change.of_volume.contains(member)) {
            return Err(OUTSIDE.into());
        }
        let stays = protocol == record.protocol() && !record.stopping;
        let is_as_said = change.quorum.is_none() && members == record.place.home();
        if stays && is_as_said {
            return Ok(());
        }
        if protocol.is_register() && record.protocol().is_register() {
            return self.move_register(name, change.members.as_deref(), change.quorum);
        }
        // As it would have been without any that are named.
        let is_volumes = change.members.is_none() && members == rotated(&change.of_volume, record.number);
        let members = if is_volumes { Vec::new() } else { members };
        let quorum = change.quorum.unwrap_or_default();
        if protocol.is_register() {
            quorum.check(if members.is_empty() { change.of_volume.len() } else { members.len() }, 0)?;
        }
        let (volume, of_volume) = (change.volume, change.of_volume.clone());
        let plan = Box::new(Plan { protocol, members, quorum, volume, of_volume });
        if self.concerns_held(&plan) {
            return Err(STILL_CHANGING.into());
        }
        if !self.fits(&plan) {
            return Err(OUTSIDE.into());
        }
        match &record.becomes {
            Some(decided) if *decided == plan => Ok(()),
            _ if record.stopping || record.led().is_some_and(GroupRecord::is_moving) || self.starts_too_much() => {
                Err(STILL_CHANGING.into())
            }
            _ => {
                self.begin_to_stop(name, Record { becomes: Some(plan), ..record });
                Ok(())
            }
        }
    }

    /// Whether a group like this would be led on a node that is about to leave the volume.
    fn concerns_held(&self, plan: &Plan) -> bool {
        let held = self.children().and_then(|children| children.held.as_ref());
        held.is_some_and(|held| plan.protocol != Protocol::Paxos && plan.led_members().contains(&held.leaving))
    }

    /// The group of this number ends, and another one goes on in its place with the same members, protocol and quorums.
    pub(crate) fn renew_own(&mut self, number: u64, name: &[u8], renewed: &Renewed) -> Result<(), String> {
        let is_meant = |record: &Record| record.number == number && !record.stopping;
        let record = self.record_of(name).filter(is_meant).ok_or("ERR the group is over")?;
        if record.led().is_some_and(GroupRecord::is_moving) || self.starts_too_much() {
            return Err(STILL_CHANGING.into());
        }
        let home = record.place.home();
        let quorum = record.led().map(GroupRecord::quorum).unwrap_or_default();
        let (volume, of_volume) = (renewed.volume, renewed.of_volume.clone());
        let plan = Plan { protocol: record.protocol(), members: Vec::new(), quorum, volume, of_volume };
        // Whoever asks may know others as the volume's than there are.
        let is_volumes = home.is_empty() || home == rotated(&renewed.of_volume, number) && self.fits(&plan);
        let plan = if is_volumes { plan } else { Plan { members: home, ..plan } };
        self.begin_to_stop(name, Record { becomes: Some(Box::new(plan)), ..record });
        Ok(())
    }

    /// Other nodes take the places of members that are to leave. An operator's change that came before counts.
    pub(crate) fn move_off(&mut self, group: &MoveOff, volume: u64, of_volume: &[u32]) -> Result<(), String> {
        let MoveOff { number, name, places } = group;
        let is_meant = |record: &Record| record.number == *number && !record.stopping;
        let record = self.record_of(name).filter(is_meant).ok_or("ERR the group is over")?;
        let mut members = record.place.home();
        for (from, to) in places {
            let at = members.iter().position(|member| member == from).filter(|_| !members.contains(to));
            members[at.ok_or("ERR it has other members by now")?] = *to;
        }
        let of_volume = of_volume.to_vec();
        let change = Change { protocol: None, members: Some(members), quorum: None, volume, of_volume };
        self.change_own(name, &change)
    }

    pub(crate) fn move_register(
        &mut self,
        name: &[u8],
        members: Option<&[u32]>,
        quorum: Option<Quorum>,
    ) -> Result<(), String> {
        const NOT_A_REGISTER: &str = "ERR the key has no group of its own of PROTOCOL register, whose members and \
                                      quorums could be changed: QUORATE GROUP PROMOTE key PROTOCOL register makes one";
        let mut record = self.record_of(name).ok_or(NOT_A_REGISTER)?;
        let OwnRecord::Led { protocol: Protocol::Register, record: led } = &mut record.place else {
            return Err(NOT_A_REGISTER.into());
        };
        if led.is_moving() || record.stopping {
            return Err(STILL_CHANGING.into());
        }
        if members.is_some_and(|members| self.shuns(members)) {
            return Err(SHUNNED.into());
        }
        let quorum = quorum.unwrap_or(led.quorum());
        if members.is_none() && (led.quorum().is_grid() || quorum.is_grid()) {
            return Err(
                "ERR the sizes of a grid's quorums are its shape: QUORATE GROUP MOVE gives a group another one".into(),
            );
        }
        let members = members.unwrap_or(&led.members).to_vec();
        quorum.check(members.len(), 0)?;
        let held = self.children().and_then(|children| children.held.as_ref());
        if held.is_some_and(|held| members.contains(&held.leaving)) {
            return Err(STILL_CHANGING.into());
        }
        let protocol = Protocol::Register;
        if !self.fits(&Plan { protocol, members: members.clone(), ..Plan::plain() }) {
            return Err(OUTSIDE.into());
        }
        if members != led.members || quorum != led.quorum() {
            led.follow(members, quorum);
            self.write_record(name, record);
        }
        Ok(())
    }
}

impl OwnRecord {
    /// The members that it was made with, or that it moved to; empty if they are the volume's.
    pub(crate) fn home(&self) -> Vec<u32> {
        match self {
            OwnRecord::Paxos { members } => members.clone(),
            OwnRecord::Led { protocol, record } if protocol.is_chain() => record.home.clone(),
            OwnRecord::Led { record, .. } => record.members.clone(),
        }
    }
}
