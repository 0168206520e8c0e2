//! The identity file: a few lines that a person can read, closed by a checksum of all before it.
//!
//! The first line names the format and stays as it is in every later one, so that any version can refuse a newer
//! directory by name.

use quorate_protocol::id::NodeId;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::ClusterId;

/// The directory format that this version writes and reads.
pub const FORMAT: u32 = 1;

const FIRST_WORD: &str = "quorate-directory";

/// Whose data a directory holds, and which run of that node is the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster: ClusterId,
    pub node: NodeId,
    /// Random, drawn when the directory was made: an emptied disk has another.
    pub incarnation: u64,
    /// How many logs there are; fixed when the directory was made.
    pub shards: u32,
    /// Counts the runs from 1. Never used twice.
    pub start_number: u32,
    /// The machine's boot id at the latest start that has kept what it found lost.
    pub boot: String,
    /// How far the log reached when the node last stopped cleanly, as the log counts; 0 if it never did.
    pub log_end: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Newer(u32),
    Damaged(String),
}

impl Identity {
    pub(super) fn to_text(&self) -> String {
        let Identity { cluster, node, incarnation, shards, start_number, boot, log_end } = self;
        let log_end = if *log_end > 0 { format!("log_end {log_end}\n") } else { String::new() };
        let body = format!(
            "{FIRST_WORD} {FORMAT}\ncluster {cluster}\nnode {}\nincarnation {incarnation:016x}\nshards {shards}\n\
             start {start_number}\nboot {boot}\n{log_end}",
            node.0
        );
        let checksum = xxh3_64(body.as_bytes());
        format!("{body}checksum {checksum:016x}\n")
    }

    pub(super) fn from_text(text: &str) -> Result<Identity, Unreadable> {
        let format: Option<u32> =
            text.lines().next().and_then(|line| field(line, FIRST_WORD)).and_then(|n| n.parse().ok());
        match format {
            None => return Err(damaged("the first line names no format")),
            Some(found) if found > FORMAT => return Err(Unreadable::Newer(found)),
            Some(_) => {}
        }
        let body_length = text.rfind("checksum ").ok_or_else(|| damaged("it ends early"))?;
        let (body, tail) = text.split_at(body_length);
        let checksum = field(tail.trim_end(), "checksum").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        if checksum != Some(xxh3_64(body.as_bytes())) {
            return Err(damaged("the checksum is wrong"));
        }
        let identity = Identity::from_body(body);
        identity.ok_or_else(|| damaged("a line is missing or not understood"))
    }

    fn from_body(body: &str) -> Option<Identity> {
        let mut lines = body.lines().skip(1);
        Some(Identity {
            cluster: field(lines.next()?, "cluster")?.parse().ok()?,
            node: NodeId(field(lines.next()?, "node")?.parse().ok()?),
            incarnation: u64::from_str_radix(field(lines.next()?, "incarnation")?, 16).ok()?,
            shards: field(lines.next()?, "shards")?.parse().ok()?,
            start_number: field(lines.next()?, "start")?.parse().ok()?,
            boot: field(lines.next()?, "boot")?.to_owned(),
            log_end: lines.next().map_or(Some(0), |line| field(line, "log_end")?.parse().ok())?,
        })
    }
}

fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.strip_prefix(name)?.strip_prefix(' ')
}

fn damaged(reason: &str) -> Unreadable {
    Unreadable::Damaged(reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            cluster: ClusterId(0xc0ffee),
            node: NodeId(2),
            incarnation: 7,
            shards: 1,
            start_number: 3,
            boot: "8c5e".to_owned(),
            log_end: 0,
        }
    }

    /// The bytes of format 1, which every later version must go on reading.
    const GOLDEN: &str = "quorate-directory 1\ncluster 0000000000c0ffee\nnode 2\nincarnation 0000000000000007\n\
                          shards 1\nstart 3\nboot 8c5e\nchecksum dae29d83a33002b2\n";

    #[test]
    fn the_format_is_what_it_was() {
        assert_eq!(identity().to_text(), GOLDEN);
        assert_eq!(Identity::from_text(GOLDEN), Ok(identity()));
    }

    #[test]
    fn the_end_of_the_log_has_a_line_once_it_is_known() {
        let stopped = Identity { log_end: 4_294_971_392, ..identity() };
        assert!(stopped.to_text().contains("\nboot 8c5e\nlog_end 4294971392\nchecksum "));
        assert_eq!(Identity::from_text(&stopped.to_text()), Ok(stopped));
    }

    #[test]
    fn any_changed_byte_is_noticed() {
        for position in 0..GOLDEN.len() - 1 {
            let mut bytes = GOLDEN.as_bytes().to_vec();
            bytes[position] ^= 1;
            let read = Identity::from_text(&String::from_utf8_lossy(&bytes));
            assert!(read.is_err(), "byte {position}");
        }
        for length in 0..GOLDEN.len() - 1 {
            assert!(Identity::from_text(&GOLDEN[..length]).is_err(), "cut after {length}");
        }
    }

    #[test]
    fn a_newer_format_is_named_whatever_follows() {
        assert_eq!(Identity::from_text("quorate-directory 2\nanything"), Err(Unreadable::Newer(2)));
    }
}
