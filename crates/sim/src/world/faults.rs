//! What goes wrong, and how it ends.

use std::collections::BTreeSet;

use quorate_node::host::Group;
use quorate_node::record::GroupRecord;
use quorate_node::replica::Protocol;
use quorate_node::root::Durability;
use quorate_node::{GroupState, Host, PanicIn};
use quorate_protocol::{GroupId, NodeId};

use super::{Event, Node, World};

/// What has gone wrong so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    pub crashes: u32,
    pub power_cuts: u32,
    pub partitions: u32,
    pub pauses: u32,
    pub all_at_once: u32,
    pub clock_steps: u32,
    /// Replicas that panicked.
    pub panics: u32,
    pub outages: u32,
}

/// A fault that is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strike {
    /// Counted from when clients have been at work for two seconds.
    pub after_us: u64,
    /// Counted from 0.
    pub node: usize,
    pub blow: Blow,
}

/// It is over after two seconds, longer than anybody waits for a node before it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    Crash,
    PowerCut,
    Pause,
    /// From all other nodes; its clients stay with it.
    Isolate,
}

impl Blow {
    pub const ALL: [Blow; 4] = [Blow::Crash, Blow::PowerCut, Blow::Pause, Blow::Isolate];
}

const BLOW_LASTS_US: u64 = 2_000_000;
/// About as long as a member may answer reads without hearing from its parent.
pub(super) const CUT_LASTS_US: u64 = 600_000;

/// Before the next wall clock is set wrong, all are right for this long.
const WALLS_RIGHT_US: u64 = 5_500_000;

/// A volume with all its own groups, by the volume.
fn family(group: GroupId) -> GroupId {
    quorate_node::volume::volume_of(group).map_or(group, |(volume, _)| volume)
}

impl World {
    pub(super) fn faults_are_enough(&self) -> bool {
        let crashes = self.faults.crashes >= self.settings.crashes_min;
        crashes && self.faults.partitions >= self.settings.partitions_min
    }

    /// Something goes wrong, and the next time is set.
    pub(super) fn strike(&mut self) {
        if self.healing {
            return;
        }
        if self.random.chance(self.settings.panics) && !self.settings.lone_groups {
            let node = self.pick_node();
            self.plan_panic(node);
        }
        match self.random.below(100) {
            0..25 => {
                let node = self.pick_node();
                let power = self.random.chance(500);
                self.crash(node, power);
            }
            // What was said before it was durable is forgotten here.
            25..40 => {
                let node = self.pick_node();
                match self.settings.hasty && self.random.chance(600) {
                    true => self.nodes[node].doomed_at_store = true,
                    false => self.nodes[node].doomed = true,
                }
            }
            40..45 => self.crash_all(),
            45..62 => self.partition(),
            62..80 => {
                let node = self.pick_node();
                self.pause(node);
            }
            80..90 => self.set_a_wall_clock(),
            _ => self.network.change_weather(),
        }
        let next_us = self.random.range(100_000..2_000_000);
        self.plan(next_us, Event::Fault);
    }

    pub(super) fn strike_at(&mut self, strike: Strike) {
        let Strike { node, blow, .. } = strike;
        match blow {
            Blow::Crash | Blow::PowerCut => self.crash_for(node, blow == Blow::PowerCut, BLOW_LASTS_US),
            Blow::Pause => self.pause_for(node, BLOW_LASTS_US),
            Blow::Isolate => self.cut_off(node, BLOW_LASTS_US),
        }
    }

    /// A node has proposed other members of a chain. Whoever is cut off from it just then learns of them last.
    pub(super) fn cut_at_change(&mut self, proposer: usize) {
        let odds = self.settings.cuts_at_changes;
        if odds == 0 || self.healing || !self.random.chance(odds) {
            return;
        }
        let node = self.pick_node();
        if node != proposer {
            let delay_us = self.random.range(0..5_000);
            self.plan(delay_us, Event::CutOff { node });
        }
    }

    pub(super) fn cut_off(&mut self, node: usize, lasts_us: u64) {
        self.faults.partitions += 1;
        self.isolate(node);
        self.plan(lasts_us, Event::Heal);
    }

    fn isolate(&mut self, alone: usize) {
        for other in (0..self.nodes.len()).filter(|&other| other != alone) {
            self.network.block(alone, other);
            self.network.block(other, alone);
        }
    }

    /// Most nodes are gone, or one is alone, or all are, for longer than a group without a quorum stays in memory.
    pub(super) fn begin_outage(&mut self) {
        if self.healing {
            return;
        }
        self.faults.outages += 1;
        let nodes = self.nodes.len();
        let lasts_us = self.random.range(3_000_000..6_000_000);
        let alone = self.pick_node();
        match self.random.below(3) {
            0 => self.isolate(alone),
            1 => (0..nodes).for_each(|node| self.isolate(node)),
            _ => {
                for node in (0..nodes).filter(|&node| node != alone) {
                    let power = self.random.chance(500);
                    self.crash_for(node, power, lasts_us);
                }
            }
        }
        self.outage_until_us = self.now_us + lasts_us;
        self.plan(lasts_us, Event::Heal);
        let next_us = lasts_us + self.random.range(2_000_000..15_000_000);
        self.plan(next_us, Event::Outage);
    }

    /// A node is gone for longer than others wait for it, or about as long.
    pub(super) fn die_for_long(&mut self) {
        let Some(mean_ms) = self.settings.deaths_mean_ms.filter(|_| !self.healing) else { return };
        let asked = self.pick_node();
        let after = *self.random.pick(&["1", "1", "2", "4", "NEVER"]);
        self.call_admin(asked, 0, &format!("NODE REPLACE AFTER {after}"));
        let (node, power) = (self.pick_node(), self.random.chance(500));
        let lasts_us = self.random.range(2_000_000..16_000_000);
        self.crash_for(node, power, lasts_us);
        let next_us = lasts_us + self.random.delay(mean_ms * 1000);
        self.plan(next_us, Event::Death);
    }

    fn pick_node(&mut self) -> usize {
        self.random.below(self.nodes.len() as u64) as usize
    }

    pub(super) fn crash(&mut self, node: usize, power: bool) {
        if !self.nodes[node].is_up() {
            return;
        }
        let down_us = if self.random.chance(500) {
            self.random.range(1_000..50_000)
        } else {
            self.random.range(100_000..4_000_000)
        };
        self.crash_for(node, power, down_us);
    }

    fn crash_for(&mut self, node: usize, power: bool, down_us: u64) {
        if !self.nodes[node].is_up() || !self.may_crash(node, power) {
            return;
        }
        self.faults.crashes += 1;
        self.faults.power_cuts += u32::from(power);
        let may_decay = node == self.settings.forgets && self.are_chains_whole();
        let decay = if may_decay { self.settings.decay } else { 0 };
        let lost = if self.may_lose_directory(node) { self.settings.lost_directories } else { 0 };
        if self.settings.durability != Durability::Sync || decay + lost > 0 {
            self.nodes[node].forgotten_own = self.own_groups_of(node);
        }
        self.stop_node(node, power);
        if lost > 0 && self.random.chance(lost) {
            self.nodes[node].replace_directory();
        }
        if decay > 0 && self.random.chance(decay) {
            self.nodes[node].decay();
        }
        self.plan(down_us, Event::Restart { node });
    }

    /// Whether the groups keep a quorum of members that know what they said.
    fn may_crash(&self, node: usize, power: bool) -> bool {
        match self.settings.durability {
            Durability::Sync => true,
            Durability::Interval => !power || node == self.settings.forgets && self.are_chains_whole(),
            Durability::Memory => self.others_remember(node) && self.are_chains_whole(),
        }
    }

    /// Whether what this node has said is known to all others, who remember it; and no other node forgets something while it does.
    fn may_lose_directory(&self, node: usize) -> bool {
        let is_free = self.settings.durability != Durability::Interval && self.settings.decay == 0;
        (is_free || node == self.settings.forgets) && self.others_remember(node) && self.are_chains_whole()
    }

    fn others_remember(&self, node: usize) -> bool {
        (0..self.nodes.len()).filter(|&at| at != node).all(|at| self.remembers(at))
    }

    /// Whether all replicas of a node know what they said. Of an own group that it had a part in when it forgot that, it never does.
    fn remembers(&self, at: usize) -> bool {
        let is_sound = |group: &Group| group.state != GroupState::Forgetful;
        let knows_all = |host: &Host| host.remembers_losses() && host.groups().all(is_sound);
        let Some(host) = self.nodes[at].host().filter(|host| knows_all(host)) else { return false };
        let forgot = &self.nodes[at].forgotten_own;
        self.own_groups_of(at).into_iter().all(|group| !forgot.contains(&group) && !host.is_kept_from_birth(group))
    }

    /// The own groups of which a node has replicas, as far as any node knows.
    fn own_groups_of(&self, at: usize) -> BTreeSet<GroupId> {
        let id = NodeId(at as u32 + 1);
        let own = self.nodes.iter().filter_map(Node::host).flat_map(Host::groups).flat_map(Group::own_groups);
        own.filter(|(_, members)| members.contains(&id)).map(|(group, _)| group).collect()
    }

    /// Whether no chain is down to members that may be gone together, whichever node is asked, and nor will be before it is noticed
    /// that one has forgotten: a chain that leaves out whoever is not heard of may have nobody left but the one that was just killed.
    fn are_chains_whole(&self) -> bool {
        let sees_all = |node: &Node| {
            let host = node.host().filter(|host| !host.changes_chains());
            host.and_then(|host| host.directory())
                .is_some_and(|root| root.led(Protocol::Chain).all(GroupRecord::is_whole))
        };
        let is_quiet = || self.network.is_whole(self.now_us) && self.nodes.iter().all(|node| !node.paused);
        self.settings.protocol != Protocol::Chain || is_quiet() && self.nodes.iter().all(sees_all)
    }

    /// Whether a chain counts on a node that has forgotten, or may have.
    fn counts_on_the_forgetful(&self) -> bool {
        let may_forget = self.settings.durability != Durability::Sync || self.settings.decay > 0;
        let is_named = |at: usize| {
            let id = at as u32 + 1;
            let mut roots = self.nodes.iter().filter_map(|node| node.host()?.directory());
            roots.any(|root| root.led(Protocol::Chain).any(|record| record.members.contains(&id)))
        };
        let is_chain = self.settings.protocol == Protocol::Chain;
        is_chain && may_forget && (0..self.nodes.len()).any(|at| !self.remembers(at) && is_named(at))
    }

    fn crash_all(&mut self) {
        self.faults.all_at_once += 1;
        for node in 0..self.nodes.len() {
            let power = self.random.chance(500);
            self.crash(node, power);
        }
    }

    pub(super) fn restart_node(&mut self, node: usize) {
        if !self.nodes[node].is_up() {
            self.start_node(node);
        }
    }

    fn partition(&mut self) {
        if self.counts_on_the_forgetful() {
            return;
        }
        self.faults.partitions += 1;
        let parted = self.pick_links();
        let lasts_us = self.random.range(200_000..4_000_000);
        let holds_back = self.settings.held_back > 0 && self.random.chance(self.settings.held_back);
        for (from, to) in parted {
            match holds_back {
                true => self.network.hold_back(from, to, self.now_us + lasts_us),
                false => self.network.block(from, to),
            }
        }
        self.plan(lasts_us, Event::Heal);
    }

    /// Links that are to be parted, each of them a direction.
    fn pick_links(&mut self) -> Vec<(usize, usize)> {
        let nodes = self.nodes.len();
        let links = (0..nodes).flat_map(|from| (0..nodes).filter(move |&to| to != from).map(move |to| (from, to)));
        match self.random.below(3) {
            // One node is alone.
            0 => {
                let alone = self.pick_node();
                links.filter(|&(from, to)| from == alone || to == alone).collect()
            }
            // Two sides.
            1 => {
                let side: Vec<bool> = (0..nodes).map(|_| self.random.chance(500)).collect();
                links.filter(|&(from, to)| side[from] != side[to]).collect()
            }
            // Some directions are dead.
            _ => links.filter(|_| self.random.chance(300)).collect(),
        }
    }

    pub(super) fn heal_network(&mut self) {
        if self.now_us >= self.outage_until_us {
            self.network.unblock_all();
        }
    }

    /// A wall clock is set wrong; or right, if one is wrong. What nodes know of each other's clocks may be
    /// [`WALLS_RIGHT_US`] old: no two are set within that time.
    fn set_a_wall_clock(&mut self) {
        if self.nodes.iter().any(|node| node.wall_step_ms() != 0) {
            self.walls_right_since_us = self.now_us;
            return self.correct_wall_clocks();
        }
        if self.now_us < self.walls_right_since_us + WALLS_RIGHT_US {
            return;
        }
        self.faults.clock_steps += 1;
        let far_ms = *self.random.pick(&[700, 3_000, 60_000, 3_600_000, 86_400_000]);
        let step_ms = self.random.range(1..far_ms) as i64;
        let node = self.pick_node();
        let ahead = self.random.chance(500);
        self.nodes[node].set_wall_step(if ahead { step_ms } else { -step_ms });
    }

    fn correct_wall_clocks(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.set_wall_step(0));
    }

    fn pause(&mut self, node: usize) {
        if self.nodes[node].paused || !self.nodes[node].is_up() || self.counts_on_the_forgetful() {
            return;
        }
        let lasts_us = self.random.range(10_000..1_500_000);
        self.pause_for(node, lasts_us);
    }

    fn pause_for(&mut self, node: usize, lasts_us: u64) {
        if self.nodes[node].paused || !self.nodes[node].is_up() {
            return;
        }
        self.faults.pauses += 1;
        self.nodes[node].paused = true;
        self.plan(lasts_us, Event::Resume { node });
    }

    /// One replica of a group will panic, while no other has since its node started: a quorum is left.
    fn plan_panic(&mut self, at: usize) {
        let Some(host) = self.nodes[at].host() else { return };
        // Own groups are born with what their volume executes, so one replica of a whole family is enough.
        let is_free = |group: &GroupId| match self.panics.get(&family(*group)) {
            Some(&(node, life)) => self.nodes[node].life != life,
            None => true,
        };
        let groups: Vec<GroupId> = host.groups().map(Group::id).filter(is_free).collect();
        if groups.is_empty() {
            return;
        }
        let group = *self.random.pick(&groups);
        let place = *self.random.pick(&[PanicIn::Step, PanicIn::Apply]);
        self.panics.insert(family(group), (at, self.nodes[at].life));
        self.faults.panics += 1;
        self.nodes[at].plan_panic(group, place);
    }

    /// The end of the faults: from now on the cluster must answer.
    pub(super) fn start_healing(&mut self) {
        self.healing = true;
        self.network.calm();
        self.correct_wall_clocks();
        self.restart_panicked();
        // What an idle group needs to be woken must be on disk too.
        if self.random.chance(300) {
            self.crash_all();
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].doomed = false;
            self.nodes[node].doomed_at_store = false;
            if !self.nodes[node].is_up() {
                self.restart_node(node);
            }
            if self.nodes[node].paused {
                self.resume_node(node);
            }
        }
        for node in 0..self.nodes.len() {
            self.wake_all(node);
        }
        self.clients.finish(self.nodes.len());
    }

    /// A chain may have come down to one member, or a register's quorums need one, and that one have panicked: it is back when
    /// its node starts anew, and nobody could go on without it.
    fn restart_panicked(&mut self) {
        if !self.settings.protocol.is_chain() && !self.settings.led_groups {
            return;
        }
        let panicked = self.panics.values().filter(|(node, life)| self.nodes[*node].life == *life);
        let nodes: BTreeSet<usize> = panicked.map(|&(node, _)| node).collect();
        nodes.into_iter().for_each(|node| self.crash(node, false));
    }

    /// Every client has its answers and every replica of a group stands at the same slot.
    pub(super) fn is_at_rest(&self) -> bool {
        let has_moved = self.settings.placed_anew || self.settings.deaths_mean_ms.is_some();
        let is_moving = has_moved && crate::property::convergence::is_moving(&self.nodes);
        !is_moving && self.clients.is_done() && crate::property::convergence::is_converged(&self.nodes)
    }
}
