//! Which replicas of volumes, and of the root, move next, and where to: away from nodes that drain or are absent, and until all nodes have as many as any other.
//!
//! It follows from the root's state and from which nodes are well, and from nothing else: whoever coordinates the root next goes on
//! where the last one was. What is under way counts as if it had come to its end, so nothing is moved to and fro.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::layout::stays;
use super::{GroupRecord, PlaceCommand, Places, RootState};
use crate::replica::Protocol;

/// Copies that begin or end at a node at a time: a third is not sooner done for it, and clients want the network and the disks too.
const COPIES_PER_NODE_MAX: usize = 2;
/// In the whole cluster, as many as two fifths of its nodes, as in section 5.4 of chain replication's paper; and at least this.
const COPIES_MIN: usize = 2;

/// How a node is, as whoever plans sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// It has been there for a while.
    Well,
    /// It is not there, or was not a moment ago; it may be back soon.
    Away,
    /// It has been away for so long that nobody waits for it any more.
    Gone,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// What the root is to decide next.
    pub commands: Vec<PlaceCommand>,
    /// How many replicas of a node that is to be emptied do not move now, and why.
    pub waits: BTreeMap<(u32, &'static str), u64>,
}

pub(crate) const WAITS_FOR_OTHERS: &str = "another replica of the volume is on a node that is not well";
pub(crate) const HAS_NOWHERE_TO_GO: &str = "no node that is well could have it";
pub(crate) const IS_THE_ONLY_ONE: &str = "it is the volume's only replica, and its node is not well";

/// The next moves.
pub(crate) fn plan(root: &RootState, health: &dyn Fn(u32) -> Health) -> Plan {
    let is_given_up = |node| root.is_absent(node) && health(node) == Health::Away;
    let health = |node| if is_given_up(node) { Health::Gone } else { health(node) };
    let mut planner = Planner::new(root, &health);
    let (of_root, waits) = root.plan_of_root(&health);
    planner.plan.commands.extend(of_root);
    planner.plan.waits = waits;
    planner.give_up();
    planner.drain();
    if root.placement.is_levelling {
        planner.level();
    }
    planner.plan
}

struct Volume<'a> {
    number: u32,
    protocol: Protocol,
    record: &'a GroupRecord,
    places: Places,
    is_changing: bool,
}

impl Volume<'_> {
    fn has(&self, node: u32) -> bool {
        self.places.seats.contains(&node) || self.places.leaving.contains(&node)
    }

    fn is_first(&self, node: u32) -> bool {
        self.places.seats.first() == Some(&node)
    }

    /// Whether all that keeps a chain from being whole is that this node was left out.
    fn goes_on_without(&self, node: u32) -> bool {
        let Places { coming, leaving, .. } = &self.places;
        let is_left_out = self.protocol.is_chain() && coming[..] == [node] && leaving.is_empty();
        is_left_out && self.record.joining.is_none()
    }
}

/// Replicas, and those of them that are the first of their volume.
#[derive(Clone, Copy, Default)]
struct Load {
    replicas: usize,
    firsts: usize,
}

struct Planner<'a> {
    root: &'a RootState,
    health: &'a dyn Fn(u32) -> Health,
    /// Those that can be moved at all.
    volumes: Vec<Volume<'a>>,
    /// By namespace and node.
    loads: BTreeMap<(u32, u32), Load>,
    /// By node.
    totals: BTreeMap<u32, usize>,
    copies: usize,
    copies_max: usize,
    copies_at: BTreeMap<u32, usize>,
    plan: Plan,
}

impl<'a> Planner<'a> {
    fn new(root: &'a RootState, health: &'a dyn Fn(u32) -> Health) -> Planner<'a> {
        let volumes = root.all_places().filter(|(_, namespace, _, places)| stays(namespace, places).is_none());
        let volumes = volumes.map(|(number, namespace, record, places)| Volume {
            number,
            protocol: namespace.settings.protocol,
            record,
            is_changing: !places.are_taken() || record.joining.is_some() || record.is_moving(),
            places,
        });
        let mut planner = Planner {
            root,
            health,
            volumes: volumes.collect(),
            loads: BTreeMap::new(),
            totals: BTreeMap::new(),
            copies: 0,
            copies_max: COPIES_MIN.max(root.nodes.len() * 2 / 5),
            copies_at: BTreeMap::new(),
            plan: Plan::default(),
        };
        for at in 0..planner.volumes.len() {
            let (number, seats) = (planner.volumes[at].number, planner.volumes[at].places.seats.clone());
            for (position, &node) in seats.iter().enumerate() {
                planner.count(number, node, position == 0, 1);
            }
            let Places { coming, leaving, .. } = planner.volumes[at].places.clone();
            for &to in coming.iter().filter(|to| health(**to) != Health::Gone) {
                planner.count_copy(leaving.first().copied(), to);
            }
        }
        planner
    }

    fn count(&mut self, number: u32, node: u32, is_first: bool, by: isize) {
        let load = self.loads.entry((number, node)).or_default();
        load.replicas = load.replicas.saturating_add_signed(by);
        load.firsts = load.firsts.saturating_add_signed(if is_first { by } else { 0 });
        let total = self.totals.entry(node).or_default();
        *total = total.saturating_add_signed(by);
    }

    fn count_copy(&mut self, from: Option<u32>, to: u32) {
        self.copies += 1;
        // One that is gone has nothing to do with it.
        let from = from.filter(|from| (self.health)(*from) != Health::Gone);
        for node in from.into_iter().chain([to]) {
            *self.copies_at.entry(node).or_default() += 1;
        }
    }

    fn has_room(&self, from: u32, to: u32) -> bool {
        let is_free = |node: u32| self.copies_at.get(&node).is_none_or(|copies| *copies < COPIES_PER_NODE_MAX);
        self.copies < self.copies_max && is_free(to) && (is_free(from) || (self.health)(from) == Health::Gone)
    }

    fn is_well(&self, node: u32) -> bool {
        (self.health)(node) == Health::Well
    }

    fn load(&self, number: u32, node: u32) -> Load {
        self.loads.get(&(number, node)).copied().unwrap_or_default()
    }

    fn total(&self, node: u32) -> usize {
        self.totals.get(&node).copied().unwrap_or(0)
    }

    fn replace(&mut self, at: usize, from: u32, to: u32) {
        let volume = &mut self.volumes[at];
        let (group, epoch, number) = (volume.record.group, volume.record.epoch, volume.number);
        let Some(position) = volume.places.seats.iter().position(|seat| *seat == from) else { return };
        volume.places.seats[position] = to;
        volume.is_changing = true;
        self.count(number, from, position == 0, -1);
        self.count(number, to, position == 0, 1);
        self.count_copy(Some(from), to);
        self.plan.commands.push(PlaceCommand::Replace { group, epoch, from, to });
    }

    /// The node that has the least, of those that may get this volume in the place of that one.
    fn target(&self, at: usize, from: u32) -> Option<u32> {
        let volume = &self.volumes[at];
        let is_fit = |node: &u32| self.is_well(*node) && !volume.has(*node);
        let burden = |node: &u32| {
            let Load { replicas, firsts } = self.load(volume.number, *node);
            let firsts = if volume.is_first(from) { firsts } else { 0 };
            (firsts, replicas, self.total(*node), *node)
        };
        self.root.nodes_that_stay().filter(is_fit).min_by_key(burden)
    }

    /// Whether all replicas but this one are on nodes that are well.
    fn are_others_well(&self, at: usize, node: u32) -> bool {
        self.volumes[at].places.seats.iter().all(|&seat| seat == node || self.is_well(seat))
    }
}

impl Planner<'_> {
    /// Whoever was to get a copy and is gone is not waited for.
    fn give_up(&mut self) {
        for at in 0..self.volumes.len() {
            let volume = &self.volumes[at];
            let (group, epoch, joining) = (volume.record.group, volume.record.epoch, volume.record.joining);
            let Places { seats, coming, leaving } = &volume.places;
            if volume.protocol == Protocol::Paxos && joining.is_some() {
                // Nobody comes in without those that stay.
                if seats.iter().any(|node| (self.health)(*node) == Health::Gone) {
                    self.plan.commands.push(PlaceCommand::Keep { group, epoch });
                }
                continue;
            }
            let Some(gone) = coming.iter().copied().find(|node| (self.health)(*node) == Health::Gone) else { continue };
            let is_awaited = self.root.placement.seats.get(&group).is_some_and(|seats| seats.unsettled == Some(gone));
            let to = match volume.protocol {
                // The newer configuration is decided, and may be in use.
                Protocol::Register => continue,
                // It was a member of the chain before, and comes back when its node does; or its joining is given up first.
                Protocol::Chain if !is_awaited || joining.is_some() => continue,
                // Whoever came instead would be given up at once.
                Protocol::Paxos if !self.are_others_well(at, gone) => continue,
                Protocol::Paxos => self.target(at, gone),
                Protocol::Chain => {
                    let stayed =
                        leaving.iter().copied().find(|node| self.is_well(*node) && !self.root.is_to_be_emptied(*node));
                    stayed.or_else(|| self.target(at, gone))
                }
            };
            if let Some(to) = to.filter(|to| self.has_room(gone, *to)) {
                self.replace(at, gone, to);
            }
        }
    }

    /// What nodes have that are to be emptied goes to others. Volumes that they are the first of go before the rest, which then makes even what
    /// that has left uneven.
    fn drain(&mut self) {
        // One that is absent and well is about to be back.
        let is_emptied = |node: u32| self.root.is_draining(node) || self.root.is_absent(node) && !self.is_well(node);
        let nodes: Vec<u32> = self.root.nodes.iter().map(|node| node.id).filter(|node| is_emptied(*node)).collect();
        for is_first in [true, false] {
            for &node in &nodes {
                for at in 0..self.volumes.len() {
                    let volume = &self.volumes[at];
                    if volume.places.seats.contains(&node) && volume.is_first(node) == is_first {
                        self.drain_one(at, node);
                    }
                }
            }
        }
    }

    fn drain_one(&mut self, at: usize, node: u32) {
        let volume = &self.volumes[at];
        if volume.is_changing && !volume.goes_on_without(node) {
            return;
        }
        match self.target(at, node) {
            None => *self.plan.waits.entry((node, HAS_NOWHERE_TO_GO)).or_default() += 1,
            Some(_) if !self.are_others_well(at, node) => {
                *self.plan.waits.entry((node, WAITS_FOR_OTHERS)).or_default() += 1;
            }
            Some(_) if volume.places.seats.len() == 1 && !self.is_well(node) => {
                *self.plan.waits.entry((node, IS_THE_ONLY_ONE)).or_default() += 1;
            }
            Some(to) if self.has_room(node, to) => self.replace(at, node, to),
            Some(_) => {}
        }
    }

    /// First each namespace's replicas are made even, and then those of all together. Each move makes the squares of the one or
    /// the other smaller, and of the first no larger: it comes to an end.
    fn level(&mut self) {
        let mut numbers: Vec<u32> = self.volumes.iter().map(|volume| volume.number).collect();
        numbers.dedup();
        let mut is_even = true;
        for &number in &numbers {
            is_even &= self.level_namespace(number);
        }
        if is_even {
            is_even = self.level_all(&numbers);
        }
        let is_settled = self.volumes.iter().all(|volume| !volume.is_changing);
        let are_there = self.root.nodes_that_stay().all(|node| self.is_well(node));
        if is_even && is_settled && are_there && self.plan.commands.is_empty() {
            self.plan.commands.push(PlaceCommand::Level { is_levelling: false });
        }
    }

    /// Whether a namespace is even.
    fn level_namespace(&mut self, number: u32) -> bool {
        loop {
            let pairs = self.uneven(|node| self.load(number, node).replicas);
            let next = pairs.iter().find_map(|&(from, to)| Some((self.movable(number, from, to)?, from, to)));
            match next {
                Some((at, from, to)) => self.replace(at, from, to),
                None => return pairs.is_empty(),
            }
        }
    }

    /// Whether all namespaces together are. A replica goes only where its namespace stays even.
    fn level_all(&mut self, numbers: &[u32]) -> bool {
        loop {
            let pairs = self.uneven(|node| self.total(node));
            let next = pairs.iter().find_map(|&(from, to)| {
                let has_more = |number: &&u32| self.load(**number, from).replicas > self.load(**number, to).replicas;
                let at = numbers.iter().filter(has_more).find_map(|number| self.movable(*number, from, to))?;
                Some((at, from, to))
            });
            match next {
                Some((at, from, to)) => self.replace(at, from, to),
                None => return pairs.is_empty(),
            }
        }
    }

    /// Nodes of which one has more than the other by at least two, those first that are farthest apart.
    fn uneven(&self, count: impl Fn(u32) -> usize) -> Vec<(u32, u32)> {
        let counts: Vec<(u32, usize)> = self.root.nodes_that_stay().map(|node| (node, count(node))).collect();
        let least = counts.iter().map(|(_, count)| *count).min().unwrap_or(0);
        let mut pairs = Vec::new();
        for &(from, more) in counts.iter().filter(|(_, count)| *count > least + 1) {
            let fewer = counts.iter().filter(|(_, fewer)| fewer + 1 < more);
            pairs.extend(fewer.map(|&(to, fewer)| (Reverse(more - fewer), from, to)));
        }
        pairs.sort_unstable();
        pairs.into_iter().map(|(_, from, to)| (from, to)).collect()
    }

    /// A volume of a namespace that can go from one node to another now; one that makes the first members even, if there is one.
    fn movable(&self, number: u32, from: u32, to: u32) -> Option<usize> {
        if !self.has_room(from, to) || !self.is_well(from) || !self.is_well(to) {
            return None;
        }
        let wants_first = self.load(number, from).firsts > self.load(number, to).firsts;
        let is_movable = |at: &usize| {
            let volume = &self.volumes[*at];
            let is_here = volume.number == number && volume.places.seats.contains(&from) && !volume.has(to);
            is_here && !volume.is_changing && self.are_others_well(*at, from)
        };
        (0..self.volumes.len())
            .filter(is_movable)
            .min_by_key(|at| (self.volumes[*at].is_first(from) != wants_first, *at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::{NodeRecord, ROOT, RootCommand, Seats, Settings};
    use quorate_object::Outcome;

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    fn cluster(nodes: u32) -> RootState {
        let mut root = RootState::of_nodes(nodes, Settings::default());
        root.namespaces.clear();
        root
    }

    fn create(root: &mut RootState, number: u32, protocol: Protocol, replicas: u8, volumes: u32) {
        let settings = Settings { protocol, replicas, volumes, ..Settings::default() };
        let command = RootCommand::CreateNamespace { number, settings, members: Vec::new() };
        assert_eq!(root.execute(&command, u64::from(number)), Outcome::Ok);
    }

    fn add(root: &mut RootState, id: u32) {
        let record = NodeRecord { id, name: format!("n{id}"), ..root.nodes[0].clone() };
        root.nodes.push(record);
    }

    fn drain(root: &mut RootState, node: u32, is_draining: bool) -> Outcome {
        root.execute(&RootCommand::Place(PlaceCommand::Drain { node, is_draining }), 1)
    }

    fn well(_: u32) -> Health {
        Health::Well
    }

    fn volume_mut(root: &mut RootState, group: u64) -> (Protocol, &mut GroupRecord) {
        let found = root.namespaces.values_mut().find_map(|namespace| {
            let protocol = namespace.settings.protocol;
            Some((protocol, namespace.volumes.iter_mut().find(|volume| volume.group == group)?))
        });
        found.expect("it is moved")
    }

    /// What a command does, at once for volumes of paxos, whose seats are somebody else's.
    fn apply(root: &mut RootState, command: &PlaceCommand) {
        if let PlaceCommand::Replace { group, epoch, from, to } = *command
            && group != ROOT.0
        {
            let (protocol, volume) = volume_mut(root, group);
            if protocol == Protocol::Paxos {
                assert_eq!(volume.epoch, epoch);
                let at = volume.members.iter().position(|member| *member == from).expect("it is a member");
                assert!(!volume.members.contains(&to));
                volume.members[at] = to;
                volume.epoch += 1;
                return;
            }
        }
        assert_eq!(root.execute(&RootCommand::Place(command.clone()), 1), Outcome::Ok, "{command:?}");
    }

    /// All that is under way comes to its end.
    fn settle(root: &mut RootState) {
        if let Some(Seats { change, .. }) = root.seats(ROOT.0).cloned() {
            let (group, epoch) = (ROOT.0, root.root_record().epoch + 1);
            root.execute(&RootCommand::Place(PlaceCommand::Enter { group, change }), 1);
            root.execute(&RootCommand::Place(PlaceCommand::Settle { group, epoch }), 1);
        }
        let groups: Vec<u64> = root.volumes().map(|(.., volume)| volume.group).collect();
        for group in groups {
            let (protocol, volume) = volume_mut(root, group);
            let (epoch, home) = (volume.epoch, volume.home.clone());
            if protocol.is_chain() && !volume.is_whole() {
                volume.reconfigure(home, None);
            } else if volume.is_moving() {
                volume.retire_before(epoch);
            }
        }
    }

    fn counts(root: &RootState, number: Option<u32>) -> BTreeMap<u32, usize> {
        let mut counts: BTreeMap<u32, usize> = root.nodes_that_stay().map(|node| (node, 0)).collect();
        for (_, _, _, places) in root.all_places().filter(|(of, ..)| number.is_none_or(|number| number == *of)) {
            places.seats.iter().for_each(|seat| *counts.entry(*seat).or_default() += 1);
        }
        counts
    }

    fn spread(counts: &BTreeMap<u32, usize>) -> usize {
        counts.values().max().unwrap_or(&0) - counts.values().min().unwrap_or(&0)
    }

    /// Goes on until nothing is left to do. How many replicas have moved.
    fn run(root: &mut RootState) -> usize {
        let mut moved = 0;
        for _ in 0..10_000 {
            let Plan { commands, .. } = plan(root, &well);
            let mut at: BTreeMap<u32, usize> = BTreeMap::new();
            for command in &commands {
                if let PlaceCommand::Replace { group, from, to, .. } = command
                    && *group != ROOT.0
                {
                    moved += 1;
                    [from, to].into_iter().for_each(|node| *at.entry(*node).or_default() += 1);
                }
                apply(root, command);
            }
            assert!(at.values().all(|copies| *copies <= COPIES_PER_NODE_MAX), "{commands:?}");
            if commands.is_empty() {
                return moved;
            }
            settle(root);
        }
        panic!("it moves for ever: {:?}", counts(root, None));
    }

    #[test]
    fn a_node_that_came_gets_its_share_of_every_namespace_and_no_more_is_moved() {
        let mut root = cluster(4);
        for (number, protocol) in [(0, Protocol::Paxos), (1, Protocol::Chain), (2, Protocol::Register)] {
            create(&mut root, number, protocol, 3, 64);
        }
        add(&mut root, 5);
        assert_eq!(plan(&root, &well), Plan::default(), "nobody has asked for it");
        root.execute(&RootCommand::Place(PlaceCommand::Level { is_levelling: true }), 1);
        let moved = run(&mut root);
        // A fifth of three times 192 replicas.
        assert!((114..=117).contains(&moved), "{moved}");
        assert!(!root.placement.is_levelling, "it is over by itself");
        assert!(spread(&counts(&root, None)) <= 1);
        for number in 0..3 {
            assert!(spread(&counts(&root, Some(number))) <= 1);
            let is_first = |volume: &&GroupRecord| root.places(Protocol::Paxos, volume).seats[0] == 5;
            let firsts = match number {
                1 => root.namespaces[&1].volumes.iter().filter(|volume| volume.home[0] == 5).count(),
                _ => root.namespaces[&number].volumes.iter().filter(is_first).count(),
            };
            assert!((11..=16).contains(&firsts), "{firsts} of 64 begin at it");
        }
    }

    #[test]
    fn what_a_draining_node_has_is_spread_over_all_others_and_so_is_what_it_was_first_of() {
        let mut root = cluster(5);
        create(&mut root, 0, Protocol::Chain, 3, 100);
        assert_eq!(drain(&mut root, 3, true), Outcome::Ok);
        assert_eq!(run(&mut root), 60);
        let counts = counts(&root, None);
        assert_eq!(counts.get(&3), None);
        assert!(spread(&counts) <= 2, "{counts:?}");
        let mut firsts: BTreeMap<u32, usize> = BTreeMap::new();
        root.volumes().for_each(|(.., volume)| *firsts.entry(volume.home[0]).or_default() += 1);
        assert!(spread(&firsts) <= 1, "{firsts:?}");
    }

    #[test]
    fn whatever_there_is_nodes_are_drained_and_made_even_and_nothing_moves_to_and_fro() {
        for seed in 0..60 {
            let mut random = Random(seed);
            let nodes = 3 + random.below(5) as u32;
            let mut root = cluster(nodes);
            for number in 0..random.below(6) as u32 {
                let protocol = Protocol::ALL[random.below(3) as usize];
                let replicas = 1 + random.below(u64::from(nodes)) as u8;
                create(&mut root, number, protocol, replicas, 1 + random.below(20) as u32);
            }
            (0..random.below(3) as u32).for_each(|more| add(&mut root, nodes + 1 + more));
            let drained: Vec<u32> = (1..=nodes).filter(|_| random.below(4) == 0).collect();
            let drained: Vec<u32> =
                drained.into_iter().filter(|node| drain(&mut root, *node, true) == Outcome::Ok).collect();
            root.placement.is_levelling = random.below(2) == 0;
            let is_levelled = root.placement.is_levelling;
            run(&mut root);
            for (_, namespace, _, places) in root.all_places() {
                let is_fixed = stays(namespace, &places).is_some();
                let mut seats = places.seats.clone();
                seats.sort_unstable();
                seats.dedup();
                assert_eq!(seats.len(), places.seats.len(), "seed {seed}: a node has two replicas");
                assert!(is_fixed || drained.iter().all(|node| !seats.contains(node)), "seed {seed}");
            }
            if is_levelled {
                assert!(!root.placement.is_levelling, "seed {seed}: it is over by itself");
                let planner = Planner::new(&root, &well);
                for number in root.namespaces.keys() {
                    let loads = root.nodes_that_stay().map(|node| (node, planner.load(*number, node).replicas));
                    assert!(spread(&loads.collect()) <= 1, "seed {seed}: namespace {number}");
                }
                let totals = root.nodes_that_stay().map(|node| (node, planner.total(node)));
                assert!(spread(&totals.collect()) <= 1, "seed {seed}");
            }
            for node in drained {
                assert_eq!(drain(&mut root, node, false), Outcome::Ok);
            }
            assert_eq!(run(&mut root), 0, "seed {seed}: nothing comes back by itself");
        }
    }

    #[test]
    fn only_so_many_copies_are_under_way_and_whoever_has_enough_gets_no_more() {
        let mut root = cluster(4);
        create(&mut root, 0, Protocol::Chain, 3, 32);
        drain(&mut root, 4, true);
        let first = plan(&root, &well).commands;
        assert_eq!(first.len(), 2, "{first:?}");
        first.iter().for_each(|command| apply(&mut root, command));
        assert_eq!(plan(&root, &well).commands, [], "both are under way");
        settle(&mut root);
        assert_eq!(plan(&root, &well).commands.len(), 2);
    }

    #[test]
    fn a_volume_of_which_another_replica_is_not_well_stays_until_it_is() {
        let mut root = cluster(4);
        create(&mut root, 0, Protocol::Chain, 3, 4);
        drain(&mut root, 4, true);
        let away = |node| if node == 2 { Health::Away } else { Health::Well };
        let Plan { commands, waits } = plan(&root, &away);
        let (nowhere, others) = (waits.get(&(4, HAS_NOWHERE_TO_GO)), waits.get(&(4, WAITS_FOR_OTHERS)));
        assert_eq!((commands.len(), nowhere, others), (0, Some(&1), Some(&2)));
        // The one that drains may be gone itself.
        let gone = |node| if node == 4 { Health::Gone } else { Health::Well };
        assert_eq!(plan(&root, &gone).commands.len(), 2);
        let of_four = root.volumes().find(|(.., volume)| volume.members.contains(&4));
        let group = of_four.expect("some are").2.group;
        let (_, volume) = volume_mut(&mut root, group);
        let members: Vec<u32> = volume.members.iter().copied().filter(|member| *member != 4).collect();
        volume.reconfigure(members, None);
        let is_of_it = |command: &PlaceCommand| matches!(command, PlaceCommand::Replace { group: of, epoch: 1, from: 4, .. } if *of == group);
        assert!(plan(&root, &gone).commands.iter().any(is_of_it), "it was left out of this one");
    }

    #[test]
    fn who_was_to_come_to_a_chain_and_is_gone_is_replaced_by_whoever_is_still_there() {
        let mut root = cluster(5);
        create(&mut root, 0, Protocol::Chain, 3, 1);
        let group = root.namespaces[&0].volumes[0].group;
        let members = root.namespaces[&0].volumes[0].members.clone();
        apply(&mut root, &PlaceCommand::Replace { group, epoch: 0, from: members[0], to: 5 });
        let gone = |node| if node == 5 { Health::Gone } else { Health::Well };
        let away = |node| if node == 5 { Health::Away } else { Health::Well };
        assert_eq!(plan(&root, &away).commands, [], "it may be back soon");
        let back = PlaceCommand::Replace { group, epoch: 0, from: 5, to: members[0] };
        assert_eq!(plan(&root, &gone).commands, [back]);
        // It joins in vain: that is given up first.
        let (_, volume) = volume_mut(&mut root, group);
        volume.reconfigure(members.clone(), Some(5));
        assert_eq!(plan(&root, &gone).commands, []);
        volume_mut(&mut root, group).1.reconfigure(members.clone(), None);
        drain(&mut root, members[0], true);
        let other = (1..=4).find(|node| !members.contains(node)).expect("there are five");
        assert_eq!(plan(&root, &gone).commands, [PlaceCommand::Replace { group, epoch: 2, from: 5, to: other }]);
        // One that was a member all the time is waited for.
        let gone = |node| if node == members[1] { Health::Gone } else { Health::Well };
        volume_mut(&mut root, group).1.reconfigure(vec![members[0], members[2]], None);
        assert_eq!(plan(&root, &gone).commands, []);
    }

    #[test]
    fn of_paxos_who_joins_and_is_gone_is_given_up_and_who_has_entered_and_is_gone_is_replaced() {
        let mut root = cluster(5);
        create(&mut root, 0, Protocol::Paxos, 3, 1);
        let group = root.namespaces[&0].volumes[0].group;
        let members = root.namespaces[&0].volumes[0].members.clone();
        let other = |root: &RootState| {
            let known = root.namespaces[&0].volumes[0].members.clone();
            (1..=5).find(|node| *node != 5 && !known.contains(node)).expect("there are five")
        };
        volume_mut(&mut root, group).1.joining = Some(5);
        root.placement.seats.entry(group).or_default().leaving = Some(members[1]);
        let places = root.places(Protocol::Paxos, &root.namespaces[&0].volumes[0]);
        assert_eq!(
            places,
            Places { seats: vec![members[0], 5, members[2]], coming: vec![5], leaving: vec![members[1]] }
        );
        let gone = |node| if node == 5 { Health::Gone } else { Health::Well };
        assert_eq!(plan(&root, &gone).commands, [PlaceCommand::Keep { group, epoch: 0 }]);
        let (_, volume) = volume_mut(&mut root, group);
        (volume.joining, volume.members[1]) = (None, 5);
        let seats = root.placement.seats.entry(group).or_default();
        (seats.leaving, seats.unsettled) = (None, Some(5));
        let to = other(&root);
        assert_eq!(plan(&root, &gone).commands, [PlaceCommand::Replace { group, epoch: 0, from: 5, to }]);
        assert_eq!(plan(&root, &well).commands, []);
    }

    #[test]
    fn what_cannot_be_moved_is_left_alone_and_told() {
        let mut root = cluster(3);
        create(&mut root, 0, Protocol::Paxos, 1, 3);
        assert_eq!(drain(&mut root, 2, true), Outcome::Ok);
        root.placement.is_levelling = true;
        assert_eq!(run(&mut root), 0);
        let (_, namespace, _, places) = root.all_places().next().expect("there are three");
        assert!(stays(namespace, &places).is_some());
    }

    #[test]
    fn what_an_absent_node_has_gets_other_places_until_it_is_well_and_only_what_there_are_others_of() {
        let mut root = cluster(5);
        create(&mut root, 0, Protocol::Chain, 3, 10);
        create(&mut root, 1, Protocol::Register, 1, 5);
        root.placement.absent = vec![4];
        let away = |node| if node == 4 { Health::Away } else { Health::Well };
        let is_from = |command: &PlaceCommand| matches!(command, PlaceCommand::Replace { from: 4, to, .. } if *to != 4);
        let Plan { commands, waits } = plan(&root, &away);
        assert!(commands.len() == 2 && commands.iter().all(is_from), "{commands:?}");
        assert_eq!(waits, BTreeMap::from([((4, IS_THE_ONLY_ONE), 1)]));
        assert_eq!(plan(&root, &well), Plan::default(), "it is about to be back");
        let others = |node| if node == 4 || node == 5 { Health::Away } else { Health::Well };
        let Plan { commands, waits } = plan(&root, &others);
        assert!(commands.iter().all(is_from) && waits.contains_key(&(4, WAITS_FOR_OTHERS)), "{commands:?}");
        assert!(commands.iter().all(|command| !matches!(command, PlaceCommand::Replace { to: 5, .. })));
        // Where all other nodes have one, too.
        let mut three = cluster(3);
        create(&mut three, 0, Protocol::Paxos, 3, 2);
        three.placement.absent = vec![3];
        let away = |node| if node == 3 { Health::Away } else { Health::Well };
        assert_eq!(plan(&three, &away).waits, BTreeMap::from([((3, HAS_NOWHERE_TO_GO), 2)]));
        // It may drain as well, and is a target for nobody.
        drain(&mut root, 3, true);
        assert!(run(&mut root) > 0);
        assert!(root.volumes().all(|(.., volume)| !volume.members.contains(&3)));
    }

    #[test]
    fn levelling_waits_for_a_node_that_is_away() {
        let mut root = cluster(3);
        create(&mut root, 0, Protocol::Chain, 2, 9);
        add(&mut root, 4);
        root.placement.is_levelling = true;
        let away = |node| if node == 4 { Health::Away } else { Health::Well };
        assert_eq!(plan(&root, &away).commands, []);
        assert!(!plan(&root, &well).commands.is_empty());
        run(&mut root);
        assert_eq!(plan(&root, &away).commands, []);
        assert!(!root.placement.is_levelling);
    }
}
