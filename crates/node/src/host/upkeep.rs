//! What happens by the clock: heartbeats, suspicion, retries, expiry.

use quorate_protocol::{Event, GroupId, Instant, NodeId, Proposal, Stamp};

use super::resting::fit_at_rest;
use super::{Host, Timer};
use crate::frame::Message;

/// Groups told of a suspected node in one turn, and places of groups looked at for that: neither a dead node nor a million
/// groups must stall a turn.
const TOLD_PER_TURN: usize = 64;
const SWEPT_PER_TURN: usize = 2_048;
/// How often operations of which nothing is heard are looked for.
const RESEND_CHECK_US: u64 = 250_000;
/// How often coordination is given to whoever had better have it.
const BALANCE_US: u64 = 1_000_000;
/// Expired objects are removed in steps of at least this.
const EXPIRY_STEP_MS: u64 = 100;
/// ... unless so many have expired at once that the last step has left some: soon then, but with time for others in between.
const EXPIRY_AGAIN_MS: u64 = 10;
/// A group idle for this long is given a mark, so that results past their deadline are forgotten.
const FORGET_US: u64 = 60_000_000;

/// A walk over all groups, to tell them something of a node.
pub(super) struct Sweep {
    node: NodeId,
    news: News,
    /// The next place to be looked at.
    place: usize,
}

#[derive(Clone, Copy)]
enum News {
    /// For those that it coordinates.
    Suspected,
    /// For registers.
    Link { is_there: bool },
}

impl Host {
    pub(super) fn start_timers(&mut self) {
        let now = self.clock.now();
        for timer in [Timer::Heartbeat, Timer::Resend, Timer::Balance] {
            self.timers.set(now, timer);
        }
    }

    pub(super) fn fire_timers(&mut self) {
        let now = self.clock.now();
        let due = self.wakings.take_due(now);
        self.wake(&due);
        self.fire_expiries();
        self.retries.start_turn();
        self.retry_due();
        while let Some((at, timer)) = self.timers.take_due(now) {
            match timer {
                Timer::Forget { index, group } => self.forget_results(index, group),
                Timer::Retry { number } => self.retry_timer_fired(number),
                Timer::Heartbeat => self.beat(),
                Timer::Directory => self.ask_for_directory(),
                Timer::Settle => self.settle(),
                Timer::Late => self.fetch_for_some_late(),
                Timer::Outside => self.tend_outside(),
                Timer::Retire => self.retire_timer_fired(),
                Timer::Rest => self.rest_timer_fired(),
                Timer::Swap => self.swap_timer_fired(),
                Timer::Digests => self.digests_timer_fired(at),
                Timer::Status { nonce } => self.try_finish_status(nonce, true),
                Timer::Views { batch } => self.views_timer_fired(batch),
                Timer::Part { batch, part } => self.submit_part(batch, part),
                Timer::Change { operation } => self.change_again(operation),
                Timer::Routed { index, group } => self.routed_timer_fired(index, group),
                Timer::Resend => {
                    self.resend_silent();
                    self.return_old_mail();
                    self.release_old_answers();
                    self.transfers.give_up_silent(now);
                    self.keep_what_is_looked_up();
                    self.tell_installing();
                    self.timers.set(now.after_us(RESEND_CHECK_US), Timer::Resend);
                }
                Timer::Balance => {
                    self.balance();
                    self.release_held();
                    self.unshun_those_that_stay();
                    self.store_unused();
                    self.count_again(now);
                    self.timers.set(now.after_us(BALANCE_US), Timer::Balance);
                }
            }
        }
        self.sweep_some();
    }

    /// After a step.
    pub(super) fn note_waking(&mut self, index: u32) {
        if let Some(group) = self.groups.get(index as usize) {
            self.wakings.set(index, group.replica.wake_at());
        }
    }

    fn is_alive(&self, index: u32, group: GroupId) -> bool {
        self.groups.get(index as usize).is_some_and(|found| found.id() == group && found.is_alive())
    }

    fn beat(&mut self) {
        let now = self.clock.now();
        self.forget_gone();
        self.seek_begin();
        let nodes: Vec<NodeId> = self.peers.nodes().collect();
        self.tell_unable();
        nodes.iter().for_each(|&node| self.send_heartbeat(node));
        let excused: Vec<NodeId> = nodes.into_iter().filter(|&node| self.peers.is_excused(node)).collect();
        for node in self.peers.suspect(now) {
            self.suspect(node);
        }
        for node in excused {
            if !self.peers.is_suspected(node) {
                self.note_recovered(node);
            }
        }
        if self.is_clock_off() || self.peers.is_excused_itself() {
            self.hand_over_all(|_| true);
        }
        self.tell_behind();
        self.tend_chains();
        self.count_missed();
        self.tend_placement();
        self.tend_registers();
        self.tend_successions();
        self.tend_readmissions();
        self.tend_seats();
        self.tend_renewals();
        self.tend_emptied();
        self.tend_demand();
        self.tend_routers();
        self.give_up_wishes();
        self.unlogged.drop_old(now);
        self.timers.set(now.after_us(self.settings.timing.heartbeat_us), Timer::Heartbeat);
    }

    pub(super) fn send_heartbeat(&mut self, node: NodeId) {
        let heartbeat = quorate_protocol::peers::Message::Heartbeat { sent_at: self.clock.now() };
        self.outbox.send(node, &Message::Peers(heartbeat));
    }

    /// A node is suspected no more.
    pub(super) fn note_recovered(&mut self, node: NodeId) {
        self.recovered_at.insert(node, self.clock.now());
        self.here.without_quorum.clear();
    }

    /// Every group that this node was believed to coordinate is told, a few a turn; a group asked for is told at once
    /// by whoever asks.
    fn suspect(&mut self, node: NodeId) {
        self.suspected_at.insert(node, self.clock.now());
        // One that has begun leads over groups that have believed in that node again since.
        self.sweeps.retain(|sweep| sweep.node != node || !matches!(sweep.news, News::Suspected));
        self.sweeps.push_back(Sweep { node, news: News::Suspected, place: 0 });
        self.resend_operations_to(node);
    }

    /// Every register is told that the link to a node has come or gone, a few a turn. Whatever it was told of that before is old.
    pub(super) fn sweep_registers(&mut self, node: NodeId, is_there: bool) {
        self.sweeps.retain(|sweep| sweep.node != node || matches!(sweep.news, News::Suspected));
        self.sweeps.push_back(Sweep { node, news: News::Link { is_there }, place: 0 });
    }

    fn sweep_some(&mut self) {
        let mut told = 0;
        for _ in 0..SWEPT_PER_TURN {
            let Some(sweep) = self.sweeps.front_mut() else { return };
            let (node, news, place) = (sweep.node, sweep.news, sweep.place);
            let is_over = matches!(news, News::Suspected) && !self.peers.is_suspected(node);
            if place >= self.groups.capacity() || is_over {
                self.sweeps.pop_front();
                continue;
            }
            sweep.place += 1;
            let is_told = self.groups.contains(place)
                && match news {
                    News::Suspected => self.tell_suspicion(place as u32, node),
                    News::Link { is_there } => self.tell_register_of_link(place as u32, node, is_there),
                };
            told += usize::from(is_told);
            if told == TOLD_PER_TURN {
                return;
            }
        }
    }

    fn tell_suspicion(&mut self, index: u32, node: NodeId) -> bool {
        let group = &self.groups[index as usize];
        let is_concerned = group.is_alive() && group.replica.depends_on(node);
        if is_concerned {
            self.plan(index, Event::Suspected(node));
        }
        is_concerned
    }

    /// After a slot was applied: there may be expiries and results to come back for.
    pub(super) fn arm_timers_after_apply(&mut self, index: u32) {
        self.want_checkpoint(index);
        self.note_unstored(index);
        let now = self.clock.now();
        let stamp = self.clock.stamp();
        let group = &mut self.groups[index as usize];
        let id = group.id();
        if let Some(expiry) = group.machine.next_expiry() {
            let goes_on = group.machine.has_expired() && group.replica.is_coordinating();
            let (step_ms, late_ms) = if goes_on { (EXPIRY_AGAIN_MS, 0) } else { (EXPIRY_STEP_MS, EXPIRY_STEP_MS) };
            let wait_ms = expiry.0.saturating_sub(stamp.0).max(step_ms);
            let at = now.after_us(wait_ms.saturating_mul(1000));
            if group.expiry_timer.is_none_or(|armed| at.after_us(late_ms * 1000) < armed) {
                group.expiry_timer = Some(at);
                self.expiries.set(at, id);
            }
        }
        let results = group.machine.results();
        let keeps_many = if group.own.is_some() { !fit_at_rest(results) } else { results.bytes() > 0 };
        if !group.forget_timer && keeps_many {
            group.forget_timer = true;
            self.timers.set(now.after_us(FORGET_US), Timer::Forget { index, group: id });
        }
    }

    /// The coordinator moves group time past the next expiry; the others look again later, should it be gone.
    pub(super) fn expire(&mut self, group: GroupId, at: Instant) {
        let Some(index) = self.find(group) else { return self.wake_for_expiry(group, at) };
        if !self.is_alive(index, group) {
            return;
        }
        let (now, stamp) = (self.clock.now(), self.clock.stamp());
        let found = &mut self.groups[index as usize];
        // An earlier wish has replaced this one.
        if found.expiry_timer != Some(at) {
            return;
        }
        found.expiry_timer = None;
        let Some(expiry) = found.machine.next_expiry() else { return };
        let coordinating = found.replica.is_coordinating();
        let is_of_paxos = found.own.is_some() && found.replica.paxos().is_some();
        let wait_ms = expiry.0.saturating_sub(stamp.0).max(if coordinating { EXPIRY_STEP_MS } else { 1000 });
        let at = now.after_us(wait_ms.saturating_mul(1000));
        found.expiry_timer = Some(at);
        self.expiries.set(at, group);
        // A mark that does not move group time removes nothing.
        if expiry > stamp || found.machine.time() >= stamp || self.is_clock_off() {
            return;
        }
        match coordinating {
            true => self.plan(index, Event::Proposed(Proposal::Mark)),
            false if is_of_paxos => self.take_over_if_uncoordinated(index),
            false => {}
        }
    }

    /// A group that has been quiet past every deadline it keeps results for needs one mark to forget them.
    fn forget_results(&mut self, index: u32, group: GroupId) {
        if !self.is_alive(index, group) {
            return;
        }
        let (now, stamp) = (self.clock.now(), self.clock.stamp());
        let found = &mut self.groups[index as usize];
        found.forget_timer = false;
        let Some(deadline) = found.machine.results().deadline_max() else { return };
        let quiet = found.used_at.after_us(FORGET_US) <= now && deadline < Stamp(stamp.0.saturating_sub(1));
        let coordinating = found.replica.is_coordinating();
        found.forget_timer = true;
        if quiet && coordinating {
            self.plan(index, Event::Proposed(Proposal::Mark));
        }
        self.timers.set(now.after_us(FORGET_US), Timer::Forget { index, group });
    }
}

#[cfg(test)]
mod tests {
    use quorate_wal::memory::MemoryStorage;

    use super::*;
    use crate::Moment;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::dispatch::tests::first_of;
    use crate::host::registers::Waiting;
    use crate::host::three_nodes::{Cluster, arrives};
    use crate::replica::Protocol;

    #[test]
    fn when_a_link_goes_only_registers_in_use_are_told_at_once_and_all_others_over_several_turns() {
        let mut cluster = Cluster::new(|_| {});
        let number = cluster.next_number();
        let mut request = GroupRequest::of(GroupAction::Create { value: b"v".to_vec() });
        request.names = (0..300_u32).map(|name| name.to_le_bytes().to_vec()).collect();
        (request.protocol, request.is_batch) = (Protocol::Register, true);
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(2_000, arrives);
        let told = |host: &Host| {
            let registers = host.groups().filter_map(|group| group.replica.register());
            let told = registers.map(|register| !register.core().is_reachable(NodeId(3)));
            let (told, others): (Vec<bool>, _) = told.partition(|is_told| *is_told);
            (told.len(), others.len())
        };
        let host = &mut cluster.node(2).host;
        host.groups.reserve(10 * SWEPT_PER_TURN);
        assert_eq!(told(host), (0, 300));
        let in_use = host.groups().find(|group| group.replica.register().is_some()).expect("there are 300").id();
        host.registers.token(Waiting::Expiry { group: in_use });
        host.unlinked(NodeId(3));
        assert_eq!(told(host), (1, 299));
        cluster.pass(1, arrives);
        let host = &mut cluster.node(2).host;
        assert_eq!(host.sweeps.iter().map(|sweep| sweep.place).sum::<usize>(), SWEPT_PER_TURN);
        assert!(host.next_turn_at() <= host.clock.now(), "it goes on at once");
        cluster.pass(12, arrives);
        assert_eq!(told(&cluster.node(2).host), (300, 0));
        // The link is back before all have heard that it is gone.
        cluster.node(2).host.unlinked(NodeId(3));
        cluster.node(2).host.linked(NodeId(3));
        assert_eq!(told(&cluster.node(2).host), (299, 1));
        cluster.pass(13, arrives);
        let host = &cluster.node(2).host;
        assert_eq!((told(host), host.sweeps.len()), ((0, 300), 0));
    }

    #[test]
    fn a_turn_looks_at_some_groups_only_when_a_node_is_suspected() {
        let (mut host, storage) = (first_of(3), MemoryStorage::default());
        host.groups.reserve(20 * SWEPT_PER_TURN);
        let turn = |host: &mut Host, at: u64| {
            host.begin(Moment { now: Instant(1_000_000 + at), wall: Stamp(1_700_000_000_000 + at / 1000) });
            host.end(&storage);
        };
        // Two nodes of which nothing is heard.
        let mut at = 0;
        while host.sweeps.is_empty() {
            at += 10_000;
            turn(&mut host, at);
        }
        assert_eq!(host.sweeps.iter().map(|sweep| sweep.place).sum::<usize>(), SWEPT_PER_TURN);
        let mut turns = 1;
        while !host.sweeps.is_empty() {
            assert_eq!(host.next_turn_at(), host.clock.now(), "it goes on at once");
            turn(&mut host, at);
            turns += 1;
        }
        assert!(turns >= 40, "{turns} turns");
    }
}
