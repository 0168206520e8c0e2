//! Own groups leave nodes that are to be emptied: whoever coordinates their volume has it give them other members, some at a time, as
//! an operator's `GROUP MOVE` would. See docs/decisions/0036.
//!
//! Those that are members because they are the volume's leave with the volume's seat: see [`super::seats`]. Here it is about those that
//! name their members.

use std::collections::BTreeMap;
use std::ops::Bound;

use quorate_object::Outcome;
use quorate_protocol::{GroupId, NodeId};

use super::{Group, Host};
use crate::answer::Answer;
use crate::entry::Purpose;
use crate::record::GroupRecord;
use crate::replica::Protocol;
use crate::root::Health;
use crate::status::{OwnGroupsOn, Waiting};
use crate::volume::{MoveOff, MovedOff, Record, VolumeCommand};

/// Own groups that are looked at with one heartbeat, and those of them that are asked to move.
const LOOKED_AT: usize = 8192;
const MOVED: usize = 128;
/// Bytes of their names in one command, about.
const NAMES_BYTES: usize = 1 << 20;
/// No others are asked for while so many of a volume are about to end.
const ENDING_MAX: usize = 1024;
/// Heartbeats until a volume is looked through again, ever more as long as nothing can be moved.
const BEATS_MIN: u32 = 5;
const BEATS_MAX: u32 = 100;

const NOWHERE: &str = "no other node is well that could be a member";
const NOWHERE_INSIDE: &str = "chains and registers have members among those of their volume, of which no other is well";
const CANNOT_END: &str = "too few of its members are heard to end it";

#[derive(Default)]
pub(super) struct Emptying {
    /// Volumes that this node coordinates, and that have such groups.
    walks: BTreeMap<GroupId, Walk>,
    /// The one that was seen to last.
    last: Option<GroupId>,
}

/// A volume's own groups are looked through, by their numbers.
#[derive(Default)]
struct Walk {
    from: u64,
    /// Some were asked to move.
    has_asked: bool,
    /// The volume has not answered yet.
    is_asked: bool,
    waits: Waits,
    /// Of the last walk that came to its end.
    waits_told: Waits,
    beats_to_wait: u32,
    waited: u32,
}

/// Own groups that stay on a node for now, and why.
type Waits = BTreeMap<(u32, &'static str), u64>;

/// What is left to do with one heartbeat.
struct Budget {
    looked_at: usize,
    moved: usize,
}

/// What there is to be done about an own group.
enum Verdict {
    Nothing,
    Moves(Vec<(u32, u32)>),
    Waits(Vec<(u32, &'static str)>),
}

/// Which nodes are to be emptied, and which may get what these have.
struct Nodes {
    emptied: Vec<u32>,
    well: Vec<u32>,
}

impl Walk {
    fn end(&mut self) {
        let wait = if self.has_asked { BEATS_MIN } else { (2 * self.waited).clamp(BEATS_MIN, BEATS_MAX) };
        let (is_asked, waits_told) = (self.is_asked, std::mem::take(&mut self.waits));
        *self = Walk { is_asked, waits_told, beats_to_wait: wait, waited: wait, ..Walk::default() };
    }
}

fn names_any(group: &Group, nodes: &[u32]) -> bool {
    group.machine.children().is_some_and(|children| nodes.iter().any(|&node| children.count_on(node) > 0))
}

impl Host {
    /// With every heartbeat.
    pub(super) fn tend_emptied(&mut self) {
        let Some(nodes) = self.nodes_to_empty() else {
            self.emptying = Emptying::default();
            return;
        };
        let volumes = self.volumes_of_paxos();
        volumes.iter().for_each(|(_, index)| self.groups[*index as usize].machine.keep_names());
        let is_concerned = |(_, index): &&(GroupId, u32)| names_any(&self.groups[*index as usize], &nodes.emptied);
        let concerned: Vec<(GroupId, u32)> = volumes.iter().filter(is_concerned).copied().collect();
        let is_coordinated = |(_, index): &(GroupId, u32)| self.groups[*index as usize].replica.is_coordinating();
        let (coordinated, others): (BTreeMap<_, _>, BTreeMap<_, _>) = concerned.into_iter().partition(is_coordinated);
        others.into_values().for_each(|index| self.take_over_if_uncoordinated(index));
        self.emptying.walks.retain(|volume, _| coordinated.contains_key(volume));
        let after = self.emptying.last.map_or(Bound::Unbounded, Bound::Excluded);
        let up_to = self.emptying.last.map_or(Bound::Excluded(GroupId(0)), Bound::Included);
        let in_turn = coordinated.range((after, Bound::Unbounded)).chain(coordinated.range((Bound::Unbounded, up_to)));
        let mut left = Budget { looked_at: LOOKED_AT, moved: MOVED };
        for (&volume, &index) in in_turn {
            if left.looked_at == 0 || left.moved == 0 {
                break;
            }
            self.emptying.last = Some(volume);
            self.move_some_off(index, &nodes, &mut left);
        }
    }

    /// `None` if no node is to be emptied.
    fn nodes_to_empty(&self) -> Option<Nodes> {
        let root = self.directory.state()?;
        let all = || root.nodes.iter().map(|node| node.id);
        let is_well = |node: u32| self.health(node) == Health::Well;
        // One that is absent and has just come back keeps what it has.
        let is_emptied = |node: &u32| root.is_draining(*node) || root.is_absent(*node) && !is_well(*node);
        let emptied: Vec<u32> = all().filter(is_emptied).collect();
        if emptied.is_empty() {
            return None;
        }
        let well = all().filter(|node| !root.is_to_be_emptied(*node) && is_well(*node)).collect();
        Some(Nodes { emptied, well })
    }

    /// Those of which a replica here takes part.
    pub(super) fn volumes_of_paxos(&self) -> Vec<(GroupId, u32)> {
        let Some(root) = self.directory.state() else { return Vec::new() };
        let of_paxos = root.volumes().filter(|(_, namespace, _)| namespace.settings.protocol == Protocol::Paxos);
        let here = of_paxos.filter_map(|(.., volume)| {
            let id = GroupId(volume.group);
            Some((id, self.find(id)?))
        });
        here.filter(|(_, index)| self.groups[*index as usize].is_alive()).collect()
    }

    fn move_some_off(&mut self, index: u32, nodes: &Nodes, left: &mut Budget) {
        let group = &self.groups[index as usize];
        let (id, machine) = (group.id(), &group.machine);
        let Some(children) = machine.children() else { return };
        let walk = self.emptying.walks.entry(id).or_default();
        walk.beats_to_wait = walk.beats_to_wait.saturating_sub(1);
        let is_busy = machine.starts_too_much() || children.stopping.len() >= ENDING_MAX;
        if walk.is_asked || walk.beats_to_wait > 0 || is_busy {
            return;
        }
        // Members that come count from now on: those that are asked for together do not all come to one node.
        let may_come = nodes.well.iter().filter(|node| !children.shunned.contains_key(node));
        let mut counts: BTreeMap<u32, u64> = may_come.map(|&node| (node, children.count_on(node))).collect();
        let (mut groups, mut waits, mut next, mut bytes) = (Vec::new(), Vec::new(), None, 0);
        for (number, name) in children.named_from(walk.from) {
            if left.looked_at == 0 || left.moved == 0 || bytes >= NAMES_BYTES {
                next = Some(number);
                break;
            }
            left.looked_at -= 1;
            let Some(record) = machine.record_of(name).filter(|record| record.number == number) else { continue };
            match self.judge(group, &record, nodes, &mut counts) {
                Verdict::Nothing => {}
                Verdict::Moves(places) => {
                    left.moved -= 1;
                    bytes += name.len();
                    groups.push(MoveOff { number, name: name.to_vec(), places });
                }
                Verdict::Waits(why) => waits.extend(why),
            }
        }
        let of_volume = group.configuration.members.iter().map(|node| node.0).collect();
        let Some(walk) = self.emptying.walks.get_mut(&id) else { return };
        waits.into_iter().for_each(|wait| *walk.waits.entry(wait).or_default() += 1);
        walk.is_asked = !groups.is_empty();
        walk.has_asked |= walk.is_asked;
        match next {
            Some(next) => walk.from = next,
            None => walk.end(),
        }
        if !groups.is_empty()
            && let Some(target) = self.target_of(id)
        {
            let command = VolumeCommand::MoveOff(MovedOff { groups, volume: id.0, of_volume });
            self.submit_to_volume(target, &command, Purpose::MovedOff { volume: id });
        }
    }

    /// Who comes in the place of those that leave: of the nodes that are well the one that the fewest of the volume's own groups name, members
    /// of the volume before others.
    fn judge(&self, volume: &Group, record: &Record, nodes: &Nodes, counts: &mut BTreeMap<u32, u64>) -> Verdict {
        let home = record.place.home();
        let leaving: Vec<u32> = home.iter().copied().filter(|member| nodes.emptied.contains(member)).collect();
        let led = record.led();
        let is_held = led.is_some() && volume.machine.children().is_some_and(|children| children.held.is_some());
        // It is on its way, or goes when the volume's seat does.
        if leaving.is_empty() || led.is_some_and(GroupRecord::is_moving) || is_held {
            return Verdict::Nothing;
        }
        if !self.can_be_moved(record, volume) {
            return Verdict::Waits(leaving.into_iter().map(|node| (node, CANNOT_END)).collect());
        }
        if record.stopping {
            return Verdict::Nothing;
        }
        let is_inside = |node: u32| volume.configuration.contains(NodeId(node));
        let named = record.named_nodes();
        let (mut places, mut waits) = (Vec::new(), Vec::new());
        for node in leaving {
            let is_taken = |to: u32| named.contains(&to) || places.iter().any(|(_, taken)| *taken == to);
            let may_come = |to: &u32| !is_taken(*to) && (led.is_none() || is_inside(*to));
            let turn = |to: u32| (u64::from(to) + volume.id().0 + record.number) % counts.len() as u64;
            let best =
                counts.keys().copied().filter(may_come).min_by_key(|&to| (!is_inside(to), counts[&to], turn(to)));
            match best {
                Some(to) => {
                    counts.entry(to).and_modify(|count| *count += 1);
                    places.push((node, to));
                }
                None => waits.push((node, if led.is_some() { NOWHERE_INSIDE } else { NOWHERE })),
            }
        }
        if places.is_empty() { Verdict::Waits(waits) } else { Verdict::Moves(places) }
    }

    /// Whether enough members are there to end the group, or to hand its registers on.
    fn can_be_moved(&self, record: &Record, volume: &Group) -> bool {
        let members = record.member_ids(&volume.configuration.members);
        match record.protocol() {
            // It leaves out who is not there.
            Protocol::Chain => members.iter().any(|&member| !self.peers.is_suspected(member)),
            Protocol::Paxos | Protocol::Register => self.can_end(record, &members, None),
        }
    }

    /// The volume has answered. What it refused is found again.
    pub(super) fn take_moved_off(&mut self, volume: GroupId, answer: &Answer) {
        if let Answer::Outcome(Outcome::Keys(lines)) = answer {
            self.counters.own_groups_moved_off += lines.iter().filter(|line| *line == b"OK").count() as u64;
        }
        if let Some(walk) = self.emptying.walks.get_mut(&volume) {
            walk.is_asked = false;
        }
    }

    /// A volume that this node coordinates, of which own groups are on nodes that are to be emptied and do not wait for anything, in
    /// words.
    pub fn has_to_move_off(&self) -> Option<String> {
        let nodes = self.nodes_to_empty()?;
        self.volumes_of_paxos().into_iter().find_map(|(volume, index)| {
            let group = &self.groups[index as usize];
            let children = group.machine.children().filter(|_| group.replica.is_coordinating())?;
            let told = self.emptying.walks.get(&volume).map(|walk| &walk.waits_told);
            let waiting = |node| {
                let of_node = told.into_iter().flatten().filter(|((of, _), _)| *of == node);
                of_node.map(|(_, count)| count).sum::<u64>()
            };
            let on_node = |&node: &u32| (node, children.count_on(node), waiting(node));
            let counts: Vec<_> = nodes.emptied.iter().map(on_node).collect();
            let is_any_left = counts.iter().any(|(_, there, waiting)| there != waiting);
            is_any_left.then(|| format!("own groups of {volume:?} by node, and those that wait: {counts:?}"))
        })
    }

    /// How many own groups of the volumes that this node coordinates name each node, and why some stay where they are not to be.
    pub(super) fn own_groups_on(&self) -> Vec<OwnGroupsOn> {
        let mut on: BTreeMap<u32, OwnGroupsOn> = BTreeMap::new();
        for (volume, index) in self.volumes_of_paxos() {
            let group = &self.groups[index as usize];
            let counts = group.machine.children().and_then(|children| children.on_nodes.as_ref());
            for (&node, count) in counts.filter(|_| group.replica.is_coordinating()).into_iter().flatten() {
                on.entry(node).or_insert_with(|| OwnGroupsOn { node, ..OwnGroupsOn::default() }).groups += count;
            }
            for ((node, why), count) in self.emptying.walks.get(&volume).into_iter().flat_map(|walk| &walk.waits_told) {
                let Some(on) = on.get_mut(node) else { continue };
                match on.waiting.iter_mut().find(|waiting| waiting.why == *why) {
                    Some(waiting) => waiting.groups += count,
                    None => on.waiting.push(Waiting { groups: *count, why: (*why).to_owned() }),
                }
            }
        }
        on.into_values().collect()
    }
}

#[cfg(test)]
mod tests;
