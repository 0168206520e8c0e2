//! Operations that are sent again: those that came back, and those of which nothing is heard.

use std::collections::VecDeque;

use hashbrown::HashMap;
use quorate_protocol::{GroupId, Instant, NodeId};

use super::steps::next_random;
use super::{Host, Timer};
use crate::entry::Operation;
use crate::hash::FixedState;
use crate::volume::volume_of;

/// An operation that came back is sent again after this, and a little at random.
pub(super) const RETRY_US: u64 = 10_000;
/// ... and after twice as long each time, up to 2 to this power times as long.
const RETRY_DOUBLINGS_MAX: u32 = 3;
/// However many come back, one of them is sent again in so long on average: more than this, whoever turned them back would have
/// to do less of what they wait for.
const RETRY_SPACING_US: u64 = 20;
/// ... and none waits longer than this for its turn.
const RETRY_TURN_US_MAX: u64 = 1_000_000;
/// Operations sent again in one turn: clients and heartbeats come between.
const RETRIES_PER_TURN: usize = 2_000;
/// An operation of which nothing is heard is sent again after this.
const RESEND_US: u64 = 1_000_000;
/// ... though no more of them than this whenever they are looked for.
const RESENT_AT_ONCE: usize = 2_000;
/// Own groups whose end is awaited, and operations that wait for one: of more, each is sent again in its time.
const ENDINGS_MAX: usize = 10_000;
const PER_ENDING_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Retries {
    /// When all that have come back so far will have had their turns.
    taken_until: Instant,
    /// Their time has come.
    due: VecDeque<u64>,
    /// So many more are sent again in this turn.
    left: usize,
    /// Operations that go on once these own groups have ended.
    endings: HashMap<GroupId, Vec<u64>, FixedState>,
}

impl Retries {
    /// How long one more has to wait for its turn.
    fn take_turn(&mut self, now: Instant) -> u64 {
        let wait_us = self.taken_until.0.saturating_sub(now.0);
        self.taken_until = now.after_us((wait_us + RETRY_SPACING_US).min(RETRY_TURN_US_MAX));
        wait_us
    }

    pub(super) fn start_turn(&mut self) {
        self.left = RETRIES_PER_TURN;
    }

    #[cfg(test)]
    pub(super) fn awaited_ends(&self) -> usize {
        self.endings.len()
    }

    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }
}

impl Host {
    pub(super) fn retry_later(&mut self, number: u64) {
        let now = self.clock.now();
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        // Another copy of it has come back before.
        if operation.retry_at.is_some_and(|at| at > now) {
            return;
        }
        let (attempts, predecessor) = (operation.attempts, operation.predecessor);
        // Before the one before it, it would only come back again.
        let before = self.operations(number).find(predecessor).and_then(|before| before.retry_at);
        if let Some(at) = before.filter(|&at| at > now) {
            return self.retry_after(number, at.0 - now.0);
        }
        let base_us = RETRY_US << attempts.min(RETRY_DOUBLINGS_MAX);
        let wait_us = base_us + next_random(&mut self.random) % base_us;
        let turn_us = self.retries.take_turn(now);
        self.retry_after(number, wait_us + turn_us);
    }

    /// Its object's own group ends.
    pub(super) fn retry_anew(&mut self, number: u64) {
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        operation.count_anew();
        let ending = operation.own.as_ref().map(|own| own.group);
        self.go_by_volume(number);
        self.retry_later(number);
        if let Some(group) = ending {
            self.await_end(number, group);
        }
    }

    /// The operation waits for the end of an own group: it is sent again as soon as the volume's replica here has executed that.
    /// What that has not heard of yet, or of what it is not here, the operation asks for again in its time.
    pub(super) fn await_end(&mut self, number: u64, group: GroupId) {
        let Some((volume, own)) = volume_of(group) else { return };
        let Some(index) = self.find(volume).filter(|&index| self.groups[index as usize].is_alive()) else { return };
        let Some(children) = self.groups[index as usize].machine.children() else { return };
        let (is_ending, last_number) = (children.stopping.contains_key(&own), children.last_number);
        if !is_ending {
            let now = self.own_number_of(number);
            return if last_number >= own && now != Some(own) {
                self.retry_after(number, 0)
            };
        }
        let endings = &self.retries.endings;
        let is_full = endings.len() >= ENDINGS_MAX && !endings.contains_key(&group);
        let Some(operation) = self.operations(number).find_mut(number).filter(|_| !is_full) else { return };
        if operation.awaits.replace(group) == Some(group) {
            return;
        }
        let mut waiting = self.retries.endings.remove(&group).unwrap_or_default();
        if waiting.len() >= PER_ENDING_MAX {
            waiting.retain(|&number| self.awaits(number, group));
        }
        if waiting.len() < PER_ENDING_MAX {
            waiting.push(number);
        }
        self.retries.endings.insert(group, waiting);
    }

    fn awaits(&self, number: u64, group: GroupId) -> bool {
        self.operations_of(number).find(number).is_some_and(|operation| operation.awaits == Some(group))
    }

    /// The volume's replica here has executed the end of an own group.
    pub(super) fn end_awaited(&mut self, group: GroupId) {
        for number in self.retries.endings.remove(&group).unwrap_or_default() {
            if !self.awaits(number, group) {
                continue;
            }
            let Some(operation) = self.operations(number).find_mut(number) else { continue };
            operation.awaits = None;
            // Else it is on its way again.
            if operation.retry_at.is_some() {
                self.retry_after(number, 0);
            }
        }
    }

    /// The volume's replica here stands on another state, or is gone: whoever awaits the end of one of its own groups looks again.
    pub(super) fn end_all_awaited(&mut self, volume: GroupId) {
        let is_of_volume = |group: &GroupId| volume_of(*group).is_some_and(|(of, _)| of == volume);
        let mut groups: Vec<GroupId> = self.retries.endings.keys().copied().filter(is_of_volume).collect();
        groups.sort_unstable();
        groups.into_iter().for_each(|group| self.end_awaited(group));
    }

    pub(super) fn retry_after(&mut self, number: u64, wait_us: u64) {
        let at = self.clock.now().after_us(wait_us);
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        if operation.retry_at.is_none_or(|earlier| at < earlier) {
            operation.retry_at = Some(at);
            self.timers.set(at, Timer::Retry { number });
        }
    }

    pub(super) fn retry_timer_fired(&mut self, number: u64) {
        self.retries.due.push_back(number);
        self.retry_due();
    }

    pub(super) fn retry_due(&mut self) {
        while self.retries.left > 0
            && let Some(number) = self.retries.due.pop_front()
        {
            self.retries.left -= 1;
            self.retry(number);
        }
    }

    /// Sends an operation again, and right behind it those that wait for it: a pipeline of thousands on one object is
    /// executed in one go then, where each for itself would mostly arrive before the one before it.
    pub(super) fn retry(&mut self, number: u64) {
        let now = self.clock.now();
        let Some(operation) = self.operations(number).find_mut(number) else { return };
        // It went with the one before it, and may have come back since.
        if operation.retry_at.is_none_or(|at| at > now) {
            return;
        }
        let mut next = Some(number);
        while let Some(number) = next {
            let Some(operation) = self.operations(number).find_mut(number) else { return };
            if operation.retry_at.take().is_none() {
                return;
            }
            next = operation.successor;
            self.dispatch(number);
            // It got nowhere, and nor would they.
            if self.operations(number).find_mut(number).is_some_and(|operation| operation.retry_at.is_some()) {
                return;
            }
        }
    }

    /// Sends everything again that went to a node and was not answered, in order.
    pub(super) fn resend_operations_to(&mut self, node: NodeId) {
        let sent_there = |operation: &&Operation| operation.sent_to == Some(node);
        let numbers: Vec<u64> = self
            .clients
            .iter()
            .chain(self.internals.iter())
            .filter(sent_there)
            .map(|operation| operation.number)
            .collect();
        for number in numbers {
            self.counters.resent += 1;
            self.dispatch(number);
        }
    }

    /// Sends again what has been silent for too long.
    pub(super) fn resend_silent(&mut self) {
        let now = self.clock.now();
        let silent = |operation: &&Operation| {
            let patience_us = RESEND_US << operation.attempts.saturating_sub(1).min(2);
            !operation.parked && operation.sent_at.after_us(patience_us) <= now
        };
        let numbers = self.internals.iter().chain(self.clients.iter()).filter(silent).map(|operation| operation.number);
        for number in numbers.take(RESENT_AT_ONCE).collect::<Vec<u64>>() {
            self.counters.resent += 1;
            self.dispatch(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_object::Command;
    use quorate_protocol::Stamp;
    use quorate_wal::memory::MemoryStorage;

    use super::*;
    use crate::entry::Target;
    use crate::frame::Bounce;
    use crate::host::Submission;
    use crate::host::dispatch::tests::{first_of, settle};
    use crate::{Host, Moment};

    const COUNT: u64 = 10_000;

    /// A node that does not know its cluster yet, and so sends none of these operations anywhere.
    fn waiting() -> Host {
        let mut host = first_of(3);
        for number in 1..=COUNT {
            let target = Target::Slot { namespace: 0, slot: 0 };
            host.submit(Submission { number, predecessor: None, target, command: &Command::Get { key: b"key" } });
        }
        host
    }

    fn count(host: &Host, is_counted: impl Fn(Instant) -> bool) -> usize {
        host.clients.iter().filter(|operation| operation.retry_at.is_some_and(&is_counted)).count()
    }

    #[test]
    fn those_that_come_back_at_once_are_sent_again_one_after_the_other() {
        let host = waiting();
        let now = host.clock.now();
        assert_eq!(count(&host, |_| true), COUNT as usize);
        for after_us in [20_000, 50_000, 100_000, 200_000] {
            let before = count(&host, |at| at <= now.after_us(after_us));
            assert!(before as u64 <= (after_us - RETRY_US) / RETRY_SPACING_US, "{before} before {after_us} us");
        }
        assert_eq!(count(&host, |at| at > now.after_us(RETRY_TURN_US_MAX + 2 * RETRY_US)), 0);
    }

    #[test]
    fn what_comes_back_behind_one_that_waits_goes_again_with_it() {
        let mut host = first_of(1);
        settle(&mut host);
        for number in 1..=100 {
            let target = Target::Slot { namespace: 0, slot: 0 };
            let predecessor = (number > 1).then(|| number - 1);
            host.submit(Submission { number, predecessor, target, command: &Command::Del { key: b"key" } });
        }
        (1..=100).for_each(|number| host.handle_bounced(NodeId(1), 1, number, Bounce::Stopped));
        let first_at = host.clients.find(1).and_then(|first| first.retry_at).expect("it waits");
        assert_eq!(count(&host, |at| at == first_at), 100);
    }

    #[test]
    fn a_turn_sends_some_again_only_and_the_next_one_goes_on() {
        let mut host = waiting();
        let now = host.clock.now().after_us(RETRY_TURN_US_MAX);
        let mut turns = 0;
        loop {
            host.begin(Moment { now, wall: Stamp(1_700_000_001_000) });
            host.end(&MemoryStorage::default());
            turns += 1;
            // A few are of the node's own.
            let (sent, expected) = (count(&host, |at| at > now), (turns * RETRIES_PER_TURN).min(COUNT as usize));
            assert!(sent <= expected && sent + 10 >= expected, "{sent} instead of {expected}");
            assert!(host.timers.count() < 2 * COUNT as usize, "timers pile up");
            if !host.retries.is_due() {
                break;
            }
            assert_eq!(host.next_turn_at(), now);
        }
        assert!((5..=6).contains(&turns), "{turns} turns");
    }

    #[test]
    fn of_many_silent_ones_some_are_sent_again_at_a_time() {
        let mut host = waiting();
        host.begin(Moment { now: host.clock.now().after_us(RESEND_US), wall: Stamp(1_700_000_001_000) });
        host.resend_silent();
        assert_eq!(host.counters.resent, RESENT_AT_ONCE as u64);
    }
}
