//! What a node's log and checkpoints may take, and when a checkpoint is due.

use serde::{Deserialize, Serialize};

use super::Bytes;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Storage {
    /// A group is checkpointed after so many bytes of its records ...
    pub checkpoint_bytes: Bytes,
    /// ... or so many of its slots.
    pub checkpoint_slots: u64,
    /// A larger log has its oldest groups checkpointed, however much of it is needed.
    pub log_bytes: Bytes,
    /// Likewise if the log's index takes more memory.
    pub log_index_bytes: Bytes,
    /// Once a write to the log takes longer than this on average, a thread of its own writes it, and the node goes on
    /// gathering meanwhile. 0: always.
    pub log_thread_from_us: u64,
    /// Memory for what is read of the checkpoints.
    pub cache_bytes: Bytes,
}

impl Default for Storage {
    fn default() -> Self {
        Storage {
            checkpoint_bytes: Bytes(16 << 20),
            checkpoint_slots: 32_768,
            log_bytes: Bytes(512 << 20),
            log_index_bytes: Bytes(96 << 20),
            log_thread_from_us: 100,
            cache_bytes: Bytes(16 << 20),
        }
    }
}

impl Storage {
    pub(super) fn check(&self) -> Result<(), String> {
        let least = [
            ("checkpoint_bytes", self.checkpoint_bytes, 64 << 10),
            ("log_bytes", self.log_bytes, 256 << 20),
            ("log_index_bytes", self.log_index_bytes, 1 << 20),
            ("cache_bytes", self.cache_bytes, 1 << 20),
        ];
        if let Some((name, bytes, least)) = least.iter().find(|(_, bytes, least)| bytes.0 < *least) {
            return Err(format!("storage.{name} is {}; a node needs at least {least}", bytes.0));
        }
        if self.checkpoint_slots == 0 {
            return Err("storage.checkpoint_slots is 0; a checkpoint is due after at least 1".to_owned());
        }
        Ok(())
    }
}
