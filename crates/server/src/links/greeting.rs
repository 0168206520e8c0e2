//! One greeting, from the first byte to a known peer or a refusal. No I/O: bytes in, bytes out.

use quorate_node::frame::FRAME_VERSION;
use quorate_node::level::FeatureLevel;
use quorate_node::root::{NodeRecord, RootState};
use quorate_protocol::NodeId;
use rustls::pki_types::CertificateDer;

use super::hello::{HELLO_BYTES, Hello, Key, ProofOf, Refusal, first_message, is_same, kind, write_message};
use super::pins::{IsUnheard, Pins};
use crate::config::{ClusterId, Config};
use crate::directory::Directory;
use crate::tls;

/// What this node is and expects of others.
pub(crate) struct Terms {
    pub(crate) me: NodeId,
    cluster: ClusterId,
    agreement: u64,
    /// With whom it makes a cluster, or with whom others did; 0 where that is not known.
    founders: u64,
    /// It knows of no cluster, and is to make one.
    is_founding: bool,
    /// Nodes have come to the cluster or gone from it since it was made.
    has_changed_nodes: bool,
    start: u32,
    incarnation: u64,
    run: u64,
    members: Vec<(NodeId, String)>,
    /// Of the nodes that the host knows.
    nodes_version: u64,
    /// It joins a cluster of which nothing has been told yet.
    is_joining: bool,
    /// Numbers below are of members, or of nodes that were removed.
    removed_below: u32,
    key: Key,
    /// That of the cluster.
    level: FeatureLevel,
}

/// Who a greeting has shown the other side to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) node: NodeId,
    pub(crate) start: u32,
    pub(crate) level_known: FeatureLevel,
}

/// How a greeting fails.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    /// This node refuses; the other one has been told why.
    Refused(Refusal),
    /// The other node refuses, and says why.
    RefusedByPeer(String),
    /// The other node, which is proven to be one of the cluster, says that this one is none any more.
    Removed(String),
}

pub(crate) struct Greeting {
    role: Role,
    /// Ours, as sent.
    hello: [u8; HELLO_BYTES],
    /// Theirs, as received and checked.
    theirs: Option<([u8; HELLO_BYTES], Hello)>,
    /// What they have shown besides, where links are encrypted.
    certificate: Option<CertificateDer<'static>>,
    /// Theirs has been proven.
    is_proven: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Connector { expected: NodeId },
    Acceptor,
}

impl Terms {
    pub(crate) fn new(config: &Config, directory: &Directory) -> Terms {
        let identity = directory.identity();
        Terms {
            me: config.node_id(),
            cluster: config.cluster.id,
            agreement: super::hello::agreement(config),
            founders: if config.node.joins { 0 } else { super::hello::founders(&config.node_records()) },
            is_founding: !config.node.joins,
            has_changed_nodes: false,
            start: identity.start_number,
            incarnation: identity.incarnation,
            run: directory.run(),
            members: config.cluster.nodes.iter().map(|node| (NodeId(node.id), node.name.clone())).collect(),
            is_joining: config.node.joins,
            nodes_version: 0,
            removed_below: 0,
            key: Key::of_secret(config.cluster.secret.expose()),
            level: FeatureLevel::FIRST,
        }
    }

    /// Who does not know this feature level is no peer from now on.
    pub(crate) fn note_level(&mut self, level: FeatureLevel) {
        self.level = level;
    }

    /// Whether these nodes are those that it goes by.
    pub(crate) fn knows(&self, nodes_version: u64) -> bool {
        self.nodes_version == nodes_version
    }

    pub(crate) fn follow_nodes(&mut self, nodes_version: u64, nodes: &[NodeRecord]) {
        self.nodes_version = nodes_version;
        self.members = nodes.iter().map(|node| (NodeId(node.id), node.name.clone())).collect();
    }

    /// What the cluster is known to be, from now on.
    pub(crate) fn follow(&mut self, state: &RootState) {
        self.founders = super::hello::founders(state.founders());
        self.has_changed_nodes = state.has_changed_nodes();
        self.is_founding = false;
        self.is_joining = false;
        self.removed_below = state.placement.node_next;
    }

    /// Whether a node was removed from the cluster.
    fn has_removed(&self, node: NodeId) -> bool {
        node.0 > 0 && node.0 < self.removed_below && !self.members.iter().any(|(member, _)| *member == node)
    }

    fn hello(&self, nonce: [u8; 16]) -> [u8; HELLO_BYTES] {
        let hello = Hello {
            frame_version_min: FRAME_VERSION,
            frame_version_max: FRAME_VERSION,
            level_known: FeatureLevel::KNOWN,
            cluster: self.cluster,
            agreement: self.agreement,
            founders: if self.is_founding { self.founders } else { 0 },
            node: self.me,
            start: self.start,
            incarnation: self.incarnation,
            run: self.run,
            nonce,
        };
        hello.encode()
    }

    fn check(
        &self,
        hello: &Hello,
        expected: Option<NodeId>,
        certificate: Option<&CertificateDer<'static>>,
        pins: &Pins,
        is_unheard: IsUnheard<'_>,
    ) -> Result<(), Refusal> {
        let (peer, me) = (hello.node, self.me);
        let (min, max) = (hello.frame_version_min, hello.frame_version_max);
        if !(min..=max).contains(&FRAME_VERSION) {
            return Err(Refusal::FrameVersion { peer, min, max, me });
        }
        if hello.cluster != self.cluster {
            return Err(Refusal::OtherCluster { peer, found: hello.cluster, me, expected: self.cluster });
        }
        if let Some(expected) = expected.filter(|&expected| expected != peer) {
            return Err(Refusal::Unexpected { found: peer, me, expected });
        }
        if self.has_removed(peer) && peer != me {
            // It is told once it is proven who says so.
            return Ok(());
        }
        let Some((_, name)) = self.members.iter().find(|(node, _)| *node == peer && peer != me) else {
            return Err(match self.is_joining {
                true => Refusal::NotKnownYet { peer, me },
                false => Refusal::UnknownNode { peer, me },
            });
        };
        if certificate.is_some_and(|certificate| !tls::is_for_node(certificate, name)) {
            return Err(Refusal::Certificate { peer, name: name.clone(), me });
        }
        if hello.agreement != self.agreement {
            return Err(Refusal::Disagreement { peer, me });
        }
        if !self.may_make_a_cluster_with(hello, pins) {
            return Err(Refusal::OtherFounders { peer, me });
        }
        if hello.level_known < self.level {
            return Err(Refusal::Level { peer, known: hello.level_known, me, level: self.level });
        }
        pins.check(hello.seen(), me, is_unheard)
    }
}

impl Terms {
    /// Whether the other node, if it goes by its file, goes by the one that this cluster was made with. Once nodes have come or gone a file
    /// says no more whom a new data directory has to meet; one that was met before needs to meet nobody.
    fn may_make_a_cluster_with(&self, hello: &Hello, pins: &Pins) -> bool {
        let goes_by_its_file = hello.founders != 0 && self.founders != 0;
        let is_late = self.has_changed_nodes && !pins.knows(hello.seen());
        !goes_by_its_file || (hello.founders == self.founders && !is_late)
    }
}

impl Greeting {
    /// Begins as the side that connects. Its first bytes go to `out`.
    pub(crate) fn connect(terms: &Terms, expected: NodeId, nonce: [u8; 16], out: &mut Vec<u8>) -> Greeting {
        let greeting = Greeting::new(terms, Role::Connector { expected }, nonce);
        write_message(kind::HELLO, &greeting.hello, out);
        greeting
    }

    /// Begins as the side that was connected to.
    pub(crate) fn accept(terms: &Terms, nonce: [u8; 16]) -> Greeting {
        Greeting::new(terms, Role::Acceptor, nonce)
    }

    fn new(terms: &Terms, role: Role, nonce: [u8; 16]) -> Greeting {
        Greeting { role, hello: terms.hello(nonce), theirs: None, certificate: None, is_proven: false }
    }

    /// The other side is the owner of this certificate, which must be for the node that it says it is.
    pub(crate) fn show(&mut self, certificate: Option<&CertificateDer<'static>>) {
        self.certificate = certificate.cloned();
    }

    /// Who the other side says it is; not to be believed yet.
    pub(crate) fn claimed(&self) -> Option<NodeId> {
        self.theirs.as_ref().map(|(_, hello)| hello.node)
    }

    /// Takes whole messages from the start of `input`. The peer, once both sides know each other; what is left of
    /// `input` then are frames.
    pub(crate) fn advance(
        &mut self,
        terms: &Terms,
        pins: &mut Pins,
        is_unheard: IsUnheard<'_>,
        input: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Peer>, Failed> {
        loop {
            let taken = match first_message(input) {
                Ok(None) => return Ok(None),
                Ok(Some((kind::REMOVED, body, _))) if self.is_proven => return Err(Failed::Removed(printable(body))),
                Ok(Some((kind::REFUSED | kind::REMOVED, body, _))) => {
                    return Err(Failed::RefusedByPeer(printable(body)));
                }
                Ok(Some((kind, body, rest))) => {
                    let taken = input.len() - rest.len();
                    self.take(terms, pins, is_unheard, (kind, body), out).map(|peer| (peer, taken))
                }
                Err(refusal) => Err(refusal),
            };
            match taken {
                Ok((peer, length)) => {
                    input.drain(..length);
                    if peer.is_some() {
                        return Ok(peer);
                    }
                }
                Err(refusal) => {
                    // A stranger would not understand.
                    if refusal != Refusal::NotAPeer {
                        let is_removed = matches!(refusal, Refusal::Removed { .. });
                        let kind = if is_removed { kind::REMOVED } else { kind::REFUSED };
                        write_message(kind, refusal.to_string().as_bytes(), out);
                    }
                    return Err(Failed::Refused(refusal));
                }
            }
        }
    }

    fn take(
        &mut self,
        terms: &Terms,
        pins: &mut Pins,
        is_unheard: IsUnheard<'_>,
        (kind, body): (u8, &[u8]),
        out: &mut Vec<u8>,
    ) -> Result<Option<Peer>, Refusal> {
        match (kind, self.role) {
            (kind::HELLO, role) if self.theirs.is_none() => {
                let hello = Hello::decode(body, terms.me)?;
                let expected = match role {
                    Role::Connector { expected } => Some(expected),
                    Role::Acceptor => None,
                };
                self.theirs = Some((hello.encode(), hello));
                terms.check(&hello, expected, self.certificate.as_ref(), pins, is_unheard)?;
                if role == Role::Acceptor {
                    write_message(kind::HELLO, &self.hello, out);
                    write_message(kind::PROOF, &self.proof(terms, ProofOf::Acceptor), out);
                }
                Ok(None)
            }
            (kind::PROOF, Role::Connector { .. }) if self.theirs.is_some() && !self.is_proven => {
                self.check_proof(terms, ProofOf::Acceptor, body)?;
                write_message(kind::PROOF, &self.proof(terms, ProofOf::Connector), out);
                Ok(None)
            }
            (kind::PROOF, Role::Acceptor) if self.theirs.is_some() && !self.is_proven => {
                self.check_proof(terms, ProofOf::Connector, body)?;
                if let Some(peer) = self.claimed().filter(|peer| terms.has_removed(*peer)) {
                    return Err(Refusal::Removed { peer });
                }
                let peer = self.remember(terms, pins, is_unheard)?;
                write_message(kind::WELCOME, &[], out);
                Ok(Some(peer))
            }
            (kind::WELCOME, Role::Connector { .. }) if self.is_proven => {
                self.remember(terms, pins, is_unheard).map(Some)
            }
            _ => Err(Refusal::NotAPeer),
        }
    }

    fn proof(&self, terms: &Terms, role: ProofOf) -> [u8; 16] {
        let theirs = self.theirs.as_ref().map_or(&self.hello, |(bytes, _)| bytes);
        match self.role {
            Role::Connector { .. } => terms.key.proof(role, &self.hello, theirs),
            Role::Acceptor => terms.key.proof(role, theirs, &self.hello),
        }
    }

    fn check_proof(&mut self, terms: &Terms, role: ProofOf, proof: &[u8]) -> Result<(), Refusal> {
        self.is_proven = is_same(&self.proof(terms, role), proof);
        match self.claimed() {
            Some(peer) if !self.is_proven => Err(Refusal::Secret { peer, me: terms.me }),
            _ => Ok(()),
        }
    }

    /// Only now that it has proven who it is.
    fn remember(&self, terms: &Terms, pins: &mut Pins, is_unheard: IsUnheard<'_>) -> Result<Peer, Refusal> {
        let (_, hello) = self.theirs.as_ref().ok_or(Refusal::NotAPeer)?;
        // Another link may have been quicker.
        pins.check(hello.seen(), terms.me, is_unheard)?;
        pins.note(hello.seen(), terms.me)?;
        Ok(Peer { node: hello.node, start: hello.start, level_known: hello.level_known })
    }
}

/// What a peer says of itself, safe to be logged.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|char| !char.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn terms(me: u32, secret: &str) -> Terms {
        Terms {
            me: NodeId(me),
            cluster: ClusterId(1),
            agreement: 1,
            founders: 1,
            is_founding: true,
            has_changed_nodes: false,
            start: 1,
            incarnation: 100 + u64::from(me),
            run: 7,
            members: vec![(NodeId(1), "n1".to_owned()), (NodeId(2), "n2".to_owned())],
            is_joining: false,
            nodes_version: 0,
            removed_below: 0,
            key: Key::of_secret(secret),
            level: FeatureLevel::FIRST,
        }
    }

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("quorate-greeting-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn pins(&self, name: &str) -> Pins {
            let path = self.0.join(name);
            std::fs::create_dir_all(&path).unwrap();
            Pins::open(&path).unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    type Ends = (Result<Option<Peer>, Failed>, Result<Option<Peer>, Failed>);

    /// Lets both sides talk, byte by byte, until neither has anything to say.
    fn greet(connector: &Terms, acceptor: &Terms, scratch: &Scratch) -> Ends {
        let (mut connector_pins, mut acceptor_pins) = (scratch.pins("connector"), scratch.pins("acceptor"));
        let (mut to_acceptor, mut to_connector) = (Vec::new(), Vec::new());
        let mut left = Greeting::connect(connector, NodeId(2), [1; 16], &mut to_acceptor);
        let mut right = Greeting::accept(acceptor, [2; 16]);
        let (mut left_input, mut right_input) = (Vec::new(), Vec::new());
        let (mut left_end, mut right_end) = (Ok(None), Ok(None));
        while !(to_acceptor.is_empty() && to_connector.is_empty()) {
            if !to_acceptor.is_empty() {
                right_input.push(to_acceptor.remove(0));
                if right_end == Ok(None) {
                    right_end =
                        right.advance(acceptor, &mut acceptor_pins, &|_| false, &mut right_input, &mut to_connector);
                }
            }
            if !to_connector.is_empty() {
                left_input.push(to_connector.remove(0));
                if left_end == Ok(None) {
                    left_end =
                        left.advance(connector, &mut connector_pins, &|_| false, &mut left_input, &mut to_acceptor);
                }
            }
        }
        (left_end, right_end)
    }

    fn assert_refused_by_acceptor(connector: &Terms, acceptor: &Terms, name: &str, refusal: Refusal) {
        let (left, right) = greet(connector, acceptor, &Scratch::new(name));
        assert_eq!(left, Err(Failed::RefusedByPeer(refusal.to_string())));
        assert_eq!(right, Err(Failed::Refused(refusal)));
    }

    #[test]
    fn two_nodes_of_a_cluster_get_to_know_each_other() {
        let (one, two) = (terms(1, "secret"), terms(2, "secret"));
        let (left, right) = greet(&one, &two, &Scratch::new("known"));
        assert_eq!(left, Ok(Some(Peer { node: NodeId(2), start: 1, level_known: FeatureLevel::KNOWN })));
        assert_eq!(right, Ok(Some(Peer { node: NodeId(1), start: 1, level_known: FeatureLevel::KNOWN })));
    }

    #[test]
    fn strangers_are_refused_and_told_why() {
        let two = terms(2, "secret");
        let other = Terms { cluster: ClusterId(9), ..terms(1, "secret") };
        let (peer, me) = (NodeId(1), NodeId(2));
        let refusal = Refusal::OtherCluster { peer, found: ClusterId(9), me, expected: ClusterId(1) };
        assert_refused_by_acceptor(&other, &two, "cluster", refusal);
        let unknown = Terms { me: NodeId(3), ..terms(1, "secret") };
        assert_refused_by_acceptor(&unknown, &two, "unknown", Refusal::UnknownNode { peer: NodeId(3), me });
        let differing = Terms { agreement: 9, ..terms(1, "secret") };
        assert_refused_by_acceptor(&differing, &two, "agreement", Refusal::Disagreement { peer, me });
    }

    #[test]
    fn who_joins_is_let_in_once_it_was_added_and_never_again_once_it_was_removed() {
        let joining = Terms {
            me: NodeId(4),
            founders: 0,
            is_founding: false,
            is_joining: true,
            members: vec![(NodeId(2), "n2".to_owned()), (NodeId(4), "n4".to_owned())],
            ..terms(4, "secret")
        };
        let (peer, me) = (NodeId(4), NodeId(2));
        let refusal = Refusal::UnknownNode { peer, me };
        assert!(refusal.to_string().contains("`quorate node add`"), "{refusal}");
        assert_refused_by_acceptor(&joining, &terms(2, "secret"), "unadded", refusal);
        let member = |id: u32| (NodeId(id), format!("n{id}"));
        let added = Terms { members: vec![member(1), member(2), member(4)], removed_below: 5, ..terms(2, "secret") };
        let (left, right) = greet(&joining, &added, &Scratch::new("added"));
        assert!(matches!((left, right), (Ok(Some(_)), Ok(Some(Peer { node: NodeId(4), .. })))));
        let removed = Terms { members: vec![member(1), member(2)], removed_below: 5, ..terms(2, "secret") };
        let (left, right) = greet(&joining, &removed, &Scratch::new("removed"));
        let refusal = Refusal::Removed { peer };
        assert_eq!(left, Err(Failed::Removed(refusal.to_string())), "it is proven who says so");
        assert_eq!(right, Err(Failed::Refused(refusal)));
        // Who does not know the secret is told nothing that matters, and tells nothing.
        let stranger = Terms { key: Key::of_secret("guess"), ..removed };
        let (left, _) = greet(&joining, &stranger, &Scratch::new("stranger"));
        assert_eq!(left, Err(Failed::Refused(Refusal::Secret { peer: me, me: peer })));
        let other = Terms { members: vec![member(1), member(4)], ..joining };
        let (left, _) = greet(&terms(1, "secret"), &Terms { me: NodeId(2), ..other }, &Scratch::new("known yet"));
        assert!(matches!(left, Ok(Some(_))), "{left:?}");
        let unlisted =
            Terms { me: NodeId(2), members: vec![member(2), member(4)], is_joining: true, ..terms(2, "secret") };
        let refusal = Refusal::NotKnownYet { peer: NodeId(1), me };
        assert_refused_by_acceptor(&terms(1, "secret"), &unlisted, "not yet", refusal);
    }

    #[test]
    fn a_word_of_removal_without_a_proof_is_a_refusal_as_any() {
        let terms = terms(1, "secret");
        let scratch = Scratch::new("unproven");
        let (mut input, mut output) = (Vec::new(), Vec::new());
        write_message(kind::REMOVED, b"go away", &mut input);
        let mut greeting = Greeting::connect(&terms, NodeId(2), [1; 16], &mut output);
        let ended = greeting.advance(&terms, &mut scratch.pins("one"), &|_| false, &mut input, &mut output);
        assert_eq!(ended, Err(Failed::RefusedByPeer("go away".to_owned())));
    }

    #[test]
    fn nodes_make_a_cluster_only_with_those_that_know_the_same_ones() {
        let two = terms(2, "secret");
        let other = Terms { founders: 9, ..terms(1, "secret") };
        let refusal = Refusal::OtherFounders { peer: NodeId(1), me: NodeId(2) };
        assert!(refusal.to_string().contains("node.joins = true"), "{refusal}");
        assert_refused_by_acceptor(&other, &two, "founders", refusal);
        let known = Terms { founders: 9, is_founding: false, ..terms(1, "secret") };
        let (left, right) = greet(&known, &two, &Scratch::new("known founders"));
        let refusal = Refusal::OtherFounders { peer: NodeId(2), me: NodeId(1) };
        assert_eq!((right, left), (Err(Failed::RefusedByPeer(refusal.to_string())), Err(Failed::Refused(refusal))));
        // Nodes that know the cluster may not have heard alike of what has changed, and one that joins knows nothing.
        for (one, two) in [((0, false), (1, true)), ((0, false), (1, false)), ((9, false), (1, false))] {
            let of = |id, (founders, is_founding)| Terms { founders, is_founding, ..terms(id, "secret") };
            let (one, two) = (of(1, one), of(2, two));
            let (left, right) = greet(&one, &two, &Scratch::new("joins"));
            assert!(left.is_ok() && right.is_ok(), "{left:?} {right:?}");
        }
    }

    /// It was killed before it had heard that there is a cluster, which has got other nodes by now.
    #[test]
    fn who_was_met_goes_by_its_file_still_when_nodes_have_come_and_who_was_not_does_not() {
        let one = terms(1, "secret");
        let changed = Terms { has_changed_nodes: true, ..terms(2, "secret") };
        let refusal = Refusal::OtherFounders { peer: NodeId(1), me: NodeId(2) };
        assert_refused_by_acceptor(&one, &changed, "unmet", refusal.clone());
        let scratch = Scratch::new("met");
        let (left, right) = greet(&one, &terms(2, "secret"), &scratch);
        assert!(left.is_ok() && right.is_ok(), "{left:?} {right:?}");
        let later = Terms { start: one.start + 1, ..one };
        let (left, right) = greet(&later, &changed, &scratch);
        assert!(matches!((&left, &right), (Ok(Some(_)), Ok(Some(_)))), "{left:?} {right:?}");
        // In another directory than the one that was met.
        let other = Terms { incarnation: later.incarnation + 1, ..later };
        let hello = Hello::decode(&other.hello([1; 16]), NodeId(2)).unwrap();
        assert!(!changed.may_make_a_cluster_with(&hello, &scratch.pins("acceptor")));
    }

    #[test]
    fn whose_release_does_not_know_the_feature_level_is_refused_and_told_why() {
        let level = FeatureLevel(FeatureLevel::KNOWN.0 + 1);
        let two = Terms { level, ..terms(2, "secret") };
        let (peer, me) = (NodeId(1), NodeId(2));
        let refusal = Refusal::Level { peer, known: FeatureLevel::KNOWN, me, level };
        assert!(refusal.to_string().contains("start n1 with the release of n2"), "{refusal}");
        assert_refused_by_acceptor(&terms(1, "secret"), &two, "level", refusal);
    }

    #[test]
    fn whoever_does_not_know_the_secret_is_refused_by_the_side_that_connects() {
        let (left, right) = greet(&terms(1, "secret"), &terms(2, "guess"), &Scratch::new("secret"));
        let refusal = Refusal::Secret { peer: NodeId(2), me: NodeId(1) };
        assert_eq!(right, Err(Failed::RefusedByPeer(refusal.to_string())));
        assert_eq!(left, Err(Failed::Refused(refusal)));
    }

    #[test]
    fn a_proof_by_somebody_else_is_not_taken() {
        let scratch = Scratch::new("proof");
        let (one, two) = (terms(1, "secret"), terms(2, "secret"));
        let mut bytes = Vec::new();
        let _connecting = Greeting::connect(&one, NodeId(2), [1; 16], &mut bytes);
        let mut right = Greeting::accept(&two, [2; 16]);
        let mut out = Vec::new();
        assert_eq!(right.advance(&two, &mut scratch.pins("two"), &|_| false, &mut bytes, &mut out), Ok(None));
        // The acceptor's own proof, sent back to it.
        let mut reflected = Vec::new();
        write_message(kind::PROOF, &out[out.len() - 16..], &mut reflected);
        let end = right.advance(&two, &mut scratch.pins("two"), &|_| false, &mut reflected, &mut out);
        assert_eq!(end, Err(Failed::Refused(Refusal::Secret { peer: NodeId(1), me: NodeId(2) })));
    }

    #[test]
    fn a_replaced_directory_is_refused() {
        let scratch = Scratch::new("replaced");
        let (one, two) = (terms(1, "secret"), terms(2, "secret"));
        assert!(matches!(greet(&one, &two, &scratch), (Ok(Some(_)), Ok(Some(_)))));
        let replaced = Terms { incarnation: 7, ..terms(2, "secret") };
        let (left, _) = greet(&one, &replaced, &scratch);
        assert_eq!(left, Err(Failed::Refused(Refusal::Replaced { peer: NodeId(2), me: NodeId(1), next: 2 })));
    }
}
