//! What a router knows of one group.

use alloc::collections::BTreeMap;

use super::{Kgroup, RecallNumber, Scope, SessionId};
use crate::id::{Instant, NodeId, Slot};
use crate::planted::{self, Planted};

/// Where a read may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// To any of these members, by their positions, that has executed this slot.
    Members {
        slot: Slot,
        members: u64,
    },
    Coordinator,
}

/// One group, at a node where its commands enter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Router {
    session: Option<Session>,
    /// What was asked for until then renews the session held, or counts for nothing: were a session taken up again that was once
    /// left, what was recalled meanwhile would be forgotten.
    settled_at: Option<Instant>,
    /// Those of which anything was said in this session.
    kgroups: BTreeMap<Kgroup, Entry>,
    /// The last recall of all kgroups.
    all_recalled: RecallNumber,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Session {
    id: SessionId,
    until: Instant,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Entry {
    /// Whatever write on it does not come by this router is proposed once the kgroup is recalled.
    is_shared: bool,
    /// Of this router's, in this session, without an answer.
    writes: u32,
    /// Its last write is at this slot or below.
    slot: Slot,
    members: u64,
    recalled: RecallNumber,
}

impl Router {
    /// The one held. Its lease may have lapsed, and may still be renewed.
    pub fn session(&self) -> Option<SessionId> {
        self.session.map(|session| session.id)
    }

    fn until(&self) -> Instant {
        self.session.map_or(Instant(0), |session| session.until)
    }

    /// The coordinator grants a session, or renews the one held. Its lease counts from when it was asked for.
    pub fn handle_grant(&mut self, id: SessionId, asked_at: Instant, left_us: u64, now: Instant) {
        let until = asked_at.after_us(left_us);
        match &mut self.session {
            Some(session) if session.id == id => {
                session.until = session.until.max(until);
                self.settled_at = self.settled_at.max(Some(asked_at));
            }
            _ if self.settled_at >= Some(asked_at) => {}
            _ => {
                self.session = Some(Session { id, until });
                self.settled_at = Some(now);
                self.kgroups.clear();
                self.all_recalled = 0;
            }
        }
    }

    pub fn place(&self, kgroup: Kgroup, now: Instant) -> Place {
        let Some(entry) = self.kgroups.get(&kgroup) else { return Place::Coordinator };
        let is_leased = now < self.until() || planted::is(Planted::RouterLeaseIgnored);
        let is_quiet = entry.writes == 0 || planted::is(Planted::RouterWritesUncounted);
        if is_leased && is_quiet && entry.is_shared {
            Place::Members { slot: entry.slot, members: entry.members }
        } else {
            Place::Coordinator
        }
    }

    /// A write is about to be sent, as one of the session that this tells.
    pub fn begin_write(&mut self, kgroup: Kgroup) -> Option<SessionId> {
        let session = self.session()?;
        self.kgroups.entry(kgroup).or_default().writes += 1;
        Some(session)
    }

    /// A write of this session was executed, at this slot at the latest, which these members have accepted; none if that is not
    /// known.
    pub fn end_write(&mut self, session: SessionId, kgroup: Kgroup, slot: Slot, members: u64) {
        if self.session() != Some(session) {
            return;
        }
        let entry = self.kgroups.entry(kgroup).or_default();
        entry.writes = entry.writes.saturating_sub(1);
        if slot >= entry.slot {
            entry.slot = slot;
            entry.members = if members == 0 { u64::MAX } else { members };
        }
    }

    /// A write of this session may be executed at any time, or never: in this session nothing is known to be stable any more.
    pub fn lose_write(&mut self, session: SessionId, now: Instant) {
        if self.session() == Some(session) {
            self.session = None;
            self.settled_at = Some(now);
        }
    }

    /// Whoever has no such session has nothing to be recalled, and may say so.
    pub fn handle_recall(&mut self, from: NodeId, number: RecallNumber, scope: Scope) {
        if planted::is(Planted::RouterIgnoresRecall)
            || self.session.is_none_or(|session| session.id.coordinator != from)
        {
            return;
        }
        match scope {
            Scope::One(kgroup) => {
                let entry = self.kgroups.entry(kgroup).or_default();
                entry.is_shared = false;
                entry.recalled = entry.recalled.max(number);
            }
            Scope::All => {
                self.kgroups.values_mut().for_each(|entry| entry.is_shared = false);
                self.all_recalled = self.all_recalled.max(number);
            }
        }
    }

    /// The coordinator, after so many recalls, shares a kgroup of which all is executed below `next_slot`.
    pub fn handle_share(&mut self, id: SessionId, recalls: RecallNumber, kgroup: Kgroup, next_slot: Slot) {
        let recalled = self.kgroups.get(&kgroup).map_or(0, |entry| entry.recalled).max(self.all_recalled);
        if self.session() != Some(id) || recalls < recalled {
            return;
        }
        let entry = self.kgroups.entry(kgroup).or_default();
        let slot = Slot(next_slot.0.saturating_sub(1));
        if slot >= entry.slot || entry.members == 0 {
            entry.slot = entry.slot.max(slot);
            entry.members = u64::MAX;
        }
        entry.is_shared = true;
    }

    /// The member at this position has not executed what it would need to answer for this kgroup.
    pub fn leave_out(&mut self, kgroup: Kgroup, position: usize) {
        if let Some(entry) = self.kgroups.get_mut(&kgroup) {
            entry.members &= !(1 << position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COORDINATOR: NodeId = NodeId(1);
    const SESSION: SessionId = session_of(COORDINATOR, 7);
    const OTHERS: SessionId = session_of(NodeId(2), 7);
    const ASKED: Instant = Instant(1_000);
    const LEFT_US: u64 = 400;
    const NOW: Instant = Instant(1_100);

    const fn session_of(coordinator: NodeId, number: u64) -> SessionId {
        SessionId { coordinator, number }
    }

    fn kgroup() -> Kgroup {
        Kgroup::of_hash_slot(5)
    }

    fn with_session() -> Router {
        let mut router = Router::default();
        router.handle_grant(SESSION, ASKED, LEFT_US, ASKED.after_us(10));
        router
    }

    fn sharing() -> Router {
        let mut router = with_session();
        router.handle_share(SESSION, 0, kgroup(), Slot(10));
        router
    }

    #[test]
    fn what_is_shared_is_read_at_members_while_the_lease_lasts() {
        let router = sharing();
        assert_eq!(router.place(kgroup(), NOW), Place::Members { slot: Slot(9), members: u64::MAX });
        assert_eq!(router.place(kgroup(), ASKED.after_us(LEFT_US)), Place::Coordinator);
        assert_eq!(router.place(Kgroup::of_hash_slot(6), NOW), Place::Coordinator);
        assert_eq!(with_session().place(kgroup(), NOW), Place::Coordinator);
    }

    #[test]
    fn an_own_write_makes_it_unstable_until_all_of_them_are_answered() {
        let mut router = sharing();
        let sessions = [router.begin_write(kgroup()), router.begin_write(kgroup())];
        assert_eq!(sessions, [Some(SESSION); 2]);
        router.end_write(SESSION, kgroup(), Slot(12), 0b011);
        assert_eq!(router.place(kgroup(), NOW), Place::Coordinator);
        router.end_write(SESSION, kgroup(), Slot(11), 0b111);
        assert_eq!(router.place(kgroup(), NOW), Place::Members { slot: Slot(12), members: 0b011 });
    }

    #[test]
    fn after_a_recall_only_what_was_shared_later_counts() {
        let mut router = sharing();
        router.begin_write(kgroup());
        router.handle_recall(COORDINATOR, 3, Scope::One(kgroup()));
        router.end_write(SESSION, kgroup(), Slot(12), 0b011);
        assert_eq!(router.place(kgroup(), NOW), Place::Coordinator, "others write as well");
        router.handle_share(SESSION, 2, kgroup(), Slot(13));
        assert_eq!(router.place(kgroup(), NOW), Place::Coordinator, "shared before it was recalled");
        router.handle_share(SESSION, 3, kgroup(), Slot(13));
        assert_eq!(router.place(kgroup(), NOW), Place::Members { slot: Slot(12), members: u64::MAX });
        router.handle_recall(COORDINATOR, 4, Scope::All);
        assert_eq!(router.place(kgroup(), NOW), Place::Coordinator);
    }

    #[test]
    fn what_belongs_to_another_session_changes_nothing() {
        let mut router = sharing();
        let stable = router.place(kgroup(), NOW);
        router.handle_recall(NodeId(2), 9, Scope::All);
        router.handle_grant(OTHERS, ASKED.after_us(10), LEFT_US, NOW);
        assert_eq!(router.place(kgroup(), NOW), stable, "asked for before this one was held");
        router.begin_write(kgroup());
        router.handle_grant(OTHERS, ASKED.after_us(11), LEFT_US, NOW);
        assert_eq!(router.session(), Some(OTHERS));
        assert_eq!(router.place(kgroup(), NOW), Place::Coordinator);
        router.handle_share(OTHERS, 0, kgroup(), Slot(20));
        router.end_write(SESSION, kgroup(), Slot(30), 1);
        assert_eq!(router.place(kgroup(), NOW), Place::Members { slot: Slot(19), members: u64::MAX });
    }

    #[test]
    fn a_lost_write_ends_the_session_and_no_grant_brings_it_back() {
        let mut router = sharing();
        router.begin_write(kgroup());
        router.lose_write(SESSION, NOW);
        assert_eq!((router.session(), router.place(kgroup(), NOW)), (None, Place::Coordinator));
        router.handle_grant(SESSION, NOW, LEFT_US, NOW.after_us(1));
        assert_eq!(router.session(), None, "it was asked for before");
        router.handle_grant(session_of(COORDINATOR, 8), NOW.after_us(1), LEFT_US, NOW.after_us(2));
        assert_eq!(router.session(), Some(session_of(COORDINATOR, 8)));
        router.lose_write(SESSION, NOW);
        assert_eq!(router.session(), Some(session_of(COORDINATOR, 8)));
    }

    #[test]
    fn a_session_that_was_left_is_not_taken_up_again() {
        let mut router = sharing();
        let next = session_of(COORDINATOR, 8);
        router.handle_grant(next, ASKED.after_us(11), LEFT_US, NOW);
        router.handle_recall(COORDINATOR, 9, Scope::One(kgroup()));
        // Renewed before the next one was granted, and told after.
        router.handle_grant(SESSION, ASKED.after_us(12), LEFT_US, NOW.after_us(1));
        assert_eq!(router.session(), Some(next));
        router.handle_share(SESSION, 0, kgroup(), Slot(10));
        assert_eq!(router.place(kgroup(), NOW.after_us(1)), Place::Coordinator);
    }

    #[test]
    fn a_member_that_is_behind_is_left_out_until_the_kgroup_is_shared_anew() {
        let mut router = sharing();
        (0..64).for_each(|position| router.leave_out(kgroup(), position));
        assert_eq!(router.place(kgroup(), NOW), Place::Members { slot: Slot(9), members: 0 });
        router.handle_share(SESSION, 0, kgroup(), Slot(8));
        assert_eq!(router.place(kgroup(), NOW), Place::Members { slot: Slot(9), members: u64::MAX });
    }
}
