//! The feature level of a cluster: what all of its nodes can do alike.
//!
//! A release that does something which an earlier one could not execute alike knows a level more, and does it only where the root says
//! that the cluster is at that level. The root is raised to it once every node has said that it knows it, and never goes back.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FeatureLevel(pub u8);

impl FeatureLevel {
    /// What every release knows, and a cluster is made with.
    pub const FIRST: FeatureLevel = FeatureLevel(1);
    /// The highest that this release knows.
    pub const KNOWN: FeatureLevel = FeatureLevel(1);
}

impl fmt::Display for FeatureLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
