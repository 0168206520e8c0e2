//! What the node's log tells of nodes that are away for long.

use tracing::{info, warn};

use super::Worker;
use super::figures::name_of;

impl Worker {
    /// What has changed since it was last looked.
    pub(super) fn tell_of_absence(&mut self) {
        let (host, before) = (&self.host, &self.state.absent);
        let absent = host.absent_nodes();
        let after = host.directory().and_then(|root| root.placement.replace_after.0).unwrap_or_default();
        for &node in absent.iter().filter(|node| !before.contains(node)) {
            let name = name_of(host, node);
            warn!("{name} has been away for {after} s: its replicas get other places");
        }
        let is_known = |node: u32| host.known_nodes().iter().any(|known| known.id == node);
        for &node in before.iter().filter(|node| !absent.contains(node) && is_known(node.0)) {
            let name = name_of(host, node);
            match host.is_suspected(node) {
                true => info!("{name} is still away, and is not replaced any more"),
                false => info!("{name} is back: what it has stays there"),
            }
        }
        self.state.absent = absent;
    }
}
