//! Commands on sorted sets.

use super::Spec;

pub(super) const SORTED_SETS: &[Spec] = &[];
