//! Registers in a network that is parted: clients of the side that has quorums notice nothing, and the other side refuses
//! what it cannot do, learns what it has missed, and goes on. Nobody tries anything again.

use std::thread;
use std::time::{Duration, Instant};

use quorate_node::status::NodeState;

use crate::nodes::{Cluster, until};
use crate::random::Random;
use crate::register_changes::{Changes, Namespace, create_namespace, threshold_of};
use crate::register_load::End;
use crate::registers::{BETWEEN_CHANGES, SQUARE_COLUMNS, WATCHED, answers_in_time, names, others, watched};

const GRID: u32 = 1;
const THRESHOLD: u32 = 2;
const VOLUMES: usize = 8;
/// No client of a side with quorums may be without a success for so long.
const GAP_MAX: Duration = Duration::from_secs(2);
/// A change of sizes must be over so soon on a side with quorums: before who was to complete it, and has been cut off, counts as
/// failed at it.
const RESIZED_WITHIN: Duration = Duration::from_millis(2_500);
/// How often the network is parted.
const ROUNDS: usize = 2;

/// Nodes apart from each other, with a namespace of grids and one of thresholds that all of them serve. None where there
/// can be no such network.
fn started(name: &str, node_count: usize, grid: &str, sizes: (usize, usize)) -> Option<Cluster> {
    let cluster = Cluster::started_apart(name, node_count)?;
    for (namespace, quorum) in [(GRID, format!("grid {grid}")), (THRESHOLD, threshold_of(sizes))] {
        create_namespace(&cluster, namespace, &format!("VOLUMES {VOLUMES} QUORUM {quorum}"));
    }
    Some(cluster)
}

/// A side without quorums answers everything, soon, and nothing well.
fn assert_refused(namespace: &Namespace, cluster: &Cluster, side: &[usize], random: &mut Random) {
    let mut askers: Vec<_> = side.iter().map(|&at| namespace.load.asker(cluster, at, random)).collect();
    until("the side without quorums refuses everything at once", || {
        let ends = answers_in_time(&mut askers, |number, asker| {
            asker.set_free(number as u16);
            asker.look_at_all();
        });
        assert!(!ends.contains(&End::Done), "a side without quorums answered: {ends:?}");
        ends.iter().all(|end| *end == End::NoQuorum)
    });
}

/// Those that were cut off read what they have missed.
fn read_all(namespace: &Namespace, cluster: &Cluster, side: &[usize], random: &mut Random) {
    side.iter().for_each(|&at| namespace.load.read_all(cluster, at, random));
    namespace.load.assert_unharmed();
}

#[test]
fn four_nodes_go_on_without_one_that_is_cut_off_and_change_meanwhile() {
    const NODES: usize = 4;
    let mut random = Random::announced();
    let Some(cluster) = started("partition-four", NODES, "2x2", (3, 2)) else { return };
    let (all, victim) = (others(NODES, &[]), random.below(NODES as u64) as usize);
    let side = others(NODES, &[victim]);
    let mut grid = Namespace::start(&cluster, Changes::of(GRID), &side, &mut random);
    let mut threshold = Namespace::start(&cluster, Changes::of(THRESHOLD).within(RESIZED_WITHIN), &side, &mut random);
    let quiet = watched(&grid.load);
    [&grid, &threshold].iter().for_each(|namespace| namespace.load.watch());
    grid.load.join_wary(&cluster, &[victim], &mut random);
    for round in 0..ROUNDS {
        match round % 2 {
            0 => cluster.network().part(&[&side, &[victim]]),
            _ => cluster.network().unplug(victim),
        }
        // A change that is decided while nobody knows yet who is away.
        thread::sleep(Duration::from_millis(random.below(60)));
        let sizes = if round % 2 == 0 { (2, 3) } else { (3, 2) };
        threshold.resize(&cluster, &side, sizes, &mut random);
        grid.move_to(&cluster, &side, &side, "majority", &mut random);
        thread::sleep(BETWEEN_CHANGES);
        assert_refused(&grid, &cluster, &[victim], &mut random);
        assert_refused(&threshold, &cluster, &[victim], &mut random);
        grid.move_to(&cluster, &side, &all, "grid 2x2", &mut random);
        thread::sleep(BETWEEN_CHANGES);
        [&grid, &threshold].iter().for_each(|namespace| namespace.load.assert_unharmed());
        cluster.network().join();
        let back_at = Instant::now();
        for namespace in [&grid, &threshold] {
            read_all(namespace, &cluster, &[victim], &mut random);
        }
        Changes::of(GRID).wait(&cluster, &all, &grid.free, |_| "grid 2x2".to_owned(), back_at);
        Changes::of(THRESHOLD).wait(&cluster, &all, &threshold.keys, |_| threshold_of(sizes), back_at);
    }
    println!("n{} was cut off; longest gap of a client before {} ms", victim + 1, quiet.as_millis());
    grid.end(&cluster, GAP_MAX, "grid 2x2", &mut random);
    threshold.end(&cluster, GAP_MAX, "threshold of 4", &mut random);
}

/// Of whom the node has not heard for too long.
fn suspects(cluster: &Cluster, at: usize) -> Vec<usize> {
    let nodes = cluster.status_of(at).expect("the node tells its status").nodes;
    (0..nodes.len()).filter(|&node| nodes[node].state == NodeState::Suspected).collect()
}

/// Both hear all others, so every node has quorums.
#[test]
fn two_of_four_nodes_that_do_not_hear_each_other_miss_nothing() {
    const NODES: usize = 4;
    let mut random = Random::announced();
    let Some(cluster) = started("partition-pair", NODES, "2x2", (3, 2)) else { return };
    let all = others(NODES, &[]);
    let column = SQUARE_COLUMNS[random.below(2) as usize];
    let pair = [column[0], others(NODES, &column)[random.below(2) as usize]];
    let grid = Namespace::start(&cluster, Changes::of(GRID), &all, &mut random);
    let threshold = Namespace::start(&cluster, Changes::of(THRESHOLD), &all, &mut random);
    let quiet = watched(&grid.load);
    [&grid, &threshold].iter().for_each(|namespace| namespace.load.watch());
    cluster.network().part_from_each_other(&pair);
    until("they suspect each other", || {
        let suspects = |at: usize| suspects(&cluster, at);
        suspects(pair[0]) == [pair[1]] && suspects(pair[1]) == [pair[0]]
    });
    thread::sleep(WATCHED);
    assert!(others(NODES, &pair).iter().all(|&at| suspects(&cluster, at).is_empty()), "others do not hear them");
    cluster.network().join();
    thread::sleep(WATCHED);
    println!(
        "{} did not hear each other; longest gap of a client before {} ms",
        names(&pair).join(" "),
        quiet.as_millis()
    );
    grid.end(&cluster, GAP_MAX, "grid 2x2", &mut random);
    threshold.end(&cluster, GAP_MAX, "threshold of 4", &mut random);
}

/// The side of five has a whole column, a member of each other one, and most of the root.
#[test]
fn five_of_nine_nodes_go_on_without_the_others_and_change_meanwhile() {
    const NODES: usize = 9;
    let mut random = Random::announced();
    let Some(cluster) = started("partition-nine", NODES, "3x3", (5, 5)) else { return };
    let all = others(NODES, &[]);
    let side = loop {
        let whole = random.below(3) as usize;
        let row = |column| if column == whole { None } else { Some(column + 3 * random.below(3) as usize) };
        let mut side: Vec<usize> = (0..3).filter_map(row).collect();
        side.extend([whole, whole + 3, whole + 6]);
        if side.iter().filter(|&&node| node < 5).count() >= 3 {
            break side;
        }
    };
    let away = others(NODES, &side);
    let mut grid = Namespace::start(&cluster, Changes::of(GRID), &side, &mut random);
    let mut threshold = Namespace::start(&cluster, Changes::of(THRESHOLD), &side, &mut random);
    let quiet = watched(&grid.load);
    [&grid, &threshold].iter().for_each(|namespace| namespace.load.watch());
    cluster.network().part(&[&side, &away]);
    thread::sleep(Duration::from_millis(random.below(60)));
    grid.move_to(&cluster, &side, &side, "majority", &mut random);
    threshold.move_to(&cluster, &side, &side, "threshold 2 4", &mut random);
    assert_refused(&grid, &cluster, &away, &mut random);
    assert_refused(&threshold, &cluster, &away, &mut random);
    [&grid, &threshold].iter().for_each(|namespace| namespace.load.assert_unharmed());
    cluster.network().join();
    let back_at = Instant::now();
    for namespace in [&grid, &threshold] {
        read_all(namespace, &cluster, &away, &mut random);
    }
    Changes::of(GRID).wait(&cluster, &all, &grid.free, |_| "majority".to_owned(), back_at);
    // Now sizes change while two are cut off, whichever they are.
    threshold.move_to(&cluster, &side, &all, "threshold 5 5", &mut random);
    grid.move_to(&cluster, &side, &all, "grid 3x3", &mut random);
    let lone = &away[..2];
    cluster.network().part(&[&others(NODES, lone), &lone[..1], &lone[1..]]);
    threshold.resize(&cluster, &side, (3, 7), &mut random);
    threshold.resize(&cluster, &side, (7, 3), &mut random);
    grid.load.assert_unharmed();
    cluster.network().join();
    for namespace in [&grid, &threshold] {
        read_all(namespace, &cluster, lone, &mut random);
    }
    println!("{} went on alone; longest gap of a client before {} ms", names(&side).join(" "), quiet.as_millis());
    grid.end(&cluster, GAP_MAX, "grid 3x3", &mut random);
    threshold.end(&cluster, GAP_MAX, "threshold of 9", &mut random);
}
