//! Answers of own groups whose object is gone.
//!
//! The volume lists the name until the group has ended and the volume has taken back what is left. Whoever is told that the
//! object is deleted is told once that is so, and does not find it in a listing any more.

use quorate_object::Outcome;
use quorate_protocol::{GroupId, Instant, Slot};

use super::Host;
use crate::envelope::Ticket;
use crate::frame::Position;

/// An answer that has waited for so long is given when the host next looks, still before its operation is sent again: if the volume
/// is slow, or has lost its quorum, it is the listing that is late.
const HELD_MAX_US: u64 = 500_000;

pub(super) struct HeldAnswer {
    pub ticket: Ticket,
    pub position: Position,
    pub outcome: Outcome,
    pub since: Instant,
}

impl Host {
    pub(super) fn hold_answer(&mut self, group: GroupId, answer: HeldAnswer) {
        self.held_answers.entry(group).or_default().push(answer);
    }

    /// Whether it was carried out here, and its answer waits. What is asked again meanwhile must not be carried out again, nor be
    /// refused because the group ends.
    pub(super) fn holds_answer(&self, group: GroupId, ticket: Ticket) -> bool {
        let held = self.held_answers.get(&group);
        held.is_some_and(|answers| answers.iter().any(|answer| answer.ticket == ticket))
    }

    /// The group has ended, or it has an object again.
    pub(super) fn release_answers(&mut self, group: GroupId) {
        if self.held_answers.is_empty() {
            return;
        }
        for HeldAnswer { ticket, position, outcome, .. } in self.held_answers.remove(&group).unwrap_or_default() {
            self.answer_ticket(ticket, position, outcome);
        }
    }

    /// A group that has been quiet for a while has no object. Whoever has told its volume may have been told in vain, or have died
    /// before that: the group would stay for ever, and its name be listed.
    pub(super) fn look_whether_gone(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        // One that was born with nothing has not caught up yet.
        let is_gone = group.is_object_gone() && group.is_alive() && group.replica.next_slot() > Slot(0);
        if !is_gone || group.replica.is_stopped() || self.own.late.contains(group.id()) {
            return;
        }
        match group.replica.is_coordinating() {
            true => self.retire_if_gone(index),
            false => self.take_over_if_uncoordinated(index),
        }
    }

    pub(super) fn release_old_answers(&mut self) {
        let now = self.clock.now();
        let is_old = |answer: &HeldAnswer| answer.since.after_us(HELD_MAX_US) <= now;
        let of_group =
            |(group, answers): (&GroupId, &Vec<HeldAnswer>)| answers.first().is_some_and(is_old).then_some(*group);
        let old: Vec<GroupId> = self.held_answers.iter().filter_map(of_group).collect();
        old.into_iter().for_each(|group| self.release_answers(group));
    }
}

#[cfg(test)]
mod tests {
    use quorate_object::Command;
    use quorate_protocol::NodeId;

    use crate::Target;
    use crate::frame::Message;
    use crate::host::Submission;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, Fate, arrives};
    use crate::replica::Protocol;

    /// An object is deleted whose group cannot tell the volume of it before it gives up.
    fn with_a_gone_object(protocol: Protocol) -> Cluster {
        let mut cluster = Cluster::new(|settings| settings.rest_after_us = 1_000_000);
        let number = cluster.next_number();
        let mut request = GroupRequest::of(GroupAction::Create { value: b"v".to_vec() });
        (request.names, request.protocol) = (vec![b"own".to_vec()], protocol);
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(500, arrives);
        let volume = cluster.volume();
        let number = cluster.next_number();
        let target = Target::Slot { namespace: 0, slot: 0 };
        let command = &Command::Del { key: b"own" };
        cluster.node(1).host.submit(Submission { number, predecessor: None, target, command });
        cluster.pass(7_000, |_, _, message| match message {
            Message::Request { group, .. } if *group == volume => Fate::IsLost,
            _ => Fate::Arrives,
        });
        assert_eq!(left(&cluster), 3);
        cluster
    }

    fn left(cluster: &Cluster) -> usize {
        cluster.nodes.iter().map(|node| node.host.own_groups().count()).sum()
    }

    fn start_all_anew(cluster: &mut Cluster) {
        (1..=3).for_each(|id| cluster.restart(id));
        for id in 1..=3 {
            let host = &mut cluster.node(id).host;
            (1..=3).filter(|&peer| peer != id).for_each(|peer| host.linked(NodeId(peer)));
        }
    }

    #[test]
    fn a_group_whose_object_is_gone_ends_though_its_volume_was_told_in_vain() {
        for protocol in [Protocol::Paxos, Protocol::Chain] {
            let mut cluster = with_a_gone_object(protocol);
            cluster.pass(30_000, arrives);
            assert_eq!(left(&cluster), 0, "{protocol:?}");
        }
    }

    #[test]
    fn it_ends_after_the_node_that_coordinates_it_was_started_anew() {
        for protocol in [Protocol::Paxos, Protocol::Chain] {
            let mut cluster = with_a_gone_object(protocol);
            // The own group's first member.
            cluster.restart(2);
            for id in [1, 3] {
                cluster.node(2).host.linked(NodeId(id));
                cluster.node(id).host.linked(NodeId(2));
            }
            cluster.pass(30_000, arrives);
            assert_eq!(left(&cluster), 0, "{protocol:?}");
        }
    }

    #[test]
    fn it_ends_though_only_the_stores_have_it_when_the_nodes_start() {
        for protocol in [Protocol::Paxos, Protocol::Chain] {
            let mut cluster = with_a_gone_object(protocol);
            for node in &mut cluster.nodes {
                let own = node.host.groups().find(|group| group.own.is_some()).expect("it is awake").id();
                let index = node.host.find(own).expect("it is awake");
                node.host.want_checkpoint_now(index);
            }
            cluster.pass(10, arrives);
            // The log says that it has been stored.
            cluster.write(1, b"value");
            cluster.pass(10, arrives);
            start_all_anew(&mut cluster);
            cluster.pass(30_000, arrives);
            assert_eq!(left(&cluster), 0, "{protocol:?}");
        }
    }
}
