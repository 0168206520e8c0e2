//! What section V-A of the Q-Opt paper says of its figures 7 and 8.

use std::path::Path;
use std::sync::OnceLock;

use quorate_lab::qopt::{BUCKET_US, Bulk, CLIENTS, Change, OBJECTS, PAPER_MAX_US, figure_7, figure_8};

fn changes() -> &'static [Change] {
    static CHANGES: OnceLock<Vec<Change>> = OnceLock::new();
    CHANGES.get_or_init(|| figure_7(OBJECTS / 20, 1))
}

fn bulk() -> &'static Bulk {
    static BULK: OnceLock<Bulk> = OnceLock::new();
    BULK.get_or_init(|| figure_8(150, OBJECTS, 1))
}

#[test]
fn a_change_takes_less_than_15_ms_whatever_the_load() {
    assert_eq!(changes().len(), CLIENTS.len());
    for change in changes() {
        assert!(change.most_us < PAPER_MAX_US, "{change:?}");
        assert!(change.least_us <= change.median_us && change.median_us <= change.most_us, "{change:?}");
    }
}

#[test]
fn a_change_takes_longer_under_load() {
    let (first, last) = (changes()[0], changes()[CLIENTS.len() - 1]);
    assert!(last.median_us > first.median_us, "{first:?}, {last:?}");
    assert!(last.throughput > 2.0 * first.throughput, "{first:?}, {last:?}: the load is not another");
}

fn mean(rates: &[f64]) -> f64 {
    rates.iter().sum::<f64>() / rates.len() as f64
}

#[test]
fn throughput_gains_at_once_and_ends_where_it_had_been_from_the_start() {
    let Bulk { throughput, baseline, changed_at_us, .. } = bulk();
    let (before, after) = throughput.split_at((changed_at_us / BUCKET_US) as usize);
    let (early, late) = (mean(&after[1..6]), mean(&after[after.len() - 10..]));
    assert!(early > mean(before), "early {early}, before {}", mean(before));
    assert!(late > 1.15 * mean(before), "late {late}, before {}", mean(before));
    assert!((late / baseline - 1.0).abs() < 0.05, "late {late}, baseline {baseline}");
    assert!(late > early, "late {late}, early {early}");
}

/// No bucket is without answers, nor far below what there was.
#[test]
fn nothing_stops_while_sizes_change() {
    let Bulk { throughput, changed_at_us, .. } = bulk();
    let (before, after) = throughput.split_at((changed_at_us / BUCKET_US) as usize);
    let least = after.iter().copied().fold(f64::MAX, f64::min);
    assert!(least > 0.8 * mean(before), "least {least}, before {}", mean(before));
}

/// `UPDATE=1` draws it anew.
#[test]
fn the_drawing_in_the_documents_is_of_these_figures() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocols/qopt-reconfiguration.svg");
    let drawn = quorate_lab::qopt::plot::svg(changes(), bulk());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &drawn).expect("the drawing can be written");
    }
    assert!(std::fs::read_to_string(&path).expect("there is a drawing") == drawn, "UPDATE=1 draws it anew");
}

#[test]
#[ignore = "prints the figures"]
fn print() {
    for change in changes() {
        println!("{change:?}");
    }
    println!("{:?}", bulk());
}
