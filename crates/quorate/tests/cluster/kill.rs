//! `kill -9` at random moments, with many writes in flight.

use std::thread;
use std::time::Duration;

use crate::load::Load;
use crate::nodes::{Cluster, until};
use crate::random::Random;

const NODES: usize = 3;
const KILLS_DEFAULT: u64 = 10;
const IN_FLIGHT_MIN: u64 = 64;
/// Writes must go on so soon after one node of three has gone; on a busy machine, and with the dead node back meanwhile.
const RESUMED_WITHIN: Duration = Duration::from_secs(10);

/// Whom a kill hits.
#[derive(Clone, Copy, Debug)]
enum Victim {
    /// The node that coordinates most.
    Coordinator,
    /// The node that coordinates least: none at all, just after it came back.
    Follower,
    All,
}

#[test]
fn kill_dash_nine_loses_nothing_that_was_acknowledged() {
    let kills = std::env::var("QUORATE_KILLS").map_or(KILLS_DEFAULT, |text| text.parse().expect("a number of kills"));
    let mut random = Random::announced();
    let mut cluster = Cluster::started("kill", NODES);
    let mut load = Load::start(&cluster, &mut random);
    let mut victims = Vec::new();
    for number in 1..=kills {
        if victims.is_empty() {
            victims = vec![Victim::Coordinator, Victim::Follower, Victim::All];
            random.shuffle(&mut victims);
        }
        let victim = victims.pop().expect("just filled");
        thread::sleep(Duration::from_millis(random.below(1_000)));
        let nodes = nodes_of(victim, &cluster);
        load.wait_for_in_flight(IN_FLIGHT_MIN);
        let in_flight = load.ledger().totals().in_flight;
        nodes.iter().for_each(|&index| cluster.kill(index));
        load.ledger().watch();
        thread::sleep(Duration::from_millis(random.below(2_000)));
        nodes.iter().for_each(|&index| cluster.start_by_hand(index));
        until("every counter takes increments again", || load.ledger().resumed_after().is_some());
        let resumed = load.ledger().resumed_after().expect("just seen");
        if nodes.len() == 1 {
            assert!(resumed < RESUMED_WITHIN, "kill {number}: writes resumed after {resumed:?}");
        }
        load.check(&cluster);
        let killed: Vec<String> = nodes.iter().map(|index| format!("n{}", index + 1)).collect();
        println!(
            "kill {number}: {victim:?} {}, {in_flight} in flight; all counters count again after {} ms; {}",
            killed.join(" "),
            resumed.as_millis(),
            load.ledger().totals(),
        );
    }
    load.stop();
    load.check(&cluster);
    cluster.stop_all();
    cluster.up();
    load.check(&cluster);
    cluster.stop_all();
}

fn nodes_of(victim: Victim, cluster: &Cluster) -> Vec<usize> {
    let status = cluster.status();
    let coordinated = |index: &usize| {
        let node = Some(*index as u32 + 1);
        status.volumes.iter().filter(|volume| volume.coordinator == node).count()
    };
    let all = 0..cluster.node_count();
    match victim {
        Victim::All => all.collect(),
        Victim::Coordinator => all.max_by_key(coordinated).into_iter().collect(),
        Victim::Follower => all.min_by_key(coordinated).into_iter().collect(),
    }
}
