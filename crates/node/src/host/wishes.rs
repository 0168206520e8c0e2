//! Where members decide: who is asked for another configuration, and who is told what became of it. See docs/decisions/0023.
//!
//! A member takes wishes one after the other, each with its own replica as the candidate. Any other node passes a wish on to a
//! member, and to another one only if that says that it is none: what has been asked for may have been decided.

use std::collections::{BTreeMap, VecDeque};

use quorate_protocol::register::{Answer as CoreAnswer, Request};
use quorate_protocol::{Epoch, GroupId, Instant, NodeId};

use super::registers::Waiting;
use super::{Group, Host};
use crate::answer::{AdminReply, Answer, Failure};
use crate::frame::Message;
use crate::group_state::GroupState;
use crate::members::{Reconfigured, Wanted};

/// Wishes for a group that wait for each other at one member.
const WISHES_MAX: usize = 16;

const UNSOUND: &str = "ERR the configuration is not sound: no group could have these members and quorums";
const OVERTAKEN: &str = "ERR not done: other members were decided first, and QUORATE GROUP SHOW tells of them";
const WAITED: &str = "ERR not done: reconfigurations that were asked for before are not decided yet. Is a quorum of the members \
                      alive?";
const TOO_MANY: &str = "ERR not done: too many reconfigurations wait at this member already";

#[derive(Default)]
pub(super) struct Wishes {
    /// At a member. The first of a group is with its replica.
    open: BTreeMap<GroupId, VecDeque<Wish>>,
    /// At another node, by number.
    forwarded: BTreeMap<u64, Forwarded>,
    nonce_last: u64,
}

struct Wish {
    /// None once it has been answered.
    asker: Option<Asker>,
    wanted: Wanted,
    /// The candidate's, and what was the newest epoch when it began.
    campaign: Option<(u64, Epoch)>,
    give_up_at: Instant,
}

enum Asker {
    Client { operation: u64 },
    Node { node: NodeId, start: u32, nonce: u64 },
}

/// A client's wish that this node, which is no member, has passed on.
struct Forwarded {
    operation: u64,
    group: GroupId,
    wanted: Wanted,
    give_up_at: Instant,
    tried: Vec<NodeId>,
}

impl Wishes {
    pub(super) fn count(&self, group: GroupId) -> usize {
        self.open.get(&group).map_or(0, VecDeque::len)
    }
}

impl Host {
    /// A client wants another configuration for a group.
    pub(super) fn submit_reconfiguration(&mut self, operation: u64, group: GroupId, wanted: Wanted) {
        let give_up_at = self.clock.now().after_us(self.settings.timeout_ms * 1000);
        if self.is_member_here(group) {
            return self.wish(group, Asker::Client { operation }, wanted, give_up_at);
        }
        self.forward(Forwarded { operation, group, wanted, give_up_at, tried: Vec::new() });
    }

    /// One whose birth is being stored, too: it is asked once it may speak.
    fn is_member_here(&self, group: GroupId) -> bool {
        let here = self.find(group).map(|index| &self.groups[index as usize]);
        let is_being_born = |here: &Group| here.state == GroupState::Unborn && !self.settings.is_new;
        here.is_some_and(|here| (here.is_alive() || is_being_born(here)) && here.replica.is_inside())
    }

    /// To a member that has not said yet that it is none. Whoever does not answer may have done it, and nobody else is asked.
    fn forward(&mut self, mut forwarded: Forwarded) {
        let (me, group) = (self.settings.node, forwarded.group);
        let is_fit = |node: &NodeId| {
            *node != me
                && self.linked.contains(node)
                && !self.peers.is_suspected(*node)
                && !forwarded.tried.contains(node)
        };
        let found = self.successions.members(group).find(is_fit);
        let Some(node) = found else {
            return self.answers.push((forwarded.operation, Answer::Failed(Failure::NoQuorum)));
        };
        forwarded.tried.push(node);
        self.wishes.nonce_last += 1;
        let (nonce, start, wanted) = (self.wishes.nonce_last, self.settings.start, forwarded.wanted.clone());
        self.wishes.forwarded.insert(nonce, forwarded);
        self.outbox.send(node, &Message::Reconfigure { group, start, nonce, wanted });
    }

    /// Another member is to have the members' configuration decided once more.
    pub(super) fn wish_renewal(&mut self, node: NodeId, group: GroupId, epoch: Epoch, fence: Epoch) {
        let (start, wanted) = (self.settings.start, Wanted::Renewal { epoch, fence });
        // What becomes of it shows, or it is asked for again.
        self.outbox.send(node, &Message::Reconfigure { group, start, nonce: 0, wanted });
    }

    pub(super) fn handle_reconfigure(&mut self, from: NodeId, group: GroupId, start: u32, nonce: u64, wanted: Wanted) {
        if self.is_member_here(group) {
            let give_up_at = self.clock.now().after_us(self.settings.timeout_ms * 1000);
            return self.wish(group, Asker::Node { node: from, start, nonce }, wanted, give_up_at);
        }
        self.tell_members(from, group);
        self.outbox.send(from, &Message::Reconfigured { start, nonce, outcome: Reconfigured::Elsewhere });
    }

    pub(super) fn handle_reconfigured(&mut self, start: u32, nonce: u64, outcome: Reconfigured) {
        if start != self.settings.start {
            return;
        }
        let Some(forwarded) = self.wishes.forwarded.remove(&nonce) else { return };
        match outcome {
            Reconfigured::Elsewhere => self.forward(forwarded),
            outcome => self.answer_client_of(forwarded.operation, outcome),
        }
    }

    fn answer_client_of(&mut self, operation: u64, outcome: Reconfigured) {
        let answer = match outcome {
            Reconfigured::Decided => Answer::Admin(AdminReply::Ok),
            Reconfigured::Refused(line) => Answer::Admin(AdminReply::Error(line)),
            Reconfigured::Elsewhere | Reconfigured::Unknown => Answer::Failed(Failure::Timeout),
        };
        self.answers.push((operation, answer));
    }

    /// A member is asked. One reconfiguration at a time is with its replica.
    fn wish(&mut self, group: GroupId, asker: Asker, wanted: Wanted, give_up_at: Instant) {
        let wishes = self.wishes.open.entry(group).or_default();
        // Whoever collects tombstones asks again and again, and whatever comes before it overtakes it.
        let is_pointless = matches!(wanted, Wanted::Renewal { .. }) && !wishes.is_empty();
        if wishes.len() >= WISHES_MAX || is_pointless {
            return self.answer_asker(group, asker, Reconfigured::Refused(TOO_MANY.into()));
        }
        wishes.push_back(Wish { asker: Some(asker), wanted, campaign: None, give_up_at });
        self.pursue_wishes(group);
    }

    pub(super) fn pursue_wishes(&mut self, group: GroupId) {
        let Some(wish) = self.wishes.open.get_mut(&group).and_then(VecDeque::front_mut) else { return };
        let Some(index) = self.index.get(&group).copied().filter(|_| wish.campaign.is_none()) else { return };
        let here = &self.groups[index as usize];
        let Some(replica) = here.replica.register().filter(|_| here.is_alive()) else { return };
        let token = self.registers.token(Waiting::Reconfiguration { group });
        wish.campaign = Some((token, replica.core().view().newest));
        let request = match wish.wanted.clone() {
            Wanted::Members { members, quorum } => Request::Reconfigure { token, members, quorum },
            Wanted::Quorum(quorum) => Request::Resize { token, quorum },
            Wanted::Renewal { epoch, fence } => Request::Renew { token, epoch, fence },
        };
        self.ask_core(index, request);
    }

    /// What the replica here answers to whoever has asked it for a reconfiguration; all else comes back.
    pub(super) fn take_reconfigured(&mut self, answer: CoreAnswer) -> Option<CoreAnswer> {
        let (token, outcome) = match &answer {
            CoreAnswer::Reconfigured { token, .. } => (*token, Reconfigured::Decided),
            CoreAnswer::Overtaken { token } => (*token, Reconfigured::Refused(OVERTAKEN.into())),
            CoreAnswer::Unsound { token } => (*token, Reconfigured::Refused(UNSOUND.into())),
            CoreAnswer::Overloaded { token } => (*token, Reconfigured::Refused(WAITED.into())),
            CoreAnswer::Elsewhere { token, .. } => (*token, Reconfigured::Elsewhere),
            CoreAnswer::Unknown { token } => (*token, Reconfigured::Unknown),
            _ => return Some(answer),
        };
        match self.registers.waiting.get(token) {
            Some(&Waiting::Reconfiguration { group }) => {
                self.registers.waiting.remove(token);
                self.end_wish(group, outcome);
                None
            }
            _ => Some(answer),
        }
    }

    /// The first wish of a group has come to its end.
    fn end_wish(&mut self, group: GroupId, outcome: Reconfigured) {
        let wishes = self.wishes.open.get_mut(&group);
        let Some(wish) = wishes.and_then(VecDeque::pop_front) else { return };
        match (wish.asker, outcome) {
            (Some(Asker::Client { operation }), Reconfigured::Elsewhere) => {
                let (wanted, give_up_at) = (wish.wanted, wish.give_up_at);
                self.forward(Forwarded { operation, group, wanted, give_up_at, tried: Vec::new() });
            }
            (Some(asker), outcome) => self.answer_asker(group, asker, outcome),
            (None, _) => {}
        }
        self.pursue_wishes(group);
    }

    /// Whoever asked is told at once when it is decided, and does not wait until versions are moved: once this node's disk
    /// holds it, it does not need the candidate any more.
    pub(super) fn answer_decided(&mut self, index: u32) {
        let group = &self.groups[index as usize];
        let (id, newest) = (group.id(), group.replica.register().and_then(|replica| replica.core().stages().last()));
        let Some(wish) = self.wishes.open.get(&id).and_then(VecDeque::front) else { return };
        let (Some(newest), Some((_, before))) = (newest, wish.campaign) else { return };
        let is_decided = newest.epoch() > before && wish.wanted.is(newest);
        if wish.asker.is_none() || !is_decided || !self.is_on_disk(index) {
            return;
        }
        let wishes = self.wishes.open.get_mut(&id);
        if let Some(asker) = wishes.and_then(|wishes| wishes.front_mut()?.asker.take()) {
            self.answer_asker(id, asker, Reconfigured::Decided);
        }
    }

    fn answer_asker(&mut self, group: GroupId, asker: Asker, outcome: Reconfigured) {
        match asker {
            Asker::Client { operation } => self.answer_client_of(operation, outcome),
            Asker::Node { node, start, nonce } => {
                self.tell_members(node, group);
                self.outbox.send(node, &Message::Reconfigured { start, nonce, outcome });
            }
        }
    }

    /// Whoever has waited for too long is told that nobody knows; or that it was not even begun.
    pub(super) fn give_up_wishes(&mut self) {
        let now = self.clock.now();
        let mut late = Vec::new();
        for (group, wishes) in &mut self.wishes.open {
            for wish in wishes.iter_mut().filter(|wish| wish.give_up_at <= now) {
                let outcome = match wish.campaign {
                    Some(_) => Reconfigured::Unknown,
                    None => Reconfigured::Refused(WAITED.into()),
                };
                late.extend(wish.asker.take().map(|asker| (*group, asker, outcome)));
            }
            wishes.retain(|wish| wish.asker.is_some() || wish.campaign.is_some());
        }
        self.wishes.open.retain(|_, wishes| !wishes.is_empty());
        late.into_iter().for_each(|(group, asker, outcome)| self.answer_asker(group, asker, outcome));
        let is_late = |forwarded: &Forwarded| forwarded.give_up_at <= now;
        let late: Vec<u64> =
            self.wishes.forwarded.values().filter(|one| is_late(one)).map(|one| one.operation).collect();
        self.wishes.forwarded.retain(|_, forwarded| !is_late(forwarded));
        late.into_iter().for_each(|operation| self.answer_client_of(operation, Reconfigured::Unknown));
    }

    /// The replica here is gone, and with it the candidate: what it had proposed may have been decided.
    pub(super) fn lose_wishes(&mut self, group: GroupId) {
        for wish in self.wishes.open.remove(&group).unwrap_or_default() {
            if let Some(asker) = wish.asker {
                self.answer_asker(group, asker, Reconfigured::Unknown);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::three_nodes::{Cluster, arrives};

    fn ask(cluster: &mut Cluster, line: &str) -> u64 {
        let number = cluster.next_number();
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        cluster.node(1).host.submit_admin(number, 0, &words);
        cluster.pass(100, arrives);
        number
    }

    #[test]
    fn members_are_moved_at_once_after_their_namespace_was_made() {
        let mut cluster = Cluster::new(|_| {});
        (1..=3).for_each(|id| cluster.node(id).is_store_slow = true);
        let is_ok =
            |cluster: &mut Cluster, number| cluster.node(1).answers.contains(&(number, Answer::Admin(AdminReply::Ok)));
        let made = ask(&mut cluster, "NAMESPACE CREATE 1 PROTOCOL register AUTHORITY members MEMBERS n1,n2,n3");
        assert!(is_ok(&mut cluster, made), "{:?}", cluster.node(1).answers);
        let moved = ask(&mut cluster, "NAMESPACE MOVE 1 MEMBERS n1,n2");
        assert!(cluster.node(1).answers.iter().all(|(number, _)| *number != moved), "no replica can speak yet");
        (1..=3).for_each(|id| cluster.node(id).is_store_slow = false);
        cluster.pass(1_000, arrives);
        assert!(is_ok(&mut cluster, moved), "{:?}", cluster.node(1).answers);
    }
}
