//! Workloads, each measured with every write quorum.

use quorate_control::{Measured, Workload};

use crate::qopt::world::{self, World};
use crate::qopt::{MEMBERS, Sizes};

const OBJECTS: u64 = 500;
/// Until queues are as long as they get.
const WARM_COUNT: u64 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    pub members: usize,
    pub write_percent: u64,
    pub bytes: usize,
    pub clients: usize,
}

/// What the paper varied, about 170 workloads of five members: the share of writes, the size of objects and how many clients
/// there are.
pub fn grid() -> Vec<Setting> {
    settings(MEMBERS, &[256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10], &[10, 40, 100, 200])
}

/// Fewer workloads of 3, 4, 6 and 7 members.
pub fn grid_of_others() -> Vec<Setting> {
    let of = |members| settings(members, &[1 << 10, 16 << 10, 128 << 10], &[40, 200]);
    [3, 4, 6, 7].into_iter().flat_map(of).collect()
}

fn settings(members: usize, bytes: &[usize], clients: &[usize]) -> Vec<Setting> {
    let mut settings = Vec::new();
    for &bytes in bytes {
        for &clients in clients {
            for write_percent in [1, 5, 15, 30, 50, 75, 95] {
                settings.push(Setting { members, write_percent, bytes, clients });
            }
        }
    }
    settings
}

/// By the time that so many operations take. The oracle will see the throughput of the middle write quorum.
pub fn measure(setting: Setting, operations: u64, seed: u64) -> Measured {
    let members = setting.members;
    let throughputs: Vec<_> = (1..=members).map(|write| throughput(setting, write, operations, seed)).collect();
    let workload = Workload {
        write_share: setting.write_percent as f64 / 100.0,
        bytes: setting.bytes as f64,
        throughput: throughputs[members / 2],
    };
    Measured { members, workload, throughputs }
}

fn throughput(setting: Setting, write: usize, operations: u64, seed: u64) -> f64 {
    let Setting { members, write_percent, bytes, clients } = setting;
    let all = Sizes::among(members, members as u8);
    let sizes = Sizes::among(members, write as u8);
    let workload =
        world::Workload { members, clients, read_percent: 100 - write_percent, objects: OBJECTS, bytes, seed };
    let mut world = World::new(workload, all);
    // Each object is everywhere, as it is after a while.
    world.fill();
    if sizes != all {
        world.change(sizes);
        world.run_until(world.now() + 100_000);
        assert_eq!(world.durations_us().len(), 1, "the change is over");
    }
    world.begin();
    world.rate_of_next(WARM_COUNT);
    world.rate_of_next(operations)
}
