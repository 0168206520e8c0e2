//! Operators who give objects groups of their own, and take them away again, while clients use them.

use quorate_node::host::Group;
use quorate_node::replica::Protocol;
use quorate_node::root::{GroupRecord, PlaceCommand, ROOT, RootState};
use quorate_node::volume::volume_of;

use super::{Event, World};
use crate::history::Object;

impl World {
    /// Asks some node to move some object, and plans the next time.
    pub(super) fn move_an_object(&mut self) {
        if self.healing {
            return self.ask_a_volume();
        }
        let Some(mean_ms) = self.settings.moves_mean_ms else {
            return self.plan(1_000_000, Event::Move);
        };
        if self.settings.placed_anew && self.random.chance(700) {
            let line = self.placement_wished();
            let node = self.random.below(self.nodes.len() as u64) as usize;
            self.call_admin(node, 0, &line);
            return self.move_next(mean_ms);
        }
        if self.settings.protocol.is_chain() {
            return self.move_next(mean_ms);
        }
        if self.settings.authority.is_members() {
            // Often at several nodes at once.
            let together = self.random.range(1..4);
            (0..together).for_each(|_| self.reconfigure());
            let next_us = self.random.delay(mean_ms * 1000);
            return self.plan(next_us.max(1), Event::Move);
        }
        if self.settings.protocol == Protocol::Register {
            self.change_registers();
            let next_us = self.random.delay(mean_ms * 1000);
            return self.plan(next_us.max(1), Event::Move);
        }
        let node = self.random.below(self.nodes.len() as u64) as usize;
        if self.settings.led_groups && self.random.chance(400) {
            let line = self.led_wish();
            self.call_admin(node, 0, &line);
            return self.move_next(mean_ms);
        }
        let action = *self.random.pick(&["PROMOTE", "PROMOTE", "PROMOTE", "DEMOTE", "DEMOTE", "MOVE"]);
        let name = self.next_moved();
        let wished = if action == "DEMOTE" { None } else { self.members_wished() };
        let line = match (action, wished) {
            ("MOVE", None) => format!("GROUP RETYPE {name} PROTOCOL paxos"),
            (_, None) => format!("GROUP {action} {name}"),
            (_, Some(members)) => format!("GROUP {action} {name} MEMBERS {members}"),
        };
        self.call_admin(node, 0, &line);
        self.move_next(mean_ms);
    }

    /// Where there is haste, the same object several times in a row.
    fn next_moved(&mut self) -> Object {
        if self.hurry.1 > 0 {
            self.hurry.1 -= 1;
            return self.hurry.0;
        }
        let object = Object(self.random.below(u64::from(self.settings.shape.objects)) as u16);
        if self.settings.hasty {
            self.hurry = (object, self.random.below(6));
        }
        object
    }

    fn move_next(&mut self, mean_ms: u64) {
        let mean_us = if self.hurry.1 > 0 { *self.random.pick(&[300, 2_000, 20_000]) } else { mean_ms * 1000 };
        let next_us = self.random.delay(mean_us);
        self.plan(next_us.max(1), Event::Move);
    }
}

impl World {
    /// The members that somebody wants for a group, if not the volume's: one, or so many that any of them may fail.
    fn members_wished(&mut self) -> Option<String> {
        if self.settings.lone_groups && self.random.chance(250) {
            return Some(format!("n{}", self.random.range(1..u64::from(self.settings.nodes) + 1)));
        }
        if !self.settings.outside_groups || !self.random.chance(700) {
            return None;
        }
        let nodes = self.shuffled_nodes();
        let count = self.random.range(3..nodes.len() as u64 + 1) as usize;
        Some(nodes[..count].join(","))
    }

    /// Another node for some replica, or for all that a node has, or for as many as makes nodes even.
    fn placement_wished(&mut self) -> String {
        let count = u64::from(self.settings.nodes);
        let node = self.random.range(1..count + 1);
        match self.random.below(10) {
            0 => format!("NODE DRAIN n{node}"),
            1 | 2 => format!("NODE UNDRAIN n{node}"),
            3 => "NODE LEVEL".into(),
            4 => "NODE LEVEL STOP".into(),
            _ => {
                let volume = self.random.below(u64::from(self.settings.volumes)) as usize;
                let is_there = |at: u64| {
                    let mut roots = self.nodes.iter().filter_map(|node| node.host()?.directory());
                    roots.any(|root| root.namespaces[&0].volumes[volume].members.contains(&(at as u32)))
                };
                // Mostly one that has it, and one that has not.
                let after = |from: u64| (0..count).map(move |step| (from + step) % count + 1);
                let from = after(node).find(|at| is_there(*at)).unwrap_or(node);
                let to = after(node).find(|at| !is_there(*at)).unwrap_or(node);
                format!("VOLUME MOVE 0 {volume} FROM n{from} TO n{to}")
            }
        }
    }

    /// A chain or a register for some object, or other members or quorums if it is one.
    fn led_wish(&mut self) -> String {
        let name = self.next_moved();
        let count = u64::from(self.settings.nodes);
        let first = self.random.below(count);
        let many = self.random.range(1..u64::from(self.settings.replicas) + 1);
        let members: Vec<String> = (0..many).map(|at| format!("n{}", (first + at) % count + 1)).collect();
        let members = members.join(",");
        let write = self.random.range(1..many + 1);
        let read = many + 1 - write;
        match self.random.below(10) {
            0 => format!("GROUP PROMOTE {name} PROTOCOL chain"),
            1 => format!("GROUP PROMOTE {name} PROTOCOL register"),
            2 if self.settings.lone_groups => format!("GROUP PROMOTE {name} PROTOCOL chain MEMBERS {members}"),
            2 | 3 => {
                format!("GROUP PROMOTE {name} PROTOCOL register MEMBERS {members} QUORUM threshold {read} {write}")
            }
            4 => format!("GROUP MOVE {name} MEMBERS {members} QUORUM majority"),
            5 if self.settings.lone_groups => format!("GROUP MOVE {name} MEMBERS {members}"),
            5 | 6 => format!("GROUP RETYPE {name} PROTOCOL chain"),
            7 => format!("GROUP RETYPE {name} PROTOCOL register QUORUM threshold {read} {write} MEMBERS {members}"),
            8 => format!("GROUP RETYPE {name} PROTOCOL paxos"),
            _ => format!("QUORUM SET {name} {read} {write}"),
        }
    }

    /// Some node, perhaps no member, is asked for other members of the namespace, or for other quorums.
    fn reconfigure(&mut self) {
        let members = self.some_nodes();
        let count = u64::from(self.settings.nodes);
        let quorum = *self.random.pick(&["", "QUORUM majority", "QUORUM grid"]);
        let replicas = self.random.range(1..count + 1);
        let write = self.random.range(1..replicas + 1);
        let read = replicas + 1 - write;
        let line = match self.random.chance(150) {
            true => format!("QUORUM SET NAMESPACE 0 {read} {write}"),
            false => format!("NAMESPACE MOVE 0 MEMBERS {} {quorum}", members.join(",")),
        };
        let node = self.random.below(count) as usize;
        self.call_admin(node, 0, &line);
    }

    /// Some nodes, in some order.
    fn some_nodes(&mut self) -> Vec<String> {
        let mut nodes = self.shuffled_nodes();
        nodes.truncate(self.random.range(1..nodes.len() as u64 + 1) as usize);
        nodes
    }

    fn shuffled_nodes(&mut self) -> Vec<String> {
        let count = u64::from(self.settings.nodes);
        let mut nodes: Vec<String> = (1..=count).map(|node| format!("n{node}")).collect();
        for at in (1..nodes.len()).rev() {
            let other = self.random.below(at as u64 + 1) as usize;
            nodes.swap(at, other);
        }
        nodes
    }

    /// Some node is asked for other quorums, or for other members of some object's volume. What is unsound or too weak is
    /// refused.
    fn change_registers(&mut self) {
        let count = u64::from(self.settings.nodes);
        let members = self.some_nodes();
        let name = Object(self.random.below(u64::from(self.settings.shape.objects)) as u16);
        // As small as they may be.
        let replicas = u64::from(self.settings.replicas);
        let write = self.random.range(1..replicas + 1);
        let read = replicas + 1 - write;
        let quorum = *self.random.pick(&["", "QUORUM majority", "QUORUM grid"]);
        let line = match self.random.chance(500) {
            true => format!("QUORUM SET NAMESPACE 0 {read} {write}"),
            false => format!("GROUP MOVE {name} MEMBERS {} {quorum}", members.join(",")),
        };
        let node = self.random.below(count) as usize;
        self.call_admin(node, 0, &line);
    }
}

/// Of the crowd, those that one command is about.
const CROWD_PART: u32 = 500;
/// The mean time between two such commands.
const CROWD_MEAN_US: u64 = 1_500_000;

const GUESTS: u32 = 1;
/// The mean time between two commands about the guests' namespace.
const GUESTS_MEAN_US: u64 = 100_000;

impl World {
    /// Some hundreds of objects that no client asks for get groups of their own, or lose them; in the end all do.
    pub(super) fn move_the_crowd(&mut self) {
        let parts = self.settings.crowd / CROWD_PART;
        if parts == 0 {
            return;
        }
        let node = self.random.below(self.nodes.len() as u64) as usize;
        let part = self.random.below(u64::from(parts)) as u32;
        let action = match self.random.below(4) {
            _ if self.healing => "DEMOTE",
            0 | 1 => "CREATE",
            2 => "PROMOTE",
            _ => "DEMOTE",
        };
        let names = part * CROWD_PART..(part + 1) * CROWD_PART;
        let names: String = names.map(|number| format!(" crowd-{number}")).collect();
        self.call_admin(node, 0, &format!("GROUP {action} KEYS {CROWD_PART}{names}"));
        let next_us = if self.healing { 300_000 } else { self.random.delay(CROWD_MEAN_US) };
        self.plan(next_us.max(1), Event::Crowd);
    }

    /// A namespace of which no client knows is created, used and dropped; in the end it is gone.
    pub(super) fn change_guests(&mut self) {
        let groups = || (0..10).map(|number| format!(" guest-{number}")).collect::<String>();
        let line = match self.guests.below(6) {
            _ if self.healing => format!("NAMESPACE DROP {GUESTS}"),
            0 => {
                let kind = self.guests.pick(&["", "GROUPS own", "GROUPS own", "PROTOCOL chain", "PROTOCOL register"]);
                format!("NAMESPACE CREATE {GUESTS} {kind}")
            }
            1 => format!("NAMESPACE DROP {GUESTS}"),
            2 => format!("GROUP DEMOTE KEYS 10{}", groups()),
            _ => format!("GROUP CREATE KEYS 10{}", groups()),
        };
        let node = self.guests.below(self.nodes.len() as u64) as usize;
        let is_own = |group: &Group| group.namespace == GUESTS && volume_of(group.id()).is_some();
        if line.starts_with("NAMESPACE DROP") && self.nodes[node].host().is_some_and(|host| host.groups().any(is_own)) {
            self.sometimes.guests_dropped += 1;
        }
        self.call_admin(node, GUESTS, &line);
        let next_us = self.guests.delay(GUESTS_MEAN_US);
        self.plan(next_us.max(1), Event::Guests);
    }

    /// Some node of some volume, or of the root, is to be replaced by one that has no replica of it, or stays after all.
    pub(super) fn replace_a_member(&mut self) {
        let Some(mean_ms) = self.settings.replaces_mean_ms.filter(|_| !self.healing) else { return };
        let at = self.random.below(self.nodes.len() as u64) as usize;
        let root = self.nodes[at].host().and_then(|host| host.directory());
        let of_clients = root.and_then(|root| root.namespaces.get(&0)).map(|namespace| namespace.volumes.clone());
        if let Some(mut groups) = of_clients {
            groups.extend(root.map(RootState::root_record));
            let GroupRecord { group, epoch, members, .. } = self.random.pick(&groups).clone();
            let outside: Vec<u32> = (1..=self.settings.nodes).filter(|node| !members.contains(node)).collect();
            let (from, nowhere) = (*self.random.pick(&members), outside.is_empty());
            let to = if nowhere { from } else { *self.random.pick(&outside) };
            let command = match self.random.below(10) {
                0 => PlaceCommand::Keep { group, epoch },
                1 if group == ROOT.0 => PlaceCommand::WidenRoot { epoch, to },
                _ => PlaceCommand::Replace { group, epoch, from, to },
            };
            self.place(at, command);
        }
        let next_us = self.random.delay(mean_ms * 1000);
        self.plan(next_us.max(1), Event::Replace);
    }

    /// Where all objects have groups of their own, no client asks anything of the volumes; what they executed last may not
    /// be known everywhere. It is once somebody asks.
    fn ask_a_volume(&mut self) {
        let node = self.random.below(self.nodes.len() as u64) as usize;
        let index = self.random.below(u64::from(self.settings.volumes)) as u32;
        if self.nodes[node].is_up() {
            self.count_objects(node, index);
        }
        self.plan(200_000, Event::Move);
    }
}
