//! Looking at groups before they are stepped: those of a frame before the first of its messages is taken, and those that want to
//! be woken before the first of them is.
//!
//! A step of one of very many groups finds nothing of its group in any cache, and what it needs lies in several places, each
//! known only from the one before. Taken one by one, each step waits for them one after the other. Looked at level by level
//! for many groups, the waits overlap. Of few dozen groups the same holds: what other processes and the kernel do between two
//! turns takes their place in the nearer caches.

use std::hint::black_box;

use quorate_protocol::Event;

use super::{Group, Host};
use crate::frame::{FrameError, Header, Place, places};

/// With fewer groups awake, what a frame needs is mostly in the nearest caches.
const AWAKE_MIN: usize = 32;
/// With fewer groups in a frame there is nothing to overlap.
const GROUPS_MIN: usize = 4;
/// At once. With more, what was looked at first would be gone again.
const GROUPS_MAX: usize = 512;

/// A message of a frame, and where its group is, if it names one that is awake.
pub(super) type Staged = (Place, Option<u32>);

impl Host {
    /// Handles the messages of a frame.
    pub(super) fn handle_messages(&mut self, header: &Header, bytes: &[u8]) -> Result<(), FrameError> {
        let mut staged = std::mem::take(&mut self.staged);
        let mut places = places(bytes);
        let mut outcome = Ok(());
        while outcome.is_ok() {
            staged.clear();
            for place in places.by_ref().take(GROUPS_MAX) {
                match place {
                    Ok(place) => staged.push((place, place.group.and_then(|group| self.find(group)))),
                    Err(error) => outcome = Err(error),
                }
            }
            if staged.is_empty() {
                break;
            }
            self.look_ahead(&staged);
            let handled = staged.iter().try_for_each(|&(place, index)| self.handle_place(header, bytes, place, index));
            outcome = handled.and(outcome);
        }
        self.staged = staged;
        outcome
    }

    fn handle_place(
        &mut self,
        header: &Header,
        bytes: &[u8],
        place: Place,
        index: Option<u32>,
    ) -> Result<(), FrameError> {
        // Before it others were handled, which may have ended the group.
        let found = index.and_then(|index| Some((index, self.groups.get(index as usize)?)));
        let found = found.filter(|(_, group)| group.is_alive() && Some(group.id()) == place.group);
        if let Some((index, group)) = found
            && let Some((epoch, message)) = place.said(bytes)
            && epoch == group.configuration.epoch
            && !self.hears_nobody(group.id())
        {
            self.hear(index, header.node, message);
        } else if let Some(message) = place.message(bytes)? {
            self.handle_message(header, message);
        }
        self.run();
        Ok(())
    }

    fn look_ahead(&self, staged: &[Staged]) {
        if self.groups.len() < AWAKE_MIN || staged.len() < GROUPS_MIN {
            return;
        }
        let groups = self.groups_at(staged.iter().filter_map(|&(_, index)| index), staged.len());
        look_at(&groups, Group::look);
        look_at(&groups, Group::look_deeper);
        look_at(&groups, Group::look_deepest);
        look_at(&groups, Group::look_at_next);
        let mut sought = Vec::with_capacity(groups.len());
        sought.extend(groups.iter().filter_map(|group| group.seek_next()));
        sought.iter_mut().for_each(|(objects, sought)| objects.look_at_index(sought));
        black_box(sought.iter().fold(0, |seen, (objects, sought)| seen ^ objects.look_at_entry(sought)));
        black_box(sought.iter().fold(0, |seen, (objects, sought)| seen ^ objects.look_at_name(sought)));
    }

    /// Looks at what a proposal needs of each of these groups, which have just been given commands.
    pub(super) fn look_before_proposals(&self, gathered: &[u32]) {
        if self.groups.len() < AWAKE_MIN || gathered.len() < GROUPS_MIN {
            return;
        }
        let groups = self.groups_at(gathered.iter().copied(), gathered.len());
        look_at(&groups, Group::look_deeper);
    }

    /// Wakes the groups at these places.
    pub(super) fn wake(&mut self, due: &[u32]) {
        for due in due.chunks(GROUPS_MAX) {
            if due.len() > 1 && self.groups.len() >= AWAKE_MIN {
                let groups = self.groups_at(due.iter().copied(), due.len());
                look_at(&groups, Group::look);
                look_at(&groups, Group::look_deeper);
                look_at(&groups, Group::look_deepest);
            }
            for &index in due {
                if self.groups.get(index as usize).is_some_and(|group| group.is_alive()) {
                    self.plan(index, Event::Woken);
                }
            }
            self.run();
        }
    }

    fn groups_at(&self, indices: impl Iterator<Item = u32>, count: usize) -> Vec<&Group> {
        let mut groups = Vec::with_capacity(count);
        groups.extend(indices.filter_map(|index| self.groups.get(index as usize)).map(|group| &**group));
        groups
    }
}

fn look_at(groups: &[&Group], look: impl Fn(&Group) -> u64) {
    black_box(groups.iter().fold(0, |seen, group| seen ^ look(group)));
}
