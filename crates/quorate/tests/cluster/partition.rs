//! Registers in a network that is parted: clients of the side that has quorums notice nothing, and the other side refuses
//! what it cannot do, learns what it has missed, and goes on. Nobody tries anything again.

use std::thread;
use std::time::{Duration, Instant};

use quorate_node::status::NodeState;

use crate::nodes::{Cluster, until};
use crate::random::Random;
use crate::register_changes::{Changes, Namespace, create_namespace, threshold_of};
use crate::register_load::End;
use crate::registers::{
    BETWEEN_CHANGES, MANY_CHANGED_WITHIN, MANY_GAP_MAX, SQUARE_COLUMNS, WATCHED, answers_in_time, names, others,
    watched,
};

const GRID: u32 = 1;
const THRESHOLD: u32 = 2;
const VOLUMES: usize = 8;
/// No client of a side with quorums may be without a success for so long.
const GAP_MAX: Duration = Duration::from_secs(2);
/// A change of sizes must be over so soon on a side with quorums: before who was to complete it, and has been cut off, counts as
/// failed at it.
const RESIZED_WITHIN: Duration = Duration::from_millis(2_500);
/// The first nodes.
const ROOT_REPLICAS: usize = 5;
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

/// Most of the nodes, with a whole column of the square, a member of each other one, and most of the root.
fn a_side_with_quorums(columns: usize, random: &mut Random) -> Vec<usize> {
    let node_count = columns * columns;
    loop {
        let whole = random.below(columns as u64) as usize;
        let mut any = |column| column + columns * random.below(columns as u64) as usize;
        let mut side: Vec<usize> = (0..columns).filter(|&column| column != whole).map(&mut any).collect();
        side.extend((0..columns).map(|row| whole + columns * row));
        let mut rest = others(node_count, &side);
        random.shuffle(&mut rest);
        side.extend(rest.into_iter().take((node_count / 2 + 1).saturating_sub(side.len())));
        if side.iter().filter(|&&node| node < ROOT_REPLICAS).count() > ROOT_REPLICAS / 2 {
            return side;
        }
    }
}

/// Members and sizes change on a side that goes on without the others, and when two others are cut off.
fn a_side_goes_on_and_changes(name: &str, columns: usize, changes: fn(u32) -> Changes, gap_max: Duration) {
    let node_count = columns * columns;
    let square = format!("{columns}x{columns}");
    let most = node_count / 2 + 1;
    let mut random = Random::announced();
    let Some(cluster) = started(name, node_count, &square, (most, most)) else { return };
    let all = others(node_count, &[]);
    let side = a_side_with_quorums(columns, &mut random);
    let away = others(node_count, &side);
    let mut grid = Namespace::start(&cluster, changes(GRID), &side, &mut random);
    let mut threshold = Namespace::start(&cluster, changes(THRESHOLD), &side, &mut random);
    let quiet = watched(&grid.load);
    [&grid, &threshold].iter().for_each(|namespace| namespace.load.watch());
    cluster.network().part(&[&side, &away]);
    thread::sleep(Duration::from_millis(random.below(60)));
    grid.move_to(&cluster, &side, &side, "majority", &mut random);
    threshold.move_to(&cluster, &side, &side, &threshold_of((2, side.len() - 1)), &mut random);
    assert_refused(&grid, &cluster, &away, &mut random);
    assert_refused(&threshold, &cluster, &away, &mut random);
    [&grid, &threshold].iter().for_each(|namespace| namespace.load.assert_unharmed());
    cluster.network().join();
    let back_at = Instant::now();
    for namespace in [&grid, &threshold] {
        read_all(namespace, &cluster, &away, &mut random);
    }
    changes(GRID).wait(&cluster, &all, &grid.free, |_| "majority".to_owned(), back_at);
    // Now sizes change while two are cut off, whichever they are.
    threshold.move_to(&cluster, &side, &all, &threshold_of((most, most)), &mut random);
    grid.move_to(&cluster, &side, &all, &format!("grid {square}"), &mut random);
    let lone = &away[..2];
    cluster.network().part(&[&others(node_count, lone), &lone[..1], &lone[1..]]);
    threshold.resize(&cluster, &side, (3, node_count - 2), &mut random);
    threshold.resize(&cluster, &side, (node_count - 2, 3), &mut random);
    grid.load.assert_unharmed();
    cluster.network().join();
    for namespace in [&grid, &threshold] {
        read_all(namespace, &cluster, lone, &mut random);
    }
    println!("{} went on alone; longest gap of a client before {} ms", names(&side).join(" "), quiet.as_millis());
    grid.end(&cluster, gap_max, &format!("grid {square}"), &mut random);
    threshold.end(&cluster, gap_max, &format!("threshold of {node_count}"), &mut random);
}

#[test]
fn five_of_nine_nodes_go_on_without_the_others_and_change_meanwhile() {
    a_side_goes_on_and_changes("partition-nine", 3, Changes::of, GAP_MAX);
}

fn changes_of_many(namespace: u32) -> Changes {
    Changes::of(namespace).within(MANY_CHANGED_WITHIN)
}

#[test]
#[ignore = "many processes: cargo xtask long registers"]
fn most_of_sixteen_nodes_in_a_grid_go_on_without_the_others_and_change_meanwhile() {
    a_side_goes_on_and_changes("partition-sixteen", 4, changes_of_many, MANY_GAP_MAX);
}

#[test]
#[ignore = "many processes: cargo xtask long registers"]
fn most_of_twenty_five_nodes_in_a_grid_go_on_without_the_others_and_change_meanwhile() {
    a_side_goes_on_and_changes("partition-twenty-five", 5, changes_of_many, MANY_GAP_MAX);
}
