//! What section 5.1 of the chain replication paper says of its figure 4.

use std::path::Path;
use std::sync::OnceLock;

use quorate_lab::throughput::{Curve, REPLICATION_FACTORS, System, UPDATE_PERCENTS, figure_4, latency_us};

fn curves() -> &'static [Curve] {
    static CURVES: OnceLock<Vec<Curve>> = OnceLock::new();
    CURVES.get_or_init(|| figure_4(100_000_000, 1))
}

fn curve(system: System, servers: usize) -> &'static Curve {
    let found = curves().iter().find(|curve| curve.system == system && curve.servers == servers);
    found.expect("every curve is there")
}

fn per_second(system: System, servers: usize, percent: u32) -> f64 {
    let points = &curve(system, servers).points;
    points.iter().find(|point| point.0 == percent).expect("every percentage is there").1
}

#[test]
fn in_a_chain_of_three_an_update_takes_94_ms_and_a_query_7_ms() {
    assert_eq!(latency_us(System::Chain, 3, true), 94_000);
    assert_eq!(latency_us(System::Chain, 3, false), 7_000);
}

/// 1 + 50 + (t - 1) * (1 + 20) + 1 ms in a chain; the backups work at the same time, and their word is one message more.
#[test]
fn latencies_follow_from_the_number_of_servers() {
    for servers in REPLICATION_FACTORS {
        let backups = servers as u64 - 1;
        assert_eq!(latency_us(System::Chain, servers, true), 52_000 + 21_000 * backups);
        assert_eq!(latency_us(System::WeakChain, servers, true), 52_000 + 21_000 * backups);
        assert_eq!(latency_us(System::PrimaryBackup, servers, true), 74_000);
        for system in System::ALL {
            assert_eq!(latency_us(system, servers, false), 7_000, "{system:?}");
        }
    }
}

#[test]
fn chain_is_equal_or_superior_to_primary_backup_everywhere() {
    for servers in REPLICATION_FACTORS {
        for percent in UPDATE_PERCENTS {
            let (chain, other) =
                (per_second(System::Chain, servers, percent), per_second(System::PrimaryBackup, servers, percent));
            assert!(chain >= other, "t = {servers}, {percent} %: chain {chain}, p/b {other}");
        }
    }
}

#[test]
fn from_15_percent_of_updates_on_chain_is_above_its_weak_variants() {
    for servers in REPLICATION_FACTORS {
        for percent in UPDATE_PERCENTS.into_iter().filter(|&percent| percent >= 15) {
            for weak in [System::WeakChain, System::WeakPrimaryBackup] {
                let (chain, other) = (per_second(System::Chain, servers, percent), per_second(weak, servers, percent));
                assert!(chain > other, "t = {servers}, {percent} %: chain {chain}, {weak:?} {other}");
            }
        }
    }
}

#[test]
fn without_updates_the_weak_variants_spread_queries_over_all_servers() {
    for servers in REPLICATION_FACTORS {
        let ratio = per_second(System::WeakChain, servers, 0) / per_second(System::Chain, servers, 0);
        assert!(ratio > 0.75 * servers as f64, "t = {servers}: {ratio}");
    }
}

/// The paper: "found to be virtually identical".
#[test]
fn the_weak_variants_are_alike() {
    for servers in REPLICATION_FACTORS {
        for percent in UPDATE_PERCENTS {
            let chain = per_second(System::WeakChain, servers, percent);
            let other = per_second(System::WeakPrimaryBackup, servers, percent);
            assert!((chain / other - 1.0).abs() < 0.05, "t = {servers}, {percent} %: {chain}, {other}");
        }
    }
}

#[test]
fn throughput_of_chain_and_primary_backup_hardly_depends_on_the_number_of_servers() {
    for system in [System::Chain, System::PrimaryBackup] {
        for percent in UPDATE_PERCENTS {
            let all = REPLICATION_FACTORS.map(|servers| per_second(system, servers, percent));
            let (least, most) =
                all.iter().fold((f64::MAX, 0.0_f64), |(least, most), &one| (least.min(one), most.max(one)));
            assert!(most / least < 1.1, "{system:?}, {percent} %: {all:?}");
        }
    }
}

/// `UPDATE=1` draws it anew.
#[test]
fn the_drawing_in_the_documents_is_of_these_figures() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/chain-throughput.svg");
    let drawn = quorate_lab::plot::svg(curves());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &drawn).expect("the drawing can be written");
    }
    assert!(std::fs::read_to_string(&path).expect("there is a drawing") == drawn, "UPDATE=1 draws it anew");
}
