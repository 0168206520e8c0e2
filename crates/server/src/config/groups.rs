//! What groups of single objects may take while nobody uses them.

use serde::{Deserialize, Serialize};

use super::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnGroups {
    /// A group that nobody has used for so long comes to rest: some tens of bytes in memory ...
    pub rest_after_ms: u64,
    /// ... and if more than this are awake, those unused for longest rest at once.
    pub awake_max: u64,
    /// Groups at rest for which there is no room here are in the checkpoint store only.
    pub resting_bytes: Bytes,
}

impl Default for OwnGroups {
    fn default() -> Self {
        OwnGroups { rest_after_ms: 10_000, awake_max: 1 << 20, resting_bytes: Bytes(1 << 30) }
    }
}

impl OwnGroups {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.awake_max == 0 {
            return Err("groups.awake_max is 0; a node needs at least 1 group awake to answer anything".to_owned());
        }
        Ok(())
    }
}
