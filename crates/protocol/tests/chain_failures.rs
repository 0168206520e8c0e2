//! Every failure of one member of a chain at every moment of a load of updates and reads, and of two at a grid of moments,
//! while a spare node joins or not. The harness checks what must hold as it goes; in the end the survivors answer a read, which must have
//! seen every update that was answered.

mod harness;

use std::sync::Arc;

use harness::Group;
use harness::chain::{Load, PARENT, World};
use quorate_protocol::Replica;
use quorate_protocol::chain::{Chain, Membership, Record};
use quorate_protocol::effect::{Proposal, ReadMode};
use quorate_protocol::id::{Content, Epoch, NodeId, Slot, Stamp, Value};

const MEMBERS: u32 = 4;
const SPARE: NodeId = NodeId(5);
const STEPS: u64 = 90;
/// Failures come up to here.
const FAILURES_UNTIL: u64 = 40;

#[derive(Clone, Copy, Debug)]
struct Failure {
    node: NodeId,
    at: u64,
    /// Comes back from its disk at the end.
    returns: bool,
}

struct Run {
    world: World,
    failures: Vec<Failure>,
    /// Those whom the parent has still to take out.
    failed: Vec<NodeId>,
    step: u64,
}

impl Run {
    fn new(failures: &[Failure], joins_at: Option<u64>) -> Run {
        let mut world = World::new(MEMBERS + 1, MEMBERS, 1);
        world.lease_all();
        let mut run = Run { world, failures: failures.to_vec(), failed: Vec::new(), step: 0 };
        while run.step < STEPS {
            if joins_at == Some(run.step) {
                run.world.parent.join(SPARE);
                run.tell_all();
            }
            run.load();
            run.go_on();
            run.step += 1;
        }
        run
    }

    /// An update now and then, and reads of all kinds.
    fn load(&mut self) {
        let (step, membership) = (self.step, self.world.parent.membership.clone());
        if step.is_multiple_of(4) {
            let command = format!("c{step}").into_bytes().into();
            self.world.propose(membership.head(), Proposal::Commands(command));
        }
        if step.is_multiple_of(5) {
            let mode = if step.is_multiple_of(2) { ReadMode::Lease } else { ReadMode::Quorum };
            self.world.propose(membership.tail(), Proposal::Read { token: step, mode });
        }
        self.world.read_clean(membership.members[step as usize % membership.members.len()]);
    }

    /// A packet, or else the disks' turn, or else some time.
    fn go_on(&mut self) {
        for failure in self.failures.clone() {
            if failure.at == self.step {
                self.world.crash(failure.node, 0);
                self.failed.push(failure.node);
            }
        }
        if self.step.is_multiple_of(3) {
            self.world.ids().into_iter().for_each(|id| self.world.sync(id));
        }
        if !self.world.deliver_next() {
            self.pass_time();
        }
    }

    fn pass_time(&mut self) {
        self.world.now = self.world.now.after_us(50_000);
        if let Some(&node) = self.failed.first()
            && self.world.parent.removing.is_none()
        {
            self.world.parent.remove(node);
            self.failed.remove(0);
        }
        let now = self.world.now;
        if self.world.parent.attend(now) {
            self.tell_all();
        }
        self.world.ids().into_iter().for_each(|id| self.world.attend(id));
    }

    fn tell_all(&mut self) {
        let membership = self.world.parent.membership.clone();
        for id in self.world.ids() {
            self.world.network.post(PARENT, id, Load::Told(membership.clone()));
        }
    }

    /// Nobody fails any more: what was asked is answered, the last of it by everybody who is left.
    fn end(&mut self) {
        for failure in self.failures.clone().iter().filter(|failure| failure.returns) {
            self.world.restart(failure.node);
        }
        self.world.synced_at_once = true;
        let answered = self.world.checks.reads_answered;
        for turn in 0..400_u64 {
            self.pass_time();
            while self.world.deliver_next() {}
            let tail = self.world.parent.membership.tail();
            if turn.is_multiple_of(20) {
                self.world.propose(tail, Proposal::Read { token: 1_000 + turn, mode: ReadMode::Lease });
            }
            let settled = self.failed.is_empty() && self.world.parent.removing.is_none();
            let members = self.world.parent.membership.members.clone();
            let level = |id: &NodeId| self.world.replica(*id).is_some_and(|replica| replica.pending().next().is_none());
            if settled && members.iter().all(level) && self.world.checks.reads_answered > answered + 10 {
                return;
            }
        }
        panic!("no end: {:?}", self.world.parent.membership);
    }
}

fn judge(failures: &[Failure], joins_at: Option<u64>) -> usize {
    let run = std::panic::catch_unwind(|| {
        let mut run = Run::new(failures, joins_at);
        run.end();
        assert_eq!(run.world.nonsense_count, 0);
        run.world.checks.updates_answered
    });
    run.unwrap_or_else(|_| panic!("{failures:?}, joining at {joins_at:?}"))
}

#[test]
fn any_one_member_may_fail_at_any_moment() {
    let mut answered = 0;
    for joins_at in [None, Some(2), Some(20)] {
        for node in (1..=MEMBERS + 1).map(NodeId) {
            for at in 0..FAILURES_UNTIL {
                for returns in [false, true] {
                    answered += judge(&[Failure { node, at, returns }], joins_at);
                }
            }
        }
    }
    assert!(answered > 1000, "{answered} updates answered");
}

#[test]
fn any_two_members_may_fail_one_after_the_other() {
    let mut answered = 0;
    for joins_at in [None, Some(2)] {
        for (first, second) in (1..=MEMBERS).flat_map(|first| (1..=MEMBERS + 1).map(move |second| (first, second))) {
            if first == second {
                continue;
            }
            for at in (0..FAILURES_UNTIL).step_by(3) {
                for later in (at..FAILURES_UNTIL).step_by(4) {
                    let failures = [
                        Failure { node: NodeId(first), at, returns: at.is_multiple_of(2) },
                        Failure { node: NodeId(second), at: later, returns: false },
                    ];
                    answered += judge(&failures, joins_at);
                }
            }
        }
    }
    assert!(answered > 1000, "{answered} updates answered");
}

/// A log keeps the newest configuration, and may have let go those in which the replica was out and joined anew.
#[test]
fn what_a_replica_had_before_it_joined_anew_is_void_whatever_else_the_log_has_kept() {
    let membership = |epoch, members: [u32; 3]| {
        let members = members.into_iter().map(NodeId).collect();
        Arc::new(Membership { epoch: Epoch(epoch), members, joining: None })
    };
    let received = |since| {
        let mut replica = Chain::new(membership(1, [1, 2, 3]), NodeId(1));
        let value = Value { stamp: Stamp(5), seed: 1, content: Content::Mark };
        replica.restore(Record::Update { epoch: Epoch(1), slot: Slot(0), value, frontier: Slot(0) });
        let (membership, since) = (membership(4, [2, 3, 1]), Epoch(since));
        replica.restore(Record::Adopted { membership, decided: Slot(0), since });
        replica.restored();
        replica.received()
    };
    assert_eq!(received(1), Slot(1), "it has been a member all the time");
    assert_eq!(received(3), Slot(0), "it joined anew at epoch 3");
}
