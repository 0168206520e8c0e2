//! Which data directory each peer had when it was first met, kept in the file `peers` of this node's.
//!
//! A node whose directory was emptied or set back has forgotten promises that this one may rely on: it must not be
//! taken for what it was.
//!
//! ```text
//! quorate-peers 2
//! node 2 incarnation 00000000000000ff start 3 run 0000000000000abc
//! checksum ...
//! ```
//! Version 1 had no runs.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use quorate_protocol::NodeId;
use tracing::warn;
use xxhash_rust::xxh3::xxh3_64;

use super::hello::Refusal;
use crate::directory::{DirectoryError, directory_of, write_whole};

const NAME: &str = "peers";
const FIRST_LINE: &str = "quorate-peers 2";
const FIRST_LINE_1: &str = "quorate-peers 1";

#[derive(Debug)]
pub(crate) struct Pins {
    directory: PathBuf,
    known: BTreeMap<u32, Pin>,
    /// Nodes that have just been met with a directory in place of one that was lost.
    replaced: Vec<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pin {
    incarnation: u64,
    /// The highest that it was seen with.
    start: u32,
    /// Of that start. A copy of the directory from before it counts to the same number, and draws another one.
    run: Option<u64>,
}

/// Whether nothing is heard of a node any more.
pub(crate) type IsUnheard<'a> = &'a dyn Fn(NodeId) -> bool;

/// Whose data directory it is, and which run of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) node: NodeId,
    pub(crate) incarnation: u64,
    pub(crate) start: u32,
    pub(crate) run: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum PinsError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged or of a newer version: restore it, or remove it if no node's data directory was replaced",
        path.display()
    )]
    Damaged { path: PathBuf },
}

impl Pins {
    pub(crate) fn open(directory: &Path) -> Result<Pins, PinsError> {
        let path = directory.join(NAME);
        let known = match std::fs::read_to_string(&path) {
            Ok(text) => from_text(&text).ok_or(PinsError::Damaged { path })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(source) => return Err(PinsError::Io { path, source }),
        };
        Ok(Pins { directory: directory.to_owned(), known, replaced: Vec::new() })
    }

    /// Whether the node may be who it was. `is_unheard` says that nothing is heard of a node any more: no lease that it was given here
    /// lasts then, and only then another directory takes the place of the one that it had.
    pub(crate) fn check(&self, seen: Seen, me: NodeId, is_unheard: IsUnheard<'_>) -> Result<(), Refusal> {
        let Seen { node: peer, incarnation, start, run } = seen;
        let is_other_run = |pin: &Pin| pin.start == start && pin.run.is_some_and(|known| known != run);
        match self.known.get(&peer.0) {
            Some(pin) if pin.incarnation != incarnation => {
                let (known, directory) = (directory_of(pin.start), directory_of(start));
                match directory.cmp(&known) {
                    Ordering::Less => Err(Refusal::Superseded { peer, me, known }),
                    Ordering::Equal => Err(Refusal::Replaced { peer, me, next: known + 1 }),
                    Ordering::Greater if !is_unheard(peer) => Err(Refusal::StillThere { peer, me, known }),
                    Ordering::Greater => Ok(()),
                }
            }
            Some(pin) if pin.start > start || is_other_run(pin) => Err(Refusal::SetBack { peer, me }),
            _ => Ok(()),
        }
    }

    /// Whether the node was met before with this very directory.
    pub(crate) fn knows(&self, seen: Seen) -> bool {
        self.known.get(&seen.node.0).is_some_and(|pin| pin.incarnation == seen.incarnation)
    }

    /// Remembers the node, durably. `me` is for the refusal, if that fails.
    pub(crate) fn note(&mut self, seen: Seen, me: NodeId) -> Result<(), Refusal> {
        let Seen { node: peer, incarnation, start, run } = seen;
        let pin = Pin { incarnation, start, run: Some(run) };
        let before = self.known.insert(peer.0, pin);
        if before == Some(pin) {
            return Ok(());
        }
        let is_replaced = before.is_some_and(|before| before.incarnation != incarnation);
        let Err(error) = write_whole(&self.directory, NAME, to_text(&self.known).as_bytes()) else {
            self.replaced.extend(is_replaced.then_some(peer));
            return Ok(());
        };
        match before {
            Some(before) => self.known.insert(peer.0, before),
            None => self.known.remove(&peer.0),
        };
        if before.is_none() || is_replaced {
            return Err(Refusal::Unremembered { peer, me, reason: reason(&error) });
        }
        // The directory is known; that an even older copy of it would be taken for good is the lesser evil.
        warn!("{error}: whether {peer}'s data directory is set back will not be noticed");
        Ok(())
    }

    /// Who has been met with a directory in place of one that was lost: whoever has that one is not heard any more.
    pub(crate) fn take_replaced(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.replaced)
    }
}

fn reason(error: &DirectoryError) -> String {
    error.to_string()
}

fn to_text(known: &BTreeMap<u32, Pin>) -> String {
    let mut body = format!("{FIRST_LINE}\n");
    for (node, Pin { incarnation, start, run }) in known {
        let run = run.map_or(String::new(), |run| format!(" run {run:016x}"));
        body += &format!("node {node} incarnation {incarnation:016x} start {start}{run}\n");
    }
    let checksum = xxh3_64(body.as_bytes());
    format!("{body}checksum {checksum:016x}\n")
}

fn from_text(text: &str) -> Option<BTreeMap<u32, Pin>> {
    let (body, tail) = text.split_at(text.rfind("checksum ")?);
    let checksum = u64::from_str_radix(tail.trim_end().strip_prefix("checksum ")?, 16).ok()?;
    if checksum != xxh3_64(body.as_bytes()) || ![FIRST_LINE, FIRST_LINE_1].contains(&body.lines().next()?) {
        return None;
    }
    body.lines().skip(1).map(pin_from_line).collect()
}

fn pin_from_line(line: &str) -> Option<(u32, Pin)> {
    let words: Vec<&str> = line.split(' ').collect();
    let ["node", node, "incarnation", incarnation, "start", start, ref run @ ..] = words[..] else { return None };
    let incarnation = u64::from_str_radix(incarnation, 16).ok()?;
    let run = match run {
        [] => None,
        ["run", run] => Some(u64::from_str_radix(run, 16).ok()?),
        _ => return None,
    };
    Some((node.parse().ok()?, Pin { incarnation, start: start.parse().ok()?, run }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::first_start_in;

    const GONE: IsUnheard<'_> = &|_| true;
    const HEARD: IsUnheard<'_> = &|_| false;

    /// The bytes of versions 1 and 2, which every later version must go on reading.
    const GOLDEN_1: &str = "quorate-peers 1\nnode 2 incarnation 00000000000000ff start 3\nchecksum 11f22f9bf2e980d5\n";
    const GOLDEN: &str = "quorate-peers 2\nnode 2 incarnation 00000000000000ff start 3 run 0000000000000abc\nchecksum 1657b30cac70591c\n";

    fn known(run: Option<u64>) -> BTreeMap<u32, Pin> {
        BTreeMap::from([(2, Pin { incarnation: 0xff, start: 3, run })])
    }

    #[test]
    fn the_format_is_what_it_was() {
        assert_eq!(to_text(&known(Some(0xabc))), GOLDEN);
        assert_eq!(from_text(GOLDEN), Some(known(Some(0xabc))));
        assert_eq!(from_text(GOLDEN_1), Some(known(None)));
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        for at in 0..GOLDEN.len() - 1 {
            let mut bytes = GOLDEN.as_bytes().to_vec();
            bytes[at] ^= 1;
            assert_eq!(from_text(&String::from_utf8_lossy(&bytes)), None, "byte {at}");
        }
    }

    #[test]
    fn another_directory_is_refused_for_ever_and_an_older_one_too() {
        let directory = std::env::temp_dir().join(format!("quorate-pins-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (me, peer) = (NodeId(1), NodeId(2));
        let seen = |incarnation, start, run| Seen { node: peer, incarnation, start, run };
        let mut pins = Pins::open(&directory).unwrap();
        assert_eq!(pins.check(seen(7, 5, 50), me, GONE), Ok(()));
        pins.note(seen(7, 5, 50), me).unwrap();
        let pins = Pins::open(&directory).unwrap();
        assert_eq!(pins.check(seen(7, 5, 50), me, GONE), Ok(()));
        assert_eq!(pins.check(seen(7, 6, 60), me, GONE), Ok(()));
        assert_eq!(pins.check(seen(8, 6, 60), me, GONE), Err(Refusal::Replaced { peer, me, next: 2 }));
        assert_eq!(pins.check(seen(7, 4, 40), me, GONE), Err(Refusal::SetBack { peer, me }));
        // A copy from before the fifth start, started once.
        assert_eq!(pins.check(seen(7, 5, 51), me, GONE), Err(Refusal::SetBack { peer, me }));
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(Pins::open(&directory).unwrap().known.is_empty());
    }

    #[test]
    fn a_directory_takes_the_place_of_an_earlier_one_once_nothing_is_heard_of_that() {
        let directory = std::env::temp_dir().join(format!("quorate-pins-replaced-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (me, peer) = (NodeId(1), NodeId(2));
        let seen = |incarnation, start, run| Seen { node: peer, incarnation, start, run };
        let (old, new) = (seen(7, 5, 50), seen(8, first_start_in(2), 60));
        let mut pins = Pins::open(&directory).unwrap();
        pins.note(old, me).unwrap();
        assert_eq!(pins.check(new, me, HEARD), Err(Refusal::StillThere { peer, me, known: 1 }));
        assert_eq!(pins.check(new, me, GONE), Ok(()));
        pins.note(new, me).unwrap();
        assert_eq!((pins.take_replaced(), pins.take_replaced()), (vec![peer], vec![]));
        let mut pins = Pins::open(&directory).unwrap();
        assert_eq!(pins.check(new, me, HEARD), Ok(()));
        assert_eq!(pins.check(seen(7, 6, 61), me, GONE), Err(Refusal::Superseded { peer, me, known: 2 }));
        let other = seen(9, first_start_in(2), 62);
        assert_eq!(pins.check(other, me, GONE), Err(Refusal::Replaced { peer, me, next: 3 }));
        // What cannot be remembered is not let in: after the next start both would be refused, or neither.
        std::fs::remove_dir_all(&directory).unwrap();
        let third = seen(9, first_start_in(3), 63);
        assert!(matches!(pins.note(third, me), Err(Refusal::Unremembered { .. })));
        assert_eq!(pins.check(new, me, HEARD), Ok(()));
    }
}
