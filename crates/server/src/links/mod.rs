//! The links between this node and the others: whole frames out, whole frames in.
//!
//! Each node keeps one connection to every other for what it sends, and takes one from each for what it receives. Both
//! begin with a greeting ([`hello`]). A connection that fails, stalls or holds too much is given up and made anew; what
//! is lost with it is sent again by whoever misses it, so nothing here is retried.

mod greeting;
mod hello;
mod incoming;
mod outgoing;
mod pins;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use mio::event::Event;
use mio::net::TcpListener;
use mio::{Registry, Waker};
use quorate_node::Host;
use quorate_node::root::NodeRecord;
use quorate_protocol::{Instant, NodeId};
use slab::Slab;
use tracing::warn;

use crate::config::{Address, Config};
use crate::directory::{Directory, random_u64};
use crate::tls::{PeerMaterial, Store};
use greeting::{Failed, Terms};
use hello::Refusal;
use incoming::Incoming;
use outgoing::Outgoing;
pub(crate) use pins::Pins;

pub use pins::PinsError;

/// How long a connection may take to be made, and then the greeting.
const GREETING_US: u64 = 2_000_000;
/// Refusals that are remembered so as to be logged once.
const REFUSALS_MAX: usize = 256;

pub(crate) struct Links {
    common: Common,
    outgoing: Slab<Outgoing>,
    incoming: Incoming,
    /// This node, as it is configured.
    own: NodeRecord,
    /// The version of the directory that these links are of.
    followed: u64,
}

/// What links in both directions need.
struct Common {
    registry: Registry,
    terms: Terms,
    pins: Pins,
    refusals: Refusals,
    waker: Arc<Waker>,
    /// Another node has said, and proven that it may, that this one was removed from the cluster.
    removed: Option<String>,
    /// With what links are encrypted, if they are.
    tls: Option<Arc<Store>>,
}

impl Links {
    pub(crate) fn new(
        config: &Config,
        directory: &Directory,
        host: &mut Host,
        listener: TcpListener,
        registry: Registry,
        waker: Arc<Waker>,
        tls: Option<Arc<Store>>,
    ) -> Result<Links, PinsError> {
        let pins = Pins::open(directory.path())?;
        let terms = Terms::new(config, directory);
        let own = config.node_records().into_iter().find(|node| node.id == config.node.id);
        let own = own.expect("a configuration lists its own node");
        let common = Common { registry, terms, pins, refusals: Refusals::default(), waker, removed: None, tls };
        let (outgoing, incoming) = (Slab::new(), Incoming::new(listener));
        let mut links = Links { common, outgoing, incoming, own, followed: 0 };
        links.lead_to(host);
        links.follow(host);
        Ok(links)
    }

    /// Who the others are, and where, is what the directory says.
    fn follow(&mut self, host: &mut Host) {
        if self.common.terms.knows(host.known_nodes_version())
            && host.directory().is_none_or(|state| state.version == self.followed)
        {
            return;
        }
        self.common.terms.follow_nodes(host.known_nodes_version(), host.known_nodes());
        let Some(state) = host.directory() else { return self.lead_to(host) };
        self.followed = state.version;
        self.common.terms.follow(state);
        if let Some(record) = state.node(self.own.id).filter(|record| **record != self.own) {
            // Once: records do not change.
            self.own = record.clone();
            warn!(
                "the cluster knows this node as {} at {} (peers), {} (clients) and {} (HTTP), and cluster.nodes says something \
                 else: the others go by what the cluster knows. An address changes with a new node in place of this one",
                record.name, record.peer, record.client, record.admin
            );
        }
        self.lead_to(host);
    }

    /// Links to all others that there are, and to nobody else.
    fn lead_to(&mut self, host: &mut Host) {
        let me = host.settings().node;
        let known = host.known_nodes().iter().filter(|node| node.id != me.0);
        let others = known.filter_map(|node| match node.peer.parse::<Address>() {
            Ok(address) => Some((NodeId(node.id), node.name.clone(), address)),
            Err(reason) => {
                warn!("no link to {}: {reason}", node.name);
                None
            }
        });
        let others: Vec<(NodeId, String, Address)> = others.collect();
        let mut lost = Vec::new();
        self.outgoing.retain(|_, link| {
            let stays = others.iter().any(|(node, name, at)| *node == link.node() && link.leads_to(name, at));
            if !stays {
                lost.push((link.node(), link.is_linked()));
            }
            stays
        });
        for &(node, was_linked) in &lost {
            self.common.refusals.forget(node);
            if was_linked {
                host.unlinked(node);
            }
        }
        let gone: Vec<NodeId> = lost.into_iter().map(|(node, _)| node).collect();
        self.incoming.drop_all_of(&gone);
        self.incoming.set_node_count(others.len() + 1);
        for (node, name, address) in others {
            if !self.outgoing.iter().any(|(_, link)| link.node() == node) {
                let entry = self.outgoing.vacant_entry();
                let link = Outgoing::new(entry.key(), node, name, address);
                entry.insert(link);
            }
        }
    }

    /// What another node says of this one's removal, if one does.
    pub(crate) fn removed(&self) -> Option<&str> {
        self.common.removed.as_deref()
    }

    pub(crate) fn on_listener(&mut self) {
        self.incoming.on_listener();
    }

    pub(crate) fn on_incoming(&mut self, place: usize, event: &Event) {
        self.incoming.on_event(place, event);
    }

    pub(crate) fn on_outgoing(&mut self, place: usize, event: &Event) {
        if let Some(link) = self.outgoing.get_mut(place) {
            link.on_event(event);
        }
    }

    /// Takes what the sockets hold, one read each.
    pub(crate) fn read(&mut self, buffer: &mut [u8], now: Instant) {
        self.incoming.accept(&mut self.common, now);
        self.incoming.read(buffer);
    }

    /// Hands the host what was read, and tells it which links there are.
    pub(crate) fn deliver(&mut self, host: &mut Host, now: Instant) {
        self.follow(host);
        self.common.terms.note_level(host.level());
        for (_, link) in &mut self.outgoing {
            link.advance(&mut self.common, host, now);
        }
        self.incoming.drop_all_of(&self.common.pins.take_replaced());
        self.incoming.deliver(&mut self.common, host);
        // Their older links were dropped when they began these; ours may lead to a process that hangs.
        let replaced = self.common.pins.take_replaced();
        for (_, link) in self.outgoing.iter_mut().filter(|(_, link)| replaced.contains(&link.node())) {
            link.lose_of_earlier(host, now);
        }
        // Whoever has just reached us is there to be reached: one that comes back must not think for what is left of a
        // back-off that everybody else is gone.
        for node in self.incoming.take_arrived() {
            if let Some((_, link)) = self.outgoing.iter_mut().find(|(_, link)| link.node() == node) {
                link.hurry(now);
            }
        }
    }

    /// Whether a frame for this node should be made now. One that nobody would get is better lost than kept.
    pub(crate) fn can_take(&self, node: NodeId) -> bool {
        self.outgoing.iter().all(|(_, link)| link.node() != node || link.can_take())
    }

    /// Sends a frame, if there is a link; it is lost otherwise.
    pub(crate) fn send(&mut self, to: NodeId, frame: &[u8]) {
        if let Some((_, link)) = self.outgoing.iter_mut().find(|(_, link)| link.node() == to) {
            link.send(frame);
        }
    }

    /// Ends connections and greetings that take too long, and begins new ones.
    pub(crate) fn tick(&mut self, host: &mut Host, now: Instant) {
        for (_, link) in &mut self.outgoing {
            link.tick(&mut self.common, host, now);
        }
        self.incoming.tick(&mut self.common, now);
    }

    /// When [`Links::tick`] has something to do, or a socket holds more than was read.
    pub(crate) fn next_due(&self) -> Instant {
        let outgoing = self.outgoing.iter().map(|(_, link)| link.next_due()).min().unwrap_or(Instant::MAX);
        outgoing.min(self.incoming.next_due())
    }

    pub(crate) fn is_linked_to(&self, node: NodeId) -> bool {
        self.outgoing.iter().any(|(_, link)| link.node() == node && link.is_linked())
    }

    /// Nodes that have not accepted this one since it was started, each with its refusal if there was one.
    pub(crate) fn not_met(&self) -> impl Iterator<Item = String> {
        self.outgoing.iter().map(|(_, link)| link).filter(|link| !link.has_met()).map(|link| {
            let told = self.common.refusals.told.get(&Some(link.node()));
            told.map_or_else(|| link.name().to_owned(), |why| format!("{} ({why})", link.name()))
        })
    }

    /// What was refused to or by other nodes and still is.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = &String> {
        self.common.refusals.told.iter().filter(|(node, _)| node.is_some()).map(|(_, what)| what)
    }
}

impl Common {
    /// Logs how a greeting failed, unless the same was logged before.
    fn report(&mut self, claimed: Option<NodeId>, failed: &Failed) {
        let (who, what) = match failed {
            Failed::Refused(refusal) => ("refused a link", refusal.to_string()),
            Failed::RefusedByPeer(reason) => ("a link was refused by the other node", reason.clone()),
            Failed::Removed(reason) => {
                self.removed = Some(reason.clone());
                ("a link was refused by the other node", reason.clone())
            }
        };
        // Anybody may connect and say nothing; that is no news.
        if claimed.is_none() && *failed == Failed::Refused(Refusal::NotAPeer) {
            tracing::debug!("{who}: {what}");
        } else if self.refusals.is_news(claimed, &what) {
            warn!("{who}: {what}");
        }
    }

    /// With what a new link is encrypted.
    fn encryption<T>(&self, choose: impl FnOnce(&PeerMaterial) -> T) -> Option<T> {
        self.tls.as_ref().and_then(|store| store.current().peers.as_ref().map(choose))
    }

    /// Logs why a connection was not even greeted.
    fn report_stranger(&mut self, error: &io::Error) {
        let what = error.to_string();
        if self.refusals.is_news(None, &what) {
            warn!("refused a link: {what}");
        }
    }

    fn report_frame(&mut self, from: NodeId, error: &quorate_node::frame::FrameError) {
        if self.refusals.is_news(Some(from), &error.to_string()) {
            warn!("the link from {from} is closed: {error}");
        }
    }
}

/// What was refused to whom, so that each is logged once, however often it is tried.
#[derive(Default)]
struct Refusals {
    told: BTreeMap<Option<NodeId>, String>,
}

impl Refusals {
    fn is_news(&mut self, node: Option<NodeId>, what: &str) -> bool {
        if self.told.get(&node).is_some_and(|told| told == what) {
            return false;
        }
        if self.told.len() >= REFUSALS_MAX {
            self.told.clear();
        }
        self.told.insert(node, what.to_owned());
        true
    }

    fn forget(&mut self, node: NodeId) {
        self.told.remove(&Some(node));
    }
}

fn nonce() -> io::Result<[u8; 16]> {
    let mut nonce = [0; 16];
    nonce[..8].copy_from_slice(&random_u64()?.to_le_bytes());
    nonce[8..].copy_from_slice(&random_u64()?.to_le_bytes());
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_is_told_once_until_it_is_over() {
        let mut refusals = Refusals::default();
        let node = Some(NodeId(2));
        assert!(refusals.is_news(node, "secret"));
        assert!(!refusals.is_news(node, "secret"));
        assert!(refusals.is_news(node, "cluster"));
        assert!(refusals.is_news(Some(NodeId(3)), "cluster"));
        refusals.forget(NodeId(2));
        assert!(refusals.is_news(node, "cluster"));
        for stranger in 0..3 * REFUSALS_MAX as u32 {
            refusals.is_news(Some(NodeId(stranger)), "flood");
        }
        assert!(refusals.told.len() <= REFUSALS_MAX);
    }
}
