//! Commands on lists.

use super::Spec;

pub(super) const LISTS: &[Spec] = &[];
