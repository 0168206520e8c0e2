//! Section V-A of the Q-Opt paper: how long a change of quorum sizes takes by the number of clients (figure 7), and what
//! clients notice when all objects go from small write quorums to small read quorums (figure 8).
//!
//! The paper measured OpenStack Swift on 20 machines; this is a simulation of our own registers, with latencies chosen here.
//! What can be compared is the shape: that a change takes a few messages and writes whatever the load, and that throughput
//! rises at once and then to what it would have been from the start.

pub mod oracle;
pub mod plot;
mod world;

use world::{Workload, World};

/// The replication degree.
pub const MEMBERS: usize = 5;
/// From one node to another, or to a client.
pub const MESSAGE_US: u64 = 100;
/// Of a node's only processor, for each message.
pub const HANDLE_US: u64 = 15;
/// Until what is written is on disk. What is written at the same time is on disk at the same time.
pub const SYNC_US: u64 = 4_000;
/// Of a node's processor for what it is sent: copied and checked, 1 GB a second.
pub const HANDLE_NS_A_BYTE: u64 = 1;
/// Of a node's link for what it sends: 10 Gbit a second, nearly.
pub const LINK_NS_A_BYTE: u64 = 1;
/// Of a node's disk for what it writes: 100 MB a second, a spinning disk as [`SYNC_US`] is.
pub const DISK_NS_A_BYTE: u64 = 10;

/// Of read quorums and of write quorums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub read: u8,
    pub write: u8,
}

impl Sizes {
    /// Reads as small as writes of this size allow.
    pub fn of_write(write: u8) -> Sizes {
        Sizes::among(MEMBERS, write)
    }

    /// Likewise, among so many members.
    pub fn among(members: usize, write: u8) -> Sizes {
        Sizes { read: members as u8 + 1 - write, write }
    }
}

/// Figure 7's numbers of clients.
pub const CLIENTS: [usize; 10] = [15, 30, 45, 60, 75, 90, 105, 120, 135, 150];
/// How many changes are measured at each of them.
pub const CHANGES: usize = 20;
/// No change took as long in the paper.
pub const PAPER_MAX_US: u64 = 15_000;

/// One point of figure 7.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    pub clients: usize,
    /// Operations answered in each second.
    pub throughput: f64,
    pub least_us: u64,
    pub median_us: u64,
    pub most_us: u64,
}

/// Half of the operations read, as in the paper's workload A; sizes go back and forth between 3 and 3, and 2 and 4.
pub fn figure_7(objects: u64, seed: u64) -> Vec<Change> {
    CLIENTS.into_iter().map(|clients| change(workload(clients, 50, objects, seed))).collect()
}

/// Of objects without size.
fn workload(clients: usize, read_percent: u64, objects: u64, seed: u64) -> Workload {
    Workload { members: MEMBERS, clients, read_percent, objects, bytes: 0, seed }
}

fn change(workload: Workload) -> Change {
    let [one, other] = [Sizes::of_write(3), Sizes::of_write(4)];
    let mut world = World::new(workload, one);
    world.fill();
    world.begin();
    let warm_us = world.now() + 200_000;
    world.run_until(warm_us);
    let (began_us, before) = (world.now(), world.answered);
    for number in 0..CHANGES {
        world.change(if number % 2 == 0 { other } else { one });
        // Not a multiple of anything.
        let until = world.now() + 60_000 + 137 * number as u64;
        world.run_until(until);
        assert_eq!(world.durations_us().len(), number + 1, "a change is over in its time");
    }
    let throughput = (world.answered - before) as f64 * 1e6 / (world.now() - began_us) as f64;
    let mut durations = world.durations_us().to_vec();
    durations.sort_unstable();
    let (least_us, most_us) = (durations[0], durations[CHANGES - 1]);
    let median_us = durations[CHANGES / 2 - 1].midpoint(durations[CHANGES / 2]);
    Change { clients: workload.clients, throughput, least_us, median_us, most_us }
}

/// The paper's: 20 thousand objects, of which each is as likely to be asked for; 95 of 100 operations read.
pub const OBJECTS: u64 = 20_000;
pub const READ_PERCENT: u64 = 95;
pub const BUCKET_US: u64 = 100_000;

/// Figure 8.
#[derive(Clone, Debug, PartialEq)]
pub struct Bulk {
    pub clients: usize,
    pub objects: u64,
    /// When sizes change, from the first bucket on.
    pub changed_at_us: u64,
    pub change_us: u64,
    /// Operations answered in each second, bucket by bucket.
    pub throughput: Vec<f64>,
    /// The same workload where writes were at all members from the start.
    pub baseline: f64,
}

/// Writes go from one member to all five, and so reads from all to one, while clients go on.
pub fn figure_8(clients: usize, objects: u64, seed: u64) -> Bulk {
    let workload = workload(clients, READ_PERCENT, objects, seed);
    let (changed_at_us, ends_at_us) = (1_000_000, 6_000_000);
    let mut world = World::new(workload, Sizes::of_write(1));
    world.fill();
    world.begin();
    let settled_us = world.now() + 500_000;
    world.run_until(settled_us);
    let mut throughput = Vec::new();
    for bucket in 0..ends_at_us / BUCKET_US {
        if bucket * BUCKET_US == changed_at_us {
            world.change(Sizes::of_write(MEMBERS as u8));
        }
        let before = world.answered;
        world.run_until(settled_us + (bucket + 1) * BUCKET_US);
        throughput.push((world.answered - before) as f64 * 1e6 / BUCKET_US as f64);
    }
    let change_us = world.durations_us()[0];
    Bulk { clients, objects, changed_at_us, change_us, throughput, baseline: baseline(workload) }
}

fn baseline(workload: Workload) -> f64 {
    let mut world = World::new(workload, Sizes::of_write(MEMBERS as u8));
    world.fill();
    world.begin();
    let settled_us = world.now() + 500_000;
    world.run_until(settled_us);
    let before = world.answered;
    world.run_until(settled_us + 1_000_000);
    (world.answered - before) as f64
}
