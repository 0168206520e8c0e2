//! What a group holds: named objects, as a deterministic state machine.
//!
//! [`Objects`] is the table; a [`Command`] asks something of it, a [`Change`] is what that does to it, an [`Outcome`] what it
//! answers. Start at [`Objects::run`]. What objects are copied to and how they are replicated is not known here.

#![forbid(unsafe_code)]

mod away;
mod change;
mod checkpoint;
mod codec;
mod collection;
mod command;
mod discarded;
mod expiries;
pub mod glob;
mod hash;
mod list;
mod look_ahead;
mod number;
mod object;
mod objects;
mod on_keys;
mod outcome;
mod read;
mod set;
mod slot;
mod sorted_set;
mod swapped;
mod table;
mod text;
mod transaction;
mod write;

pub use change::Change;
pub use codec::Malformed;
pub use collection::{Chance, ElementScan, Op, OpChange, Wrong};
pub use command::{Access, Command, Condition, ExpireCondition, Expiry, SetAnswer, TtlUnit};
pub use discarded::Discarded;
pub use hash::{HashChange, HashOp, HashPart, Pair};
pub use list::{ListChange, ListOp, ListSide};
pub use look_ahead::Sought;
pub use number::{double_text, float_vanishes};
pub use object::{is_away, is_string};
pub use objects::{EXPIRED_AT_ONCE_MAX, NAME_BYTES_MAX, OBJECT_BYTES_MAX, Objects};
pub use on_keys::{Aggregate, Combination, Combined, KeysOp, OnKeys};
pub use outcome::{Outcome, WORDS};
pub use read::{NAMES_BYTES_MAX, SCAN_COUNT_MAX, read_value, too_many_keys};
pub use set::{SetChange, SetOp};
pub use slot::{SLOT_COUNT, slot_of_key};
pub use sorted_set::{MemberBound, ScoreBound, ScoreCondition, SortedSetChange, SortedSetOp, Span};
pub use swapped::Note;
pub use table::HASH_BITS;
pub use transaction::{APART, Transaction};
