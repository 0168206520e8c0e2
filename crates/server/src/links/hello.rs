//! What two nodes tell each other before the first frame, and what makes one refuse the other.
//!
//! ```text
//! connector                         acceptor
//!   HELLO  ------------------------->          checks it
//!          <-----------------  HELLO, PROOF    that it knows the secret
//!   PROOF  ------------------------->          checks it
//!          <-----------------------  WELCOME   frames follow, from the connector only
//!
//! message:  length u16 | kind u8 | body        REFUSED with the reason, in place of any answer, ends the link; so does REMOVED,
//!                                              in place of WELCOME, of a node that was removed: it is proven by then who says so
//! hello:    magic 8 | hello version u8 | frame versions u8, u8 | feature level u8 | cluster u64 | agreement u64 | founders u64 |
//!           node u32 | start u32 | incarnation u64 | run u64 | nonce 16
//! proof:    SipHash-2-4-128 of role u8, the connector's hello and the acceptor's hello, under the secret's key
//! ```
//! Little-endian. The secret itself never travels, and nobody can use a proof again: both nonces are in it.

use std::hash::Hasher;

use quorate_node::frame::FRAME_VERSION;
use quorate_node::level::FeatureLevel;
use quorate_node::root::NodeRecord;
use quorate_protocol::NodeId;
use siphasher::sip128::{Hasher128, SipHasher24};
use subtle::ConstantTimeEq;

use super::pins::Seen;
use crate::config::{ClusterId, Config};

pub(crate) const HELLO_BYTES: usize = 8 + 1 + 2 + 1 + 8 + 8 + 8 + 4 + 4 + 8 + 8 + 16;
pub(crate) const PROOF_BYTES: usize = 16;
const HEADER_BYTES: usize = 3;
/// No message of this layer is longer.
const BODY_BYTES_MAX: usize = 512;

const MAGIC: [u8; 8] = *b"QUORATE\n";
/// The layout of a hello. Its first nine bytes stay as they are in every later one.
const HELLO_VERSION: u8 = 4;

pub(crate) mod kind {
    pub(crate) const HELLO: u8 = 1;
    pub(crate) const PROOF: u8 = 2;
    pub(crate) const WELCOME: u8 = 3;
    pub(crate) const REFUSED: u8 = 4;
    pub(crate) const REMOVED: u8 = 5;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) frame_version_min: u8,
    pub(crate) frame_version_max: u8,
    /// The highest that its release knows.
    pub(crate) level_known: FeatureLevel,
    pub(crate) cluster: ClusterId,
    /// A hash of what all nodes must be configured with alike.
    pub(crate) agreement: u64,
    /// Of a node that is to make a cluster, a hash of the nodes that do; 0 of one that knows the cluster, or joins it.
    pub(crate) founders: u64,
    pub(crate) node: NodeId,
    pub(crate) start: u32,
    pub(crate) incarnation: u64,
    /// Drawn at the start.
    pub(crate) run: u64,
    pub(crate) nonce: [u8; 16],
}

/// Why a node is no peer of this one. Sent to it and logged by both, so it names the nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("it does not speak Quorate's protocol between nodes")]
    NotAPeer,
    #[error("it greets in version {found}, {me} in version {HELLO_VERSION}: upgrade the older one")]
    HelloVersion { found: u8, me: NodeId },
    #[error("{peer} speaks versions {min} to {max} of frames, {me} version {FRAME_VERSION}: upgrade the older one")]
    FrameVersion { peer: NodeId, min: u8, max: u8, me: NodeId },
    #[error(
        "the cluster is at feature level {level}, and {peer} knows levels up to {known}: start {peer} with the release of {me}, or a later one"
    )]
    Level { peer: NodeId, known: FeatureLevel, me: NodeId, level: FeatureLevel },
    #[error("{peer} belongs to cluster {found}, {me} to {expected}")]
    OtherCluster { peer: NodeId, found: ClusterId, me: NodeId, expected: ClusterId },
    #[error("{peer} is no node of the cluster, as {me} knows it: add it with `quorate node add`, then it is let in")]
    UnknownNode { peer: NodeId, me: NodeId },
    #[error(
        "{me} does not know the cluster yet, and {peer} is not among its cluster.nodes: it is let in once the others have told of it"
    )]
    NotKnownYet { peer: NodeId, me: NodeId },
    #[error(
        "{peer} was removed from the cluster, and is not let in again: remove its data directory; `quorate node add` adds a new node"
    )]
    Removed { peer: NodeId },
    #[error(
        "{peer} and {me} do not belong to a cluster that the same nodes have made: make [[cluster.nodes]] the same on nodes that make \
         one; where nodes have come or gone since, set node.joins = true on the node whose data directory is new"
    )]
    OtherFounders { peer: NodeId, me: NodeId },
    #[error("{found} answers where {me} expects {expected}: check the addresses in cluster.nodes")]
    Unexpected { found: NodeId, me: NodeId, expected: NodeId },
    #[error("{peer} and {me} are configured differently: make [defaults] and [timing] the same")]
    Disagreement { peer: NodeId, me: NodeId },
    #[error("{peer} shows a certificate that is not for {name}, as {me} knows it")]
    Certificate { peer: NodeId, name: String, me: NodeId },
    #[error("{peer} does not have the cluster.secret of {me}")]
    Secret { peer: NodeId, me: NodeId },
    #[error(
        "{me} knows {peer} by another data directory, and this one has forgotten what {peer} has said: put the other one back, or, \
         if that is lost for good, start {peer} with node.directory = {next} and an empty data directory"
    )]
    Replaced { peer: NodeId, me: NodeId, next: u32 },
    #[error(
        "{me} knows {peer} by its data directory {known}, which has taken the place of this one: it is of no use any more"
    )]
    Superseded { peer: NodeId, me: NodeId, known: u32 },
    #[error(
        "{me} has just heard {peer} with its data directory {known}, whose place this one is to take: stop the node that has it; this \
         one is let in once nothing is heard of it"
    )]
    StillThere { peer: NodeId, me: NodeId, known: u32 },
    #[error(
        "{me} has known {peer}'s data directory when it was newer, and this copy has forgotten what {peer} has said since: put \
         the newest one back, or, if that is lost for good, start {peer} with node.directory one higher and an empty data directory"
    )]
    SetBack { peer: NodeId, me: NodeId },
    #[error("{me} cannot remember {peer} ({reason})")]
    Unremembered { peer: NodeId, me: NodeId, reason: String },
}

impl Hello {
    pub(crate) fn seen(&self) -> Seen {
        let Hello { node, incarnation, start, run, .. } = *self;
        Seen { node, incarnation, start, run }
    }

    pub(crate) fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = Vec::with_capacity(HELLO_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[HELLO_VERSION, self.frame_version_min, self.frame_version_max, self.level_known.0]);
        bytes.extend_from_slice(&self.cluster.0.to_le_bytes());
        bytes.extend_from_slice(&self.agreement.to_le_bytes());
        bytes.extend_from_slice(&self.founders.to_le_bytes());
        bytes.extend_from_slice(&self.node.0.to_le_bytes());
        bytes.extend_from_slice(&self.start.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.extend_from_slice(&self.run.to_le_bytes());
        bytes.extend_from_slice(&self.nonce);
        bytes.try_into().expect("the fields add up to HELLO_BYTES")
    }

    pub(crate) fn decode(body: &[u8], me: NodeId) -> Result<Hello, Refusal> {
        if body.get(..8) != Some(&MAGIC[..]) {
            return Err(Refusal::NotAPeer);
        }
        match body.get(8) {
            Some(&HELLO_VERSION) => {}
            Some(&found) => return Err(Refusal::HelloVersion { found, me }),
            None => return Err(Refusal::NotAPeer),
        }
        let body: &[u8; HELLO_BYTES] = body.try_into().map_err(|_| Refusal::NotAPeer)?;
        let u32_at = |at: usize| u32::from_le_bytes(*body[at..].first_chunk().expect("inside of the hello"));
        let u64_at = |at: usize| u64::from_le_bytes(*body[at..].first_chunk().expect("inside of the hello"));
        Ok(Hello {
            frame_version_min: body[9],
            frame_version_max: body[10],
            level_known: FeatureLevel(body[11]),
            cluster: ClusterId(u64_at(12)),
            agreement: u64_at(20),
            founders: u64_at(28),
            node: NodeId(u32_at(36)),
            start: u32_at(40),
            incarnation: u64_at(44),
            run: u64_at(52),
            nonce: *body[60..].first_chunk().expect("inside of the hello"),
        })
    }
}

/// The key that proofs are made with.
#[derive(Clone)]
pub(crate) struct Key([u8; 16]);

impl Key {
    pub(crate) fn of_secret(secret: &str) -> Key {
        let mut hasher = SipHasher24::new_with_key(b"quorate secret 1");
        hasher.write(secret.as_bytes());
        Key(hasher.finish128().as_bytes())
    }

    pub(crate) fn proof(&self, role: ProofOf, connector: &[u8], acceptor: &[u8]) -> [u8; PROOF_BYTES] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&[role as u8]);
        hasher.write(connector);
        hasher.write(acceptor);
        hasher.finish128().as_bytes()
    }
}

/// Who makes a proof, so that none can be sent back to its maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProofOf {
    Connector = 1,
    Acceptor = 2,
}

/// What a node is told that greets plainly where links are encrypted: a whole message.
pub(crate) const ENCRYPT: &[u8] = b"\x41\x00\x04it encrypts its links: set tls.peer alike in every node.toml file";

/// Compares in a time that does not tell how much is equal.
pub(crate) fn is_same(left: &[u8; PROOF_BYTES], right: &[u8]) -> bool {
    left.ct_eq(right).into()
}

/// A hash of what must be the same on all nodes: what the first namespace is born with, and the timing that leases depend on.
pub(crate) fn agreement(config: &Config) -> u64 {
    let mut text = format!("{:?}\n", config.settings());
    let timing = config.timing;
    text += &format!("{} {} {}\n", timing.suspicion_ms, timing.lease_held_ms, timing.lease_given_ms);
    xxhash_rust::xxh3::xxh3_64(text.as_bytes())
}

/// A hash of what must be the same on all nodes that make a cluster: who they are. The root is born with it.
pub(crate) fn founders(nodes: &[NodeRecord]) -> u64 {
    let mut nodes: Vec<&NodeRecord> = nodes.iter().collect();
    nodes.sort_by_key(|node| node.id);
    let line = |node: &NodeRecord| format!("{} {} {} {} {}\n", node.id, node.name, node.client, node.peer, node.admin);
    let text: String = nodes.into_iter().map(line).collect();
    // 0 is for who does not know.
    xxhash_rust::xxh3::xxh3_64(text.as_bytes()).max(1)
}

pub(crate) fn write_message(kind: u8, body: &[u8], out: &mut Vec<u8>) {
    let body = &body[..body.len().min(BODY_BYTES_MAX)];
    out.extend_from_slice(&(body.len() as u16).to_le_bytes());
    out.push(kind);
    out.extend_from_slice(body);
}

/// The first message of `input`, once all of it is there: its kind, its body, and the bytes behind it.
#[expect(clippy::type_complexity, reason = "taken apart at once, where it is called")]
pub(crate) fn first_message(input: &[u8]) -> Result<Option<(u8, &[u8], &[u8])>, Refusal> {
    let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes([header[0], header[1]]));
    if length > BODY_BYTES_MAX {
        return Err(Refusal::NotAPeer);
    }
    Ok(rest.split_at_checked(length).map(|(body, rest)| (header[2], body, rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const HELLO: Hello = Hello {
        frame_version_min: 1,
        frame_version_max: 1,
        level_known: FeatureLevel(6),
        cluster: ClusterId(0xc0ffee),
        agreement: 5,
        founders: 6,
        node: NodeId(2),
        start: 3,
        incarnation: 4,
        run: 8,
        nonce: [9; 16],
    };

    #[test]
    fn a_hello_survives_its_encoding() {
        assert_eq!(Hello::decode(&HELLO.encode(), NodeId(1)), Ok(HELLO));
    }

    #[test]
    fn a_hello_is_laid_out_as_it_always_was() {
        let mut golden = b"QUORATE\n\x04\x01\x01\x06".to_vec();
        golden.extend_from_slice(b"\xee\xff\xc0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x02\0\0\0\x03\0\0\0");
        golden.extend_from_slice(b"\x04\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0");
        golden.extend_from_slice(&[9; 16]);
        assert_eq!(HELLO.encode().escape_ascii().to_string(), golden.escape_ascii().to_string());
    }

    #[test]
    fn strangers_and_newer_hellos_are_told_apart() {
        assert_eq!(Hello::decode(b"GET / HTTP/1.1\r\n", NodeId(1)), Err(Refusal::NotAPeer));
        let mut newer = HELLO.encode();
        newer[8] = 5;
        assert!(matches!(Hello::decode(&newer, NodeId(1)), Err(Refusal::HelloVersion { found: 5, .. })));
    }

    #[test]
    fn a_proof_depends_on_the_secret_the_role_and_both_hellos() {
        let key = Key::of_secret("a secret of the cluster");
        let proof = key.proof(ProofOf::Connector, b"a", b"b");
        assert!(is_same(&proof, &key.proof(ProofOf::Connector, b"a", b"b")));
        for other in [
            Key::of_secret("a secret of the cluster.").proof(ProofOf::Connector, b"a", b"b"),
            key.proof(ProofOf::Acceptor, b"a", b"b"),
            key.proof(ProofOf::Connector, b"b", b"b"),
            key.proof(ProofOf::Connector, b"a", b"a"),
        ] {
            assert!(!is_same(&proof, &other));
        }
        assert!(!is_same(&proof, &proof[..15]));
    }

    #[test]
    fn whoever_greets_plainly_is_told_by_a_message() {
        let (kind, body, rest) = first_message(ENCRYPT).expect("a message").expect("all of it");
        assert_eq!((kind, rest), (kind::REFUSED, &[][..]), "{}", body.escape_ascii());
        assert!(body.starts_with(b"it encrypts") && body.ends_with(b"file"));
    }

    #[test]
    fn a_message_is_awaited_whole() {
        let mut bytes = Vec::new();
        write_message(kind::PROOF, b"body", &mut bytes);
        for length in 0..bytes.len() {
            assert_eq!(first_message(&bytes[..length]), Ok(None));
        }
        assert_eq!(first_message(&bytes), Ok(Some((kind::PROOF, &b"body"[..], &[][..]))));
        assert_eq!(first_message(b"GET / HTTP"), Err(Refusal::NotAPeer));
    }
}
