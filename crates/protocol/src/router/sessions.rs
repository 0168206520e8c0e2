//! What the coordinator of a group knows of its routers.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{Kgroup, RecallNumber, Scope, SessionId};
use crate::id::{Instant, NodeId};

/// Numbers that one start of a node has to give.
const NUMBER_BITS: u32 = 40;

/// Routers of one group. Other nodes send what they read to the coordinator.
pub const ROUTERS_MAX: usize = 16;

/// The sessions that this node has granted in one group. They outlast its coordination: each until its lease is over.
///
/// Made once for a group while a node runs, and kept also when empty: what is made anew gives the same numbers again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sessions {
    me: NodeId,
    list: Vec<Session>,
    /// Given last, as the number of a session or of a recall.
    number: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Session {
    router: NodeId,
    id: SessionId,
    /// At the giver.
    until: Instant,
    /// What the router may know to be stable. It may know less.
    shared: BTreeSet<Kgroup>,
    recalls: RecallNumber,
    /// Recalls that it has not confirmed.
    open: BTreeMap<Scope, RecallNumber>,
}

/// To be told to a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recall {
    pub router: NodeId,
    pub number: RecallNumber,
    pub scope: Scope,
}

impl Session {
    /// Whether a recall that concerns this is not confirmed.
    fn is_awaited(&self, scope: Scope) -> bool {
        match scope {
            Scope::One(_) => self.open.contains_key(&scope) || self.open.contains_key(&Scope::All),
            Scope::All => !self.open.is_empty(),
        }
    }
}

impl Sessions {
    /// `start` is the node's durable count of its starts: no number is given twice.
    pub fn new(me: NodeId, start: u32) -> Sessions {
        Sessions { me, list: Vec::new(), number: u64::from(start) << NUMBER_BITS }
    }

    /// This node coordinates, perhaps anew. Others may have decided what none of its sessions was told of, and so may its own
    /// election: no session from before is renewed.
    pub fn on_elected(&mut self) {
        for session in &mut self.list {
            self.number += 1;
            session.id = SessionId { coordinator: self.me, number: self.number };
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// A router asks for a session, or for the renewal of the one that it holds. `None` if there are too many.
    ///
    /// One that holds another than was granted last gets a new one, in which a write of the old one is like anybody's. Which
    /// of the two it will go by is not known, so that what was shared stays to be recalled.
    pub fn grant(
        &mut self,
        router: NodeId,
        held: Option<SessionId>,
        now: Instant,
        until: Instant,
    ) -> Option<SessionId> {
        self.forget_lapsed(now);
        if let Some(session) = self.list.iter_mut().find(|session| session.router == router) {
            session.until = session.until.max(until);
            if held != Some(session.id) {
                self.number += 1;
                session.id = SessionId { coordinator: self.me, number: self.number };
            }
            return Some(session.id);
        }
        if self.list.len() >= ROUTERS_MAX {
            return None;
        }
        self.number += 1;
        let (id, recalls) = (SessionId { coordinator: self.me, number: self.number }, self.number);
        self.list.push(Session { router, id, until, shared: BTreeSet::new(), recalls, open: BTreeMap::new() });
        Some(id)
    }

    /// Sessions whose leases are over are no more. Were one of them renewed, it would miss the writes that did not wait for it.
    pub fn forget_lapsed(&mut self, now: Instant) {
        self.list.retain(|session| now < session.until);
    }

    /// When the first one lapses that has not confirmed a recall.
    pub fn lapse_at(&self) -> Option<Instant> {
        let is_open = |session: &&Session| !session.open.is_empty();
        self.list.iter().filter(is_open).map(|session| session.until).min()
    }

    /// A write is to be proposed that came by this router in this session, or by none. Appends what has to be recalled first. True if
    /// nothing is to be waited for.
    ///
    /// A router counts its writes by kgroup: one that may change more is like anybody's.
    pub fn admit(
        &mut self,
        scope: Scope,
        by: Option<(NodeId, SessionId)>,
        now: Instant,
        recalls: &mut Vec<Recall>,
    ) -> bool {
        self.forget_lapsed(now);
        let mut is_admitted = true;
        let by = by.filter(|_| scope != Scope::All);
        for session in &mut self.list {
            if by == Some((session.router, session.id)) {
                continue;
            }
            let is_shared = match scope {
                Scope::One(kgroup) => session.shared.remove(&kgroup),
                Scope::All => !core::mem::take(&mut session.shared).is_empty(),
            };
            if is_shared {
                self.number += 1;
                session.recalls = self.number;
                session.open.insert(scope, self.number);
                recalls.push(Recall { router: session.router, number: self.number, scope });
            }
            is_admitted &= !session.is_awaited(scope);
        }
        is_admitted
    }

    /// Everything that is not confirmed, to be told again.
    pub fn open_recalls(&self) -> impl Iterator<Item = Recall> + '_ {
        self.list.iter().flat_map(|session| {
            let of_router =
                |(&scope, &number): (&Scope, &RecallNumber)| Recall { router: session.router, number, scope };
            session.open.iter().map(of_router)
        })
    }

    /// What the router has confirmed, if that was open.
    pub fn handle_recalled(&mut self, router: NodeId, number: RecallNumber) -> Option<Scope> {
        let session = self.list.iter_mut().find(|session| session.router == router)?;
        let (&scope, _) = session.open.iter().find(|(_, open)| **open == number)?;
        session.open.remove(&scope);
        Some(scope)
    }

    /// Shares a kgroup on which nothing is in hand, if that is the router's session. How many recalls there were before.
    pub fn share(&mut self, router: NodeId, id: SessionId, kgroup: Kgroup, now: Instant) -> Option<RecallNumber> {
        let session = self.list.iter_mut().find(|session| session.router == router && session.id == id)?;
        if session.until <= now {
            return None;
        }
        session.shared.insert(kgroup);
        Some(session.recalls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant(1_000);
    const UNTIL: Instant = Instant(1_400);
    const ME: NodeId = NodeId(1);
    const ONE: NodeId = NodeId(2);
    const OTHER: NodeId = NodeId(3);

    fn kgroup(hash_slot: u16) -> Kgroup {
        Kgroup::of_hash_slot(hash_slot)
    }

    fn scope() -> Scope {
        Scope::One(kgroup(5))
    }

    fn admit(sessions: &mut Sessions, by: Option<(NodeId, SessionId)>, now: Instant) -> (bool, Vec<Recall>) {
        let mut recalls = Vec::new();
        let is_admitted = sessions.admit(scope(), by, now, &mut recalls);
        (is_admitted, recalls)
    }

    fn shared_with_both() -> (Sessions, [SessionId; 2]) {
        let mut sessions = Sessions::new(ME, 1);
        let ids = [ONE, OTHER].map(|router| {
            let id = sessions.grant(router, None, NOW, UNTIL).expect("there are few");
            sessions.share(router, id, kgroup(5), NOW).expect("it is its session");
            id
        });
        (sessions, ids)
    }

    #[test]
    fn a_write_waits_for_all_others_that_share_its_kgroup() {
        let (mut sessions, [one, _]) = shared_with_both();
        let (is_admitted, recalls) = admit(&mut sessions, Some((ONE, one)), NOW);
        assert_eq!((is_admitted, recalls.len(), recalls[0].router), (false, 1, OTHER));
        assert_eq!(admit(&mut sessions, Some((ONE, one)), NOW), (false, Vec::new()), "told once");
        assert_eq!(sessions.open_recalls().collect::<Vec<_>>(), recalls);
        sessions.handle_recalled(ONE, recalls[0].number);
        assert!(!admit(&mut sessions, Some((ONE, one)), NOW).0, "another has confirmed");
        sessions.handle_recalled(OTHER, recalls[0].number);
        assert_eq!(admit(&mut sessions, Some((ONE, one)), NOW), (true, Vec::new()));
        let (is_admitted, recalls) = admit(&mut sessions, None, NOW);
        assert_eq!((is_admitted, recalls.len(), recalls[0].router), (false, 1, ONE), "it is anybody's now");
    }

    #[test]
    fn other_kgroups_are_not_concerned() {
        let (mut sessions, _) = shared_with_both();
        let mut recalls = Vec::new();
        assert!(sessions.admit(Scope::One(kgroup(6)), None, NOW, &mut recalls) && recalls.is_empty());
        assert!(!sessions.admit(Scope::All, None, NOW, &mut recalls));
        assert_eq!(recalls.len(), 2);
        assert!(!sessions.admit(Scope::One(kgroup(6)), None, NOW, &mut recalls), "all are recalled");
    }

    #[test]
    fn nobody_is_waited_for_beyond_its_lease_and_what_it_missed_is_never_renewed() {
        let (mut sessions, [one, _]) = shared_with_both();
        assert!(!admit(&mut sessions, None, Instant(1_399)).0);
        assert_eq!(sessions.lapse_at(), Some(UNTIL));
        assert!(admit(&mut sessions, None, UNTIL).0);
        let anew = sessions.grant(ONE, Some(one), UNTIL, Instant(1_800));
        assert!(anew.is_some_and(|anew| anew != one));
        assert_eq!(sessions.share(ONE, one, kgroup(5), UNTIL), None);
    }

    #[test]
    fn a_session_is_renewed_for_whoever_holds_it_and_begins_anew_for_whoever_does_not() {
        let (mut sessions, [one, _]) = shared_with_both();
        assert_eq!(sessions.grant(ONE, Some(one), NOW, UNTIL), Some(one));
        let anew = sessions.grant(ONE, None, NOW, UNTIL).expect("it has one");
        assert_ne!(anew, one);
        let (is_admitted, recalls) = admit(&mut sessions, Some((ONE, one)), NOW);
        assert!(!is_admitted && recalls.len() == 2, "what was shared with the session before is recalled: {recalls:?}");
    }

    #[test]
    fn what_was_granted_before_an_election_is_recalled_and_not_renewed() {
        let (mut sessions, [one, _]) = shared_with_both();
        sessions.on_elected();
        let anew = sessions.grant(ONE, Some(one), NOW, UNTIL);
        assert!(anew.is_some_and(|anew| anew != one));
        assert_eq!(admit(&mut sessions, Some((ONE, one)), NOW).1.len(), 2);
    }

    #[test]
    fn two_coordinators_give_no_session_the_same_name() {
        let [one, other] = [NodeId(1), NodeId(2)].map(|me| Sessions::new(me, 1).grant(ONE, None, NOW, UNTIL));
        assert_ne!(one, other);
    }

    #[test]
    fn a_write_of_more_than_a_kgroup_is_nobodys() {
        let (mut sessions, [one, _]) = shared_with_both();
        let mut recalls = Vec::new();
        assert!(!sessions.admit(Scope::All, Some((ONE, one)), NOW, &mut recalls));
        assert_eq!(recalls.len(), 2);
    }

    #[test]
    fn a_renewal_that_is_shorter_takes_nothing_back() {
        let (mut sessions, [one, other]) = shared_with_both();
        sessions.grant(ONE, Some(one), NOW, Instant(1_100));
        assert!(!admit(&mut sessions, Some((OTHER, other)), Instant(1_399)).0);
    }

    #[test]
    fn there_are_so_many_routers_and_no_more() {
        let mut sessions = Sessions::new(ME, 1);
        for router in 0..ROUTERS_MAX as u32 {
            assert!(sessions.grant(NodeId(router), None, NOW, UNTIL).is_some());
        }
        assert_eq!(sessions.grant(NodeId(99), None, NOW, UNTIL), None);
        assert!(sessions.grant(NodeId(0), None, NOW, UNTIL).is_some());
        assert!(sessions.grant(NodeId(99), None, UNTIL, Instant(1_800)).is_some(), "the others have lapsed");
    }
}
