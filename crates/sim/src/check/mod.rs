//! Judges of histories. Each property is a file; each tells what it found in words and lanes that a person can follow.
//!
//! A checker that cannot decide says so, and that is a failure: [`Verdict::is_linearizable`] is true only for proof.

mod awaited;
pub mod counters;
pub mod linearizability;
mod model;
pub mod registers;
mod search;
mod timeline;

use std::fmt;

use crate::history::Object;

pub use timeline::lanes;

/// What a checker found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An order exists that explains every answer.
    Linearizable,
    /// No order can explain the answers.
    Violation { object: Object, explanation: String },
    /// The checker gave up. It counts as a failure.
    Unknown { object: Object, explanation: String },
}

impl Verdict {
    pub fn is_linearizable(&self) -> bool {
        matches!(self, Self::Linearizable)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linearizable => f.write_str("linearizable"),
            Self::Violation { object, explanation } => write!(f, "{object} is not linearizable: {explanation}"),
            Self::Unknown { object, explanation } => write!(f, "{object} was not decided: {explanation}"),
        }
    }
}

/// What a checker may take for granted about the world, and how hard it may try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Group time at the world's time 0, in milliseconds since the Unix epoch.
    pub origin_ms: i64,
    /// How far group time may be from true time, either way, whenever a command is executed.
    pub skew_ms: u64,
    /// How long after its invocation a call of unknown fate may still take effect, if that is bounded. A bound makes
    /// the check both sharper and faster; it is sound where deadlines are enforced.
    pub unknown_effect_us: Option<u64>,
    /// Configurations that the search may visit for one object before it gives up: about 40 bytes each.
    pub configurations_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { origin_ms: 0, skew_ms: 0, unknown_effect_us: None, configurations_max: 2_000_000 }
    }
}

impl Bounds {
    /// The last moment at which a call of unknown fate may take effect.
    fn unknown_end_us(&self, invoked_us: u64) -> u64 {
        self.unknown_effect_us.map_or(u64::MAX, |bound| invoked_us.saturating_add(bound))
    }
}
