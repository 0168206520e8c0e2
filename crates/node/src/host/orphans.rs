//! Own groups whose volume went with its namespace. They end after it, some in each turn and no faster than the checkpoint
//! store forgets them: a million that go keep nobody waiting. No client finds them meanwhile, for whoever looks for an object
//! begins with its namespace.

use std::collections::VecDeque;

use quorate_protocol::GroupId;

use super::Host;
use crate::volume::own_group;

const ENDED_PER_TURN: usize = 512;
/// With so many that are yet to be forgotten, no more end.
const FORGETTABLE_MAX: usize = 4_096;

#[derive(Default)]
pub(super) struct Orphans {
    /// Volumes that are gone, and may have own groups here.
    volumes: VecDeque<GroupId>,
}

impl Host {
    /// The volume is gone for good.
    pub(super) fn orphan(&mut self, volume: GroupId) {
        // Nobody looks after them any more, nor gives them terms: until they end they do nothing by themselves.
        self.forget_led_by(volume);
        self.end_all_awaited(volume);
        self.forget_outside(volume);
        self.own.late.forget_unborn(volume);
        self.own.renewals.forget(volume);
        if !self.own.orphans.volumes.contains(&volume) {
            self.own.orphans.volumes.push_back(volume);
        }
    }

    pub(super) fn end_orphans(&mut self) {
        let mut left = ENDED_PER_TURN;
        while self.may_end_orphans()
            && left > 0
            && let Some(&volume) = self.own.orphans.volumes.front()
        {
            let numbers: Vec<u64> = self.numbers_here(volume).take(left).collect();
            if numbers.is_empty() {
                self.own.orphans.volumes.pop_front();
            }
            left -= numbers.len();
            numbers.into_iter().for_each(|number| self.end_orphan(own_group(volume, number)));
        }
    }

    /// Whether there are some that may end now.
    pub(super) fn may_end_orphans(&self) -> bool {
        !self.own.orphans.volumes.is_empty() && self.storing.to_forget() < FORGETTABLE_MAX
    }

    fn end_orphan(&mut self, group: GroupId) {
        if self.end_own(group) {
            self.storing.forgettable.push(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_object::{Command, Condition, Expiry, Outcome, SetAnswer};

    use super::ENDED_PER_TURN;
    use crate::Target;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, arrives};
    use crate::host::{Answer, Submission};
    use crate::replica::Protocol;

    fn administer(cluster: &mut Cluster, line: &str) {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let number = cluster.next_number();
        cluster.node(1).host.submit_admin(number, 0, &words);
        cluster.pass(20, arrives);
    }

    fn write_keys(cluster: &mut Cluster, namespace: u32) {
        cluster.node(1).answers.clear();
        for key in [b"a", b"b", b"c", b"d", b"e"] {
            let number = cluster.next_number();
            let (condition, expiry, answer) = (Condition::Always, Expiry::Unset, SetAnswer::Ok);
            let command = &Command::Set { key, value: b"value", condition, expiry, answer };
            let target = Target::Slot { namespace, slot: 0 };
            cluster.node(1).host.submit(Submission { number, predecessor: None, target, command });
        }
        cluster.pass(10, arrives);
        let answers = &cluster.node(1).answers;
        let done = answers.iter().filter(|(_, answer)| *answer == Answer::Outcome(Outcome::Ok));
        assert_eq!(done.count(), 5, "{answers:?}");
    }

    #[test]
    fn groups_that_a_dropped_volume_led_end_over_several_turns() {
        let mut cluster = Cluster::new(|_| {});
        let count = ENDED_PER_TURN + 200;
        administer(&mut cluster, "NAMESPACE CREATE 1");
        for (namespace, count) in [(0, 3), (1, count)] {
            let number = cluster.next_number();
            let mut request = GroupRequest::of(GroupAction::Create { value: b"v".to_vec() });
            request.names = (0..count).map(|name| name.to_le_bytes().to_vec()).collect();
            (request.protocol, request.is_batch) = (Protocol::Register, true);
            cluster.node(1).host.submit_group_request(number, namespace, request);
            cluster.pass(3_000, arrives);
        }
        let ended = |cluster: &mut Cluster| cluster.node(2).host.counters().own_groups_ended;
        assert_eq!((ended(&mut cluster), cluster.node(2).host.own.led.len()), (0, count + 3));
        administer(&mut cluster, "NAMESPACE DROP 1");
        let mut most = 0;
        for _ in 0..3_000 {
            let before = ended(&mut cluster);
            cluster.pass(1, arrives);
            most = most.max(ended(&mut cluster) - before);
        }
        assert_eq!((ended(&mut cluster), cluster.node(2).host.own.led.len()), (count as u64, 3));
        assert!(most <= ENDED_PER_TURN as u64, "{most} in one turn");
    }

    /// Own groups of the other volume are born into the places of what is dropped.
    #[test]
    fn nothing_is_taken_for_a_dropped_volume_whose_groups_had_just_begun() {
        let mut cluster = Cluster::new(|_| {});
        administer(&mut cluster, "NAMESPACE CREATE 1 GROUPS own");
        administer(&mut cluster, "NAMESPACE CREATE 2 GROUPS own");
        write_keys(&mut cluster, 1);
        administer(&mut cluster, "NAMESPACE DROP 1");
        (0..50).for_each(|_| write_keys(&mut cluster, 2));
    }
}
