//! What a namespace says of the quorums of its register groups.

use quorate_protocol::quorum::{QuorumSystem, Unfit};
use quorate_protocol::register::Stage;
use quorate_protocol::wire::Wire;
use serde::{Deserialize, Serialize};

/// The members that must hold a version before a write is answered, and those that a read asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Quorum {
    #[default]
    Majority,
    Threshold {
        read: u8,
        write: u8,
    },
    /// The largest square of the members; those beyond it are in no quorum. Below four members, a majority.
    Square,
    Grid {
        rows: u8,
        columns: u8,
    },
}

pub(crate) const QUORUM_OF_OTHERS: &str =
    "ERR QUORUM goes with PROTOCOL register: the others decide by majorities or by all members";

pub const QUORUM_USAGE: &str = "majority, threshold R W, grid or grid ROWSxCOLS";

impl Quorum {
    /// As [`Quorum::words`] says it; two sizes are a threshold without that word, too.
    pub fn parse(words: &str) -> Option<Quorum> {
        let words: Vec<String> = words.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Some(match words[..] {
            ["majority"] => Quorum::Majority,
            ["grid"] => Quorum::Square,
            ["grid", shape] => {
                let (rows, columns) = shape.split_once('x')?;
                Quorum::Grid { rows: rows.parse().ok()?, columns: columns.parse().ok()? }
            }
            ["threshold", read, write] | [read, write] => {
                Quorum::Threshold { read: read.parse().ok()?, write: write.parse().ok()? }
            }
            _ => return None,
        })
    }

    pub fn words(self) -> String {
        match self {
            Quorum::Majority => "majority".into(),
            Quorum::Threshold { read, write } => format!("threshold {read} {write}"),
            Quorum::Square => "grid".into(),
            Quorum::Grid { rows, columns } => format!("grid {rows}x{columns}"),
        }
    }

    /// For so many members.
    pub fn system(self, members: usize) -> QuorumSystem {
        match self {
            Quorum::Majority => QuorumSystem::Majority,
            Quorum::Threshold { read, write } => QuorumSystem::Threshold { read, write },
            Quorum::Square => QuorumSystem::square(members),
            Quorum::Grid { rows, columns } => QuorumSystem::Grid { rows, columns },
        }
    }

    pub fn is_grid(self) -> bool {
        matches!(self, Quorum::Square | Quorum::Grid { .. })
    }

    pub fn of_system(system: QuorumSystem) -> Quorum {
        match system {
            QuorumSystem::Majority => Quorum::Majority,
            QuorumSystem::Threshold { read, write } => Quorum::Threshold { read, write },
            QuorumSystem::Grid { rows, columns } => Quorum::Grid { rows, columns },
        }
    }

    /// Why these quorums cannot be those of so many members, of which as many as `tolerance` may crash.
    pub fn check(self, members: usize, tolerance: u8) -> Result<(), String> {
        let system = self.system(members);
        let words = self.words();
        system.fit(members).map_err(|unfit| match unfit {
            Unfit::Members { members } => format!("ERR {members} members are too few or too many for a group"),
            Unfit::Size { size, members } => {
                format!("ERR QUORUM {words}: a quorum of {size} is impossible with {members} members")
            }
            Unfit::Disjoint { read, write, members } => format!(
                "ERR QUORUM {words}: a read could miss a write, since {read} + {write} is not above the {members} members"
            ),
            Unfit::GridTooLarge { rows, columns, members } => format!(
                "ERR QUORUM {words}: {members} members leave a row or column of {rows}x{columns} empty"
            ),
            Unfit::GridTooSmall { rows, columns, members } => {
                format!("ERR QUORUM {words}: {members} members do not fit into {rows}x{columns}")
            }
        })?;
        let survived = system.tolerance(members).crash_count;
        if survived < usize::from(tolerance) {
            let crashes = if survived == 1 { "crash" } else { "crashes" };
            return Err(format!(
                "ERR QUORUM {words} of {members} members survives {survived} {crashes}, and the namespace's TOLERANCE is \
                 {tolerance}"
            ));
        }
        Ok(())
    }
}

impl TryFrom<String> for Quorum {
    type Error = String;

    fn try_from(words: String) -> Result<Quorum, String> {
        Quorum::parse(&words).ok_or_else(|| format!("a quorum is {QUORUM_USAGE}, not {words:?}"))
    }
}

impl From<Quorum> for String {
    fn from(quorum: Quorum) -> String {
        quorum.words()
    }
}

/// Configurations in the root's state, in the protocol's own layout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Stages(pub Vec<Stage>);

impl TryFrom<Vec<u8>> for Stages {
    type Error = String;

    fn try_from(bytes: Vec<u8>) -> Result<Stages, String> {
        Vec::<Stage>::decode_all(&bytes).map(Stages).map_err(|malformed| malformed.to_string())
    }
}

impl From<Stages> for Vec<u8> {
    fn from(stages: Stages) -> Vec<u8> {
        let mut bytes = Vec::new();
        stages.0.encode(&mut bytes);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_are_said_as_they_are_read() {
        for words in ["majority", "threshold 1 3", "grid", "grid 2x3"] {
            assert_eq!(Quorum::parse(words).map(Quorum::words), Some(words.to_string()));
        }
        for words in
            ["", "all", "threshold 1", "threshold 1 2 3", "grid 2", "grid 2x", "majority 3", "1", "1 x", "1 300"]
        {
            assert_eq!(Quorum::parse(words), None, "{words}");
        }
        assert_eq!(Quorum::parse("1 3"), Quorum::parse("threshold 1 3"));
    }

    #[test]
    fn what_is_unsound_or_too_weak_is_refused_with_the_numbers() {
        let quorum = |words| Quorum::parse(words).unwrap();
        assert_eq!(quorum("threshold 1 3").check(3, 0), Ok(()));
        let refusal = quorum("threshold 1 2").check(3, 0).unwrap_err();
        assert!(refusal.contains("1 + 2 is not above the 3 members"), "{refusal}");
        let refusal = quorum("threshold 1 3").check(3, 1).unwrap_err();
        assert!(refusal.contains("survives 0 crashes") && refusal.contains("TOLERANCE is 1"), "{refusal}");
        let refusal = quorum("majority").check(3, 2).unwrap_err();
        assert!(refusal.contains("survives 1 crash, and"), "{refusal}");
        assert!(quorum("grid 3x3").check(4, 0).is_err() && quorum("grid 2x3").check(7, 0).is_err());
        assert_eq!(quorum("grid").check(5, 1), Ok(()), "the square leaves one out");
    }
}
