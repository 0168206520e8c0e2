//! Quorum systems, against enumeration of all sets of members.

use quorate_protocol::quorum::{QuorumSystem, Unfit};

const MEMBERS_MAX: usize = 9;
/// The largest that the paper runs.
const LARGE_MAX: usize = 49;

/// Every system that fits so many members.
fn systems(members: usize) -> Vec<QuorumSystem> {
    let sizes = 0..=members as u8 + 1;
    let pairs = || sizes.clone().flat_map(|one| sizes.clone().map(move |other| (one, other)));
    let thresholds = pairs().map(|(read, write)| QuorumSystem::Threshold { read, write });
    let grids = pairs().map(|(rows, columns)| QuorumSystem::Grid { rows, columns });
    let all = [QuorumSystem::Majority].into_iter().chain(thresholds).chain(grids);
    all.filter(|system| system.fit(members).is_ok()).collect()
}

fn minimal(members: usize, is_quorum: impl Fn(u64) -> bool) -> Vec<u64> {
    let sets = (0..1 << members).filter(|&set| is_quorum(set));
    sets.filter(|set| (0..members).all(|position| set >> position & 1 == 0 || !is_quorum(set & !(1 << position))))
        .collect()
}

fn assert_meet(reads: &[u64], writes: &[u64], what: &str) {
    for (read, write) in reads.iter().flat_map(|read| writes.iter().map(move |write| (read, write))) {
        assert_ne!(read & write, 0, "{what}: read {read:b} and write {write:b}");
    }
}

#[test]
fn every_read_quorum_meets_every_write_quorum() {
    let mut count = 0;
    for members in 1..=MEMBERS_MAX {
        for system in systems(members) {
            let reads = minimal(members, |set| system.is_read_quorum(members, set));
            let writes = minimal(members, |set| system.is_write_quorum(members, set));
            assert!(!reads.is_empty() && !writes.is_empty(), "{system:?} of {members}");
            assert_meet(&reads, &writes, &format!("{system:?} of {members}"));
            count += 1;
        }
    }
    assert!(count > 200, "{count} systems");
}

/// Sizes that are too many for all sets: the minimal quorums of grids one by one, thresholds by counting.
#[test]
fn large_grids_meet() {
    for members in MEMBERS_MAX + 1..=LARGE_MAX {
        for columns in 1..=members as u8 {
            let rows = (members as u8).div_ceil(columns);
            let system = QuorumSystem::Grid { rows, columns };
            if system.fit(members).is_err() {
                continue;
            }
            let column = |of: usize| (of..members).step_by(usize::from(columns)).fold(0_u64, |set, at| set | 1 << at);
            for of in 0..usize::from(columns) {
                assert!(system.is_write_quorum(members, column(of)), "{system:?}: column {of}");
                // Whoever has nobody of this column has read nothing.
                assert!(
                    !system.is_read_quorum(members, ((1 << members) - 1) & !column(of)),
                    "{system:?}: without {of}"
                );
            }
        }
    }
}

/// Every threshold up to 49 members. Two sets of the sizes that count as quorums meet because together they have more members
/// than there are; no smaller set counts, whichever its members are.
#[test]
fn large_thresholds_meet_by_counting() {
    let first = |count: usize| (1_u64 << count) - 1;
    let mut count = 0;
    for members in 1..=LARGE_MAX {
        let fitting = systems(members);
        for (system, (read, write)) in fitting.iter().filter_map(|system| system.sizes(members).map(|of| (system, of)))
        {
            assert!(read + write > members, "{system:?} of {members}");
            let last = |size: usize| first(members) & !first(members - size);
            for (size, is_quorum) in [
                (read, &(|set| system.is_read_quorum(members, set)) as &dyn Fn(u64) -> bool),
                (write, &|set| system.is_write_quorum(members, set)),
            ] {
                assert!(is_quorum(first(size)) && is_quorum(last(size)), "{system:?} of {members}: {size}");
                assert!(
                    !is_quorum(first(size - 1)) && !is_quorum(last(size - 1)),
                    "{system:?} of {members}: {size} - 1"
                );
            }
            count += 1;
        }
    }
    assert!(count > 20_000, "{count} systems");
}

/// The positions of each column, from the numbers alone.
fn columns(system: QuorumSystem, members: usize) -> Option<Vec<Vec<usize>>> {
    let QuorumSystem::Grid { rows, columns } = system else { return None };
    let (count, columns) = (members.min(usize::from(rows) * usize::from(columns)), usize::from(columns));
    Some((0..columns).map(|column| (column..count).step_by(columns).collect()).collect())
}

/// Each minimal read quorum, one by one, up to the square of 49.
#[test]
fn minimal_quorums_of_large_grids_meet_one_by_one() {
    let mut count = 0_u64;
    for members in 4..=LARGE_MAX {
        for system in systems(members) {
            let Some(columns) = columns(system, members) else { continue };
            let reads: u64 = columns.iter().map(|column| column.len() as u64).product();
            let is_square = system == QuorumSystem::square(members);
            if reads > if is_square { 1_000_000 } else { 3_000 } {
                continue;
            }
            let writes: Vec<u64> =
                columns.iter().map(|column| column.iter().fold(0, |set, at| set | 1 << at)).collect();
            assert!(writes.iter().all(|&write| system.is_write_quorum(members, write)), "{system:?} of {members}");
            for number in 0..reads {
                let mut rest = number;
                let read = columns.iter().fold(0_u64, |set, column| {
                    let at = column[(rest % column.len() as u64) as usize];
                    rest /= column.len() as u64;
                    set | 1 << at
                });
                assert!(system.is_read_quorum(members, read), "{system:?} of {members}: {read:b}");
                assert!(writes.iter().all(|write| write & read != 0), "{system:?} of {members}: {read:b}");
                count += 1;
            }
        }
    }
    assert!(count > 1_000_000, "{count} read quorums");
}

/// The least weight of a read quorum and of a write quorum.
fn lightest(system: QuorumSystem, members: usize, weights: &[f64]) -> (f64, f64) {
    if let Some((read, write)) = system.sizes(members) {
        let mut sorted = weights.to_vec();
        sorted.sort_by(f64::total_cmp);
        let lightest = |size: usize| sorted[..size].iter().sum();
        return (lightest(read), lightest(write));
    }
    let columns = columns(system, members).expect("a grid");
    let weights_of = |column: &Vec<usize>| column.iter().map(|&at| weights[at]).collect::<Vec<f64>>();
    let read = columns.iter().map(|column| weights_of(column).into_iter().fold(f64::MAX, f64::min)).sum();
    let write = columns.iter().map(|column| weights_of(column).into_iter().sum()).fold(f64::MAX, f64::min);
    (read, write)
}

/// Weights of all members that sum up to 1: whatever the strategy, the weighted mean of the loads is at least what the lightest
/// quorums weigh, and so is the highest. This is the dual of the linear program that asks for the best strategy.
fn duals(system: QuorumSystem, members: usize) -> Vec<Vec<f64>> {
    let Some(columns) = columns(system, members) else { return vec![vec![1.0 / members as f64; members]] };
    let shortest = columns.iter().map(Vec::len).min().expect("columns");
    let spread = |chosen: Vec<&Vec<usize>>| {
        let mut weights = vec![0.0; members];
        for column in &chosen {
            column.iter().for_each(|&at| weights[at] = 1.0 / (chosen.len() * column.len()) as f64);
        }
        weights
    };
    vec![spread(columns.iter().collect()), spread(columns.iter().filter(|column| column.len() == shortest).collect())]
}

/// A strategy whose busiest member carries no more than this; none is said to be better.
fn best_strategy(system: QuorumSystem, members: usize, read_share: f64, level: f64) -> Vec<f64> {
    if let Some((read, write)) = system.sizes(members) {
        let each = (read_share * read as f64 + (1.0 - read_share) * write as f64) / members as f64;
        return vec![each; members];
    }
    let (mut loads, mut writes) = (vec![0.0; members], 1.0 - read_share);
    for column in columns(system, members).expect("a grid") {
        let reads = read_share / column.len() as f64;
        let written = (level - reads).max(0.0).min(writes);
        writes -= written;
        column.iter().for_each(|&at| loads[at] = reads + written);
    }
    assert!(writes < 1e-9, "{system:?} of {members}: {writes} of all writes have no place");
    loads
}

/// The published optimum is that of the linear program: a strategy reaches it, and a solution of the dual program as well.
#[test]
fn the_optimal_load_is_that_of_the_linear_program() {
    for members in 1..=LARGE_MAX {
        for system in systems(members) {
            let all = duals(system, members);
            for read_share in [0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0] {
                let optimum = system.load(members, read_share).optimum;
                let strategy = best_strategy(system, members, read_share, optimum);
                let highest = strategy.iter().copied().fold(0.0, f64::max);
                assert!(highest <= optimum + 1e-9, "{system:?} of {members}: {highest} is above {optimum}");
                let bound = |weights: &Vec<f64>| {
                    let (read, write) = lightest(system, members, weights);
                    read_share * read + (1.0 - read_share) * write
                };
                let highest_bound = all.iter().map(bound).fold(0.0, f64::max);
                let what = format!("{system:?} of {members}, {read_share} reads");
                assert!((highest_bound - optimum).abs() < 1e-9, "{what}: at least {highest_bound}, said {optimum}");
            }
        }
    }
}

/// What the bounds above rest on, by enumeration.
#[test]
fn the_lightest_quorums_are_the_lightest() {
    for members in 1..=MEMBERS_MAX {
        for system in systems(members) {
            for weights in duals(system, members) {
                assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{system:?} of {members}: {weights:?}");
                let weigh = |set: &u64| (0..members).filter(|at| set >> at & 1 == 1).map(|at| weights[at]).sum::<f64>();
                let least = |sets: Vec<u64>| sets.iter().map(weigh).fold(f64::MAX, f64::min);
                let read = least(minimal(members, |set| system.is_read_quorum(members, set)));
                let write = least(minimal(members, |set| system.is_write_quorum(members, set)));
                let (said_read, said_write) = lightest(system, members, &weights);
                assert!(
                    (read - said_read).abs() < 1e-9 && (write - said_write).abs() < 1e-9,
                    "{system:?} of {members}"
                );
            }
        }
    }
}

#[test]
fn tolerance_is_what_enumeration_finds() {
    for members in 1..=MEMBERS_MAX {
        for system in systems(members) {
            let all = (1_u64 << members) - 1;
            let serves =
                |dead: u64| system.is_read_quorum(members, all & !dead) && system.is_write_quorum(members, all & !dead);
            let fatal = (0..=all).filter(|&dead| !serves(dead)).map(u64::count_ones).min().expect("all dead");
            let tolerance = system.tolerance(members);
            assert_eq!(tolerance.crash_count, fatal as usize - 1, "{system:?} of {members}");
            assert!(!serves(tolerance.fatal) && tolerance.fatal <= all, "{system:?} of {members}: {tolerance:?}");
        }
    }
}

#[test]
fn preferred_quorums_are_quorums_and_spread_the_load() {
    for members in 1..=MEMBERS_MAX {
        for system in systems(members) {
            let turns = 2520; // Divisible by every size up to ten.
            let mut asked = vec![(0, 0); members];
            for turn in 0..turns {
                let read = system.preferred_read(members, turn, 0);
                let write = system.preferred_write(members, turn, 0);
                assert!(system.is_read_quorum(members, read), "{system:?} of {members}: {read:b}");
                assert!(system.is_write_quorum(members, write), "{system:?} of {members}: {write:b}");
                for (position, (reads, writes)) in asked.iter_mut().enumerate() {
                    *reads += read >> position & 1;
                    *writes += write >> position & 1;
                }
            }
            for read_share in [0.0, 0.5, 1.0] {
                let load = system.load(members, read_share);
                for ((reads, writes), expected) in asked.iter().zip(&load.members) {
                    let met = read_share * *reads as f64 + (1.0 - read_share) * *writes as f64;
                    assert!((met / turns as f64 - expected).abs() < 1e-9, "{system:?} of {members}: {load:?}");
                }
                assert!(load.optimum <= load.highest() + 1e-9, "{system:?} of {members}: {load:?}");
            }
        }
    }
}

/// Whoever is suspected is asked only if there is no quorum without.
#[test]
fn members_to_avoid_are_avoided_where_possible() {
    for members in 1..=6 {
        for system in systems(members) {
            let all = (1_u64 << members) - 1;
            for (avoid, turn) in (0..=all).flat_map(|avoid| (0..6).map(move |turn| (avoid, turn))) {
                let read = system.preferred_read(members, turn, avoid);
                let write = system.preferred_write(members, turn, avoid);
                assert!(system.is_read_quorum(members, read) && system.is_write_quorum(members, write));
                let can_read = system.is_read_quorum(members, all & !avoid);
                let can_write = system.is_write_quorum(members, all & !avoid);
                assert!(!can_read || read & avoid == 0, "{system:?} of {members} without {avoid:b}: {read:b}");
                assert!(!can_write || write & avoid == 0, "{system:?} of {members} without {avoid:b}: {write:b}");
            }
        }
    }
}

#[test]
fn loads_are_those_of_the_literature() {
    let square = QuorumSystem::square(9).load(9, 0.5);
    assert!((square.highest() - 1.0 / 3.0).abs() < 1e-9 && (square.optimum - 1.0 / 3.0).abs() < 1e-9);
    let majority = QuorumSystem::Majority.load(9, 0.5);
    assert!((majority.optimum - 5.0 / 9.0).abs() < 1e-9);
    // Two columns of two and one: reads load the short one fully, so all writes would go to the other.
    let ragged = QuorumSystem::Grid { rows: 2, columns: 2 }.load(3, 0.5);
    assert_eq!(ragged.members, [0.5, 0.75, 0.5]);
    assert!((ragged.optimum - 0.625).abs() < 1e-9, "{ragged:?}");
}

#[test]
fn the_square_is_the_papers() {
    assert_eq!(QuorumSystem::square(3), QuorumSystem::Majority);
    assert_eq!(QuorumSystem::square(4), QuorumSystem::Grid { rows: 2, columns: 2 });
    let eleven = QuorumSystem::square(11);
    assert_eq!(eleven, QuorumSystem::Grid { rows: 3, columns: 3 });
    assert_eq!(eleven.fit(11), Ok(()));
    // The two members beyond the square carry nothing and save nobody.
    assert!(!eleven.is_read_quorum(11, 0b110_0000_0011));
    assert_eq!(eleven.load(11, 0.5).members[9..], [0.0, 0.0]);
    assert_eq!(eleven.tolerance(11).crash_count, 2);
}

#[test]
fn what_does_not_fit_is_told_with_the_reason() {
    let threshold = |read, write| QuorumSystem::Threshold { read, write };
    assert_eq!(threshold(2, 3).fit(5), Err(Unfit::Disjoint { read: 2, write: 3, members: 5 }));
    assert_eq!(threshold(0, 5).fit(5), Err(Unfit::Size { size: 0, members: 5 }));
    assert_eq!(threshold(1, 6).fit(5), Err(Unfit::Size { size: 6, members: 5 }));
    assert_eq!(QuorumSystem::Majority.fit(0), Err(Unfit::Members { members: 0 }));
    let grid = |rows, columns| QuorumSystem::Grid { rows, columns };
    assert_eq!(grid(3, 4).fit(9), Ok(()));
    assert_eq!(grid(3, 4).fit(8), Err(Unfit::GridTooLarge { rows: 3, columns: 4, members: 8 }));
    assert_eq!(grid(3, 4).fit(13), Err(Unfit::GridTooSmall { rows: 3, columns: 4, members: 13 }));
    assert_eq!(grid(0, 4).fit(4), Err(Unfit::GridTooSmall { rows: 0, columns: 4, members: 4 }));
    let error = threshold(2, 3).fit(5).expect_err("disjoint");
    assert_eq!(error.to_string(), "a read of 2 and a write of 3 among 5 may not meet; their sum must exceed 5");
}
