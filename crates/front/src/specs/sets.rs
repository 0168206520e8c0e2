//! Commands on sets.

use super::Spec;

pub(super) const SETS: &[Spec] = &[];
