//! The last turns of a node that was told to stop: it hands over, answers what is in flight, lets the others know that they are to go on
//! without it, and makes everything durable.
//!
//! It waits for nobody who is not there. Nodes of a cluster are often stopped together, and the last of them have nobody
//! to hand over to, or are handed what the others coordinated.

use std::collections::HashSet;

use quorate_node::host::Group;
use quorate_protocol::{GroupId, Instant, NodeId};
use quorate_wal::Lsn;
use tracing::{info, warn};

use super::{Order, Worker, tell_fault};
use crate::ServerError;
use crate::directory::{Directory, DirectoryError};
use crate::links::Links;

/// While stopping, how often it is looked whether all is done.
pub(super) const STOPPING_SLEEP_US: u64 = 5_000;
/// How long a stop waits for what is in flight, and for others to take over.
const STOP_PATIENCE_US: u64 = 5_000_000;
/// How long it waits for the others to know that they can go on without this node.
const LEAVE_PATIENCE_US: u64 = 2_000_000;
/// How often it is looked which groups are still to be handed over: there may be very many.
const LOOK_US: u64 = 10_000;
/// What could not go, since members were bound to this node or the heir went away, is handed over again so often.
const AGAIN_US: u64 = 100_000;

pub(super) struct Stopping {
    until: Instant,
    leaves_by: Instant,
    look_at: Instant,
    again_at: Instant,
    /// Groups that this node coordinated and has not been seen without. What others hand to it meanwhile, since they stop
    /// too, is not among them: two nodes would hand the same groups to each other for ever.
    waited_for: HashSet<GroupId>,
}

impl Worker {
    pub(super) fn begin_stop(&mut self, now: Instant) {
        if self.orders.read() != Order::Stop {
            return;
        }
        match &mut self.state.stopping {
            Some(stopping) if stopping.again_at <= now && !stopping.waited_for.is_empty() => {
                stopping.again_at = now.after_us(AGAIN_US);
                self.host.hand_over_all(|node| self.links.is_linked_to(node));
            }
            Some(_) => {}
            None => {
                self.supervisor.stops();
                self.clients.leave();
                self.host.leave();
                let handed = self.host.hand_over_all(|node| self.links.is_linked_to(node));
                let (count, in_flight) = (handed.len(), self.state.in_flight);
                info!("stopping: {count} groups are handed over, {in_flight} commands are in flight");
                self.state.stopping = Some(Stopping {
                    until: now.after_us(STOP_PATIENCE_US),
                    leaves_by: now.after_us(LEAVE_PATIENCE_US),
                    look_at: now,
                    again_at: now.after_us(AGAIN_US),
                    waited_for: handed.into_iter().collect(),
                });
            }
        }
    }

    pub(super) fn is_stopped(&mut self) -> bool {
        let Some(stopping) = &mut self.state.stopping else { return false };
        let now = self.clocks.now();
        if stopping.until <= now {
            return true;
        }
        if stopping.look_at <= now && !stopping.waited_for.is_empty() {
            stopping.look_at = now.after_us(LOOK_US);
            let before = std::mem::take(&mut stopping.waited_for);
            let is_left = |group: &&Group| {
                group.replica.is_coordinating() && before.contains(&group.id()) && has_heir(group, &self.links)
            };
            stopping.waited_for = self.host.groups().filter(is_left).map(Group::id).collect();
        }
        let is_relied_on = now < stopping.leaves_by && self.host.is_relied_on();
        stopping.waited_for.is_empty()
            && !is_relied_on
            && self.state.in_flight == 0
            && self.front.is_idle_of_applications()
            && self.clients.is_all_sent()
    }

    /// Makes everything durable, and says so where the next start looks.
    pub(super) fn end_cleanly(mut self) -> Result<(), ServerError> {
        if let Some(durable) = self.disk.flush_all(self.host.log_mut())? {
            self.host.flushed(durable);
        }
        let now = self.clocks.now();
        self.speak(now);
        // What the last flush set off is durable as well, or nobody was told of it; then all of it is vouched for.
        for _ in 0..2 {
            if let Some(durable) = self.disk.flush_all(self.host.log_mut())? {
                self.host.flushed(durable);
            }
        }
        for group in self.host.close() {
            warn!(
                "group {}, which only memory held, cannot be stored: names in it that are on the disk could not be read. After \
                 the next start it neither votes nor serves here until the other members have taken it in anew",
                group.0
            );
        }
        self.host.take_faults().iter().for_each(tell_fault);
        let log_end = self.host.log_mut().durable();
        self.checkpointer.hand_over(self.host.take_batches());
        self.lookups.end();
        let is_stored = self.checkpointer.end()?;
        let is_marked = self.disk.has_space() && is_stored && mark_stopped(self.directory, log_end)?;
        if is_marked {
            info!("stopped");
        } else {
            info!("stopped; the next start takes what was not stored for forgotten");
        }
        Ok(())
    }
}

/// Says in the directory that the run ends cleanly. False if there is no space to say so.
fn mark_stopped(directory: Directory, log_end: Lsn) -> Result<bool, DirectoryError> {
    match directory.stop_cleanly(log_end.0) {
        Ok(()) => Ok(true),
        Err(error) if error.is_for_space() => {
            warn!("{error}: to the next start this stop is a crash");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Whether there is somebody who could coordinate the group in this node's place.
fn has_heir(group: &Group, links: &Links) -> bool {
    is_quorum_with(&group.configuration.members, |member| links.is_linked_to(member))
}

/// Whether this node and the members that it can reach are a majority, and there are any.
fn is_quorum_with(members: &[NodeId], can_reach: impl Fn(NodeId) -> bool) -> bool {
    let reached = members.iter().filter(|&&member| can_reach(member)).count();
    reached > 0 && reached + 1 > members.len() / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_waited_for_who_could_not_take_over() {
        let members = [1, 2, 3, 4, 5].map(NodeId);
        let reaching = |reached: &[u32]| is_quorum_with(&members, |node| reached.contains(&node.0));
        assert!(reaching(&[4, 5]));
        assert!(!reaching(&[5]), "two of five decide nothing");
        assert!(!is_quorum_with(&members[..1], |_| false), "it is its only member");
    }
}
