//! Steps of replicas, one after the other: the effects of one are all performed before the next.

use quorate_protocol::{Cx, Epoch, Event, GroupId, NodeId, Proposal, Replica, paxos};

use super::quarantine::{PanicIn, isolate, panic_as_planned};
use super::{Group, Host};
use crate::group_state::GroupState;
use crate::planted::{self, Planted};
use crate::replica::{AnyEffects, AnyEvent, AnyMessage};
use crate::volume::volume_of;

impl Host {
    /// Steps replicas until nothing is left that one of them told itself or another here. Called from within a step it
    /// leaves that to the outer call: the effects of one step are all performed before the next.
    pub(super) fn run(&mut self) {
        if std::mem::replace(&mut self.running, true) {
            return;
        }
        while let Some((index, group, event)) = self.todo.pop_front() {
            if self.groups.get(index as usize).is_some_and(|found| found.id() == group) {
                self.step(index, event);
            }
        }
        self.running = false;
    }

    /// A step of a group's replica, at once if nothing else is to be done first.
    pub(super) fn step_next(&mut self, index: u32, event: AnyEvent) {
        if self.running || !self.todo.is_empty() {
            return self.plan(index, event);
        }
        self.running = true;
        self.step(index, event);
        self.running = false;
    }

    /// Plans a step of a group's replica.
    pub(super) fn plan(&mut self, index: u32, event: AnyEvent) {
        let group = self.groups[index as usize].id();
        self.todo.push_back((index, group, event));
    }

    fn step(&mut self, index: u32, event: AnyEvent) {
        if let Event::Proposed(Proposal::Commands(commands)) = &event
            && self.must_not_propose(index)
        {
            return self.turn_back_commands(index, commands);
        }
        let mut left = None;
        self.step_with(index, |group, cx, effects| {
            left = group.step(cx, event, effects).map(|commands| (group.id(), commands));
        });
        // Before whatever else is planned: commands keep their order.
        if let Some((group, commands)) = left {
            self.todo.push_front((index, group, Event::Proposed(Proposal::Commands(commands))));
        }
    }

    /// Also of a message that has waited here for what it refers to.
    pub(super) fn handle_replica_message(&mut self, from: NodeId, group: GroupId, epoch: Epoch, message: AnyMessage) {
        if self.hears_nobody(group) {
            return;
        }
        let is_learned = matches!(message, AnyMessage::Paxos(paxos::Message::Learn { .. }));
        match self.rouse(group) {
            Some(index) if self.groups[index as usize].configuration.epoch == epoch => {
                match self.groups[index as usize].state {
                    GroupState::Alive => self.step_next(index, Event::Received { from, message }),
                    GroupState::Unborn => drop(self.keep_message(from, group, epoch, message)),
                    _ if is_learned && self.is_catching_up(index) => self.learn(index, from, message),
                    _ => self.tell_silent(index),
                }
            }
            None if self.is_kept_from_birth(group) => self.tell_kept_from_birth(group, epoch),
            None if self.point_to_members(from, group) => {}
            None if matches!(message, AnyMessage::Register(_)) && volume_of(group).is_none() => {
                self.ask_for_members(from, group);
            }
            _ if self.keep_message(from, group, epoch, message) || self.is_sought(group) => {}
            _ => {
                self.compare_root_groups(from, group, epoch);
                self.meet_unknown_group();
            }
        }
    }

    /// What a peer's Paxos replica, or this node's own disk, tells a replica: most of what is heard, and most of that votes that
    /// decide nothing, after which there is nothing more to be done.
    pub(super) fn hear(&mut self, index: u32, from: NodeId, message: paxos::Message) {
        if self.running || !self.todo.is_empty() {
            return self.plan(index, Event::Received { from, message: AnyMessage::Paxos(message) });
        }
        self.running = true;
        if !self.hear_idle_vote(index, from, &message) {
            // Lent, since it is copied each time it is given on.
            let mut event = Some(Event::Received { from, message });
            self.step_with(index, |group, cx, effects| {
                if let Some(replica) = group.replica.paxos_mut()
                    && let Some(event) = event.take()
                {
                    replica.step(cx, event, &mut effects.paxos);
                }
            });
        }
        self.running = false;
    }

    fn hear_idle_vote(&mut self, index: u32, from: NodeId, message: &paxos::Message) -> bool {
        if !matches!(message, paxos::Message::Accepted { .. }) {
            return false;
        }
        let Some(group) = self.groups.get_mut(index as usize).filter(|group| group.is_alive()) else { return false };
        let wants_frontiers = group.wants_frontiers();
        let Some(replica) = group.replica.paxos_mut() else { return false };
        let now = self.clock.now();
        match isolate(|| replica.hear_idle_vote(now, wants_frontiers, from, message)) {
            Ok(is_heard) => is_heard,
            Err(words) => {
                self.quarantine(index, "taking a vote", words);
                true
            }
        }
    }

    #[inline]
    fn step_with(&mut self, index: u32, work: impl FnOnce(&mut Group, &mut Cx<'_>, &mut AnyEffects)) {
        let panics = self.take_planned_panic(index, PanicIn::Step);
        let is_routed = self.groups.contains(index as usize) && self.is_routed(index);
        let proposes_late = is_routed && !planted::is(Planted::RoutedWriteTooEarly);
        let Some(group) = self.groups.get_mut(index as usize) else { return };
        if group.state == GroupState::Quarantined {
            return;
        }
        let mut cx = Cx {
            me: self.settings.node,
            now: self.clock.now(),
            stamp: self.clock.stamp(),
            random: next_random(&mut self.random),
            peers: &self.peers,
            wants_frontiers: group.wants_frontiers(),
            proposes_late,
            nonsense_count: &mut self.counters.nonsense,
        };
        let effects = &mut self.effects;
        let stepped = isolate(|| {
            if panics {
                panic_as_planned();
            }
            work(group, &mut cx, effects);
        });
        match stepped {
            Ok(()) => {
                self.perform(index);
                self.note_waking(index);
                self.note_role(index);
                self.note_routed_role(index);
                self.note_quiet(index);
            }
            Err(words) => {
                self.effects.clear();
                self.quarantine(index, "taking a step", words);
            }
        }
    }
}

/// A step of splitmix64.
pub(super) fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
