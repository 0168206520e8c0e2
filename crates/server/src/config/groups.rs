//! What groups of single objects may take while nobody uses them, how groups are sent large commands, and who coordinates them.

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
    /// Volumes' records of such groups for which there is no room here leave their names to the checkpoint store.
    pub records_bytes: Bytes,
    /// Commands so large go from their entry node to all members, and not through the coordinator. 0 for none.
    pub digest_bytes: Bytes,
    /// A volume of which so many commands a second enter at one member, nearly all of them, is coordinated there. 0 for none.
    pub follow_clients_at: u32,
}

/// A reference takes some fifty bytes, and finding what it stands for some time: below this nothing is saved.
const DIGEST_BYTES_MIN: u64 = 1 << 10;
/// No value is larger.
const DIGEST_BYTES_MAX: u64 = 16 << 20;

impl Default for OwnGroups {
    fn default() -> Self {
        OwnGroups {
            rest_after_ms: 10_000,
            awake_max: 1 << 20,
            resting_bytes: Bytes(1 << 30),
            records_bytes: Bytes(64 << 20),
            digest_bytes: Bytes(0),
            follow_clients_at: 100,
        }
    }
}

impl OwnGroups {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.awake_max == 0 {
            return Err("groups.awake_max is 0; a node needs at least 1 group awake to answer anything".to_owned());
        }
        let Bytes(digest_bytes) = self.digest_bytes;
        if digest_bytes != 0 && !(DIGEST_BYTES_MIN..=DIGEST_BYTES_MAX).contains(&digest_bytes) {
            return Err(format!(
                "groups.digest_bytes is {digest_bytes}; it can be 0, for off, or {DIGEST_BYTES_MIN} to {DIGEST_BYTES_MAX}"
            ));
        }
        Ok(())
    }
}
