//! What happens by the clock: heartbeats, suspicion, retries, expiry.

use quorate_protocol::{Event, GroupId, Instant, NodeId, Proposal, Stamp};

use super::resting::RESULTS_AT_REST_MAX;
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
/// A group idle for this long is given a mark, so that results past their deadline are forgotten.
const FORGET_US: u64 = 60_000_000;

/// A walk over all groups, to tell those that a suspected node coordinates.
pub(super) struct Sweep {
    node: NodeId,
    /// The next place to be looked at.
    place: usize,
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
        self.retries.start_turn();
        self.retry_due();
        while let Some((at, timer)) = self.timers.take_due(now) {
            match timer {
                Timer::Expiry { group } => self.expire(group, at),
                Timer::Forget { index, group } => self.forget_results(index, group),
                Timer::Retry { number } => self.retry_timer_fired(number),
                Timer::Heartbeat => self.beat(),
                Timer::Directory => self.ask_for_directory(),
                Timer::Settle => self.settle(),
                Timer::Outside => self.tend_outside(),
                Timer::Retire => self.retire_timer_fired(),
                Timer::Rest => self.rest_timer_fired(),
                Timer::Swap => self.swap_timer_fired(),
                Timer::Digests => self.digests_timer_fired(at),
                Timer::Status { nonce } => self.try_finish_status(nonce, true),
                Timer::Views { batch } => self.views_timer_fired(batch),
                Timer::Part { batch, part } => self.submit_part(batch, part),
                Timer::Change { operation } => self.change_again(operation),
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
                    self.store_unused();
                    self.count_again(now);
                    self.timers.set(now.after_us(BALANCE_US), Timer::Balance);
                }
            }
        }
        self.sweep_suspicions();
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
        for node in self.peers.nodes().collect::<Vec<_>>() {
            self.send_heartbeat(node);
        }
        for node in self.peers.suspect(now) {
            self.suspect(node);
        }
        if self.is_clock_off() {
            self.hand_over_all();
        }
        self.tell_behind();
        self.tend_chains();
        self.tend_registers();
        self.tend_successions();
        self.give_up_wishes();
        self.timers.set(now.after_us(self.settings.timing.heartbeat_us), Timer::Heartbeat);
    }

    pub(super) fn send_heartbeat(&mut self, node: NodeId) {
        let heartbeat = quorate_protocol::peers::Message::Heartbeat { sent_at: self.clock.now() };
        self.outbox.send(node, &Message::Peers(heartbeat));
    }

    /// Every group that this node was believed to coordinate is told, a few a turn; a group asked for is told at once
    /// by whoever asks.
    fn suspect(&mut self, node: NodeId) {
        self.suspected_at.insert(node, self.clock.now());
        // One that has begun leads over groups that have believed in that node again since.
        self.sweeps.retain(|sweep| sweep.node != node);
        self.sweeps.push_back(Sweep { node, place: 0 });
        self.resend_operations_to(node);
    }

    fn sweep_suspicions(&mut self) {
        let mut told = 0;
        for _ in 0..SWEPT_PER_TURN {
            let Some(sweep) = self.sweeps.front_mut() else { return };
            let (node, place) = (sweep.node, sweep.place);
            if place >= self.groups.capacity() || !self.peers.is_suspected(node) {
                self.sweeps.pop_front();
                continue;
            }
            sweep.place += 1;
            let Some(group) = self.groups.get(place) else { continue };
            if group.is_alive() && group.replica.depends_on(node) {
                self.plan(place as u32, Event::Suspected(node));
                told += 1;
                if told == TOLD_PER_TURN {
                    return;
                }
            }
        }
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
            let wait_ms = expiry.0.saturating_sub(stamp.0).max(EXPIRY_STEP_MS);
            let at = now.after_us(wait_ms.saturating_mul(1000));
            if group.expiry_timer.is_none_or(|armed| at.after_us(EXPIRY_STEP_MS * 1000) < armed) {
                group.expiry_timer = Some(at);
                self.timers.set(at, Timer::Expiry { group: id });
            }
        }
        let results = group.machine.results().len();
        let keeps_many = results > if group.own.is_some() { RESULTS_AT_REST_MAX } else { 0 };
        if !group.forget_timer && keeps_many {
            group.forget_timer = true;
            self.timers.set(now.after_us(FORGET_US), Timer::Forget { index, group: id });
        }
    }

    /// The coordinator moves group time past the next expiry; the others look again later, should it be gone.
    fn expire(&mut self, group: GroupId, at: Instant) {
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
        self.timers.set(at, Timer::Expiry { group });
        if expiry > stamp || self.is_clock_off() {
            return;
        }
        match coordinating {
            true => self.plan(index, Event::Proposed(Proposal::Mark)),
            false if is_of_paxos => self.take_over_to_expire(index),
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
    use crate::host::dispatch::tests::first_of;

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
