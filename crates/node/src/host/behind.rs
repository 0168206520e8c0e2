//! Own groups are born no faster than the checkpoint stores of their volume's members take them.
//!
//! A group that was just born is awake, with the memory of a whole replica, until the store has its first record. A node whose
//! store falls behind says so with each heartbeat, and whoever coordinates a volume that it is a member of turns back what would
//! give more objects groups of their own. Were only the volumes turned back that the slowest node itself coordinates, the
//! others would leave it no room for those.

use std::collections::BTreeMap;

use quorate_object::Command;
use quorate_protocol::{Instant, NodeId};

use super::Host;
use super::group::Group;
use crate::envelope::Envelope;
use crate::frame::Message;
use crate::volume::VolumeCommand;

/// Who has said that its store is behind is believed for so many heartbeats.
const BELIEVED_HEARTBEATS: u64 = 3;
/// A store that has taken nothing for so long does not fall behind, it stands still: nobody is to wait for it.
const STANDS_STILL_US: u64 = 2_000_000;
/// While what own groups begin with takes more in a volume, of those that are not on the disks of enough members, no others begin.
const STARTING_BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
pub(super) struct Behind {
    /// Which nodes have said so, and when.
    said: BTreeMap<NodeId, Instant>,
    /// When the store here took something last.
    stored_at: Instant,
}

impl Host {
    /// Whether groups wait for the store that are half of all that may be awake.
    fn is_store_behind(&self) -> bool {
        self.newborn_count() + self.checkpoint_wanted.len() > self.settings.awake_max / 2
    }

    pub(super) fn note_stored(&mut self) {
        self.behind.stored_at = self.clock.now();
    }

    /// Each heartbeat.
    pub(super) fn tell_behind(&mut self) {
        let stands_still = self.behind.stored_at.after_us(STANDS_STILL_US) < self.clock.now();
        if self.is_store_behind() && !stands_still {
            for node in self.peers.nodes().collect::<Vec<_>>() {
                self.outbox.send(node, &Message::StoreBehind);
            }
        }
    }

    pub(super) fn handle_store_behind(&mut self, from: NodeId) {
        self.behind.said.insert(from, self.clock.now());
    }

    /// Whether the command would give groups of their own to objects, and a member of their volume has no room for them yet.
    pub(super) fn is_too_early_for_births(&self, volume: u32, envelope: &Envelope<'_>) -> bool {
        let group = &self.groups[volume as usize];
        let believed_us = BELIEVED_HEARTBEATS * self.settings.timing.heartbeat_us;
        let is_behind = |node: &NodeId| {
            let said = self.behind.said.get(node);
            said.is_some_and(|said| said.after_us(believed_us) >= self.clock.now())
        };
        let starting = group.machine.children().map_or(0, |children| children.starting_bytes);
        (self.is_store_behind() || starting > STARTING_BYTES_MAX || group.configuration.members.iter().any(is_behind))
            && makes_own_groups(group, envelope)
    }
}

/// Whether the command gives groups of their own to objects that have none.
fn makes_own_groups(volume: &Group, envelope: &Envelope<'_>) -> bool {
    match (VolumeCommand::decode(envelope.command), volume.machine.objects()) {
        (Some(VolumeCommand::Create { .. } | VolumeCommand::Promote { .. } | VolumeCommand::PromoteSome { .. }), _) => {
            true
        }
        (None, Some(objects)) if volume.machine.owns => Command::decode(envelope.command).is_ok_and(|command| {
            command.growth_bytes_max().is_some() && command.key().is_some_and(|key| objects.away(key).is_none())
        }),
        _ => false,
    }
}
