//! Groups that their parent leads: it says who is in them, and changes that. Volumes of chains and of registers are led by the
//! root, own groups of these protocols by their volume.
//!
//! What the root says is known from the directory. What a volume says is known where a replica of it has executed that, which
//! is on all nodes that its own groups are on.

use std::ops::RangeInclusive;
use std::sync::Arc;

use quorate_protocol::chain::Chain;
use quorate_protocol::{GroupId, Slot, Stamp};

use super::Host;
use crate::entry::Target;
use crate::machine::Content;
use crate::record::GroupRecord;
use crate::replica::{AnyReplica, Protocol};
use crate::root::{ROOT, RootState};
use crate::volume::{Birth, Frozen, OwnRecord, Record, own_group, volume_of};

/// An own group that its volume leads, as the volume's replica here has it.
pub(super) struct Led {
    pub protocol: Protocol,
    pub name: Vec<u8>,
    pub record: GroupRecord,
}

impl Led {
    pub(super) fn place(&self) -> OwnRecord {
        OwnRecord::Led { protocol: self.protocol, record: Box::new(self.record.clone()) }
    }
}

pub(super) fn parent_of(group: GroupId) -> GroupId {
    volume_of(group).map_or(ROOT, |(volume, _)| volume)
}

/// The ids of a volume's own groups.
pub(super) fn own_groups_of(volume: GroupId) -> RangeInclusive<GroupId> {
    own_group(volume, 0)..=GroupId(own_group(GroupId(volume.0 + 1), 0).0 - 1)
}

impl Host {
    /// All led groups of this protocol that this node has heard of.
    pub(super) fn led(&self, protocol: Protocol) -> impl Iterator<Item = &GroupRecord> {
        let volumes = self.directory.state().into_iter().flat_map(move |root| root.led(protocol));
        volumes.chain(self.own.led.values().filter(move |led| led.protocol == protocol).map(|led| &led.record))
    }

    /// A led group's record, as this node has heard of it.
    pub(super) fn record_of_led(&self, group: GroupId) -> Option<&GroupRecord> {
        match self.own.led.get(&group) {
            Some(own) => Some(&own.record),
            None => self.directory.state()?.volumes().map(|(.., volume)| volume).find(|volume| volume.group == group.0),
        }
    }

    /// As [`Host::led`], of this parent.
    pub(super) fn led_by(&self, parent: GroupId, protocol: Protocol) -> impl Iterator<Item = &GroupRecord> {
        let root: Option<&RootState> = self.directory.state().filter(|_| parent == ROOT);
        root.into_iter().flat_map(move |root| root.led(protocol)).chain(self.own_led_by(parent, protocol))
    }

    /// As the parent's replica here has executed it.
    pub(super) fn led_as_executed(&self, parent: GroupId, protocol: Protocol) -> impl Iterator<Item = &GroupRecord> {
        let machine = self.find(parent).map(|index| self.groups[index as usize].machine.content());
        let root = match machine {
            Some(Content::Root(root)) => Some(root),
            Some(Content::Objects(_)) | None => None,
        };
        root.into_iter().flat_map(move |root| root.led(protocol)).chain(self.own_led_by(parent, protocol))
    }

    fn own_led_by(&self, volume: GroupId, protocol: Protocol) -> impl Iterator<Item = &GroupRecord> {
        let own = self.own.led.range(own_groups_of(volume));
        own.filter(move |(_, led)| led.protocol == protocol).map(|(_, led)| &led.record)
    }

    /// Parents of which this node has a replica, and which lead groups of this protocol.
    pub(super) fn leading(&self, protocol: Protocol) -> Vec<GroupId> {
        let mut parents = vec![ROOT];
        let mut rest = self.own.led.range(GroupId(0)..);
        while let Some((&group, _)) = rest.find(|(_, led)| led.protocol == protocol) {
            let volume = parent_of(group);
            parents.push(volume);
            rest = self.own.led.range(GroupId(own_groups_of(volume).end().0 + 1)..);
        }
        parents
    }

    /// The way to a parent.
    pub(super) fn target_of(&self, parent: GroupId) -> Option<Target> {
        if parent == ROOT {
            return Some(Target::Root);
        }
        let Some(here) = self.find(parent) else { return self.directory.target_of_volume(parent) };
        let namespace = self.groups[here as usize].namespace;
        let index = self.directory.index_of_volume(namespace, parent)?;
        Some(Target::Volume { namespace, index })
    }
}

/// Own groups that their volume leads.
impl Host {
    pub(super) fn note_led(&mut self, volume: GroupId, name: &[u8], record: &Record) {
        if let OwnRecord::Led { protocol, record: led } = &record.place {
            let led = Led { protocol: *protocol, name: name.to_vec(), record: GroupRecord::clone(led) };
            self.own.led.insert(own_group(volume, record.number), led);
        }
    }

    /// The volume's replica here stands on another state, or is gone.
    pub(super) fn forget_led_by(&mut self, volume: GroupId) {
        let led: Vec<GroupId> = self.own.led.range(own_groups_of(volume)).map(|(group, _)| *group).collect();
        led.iter().for_each(|group| drop(self.own.led.remove(group)));
    }

    /// The replica of the volume here has executed that one of its own groups is led otherwise from now on.
    pub(super) fn follow_led(&mut self, volume: u32, name: &[u8], record: Record) {
        let parent = self.groups[volume as usize].id();
        self.note_led(parent, name, &record);
        let group = own_group(parent, record.number);
        match self.find(group) {
            Some(index) => self.tell_led(index, &record),
            // It is told when it wakes.
            None if self.here.all.contains(group.0) => {}
            None => self.bear_own(volume, &Birth { name: name.to_vec(), record, state: Frozen::default() }, false),
        }
        self.look_soon_at(group);
        self.ask_for_term(parent);
    }

    /// A group that the volume leads has come from rest: what has been decided of it since, it hears before anything else.
    pub(super) fn tell_woken(&mut self, index: u32) {
        let group = self.groups[index as usize].id();
        let Some(record) = self.own.led.get(&group).map(|led| led.record.clone()) else { return };
        self.tell_chain(index, record.membership());
        self.lease(index);
        self.ask_for_term(parent_of(group));
    }

    fn tell_led(&mut self, index: u32, record: &Record) {
        match record.led() {
            Some(led) if record.protocol().is_chain() => self.tell_chain(index, led.membership()),
            Some(led) => self.tell_register(index, led.stages.0.clone()),
            None => {}
        }
    }

    /// Tells the replicas here of a volume's own groups how they are led.
    pub(super) fn tell_own_led(&mut self, volume: GroupId) {
        let here = |(group, led): (&GroupId, &Led)| Some((self.find(*group)?, led.protocol, led.record.clone()));
        let here: Vec<_> = self.own.led.range(own_groups_of(volume)).filter_map(here).collect();
        for (index, protocol, record) in here {
            match protocol.is_chain() {
                true => self.tell_chain(index, record.membership()),
                false => self.tell_register(index, record.stages.0),
            }
        }
    }

    /// What a replica of a led group is born as on this node; `None` if there is to be none. A member of a chain that has nothing
    /// to begin with has missed its birth: it is left out, and may join. One that comes to it late, whoever has been left out
    /// since, may begin with what the volume has kept: nothing was decided without it.
    pub(super) fn led_replica(&self, protocol: Protocol, record: &GroupRecord, state: &Frozen) -> Option<AnyReplica> {
        let me = self.settings.node;
        match protocol {
            Protocol::Paxos => None,
            Protocol::Chain => {
                let (next_slot, time) = match record.members.contains(&me.0) {
                    true => (Slot(1), state.object.as_ref().map(|_| state.time())?),
                    false if record.joining == Some(me.0) => (Slot(0), Stamp(0)),
                    false => return None,
                };
                let membership = Arc::new(record.membership());
                Some(AnyReplica::Chain(Box::new(Chain::born(membership, me, next_slot, time))))
            }
            Protocol::Register => record.lives_on(me, protocol).then(|| self.register_replica(record)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dispatch::tests::first_of;
    use super::*;
    use crate::quorum::Quorum;

    fn begins_at(host: &Host, record: &GroupRecord, state: &Frozen) -> Option<Slot> {
        host.led_replica(Protocol::Chain, record, state).map(|replica| replica.next_slot())
    }

    /// Simulator's seed 344, in few words: one of two members was left out before the other had come to know of the chain.
    #[test]
    fn whoever_comes_to_a_chain_late_begins_with_what_its_volume_has_kept() {
        let host = first_of(1);
        let kept = Frozen { time_ms: 5, object: Some(b"object".to_vec()), results: Vec::new() };
        let nothing = Frozen::default();
        let chain = |members: &[u32], joining| {
            let mut record = GroupRecord::new(Protocol::Chain, own_group(GroupId(66), 1), vec![2, 1], Quorum::Majority);
            record.reconfigure(members.to_vec(), joining);
            record
        };
        let left_alone = chain(&[1], None);
        assert_eq!(begins_at(&host, &left_alone, &kept), Some(Slot(1)));
        assert_eq!(begins_at(&host, &left_alone, &nothing), None, "what was decided meanwhile it cannot know");
        assert_eq!(begins_at(&host, &chain(&[2], Some(1)), &kept), Some(Slot(0)), "it is told all by the tail");
        assert_eq!(begins_at(&host, &chain(&[2], None), &kept), None);
    }
}
