//! What a seed stands for: how many nodes, which groups, what goes wrong and how often.

use quorate_node::quorum::Quorum;
use quorate_node::replica::Protocol;
use quorate_node::root::{Authority, Durability, Groups, Reads};

use super::faults::Strike;
use crate::random::Random;
use crate::workload::Shape;

const CLIENTS: u32 = 12;
/// Of a chain, what a call of unknown fate does may come late: with more of them at once nobody could judge that.
const CLIENTS_OF_LED: u32 = 8;

/// How a world is made. The same settings make the same run.
#[derive(Clone, Debug)]
pub struct Settings {
    pub seed: u64,
    pub nodes: u32,
    pub replicas: u8,
    pub volumes: u32,
    pub protocol: Protocol,
    /// Of registers.
    pub quorum: Quorum,
    pub tolerance: u8,
    /// Of registers.
    pub authority: Authority,
    pub reads: Reads,
    pub durability: Durability,
    pub clients: u32,
    /// So many of the clients only read: they go on where writes wait.
    pub readers: u32,
    pub shape: Shape,
    /// Calls after which the faults are healed.
    pub calls: u64,
    /// At least so many of each in a run; the run goes on until there were.
    pub crashes_min: u32,
    pub partitions_min: u32,
    /// Slots of a group after which it is checkpointed.
    pub checkpoint_slots: u64,
    /// Volumes with more bytes of objects are sent to members from the checkpoint store.
    pub encoded_at_once_max: usize,
    /// Objects of a volume that a checkpoint encodes in a turn.
    pub saved_per_turn: usize,
    pub rest: Rest,
    /// Commands so large go from their entry node to all members; 0 for none.
    pub digest_bytes: usize,
    /// From so many commands a second on, volumes are coordinated where they enter.
    pub follow_clients_at: u32,
    /// Chains get back the order that they were born with once all has been well for so long.
    pub turn_after_us: u64,
    pub groups: Groups,
    /// The mean time between two wishes to give an object a group of its own, or to take that away.
    pub moves_mean_ms: Option<u64>,
    /// Whether some of these groups have a single member; then no replica panics, since nobody could take over.
    pub lone_groups: bool,
    /// Whether some of these groups have members that have no replica of their volume.
    pub outside_groups: bool,
    /// Whether some of these groups are chains, or registers.
    pub led_groups: bool,
    /// How many more objects have groups of their own, on and off, that no client asks for.
    pub crowd: u32,
    /// Whether volumes move from node to node, by hand and because nodes drain or are made even.
    pub placed_anew: bool,
    /// Whether a namespace of which no client knows comes and goes.
    pub guests: bool,
    /// The mean time between two wishes to have a node in another's place in some volume.
    pub replaces_mean_ms: Option<u64>,
    /// Now and then most nodes are gone for seconds, or all are alone: own groups without a quorum are paused.
    pub outages: bool,
    /// The mean time between two deaths of a node for so long that what it has gets other places.
    pub deaths_mean_ms: Option<u64>,
    /// How often, in a thousand, a node is cut off from the others just when the members of a chain change.
    pub cuts_at_changes: u64,
    /// Wishes for one object follow each other within milliseconds, and disks lose their power between two checkpoints.
    pub hasty: bool,
    /// At least so many frames in a thousand are late.
    pub slow_frames: u64,
    /// By up to so much.
    pub late_max_us: u64,
    /// How often, in a thousand, a partition does not lose frames, but lets them through when it ends.
    pub held_back: u64,
    /// How often, in a thousand, a replica panics when something goes wrong.
    pub panics: u64,
    /// The one node whose power goes with durability `interval`, and whose log decays with `sync`. With `memory` any may forget what
    /// it said, one after the other.
    pub forgets: usize,
    /// How often, in a thousand, a part of its log decays when it crashes.
    pub decay: u64,
    /// How often, in a thousand, a node that crashes comes back with a new directory in place of one that is lost.
    pub lost_directories: u64,
    /// What goes wrong, in place of whatever the seed stands for.
    pub strikes: Option<Vec<Strike>>,
}

impl Settings {
    /// The world that a seed stands for.
    pub fn of_seed(seed: u64) -> Settings {
        let mut random = Random::new(seed ^ 0x5EED);
        let nodes = *random.pick(&[3, 3, 3, 5]);
        let (groups, moves_mean_ms) = moves_of(&mut Random::new(seed ^ 0x3047E));
        let led_groups = moves_mean_ms.is_some() && Random::new(seed ^ 0x1ED).chance(600);
        let outside = &mut Random::new(seed ^ 0x0517);
        let outside_groups = moves_mean_ms.is_some() && outside.chance(500);
        Settings {
            seed,
            nodes: if outside_groups { nodes + *outside.pick(&[1, 2, 3]) } else { nodes },
            replicas: if nodes == 5 { *random.pick(&[3, 5]) } else { 3 },
            volumes: *random.pick(&[1, 2, 4]),
            protocol: Protocol::Paxos,
            quorum: Quorum::Majority,
            tolerance: 0,
            authority: Authority::Parent,
            reads: *random.pick(&[Reads::Lease, Reads::Lease, Reads::Lease, Reads::Quorum]),
            durability: Durability::Sync,
            clients: if led_groups { CLIENTS_OF_LED } else { CLIENTS },
            readers: 0,
            shape: Shape { may_be_registers: led_groups, ..Shape::of_seed(seed) },
            calls: 20_000,
            crashes_min: 20,
            partitions_min: 5,
            checkpoint_slots: *random.pick(&[50, 200, 1000]),
            encoded_at_once_max: *Random::new(seed ^ 0xC0B1).pick(&[0, 0, usize::MAX]),
            saved_per_turn: *Random::new(seed ^ 0x5A7E).pick(&[1, 4, 1000]),
            rest: Rest::of_seed(seed),
            digest_bytes: *Random::new(seed ^ 0xD16E).pick(&[0, 0, 1]),
            follow_clients_at: *Random::new(seed ^ 0xF011).pick(&[0, 1, 5]),
            turn_after_us: *Random::new(seed ^ 0x7124).pick(&[0, 100_000, 1_000_000]),
            groups,
            moves_mean_ms,
            lone_groups: moves_mean_ms.is_some() && seed.is_multiple_of(2),
            outside_groups,
            led_groups,
            crowd: if seed % 16 == 5 { 2_000 } else { 0 },
            placed_anew: false,
            guests: seed % 4 == 3,
            replaces_mean_ms: None,
            outages: moves_mean_ms.is_some() && Random::new(seed ^ 0x0A7).chance(400),
            deaths_mean_ms: None,
            cuts_at_changes: 0,
            hasty: false,
            slow_frames: 0,
            late_max_us: 700_000,
            held_back: *Random::new(seed ^ 0x4E1D).pick(&[0, 500]),
            panics: 50,
            forgets: 0,
            decay: 0,
            lost_directories: 0,
            strikes: None,
        }
    }
}

impl Settings {
    /// As [`Settings::of_seed`], with volumes that are chains.
    pub fn of_chains(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0xC4A1);
        let reads = *random.pick(&[Reads::Lease, Reads::Apportioned, Reads::Apportioned, Reads::Quorum]);
        let cuts_at_changes = *random.pick(&[0, 500]);
        Settings {
            protocol: Protocol::Chain,
            reads,
            groups: Groups::Volumes,
            moves_mean_ms: None,
            lone_groups: false,
            outside_groups: false,
            led_groups: false,
            clients: CLIENTS,
            shape: Shape::of_seed(seed),
            crowd: 0,
            outages: false,
            readers: if cuts_at_changes > 0 { CLIENTS / 2 } else { 0 },
            cuts_at_changes,
            ..Settings::of_seed(seed)
        }
    }

    /// Volumes of paxos, chains and such as move, with objects that are changed and read in pairs.
    pub fn of_pairs(seed: u64) -> Settings {
        let chains = Settings::of_chains(seed);
        let Settings { reads, .. } = Settings::of_seed(seed);
        let world = match seed % 4 {
            0 | 1 => Settings { protocol: Protocol::Paxos, reads, ..chains },
            2 => Settings::of_moves(seed),
            _ => chains,
        };
        let shape = Shape { hashes: false, pairs: true, ..world.shape };
        Settings { groups: Groups::Volumes, shape, ..world }
    }

    /// As [`Settings::of_seed`], with volumes of registers, whose quorums and members change if their parent is asked to.
    pub fn of_registers(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0x2E61);
        let nodes = *random.pick(&[3, 4, 5]);
        let replicas = if nodes == 5 { *random.pick(&[3, 4, 5]) } else { nodes };
        let wide = (replicas as u8, 1);
        let quorum = match random.below(4) {
            0 => Quorum::Square,
            1 => Quorum::Threshold { read: wide.0, write: wide.1 },
            _ => Quorum::Majority,
        };
        let is_weak = matches!(quorum, Quorum::Threshold { .. }) || random.chance(500);
        let Settings { shape, .. } = Settings::of_seed(seed);
        Settings {
            protocol: Protocol::Register,
            nodes,
            replicas: replicas as u8,
            quorum,
            tolerance: u8::from(!is_weak),
            reads: Reads::Quorum,
            groups: Groups::Volumes,
            moves_mean_ms: *random.pick(&[None, Some(300), Some(2_000)]),
            lone_groups: is_weak,
            outside_groups: false,
            led_groups: false,
            clients: CLIENTS,
            crowd: 0,
            outages: false,
            shape: Shape { registers: true, may_be_registers: true, hashes: false, ..shape },
            ..Settings::of_seed(seed)
        }
    }

    /// As [`Settings::of_registers`], of one group whose members decide their successors by themselves, asked for several at
    /// once. Some nodes are no members.
    pub fn of_members(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0x3E3B);
        let nodes = *random.pick(&[4, 5, 5, 6]);
        let replicas = random.range(3..u64::from(nodes)) as u8;
        let quorum = *random.pick(&[Quorum::Majority, Quorum::Majority, Quorum::Square]);
        let is_weak = random.chance(500);
        Settings {
            nodes,
            replicas,
            volumes: 1,
            quorum,
            tolerance: u8::from(!is_weak),
            lone_groups: is_weak,
            authority: Authority::Members,
            moves_mean_ms: Some(*random.pick(&[150, 500, 2_000])),
            ..Settings::of_registers(seed)
        }
    }

    /// As [`Settings::of_seed`], with three nodes and no groups but volumes.
    pub fn of_volumes(seed: u64) -> Settings {
        Settings {
            nodes: 3,
            replicas: 3,
            groups: Groups::Volumes,
            moves_mean_ms: None,
            lone_groups: false,
            outside_groups: false,
            led_groups: false,
            crowd: 0,
            outages: false,
            clients: CLIENTS,
            shape: Shape::of_seed(seed),
            ..Settings::of_seed(seed)
        }
    }

    /// As [`Settings::of_volumes`], read through routers, sometimes with nodes that are no members of a volume, and with objects that
    /// come and go to groups of their own.
    pub fn of_routed(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0x2047);
        Settings {
            nodes: *random.pick(&[3, 3, 4, 5]),
            reads: Reads::Routed,
            moves_mean_ms: *random.pick(&[None, None, Some(500)]),
            readers: *random.pick(&[0, CLIENTS / 2]),
            ..Settings::of_volumes(seed)
        }
    }

    /// As [`Settings::of_seed`], with more nodes than a volume has members, which are replaced all the time; sometimes with objects that
    /// come and go to groups of their own.
    pub fn of_moves(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0x5EA7);
        let with_own_groups = random.chance(500);
        // Of two that one is silent of decide nothing, and an own group of theirs does not end.
        let replicas = *random.pick(if with_own_groups { &[3, 3, 3, 5] } else { &[2, 3, 3, 5] });
        let of_seed = Settings::of_seed(seed);
        let own = if with_own_groups { of_seed.groups } else { Groups::Volumes };
        Settings {
            nodes: u32::from(replicas) + random.range(1..4) as u32,
            replicas,
            replaces_mean_ms: Some(*random.pick(&[300, 1_000, 3_000])),
            placed_anew: with_own_groups && random.chance(400),
            groups: own,
            moves_mean_ms: of_seed.moves_mean_ms.filter(|_| with_own_groups),
            lone_groups: false,
            outside_groups: with_own_groups && of_seed.outside_groups,
            led_groups: with_own_groups && of_seed.led_groups,
            crowd: 0,
            panics: 0,
            deaths_mean_ms: deaths_of_seed(seed),
            ..of_seed
        }
    }

    /// As [`Settings::of_volumes`], with a group that has lost a replica to a panic most of the time.
    pub fn of_panics(seed: u64) -> Settings {
        Settings { panics: 700, ..Settings::of_volumes(seed) }
    }

    /// As [`Settings::of_volumes`], with commands that often arrive when nobody waits for them any more.
    pub fn of_late(seed: u64) -> Settings {
        Settings { slow_frames: 200, panics: 0, ..Settings::of_volumes(seed) }
    }

    /// As [`Settings::of_volumes`], where nodes forget what they said, one at a time: with a durability below `sync`, with a part of
    /// their logs, or with all that they had; sometimes with objects that come and go to groups of their own.
    pub fn of_forgetful(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0xF042);
        let decay = *Random::new(seed ^ 0xDECA).pick(&[0, 0, 0, 500]);
        let below_sync = *random.pick(&[Durability::Memory, Durability::Memory, Durability::Interval]);
        let durability = if decay > 0 { Durability::Sync } else { below_sync };
        let nodes = *random.pick(&[3, 3, 5]);
        let has_own_groups = Random::new(seed ^ 0x07E5).chance(300);
        Settings {
            nodes,
            replicas: nodes as u8,
            moves_mean_ms: has_own_groups.then_some(200),
            // So that it is known which there are.
            rest: Rest { records_bytes_max: 1 << 20, ..Rest::of_seed(seed) },
            durability,
            forgets: random.below(3) as usize,
            decay,
            lost_directories: *Random::new(seed ^ 0x1057).pick(&[0, 0, 300]),
            panics: 0,
            ..Settings::of_volumes(seed)
        }
    }

    /// As [`Settings::of_chains`], where nodes forget what they said as in [`Settings::of_forgetful`].
    pub fn of_forgetful_chains(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0xF0C4);
        let durability =
            *random.pick(&[Durability::Memory, Durability::Memory, Durability::Interval, Durability::Sync]);
        let chains = Settings::of_chains(seed);
        // Most of six are no members of the root, and log little beside the chains.
        let nodes = *random.pick(&[3, 3, 6]);
        Settings {
            nodes,
            replicas: 3,
            durability,
            forgets: random.below(u64::from(nodes)) as usize,
            decay: if durability == Durability::Sync { 500 } else { 0 },
            lost_directories: *Random::new(seed ^ 0x1057).pick(&[0, 0, 300]),
            panics: 0,
            // All of them are to be whole before another node dies.
            volumes: chains.volumes.min(2),
            ..chains
        }
    }

    /// As [`Settings::of_chains`] or [`Settings::of_registers`], with more nodes than replicas, between which volumes move all the
    /// time.
    pub fn of_led_moves(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0x30FE);
        let is_chain = random.chance(700);
        let base = if is_chain { Settings::of_chains(seed) } else { Settings::of_registers(seed) };
        let replicas = if is_chain { *random.pick(&[1, 2, 3, 3]) } else { base.replicas };
        Settings {
            replicas,
            nodes: (u32::from(replicas) + random.range(1..3) as u32).max(3),
            moves_mean_ms: Some(*random.pick(&[300, 1_000])),
            // A chain of one that has panicked is back with its node only.
            panics: if replicas == 1 { 0 } else { base.panics },
            placed_anew: true,
            deaths_mean_ms: deaths_of_seed(seed),
            ..base
        }
    }

    /// As [`Settings::of_seed`], with few objects that become chains and registers all the time.
    pub fn of_led(seed: u64) -> Settings {
        let shape = Shape { objects: 6, may_be_registers: true, ..Shape::of_seed(seed) };
        Settings {
            // As many as without members outside volumes.
            nodes: *Random::new(seed ^ 0x5EED).pick(&[3, 3, 3, 5]),
            groups: Groups::Volumes,
            moves_mean_ms: Some(60),
            lone_groups: false,
            outside_groups: false,
            led_groups: true,
            crowd: 0,
            outages: false,
            clients: CLIENTS_OF_LED,
            shape,
            ..Settings::of_seed(seed)
        }
    }

    /// As [`Settings::of_seed`], with few objects that come and go all the time to groups of their own on whatever nodes, of
    /// which most have no replica of the volume.
    pub fn of_outside(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0x0F75);
        let replicas = *random.pick(&[1, 3, 3]);
        Settings {
            nodes: u32::from(replicas) + random.range(2..5) as u32,
            replicas,
            groups: Groups::Volumes,
            moves_mean_ms: Some(60),
            lone_groups: replicas == 1 || random.chance(500),
            outside_groups: true,
            led_groups: false,
            crowd: 0,
            clients: CLIENTS,
            shape: Shape { objects: 6, ..Shape::of_seed(seed) },
            ..Settings::of_seed(seed)
        }
    }

    /// As [`Settings::of_seed`], with very few objects, of which each comes and goes several times within milliseconds while it is
    /// written and deleted, with frames that are seconds late, and with nodes that die between two checkpoints.
    pub fn of_hasty(seed: u64) -> Settings {
        let random = &mut Random::new(seed ^ 0x4A57);
        let replicas = *random.pick(&[3, 3, 3, 5]);
        let outside_groups = random.chance(300);
        let led_groups = random.chance(600);
        let outside = if outside_groups { random.range(1..3) as u32 } else { 0 };
        let Settings { shape, .. } = Settings::of_seed(seed);
        Settings {
            nodes: u32::from(replicas) + outside,
            replicas,
            volumes: 1,
            groups: Groups::Volumes,
            moves_mean_ms: Some(*random.pick(&[60, 200])),
            hasty: true,
            slow_frames: *random.pick(&[0, 5, 20]),
            late_max_us: *random.pick(&[700_000, 3_000_000, 6_000_000]),
            lone_groups: random.chance(300),
            outside_groups,
            led_groups,
            crowd: 0,
            guests: random.chance(300),
            outages: random.chance(200),
            clients: CLIENTS_OF_LED,
            shape: Shape { objects: *random.pick(&[4, 6]), expiry_mean_ms: 300, may_be_registers: led_groups, ..shape },
            ..Settings::of_seed(seed)
        }
    }

    /// What a seed stands for in worlds of this protocol.
    pub fn of(protocol: Protocol, seed: u64) -> Settings {
        match protocol {
            Protocol::Paxos => Settings::of_seed(seed),
            Protocol::Chain => Settings::of_chains(seed),
            Protocol::Register => Settings::of_registers(seed),
        }
    }
}

/// When own groups come to rest, and how many may be how near.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    pub after_us: u64,
    pub awake_max: usize,
    pub bytes_max: usize,
    /// Of volumes' records.
    pub records_bytes_max: usize,
}

impl Rest {
    fn of_seed(seed: u64) -> Rest {
        let random = &mut Random::new(seed ^ 0x8E57);
        Rest {
            after_us: *random.pick(&[20_000, 300_000, 3_000_000]),
            awake_max: *random.pick(&[0, 3, 1_000]),
            bytes_max: *random.pick(&[0, 300, 1 << 20]),
            records_bytes_max: *random.pick(&[0, 1 << 20]),
        }
    }
}

/// How often nodes die for long, in worlds that move.
fn deaths_of_seed(seed: u64) -> Option<u64> {
    *Random::new(seed ^ 0xDEAD).pick(&[None, Some(2_000), Some(8_000)])
}

/// How often objects are moved, of which kind of namespace; drawn with the rest of a world.
fn moves_of(random: &mut Random) -> (Groups, Option<u64>) {
    match random.below(4) {
        0 => (Groups::Volumes, None),
        1 => (Groups::Own, None),
        _ => (Groups::Volumes, Some(*random.pick(&[100, 200, 500]))),
    }
}
