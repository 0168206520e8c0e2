//! What a group holds: named objects, as a deterministic state machine.
mod command;
mod outcome;

pub use command::{Command, Condition, ExpireCondition, Expiry, SetAnswer, TtlUnit};
pub use outcome::Outcome;
