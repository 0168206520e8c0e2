//! What this node knows of each other: whether it is alive, and the leases between the two.
//!
//! One heartbeat a pair of nodes serves every group they share. A heartbeat asks for a grant; the answer gives it. The
//! asker counts the grant from when it *asked*, the giver from when it *answered*, and the giver's is the longer, so
//! the giver is bound for at least as long as the holder believes. What a grant binds its giver to is the protocols'
//! business: in groups where its promise is the holder's, it promises nobody else while the grant lasts.
//!
//! A node that can put nothing on record says so, and is soon excused, for as long as most nodes are alive and can: it counts as
//! suspected whatever is heard of it, and is given no grant, so that others may take its place. Where most cannot there is nobody
//! to take it, and everything stays as it is.
//!
//! Grants are numbered. The number changes when a grant lapsed before it was renewed: whatever the giver said under
//! the old number no longer counts for the holder. Clocks may differ in rate by up to 500 ppm, never in the order of
//! their own readings.

use alloc::vec::Vec;

use crate::id::{Instant, NodeId};

/// Durations in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub heartbeat_us: u64,
    /// A node unheard of for this long is suspected.
    pub suspicion_us: u64,
    /// How long a grant counts at its holder, from asking.
    pub lease_held_us: u64,
    /// How long a grant binds its giver, from answering.
    pub lease_given_us: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { heartbeat_us: 100_000, suspicion_us: 500_000, lease_held_us: 400_000, lease_given_us: 450_000 }
    }
}

impl Timing {
    /// Whether the durations fit together: see the module's text and the bound on clock rates.
    pub fn is_consistent(&self) -> bool {
        let drift_us = self.lease_given_us / 500;
        self.heartbeat_us > 0
            && self.heartbeat_us * 2 < self.lease_held_us
            && self.lease_held_us + drift_us < self.lease_given_us
            && self.lease_given_us <= self.suspicion_us
    }
}

/// The number of an unbroken grant; 0 is no grant.
pub type GrantNumber = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    Heartbeat { sent_at: Instant },
    Grant { sent_at: Instant, number: GrantNumber },
}

#[derive(Clone, Debug)]
struct Peer {
    node: NodeId,
    heard_at: Instant,
    suspected: bool,
    /// It has said that until then it can put nothing on record.
    unable_until: Instant,
    unable_since: Instant,
    excused: bool,
    held: GrantNumber,
    held_until: Instant,
    given: GrantNumber,
    given_until: Instant,
}

#[derive(Clone, Debug)]
pub struct Peers {
    timing: Timing,
    started_at: Instant,
    /// Above every number given before the last start, so that none is given twice.
    given_number_max: GrantNumber,
    /// This node itself.
    is_unable: bool,
    unable_since: Option<Instant>,
    is_excused: bool,
    list: Vec<Peer>,
}

impl Peers {
    /// `start_number` is the node's durable count of its starts.
    pub fn new(timing: Timing, started_at: Instant, start_number: u32) -> Peers {
        assert!(timing.is_consistent(), "{timing:?}");
        let given_number_max = u64::from(start_number) << 32;
        Peers {
            timing,
            started_at,
            given_number_max,
            is_unable: false,
            unable_since: None,
            is_excused: false,
            list: Vec::new(),
        }
    }

    pub fn timing(&self) -> Timing {
        self.timing
    }

    pub fn add(&mut self, node: NodeId, now: Instant) {
        if self.find(node).is_none() {
            self.list.push(Peer {
                node,
                heard_at: now,
                suspected: false,
                unable_until: Instant(0),
                unable_since: Instant(0),
                excused: false,
                held: 0,
                held_until: Instant(0),
                given: 0,
                given_until: Instant(0),
            });
        }
    }

    pub fn remove(&mut self, node: NodeId) {
        self.list.retain(|peer| peer.node != node);
    }

    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.list.iter().map(|peer| peer.node)
    }

    /// Anything at all arrived from this node. True if it had been suspected.
    pub fn heard(&mut self, node: NodeId, now: Instant) -> bool {
        let Some(peer) = self.find_mut(node) else {
            return false;
        };
        peer.heard_at = peer.heard_at.max(now);
        core::mem::replace(&mut peer.suspected, false)
    }

    /// Nothing could be heard until now, of whoever it was.
    pub fn begin_listening(&mut self, now: Instant) {
        for peer in &mut self.list {
            peer.heard_at = peer.heard_at.max(now);
        }
    }

    /// Whether this node can put nothing on record, which it is to tell the others with each heartbeat.
    pub fn set_unable(&mut self, is_unable: bool) {
        self.is_unable = is_unable;
        if !is_unable {
            self.unable_since = None;
            self.is_excused = false;
        }
    }

    /// Another node has said that it can put nothing on record.
    pub fn note_unable(&mut self, node: NodeId, now: Instant) {
        let until = now.after_us(self.timing.suspicion_us);
        if let Some(peer) = self.find_mut(node) {
            if peer.unable_until <= now {
                peer.unable_since = now;
            }
            peer.unable_until = until;
        }
    }

    pub fn is_unable(&self, node: NodeId, now: Instant) -> bool {
        self.find(node).is_some_and(|peer| now < peer.unable_until)
    }

    /// Whether others are to do in place of this node what has to be put on record.
    pub fn is_excused_itself(&self) -> bool {
        self.is_excused
    }

    /// For how long they have, about.
    pub fn excused_for_us(&self, now: Instant) -> Option<u64> {
        let since = self.unable_since.filter(|_| self.is_excused)?.after_us(self.timing.suspicion_us);
        Some(now.0.saturating_sub(since.0))
    }

    pub fn is_excused(&self, node: NodeId) -> bool {
        self.find(node).is_some_and(|peer| peer.excused)
    }

    /// Gives or renews the lease that a heartbeat asks for. The answer must be sent.
    pub fn handle_heartbeat(&mut self, from: NodeId, sent_at: Instant, now: Instant) -> Option<Message> {
        let number_next = self.given_number_max + 1;
        let given_until = now.after_us(self.timing.lease_given_us);
        let peer = self.find_mut(from)?;
        if peer.excused {
            return Some(Message::Grant { sent_at, number: 0 });
        }
        let unbroken = peer.given != 0 && now < peer.given_until;
        if !unbroken {
            peer.given = number_next;
        }
        peer.given_until = peer.given_until.max(given_until);
        let number = peer.given;
        if !unbroken {
            self.given_number_max = number_next;
        }
        Some(Message::Grant { sent_at, number })
    }

    /// What is given to this node from now on is another grant. Until when the one that it has may count there.
    pub fn break_grant(&mut self, holder: NodeId, now: Instant) -> Instant {
        let from_before_the_start = self.started_at.after_us(self.timing.lease_given_us);
        let Some(peer) = self.find_mut(holder) else { return from_before_the_start.max(now) };
        peer.given = 0;
        peer.given_until.max(from_before_the_start).max(now)
    }

    pub fn handle_grant(&mut self, from: NodeId, sent_at: Instant, number: GrantNumber) {
        let held_until = sent_at.after_us(self.timing.lease_held_us);
        let Some(peer) = self.find_mut(from) else {
            return;
        };
        // An older number arrives late: the giver has broken that grant since.
        if number < peer.held {
            return;
        }
        if number > peer.held {
            peer.held = number;
            peer.held_until = held_until;
        }
        peer.held_until = peer.held_until.max(held_until);
    }

    /// The nodes that have just become suspected.
    pub fn suspect(&mut self, now: Instant) -> Vec<NodeId> {
        let suspicion_us = self.timing.suspicion_us;
        let mut news = Vec::new();
        for peer in &mut self.list {
            if !peer.suspected && peer.heard_at.after_us(suspicion_us) <= now {
                peer.suspected = true;
                news.push(peer.node);
            }
        }
        let most_are_able = self.most_are_able(now);
        // By then it is known who else is not: disks are shared, and fill up for all at one time.
        let is_known = |since: Instant| since.after_us(suspicion_us) <= now;
        if self.is_unable {
            let since = *self.unable_since.get_or_insert(now);
            self.is_excused = most_are_able && is_known(since);
        }
        for peer in &mut self.list {
            let excused = most_are_able && now < peer.unable_until && is_known(peer.unable_since);
            let was_excused = core::mem::replace(&mut peer.excused, excused);
            if peer.excused && !was_excused && !news.contains(&peer.node) {
                news.push(peer.node);
            }
        }
        news
    }

    /// Whether most nodes are alive and can put something on record.
    pub fn most_are_able(&self, now: Instant) -> bool {
        let able = self.list.iter().filter(|peer| !peer.suspected && peer.unable_until <= now).count();
        (able + usize::from(!self.is_unable)) * 2 > self.list.len() + 1
    }

    pub fn is_suspected(&self, node: NodeId) -> bool {
        self.find(node).is_some_and(|peer| peer.suspected || peer.excused)
    }

    /// Whether a node is suspected because nothing is heard of it.
    pub fn is_unheard(&self, node: NodeId) -> bool {
        self.find(node).is_some_and(|peer| peer.suspected)
    }

    pub fn suspects_any(&self) -> bool {
        self.list.iter().any(|peer| peer.suspected || peer.excused)
    }

    /// The grant held from `giver`, while it lasts.
    pub fn grant_held(&self, giver: NodeId, now: Instant) -> Option<GrantNumber> {
        let peer = self.find(giver)?;
        (peer.held != 0 && now < peer.held_until).then_some(peer.held)
    }

    /// Until when the grant held from `giver` counts, if it does now.
    pub fn held_until(&self, giver: NodeId, now: Instant) -> Option<Instant> {
        self.grant_held(giver, now)?;
        self.find(giver).map(|peer| peer.held_until)
    }

    /// The grant given to `holder`, while it binds; 0 if none. To be told with every answer given under it.
    pub fn grant_given(&self, holder: NodeId, now: Instant) -> GrantNumber {
        self.find(holder).map_or(0, |peer| if now < peer.given_until { peer.given } else { 0 })
    }

    /// Until when this node, having promised a ballot of `holder`, must promise nobody else, if that is still to come.
    ///
    /// Grants from before the last start are forgotten, so for one full lease after it every node is presumed to hold one.
    pub fn bound_until(&self, holder: NodeId, now: Instant) -> Option<Instant> {
        let given_until = self.find(holder).map_or(Instant(0), |peer| peer.given_until);
        let until = given_until.max(self.started_at.after_us(self.timing.lease_given_us));
        (now < until).then_some(until)
    }

    /// Whether grants from before the last start, which are forgotten, may still bind this node.
    pub fn is_bound_by_the_past(&self, now: Instant) -> bool {
        now < self.started_at.after_us(self.timing.lease_given_us)
    }

    fn find(&self, node: NodeId) -> Option<&Peer> {
        self.list.iter().find(|peer| peer.node == node)
    }

    fn find_mut(&mut self, node: NodeId) -> Option<&mut Peer> {
        self.list.iter_mut().find(|peer| peer.node == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn at_ms(ms: u64) -> Instant {
        Instant(1_000_000_000 + ms * 1000)
    }

    fn pair() -> (Peers, Peers) {
        let mut holder = Peers::new(Timing::default(), at_ms(0), 1);
        let mut giver = Peers::new(Timing::default(), at_ms(0), 1);
        holder.add(B, at_ms(0));
        giver.add(A, at_ms(0));
        (holder, giver)
    }

    fn renew(holder: &mut Peers, giver: &mut Peers, asked_ms: u64, answered_ms: u64) {
        let answer = giver.handle_heartbeat(A, at_ms(asked_ms), at_ms(answered_ms));
        let Some(Message::Grant { sent_at, number }) = answer else { panic!("{answer:?}") };
        holder.handle_grant(B, sent_at, number);
    }

    #[test]
    fn the_giver_is_bound_longer_than_the_holder_believes() {
        let (mut holder, mut giver) = pair();
        renew(&mut holder, &mut giver, 1000, 1030);
        assert!(holder.grant_held(B, at_ms(1399)).is_some());
        assert!(holder.grant_held(B, at_ms(1400)).is_none());
        assert!(giver.bound_until(A, at_ms(1479)).is_some());
        assert!(giver.bound_until(A, at_ms(1480)).is_none());
    }

    #[test]
    fn a_lapsed_grant_comes_back_under_another_number() {
        let (mut holder, mut giver) = pair();
        renew(&mut holder, &mut giver, 1000, 1000);
        let first = holder.grant_held(B, at_ms(1001));
        renew(&mut holder, &mut giver, 1400, 1440);
        assert_eq!(holder.grant_held(B, at_ms(1441)), first, "renewed in time");
        renew(&mut holder, &mut giver, 1900, 1900);
        assert_ne!(holder.grant_held(B, at_ms(1901)), first, "the giver was free in between");
    }

    #[test]
    fn a_restarted_giver_promises_nobody_for_one_lease_and_repeats_no_number() {
        let (mut holder, mut giver) = pair();
        renew(&mut holder, &mut giver, 1000, 1000);
        let before = holder.grant_held(B, at_ms(1001));
        let mut giver = Peers::new(Timing::default(), at_ms(1010), 2);
        giver.add(A, at_ms(1010));
        assert!(giver.bound_until(A, at_ms(1011)).is_some());
        renew(&mut holder, &mut giver, 1100, 1100);
        assert_ne!(holder.grant_held(B, at_ms(1101)), before);
    }

    #[test]
    fn nobody_is_suspected_of_silence_before_there_was_anything_to_hear() {
        let (mut holder, _) = pair();
        holder.begin_listening(at_ms(2000));
        assert!(holder.suspect(at_ms(2499)).is_empty());
        assert_eq!(holder.suspect(at_ms(2500)), [B]);
    }

    #[test]
    fn who_can_record_nothing_is_excused_for_as_long_as_most_can() {
        const C: NodeId = NodeId(3);
        let (mut peers, _) = pair();
        peers.add(C, at_ms(0));
        let beat = |peers: &mut Peers, ms, heard: &[NodeId], unable: &[NodeId]| {
            for node in heard {
                peers.heard(*node, at_ms(ms));
            }
            unable.iter().for_each(|node| peers.note_unable(*node, at_ms(ms)));
            peers.suspect(at_ms(ms))
        };
        assert_eq!(beat(&mut peers, 100, &[B, C], &[B]), []);
        assert_eq!(beat(&mut peers, 400, &[B, C], &[B]), []);
        assert_eq!(beat(&mut peers, 600, &[B, C], &[B]), [B]);
        assert_eq!(beat(&mut peers, 700, &[B, C], &[B]), [], "it was told before");
        let answer = peers.handle_heartbeat(B, at_ms(700), at_ms(700));
        assert_eq!(answer, Some(Message::Grant { sent_at: at_ms(700), number: 0 }));
        assert!(peers.is_suspected(B) && peers.bound_until(B, at_ms(700)).is_none());
        // Nobody can do anything without it.
        assert_eq!(beat(&mut peers, 800, &[B, C], &[B, C]), []);
        assert!(!peers.is_suspected(B) && !peers.is_suspected(C));
        assert_ne!(
            peers.handle_heartbeat(B, at_ms(800), at_ms(800)),
            Some(Message::Grant { sent_at: at_ms(800), number: 0 })
        );
        peers.set_unable(true);
        assert_eq!(beat(&mut peers, 1400, &[B, C], &[]), []);
        assert!(!peers.is_excused_itself(), "others may have come to be unable with it");
        assert_eq!(beat(&mut peers, 1800, &[B, C], &[]), []);
        assert_eq!(beat(&mut peers, 1900, &[B, C], &[]), []);
        assert!(peers.is_excused_itself());
        assert_eq!(beat(&mut peers, 2400, &[B], &[]), [C]);
        assert!(!peers.is_excused_itself(), "one of them is gone");
    }

    #[test]
    fn silence_is_suspected_once_and_a_word_clears_it() {
        let (mut holder, _) = pair();
        assert!(holder.suspect(at_ms(499)).is_empty());
        assert_eq!(holder.suspect(at_ms(500)), [B]);
        assert!(holder.suspect(at_ms(600)).is_empty());
        assert!(holder.heard(B, at_ms(601)));
        assert!(!holder.is_suspected(B));
    }
}
