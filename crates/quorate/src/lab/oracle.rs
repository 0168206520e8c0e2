//! The experiment on Q-Opt's oracle.

use std::path::PathBuf;

use clap::Args;
use quorate_control::{Measured, data};
use quorate_lab::qopt::MEMBERS;
use quorate_lab::qopt::oracle::{
    Accuracy, Evaluation, FAR_OFF, OPERATIONS, Point, SPLITS, Setting, TABLE_1, evaluate, grid, grid_of_others,
    measure, plot,
};
use serde_json::{Value, json};

use super::draw;
use crate::failure::Failure;
use crate::output::{align_right, say, table, trimmed};

/// How well decision trees tell the best write quorum of a workload (figures 3 to 5 and table I of the Q-Opt paper)
///
/// 168 workloads of five registers, by the share of writes, the size of objects and the number of clients, are measured at
/// every write quorum, in a simulation with latencies of our own. Trees learn from some of them and are asked about the rest.
/// Takes a minute, or two with `--csv`.
#[derive(Debug, Args)]
pub(super) struct OracleOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also draw the figures into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also measure fewer workloads of 3, 4, 6 and 7 members, and write all that was measured into this file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Measure nothing: take what was measured so for this release
    #[arg(long, conflicts_with_all = ["csv", "operations", "seed"])]
    built_in: bool,
    /// By how many operations each throughput is told
    #[arg(long, default_value_t = OPERATIONS, value_parser = clap::value_parser!(u64).range(100..=1_000_000))]
    operations: u64,
    /// Where the clients' choices come from
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    seed: u64,
}

pub(super) fn qopt_oracle(options: &OracleOptions) -> Result<(), Failure> {
    let all = |settings: Vec<Setting>| -> Vec<Measured> {
        settings.into_iter().map(|setting| measure(setting, options.operations, options.seed)).collect()
    };
    let workloads = if options.built_in { simulated() } else { all(grid()) };
    if let Some(path) = &options.csv {
        draw(path, &data::print(&[workloads.clone(), all(grid_of_others())].concat()))?;
    }
    let evaluation = evaluate(workloads, SPLITS);
    if let Some(path) = &options.svg {
        draw(path, &plot::svg(&evaluation))?;
    }
    if options.json {
        say(format!("{:#}", oracle_json(options, &evaluation)));
        return Ok(());
    }
    say_trained(&evaluation);
    say_untrained(&evaluation);
    say(
        "\nafter Couceiro and others (2015), section V, with latencies of our own; the paper measured Swift, so only how its",
    );
    say("figures go with the share trained on can be compared");
    for path in [&options.svg, &options.csv].into_iter().flatten() {
        say(format!("written into {}", path.display()));
    }
    Ok(())
}

/// Those of five members.
fn simulated() -> Vec<Measured> {
    let measured = data::simulated().expect("a test parses it");
    measured.into_iter().filter(|one| one.members == MEMBERS).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}

fn shares(accuracy: &Accuracy) -> [f64; 3] {
    [accuracy.misclassified, accuracy.loss, accuracy.loss_if_wrong]
}

/// `this one, the other`, of the tree alone and of ten.
fn both(values: [String; 2]) -> String {
    values.join(", ")
}

fn say_trained(evaluation: &Evaluation) {
    let far_off = format!("more than {} % lost", 100.0 * FAR_OFF);
    let names = ["trained on", &far_off, "misclassified", "paper", "lost", "paper", "lost if misclassified", "paper"];
    let mut rows = table(&names);
    for Point { trained_percent, unboosted, boosted } in &evaluation.points {
        let [one, ten] = [shares(unboosted), shares(boosted)];
        let paper = TABLE_1.iter().find(|(percent, _)| percent == trained_percent);
        let far_off = both([unboosted, boosted].map(|accuracy| percent(accuracy.far_off(FAR_OFF))));
        let mut row = vec![format!("{trained_percent} %"), far_off];
        for figure in 0..3 {
            row.push(both([percent(one[figure]), percent(ten[figure])]));
            row.push(paper.map_or(String::new(), |(_, of)| both(of.map(|figures| figures[figure].to_string()))));
        }
        rows.add_row(row);
    }
    align_right(&mut rows, 0..=7);
    say(format!(
        "figure 4 and table I: {} workloads, means of {SPLITS} splits; in percent, one tree, boosted",
        evaluation.workloads.len()
    ));
    say(trimmed(rows));
}

fn say_untrained(evaluation: &Evaluation) {
    let mut rows = table(&["choice", "best of workloads", "throughput lost", "most lost"]);
    let mut add = |name: String, accuracy: &Accuracy| {
        let most = accuracy.losses.last().copied().unwrap_or(0.0);
        rows.add_row([name, percent(1.0 - accuracy.misclassified), percent(accuracy.loss), percent(most)]);
    };
    for (index, accuracy) in evaluation.fixed.iter().enumerate() {
        let (write, read) = (index + 1, evaluation.fixed.len() - index);
        add(format!("R = {read}, W = {write} for all"), accuracy);
    }
    add(String::from("computed from costs"), &evaluation.analytic);
    for (index, accuracy) in evaluation.ranks.iter().enumerate().skip(1) {
        add(format!("number {} of each workload", index + 1), accuracy);
    }
    align_right(&mut rows, 1..=3);
    say("\nfigures 3 and 5: without an oracle, in percent");
    say(trimmed(rows));
}

fn oracle_json(options: &OracleOptions, evaluation: &Evaluation) -> Value {
    let accuracy = |accuracy: &Accuracy| {
        json!({
            "misclassified": accuracy.misclassified,
            "throughput_lost": accuracy.loss,
            "throughput_lost_if_misclassified": accuracy.loss_if_wrong,
            "far_off": accuracy.far_off(FAR_OFF),
            "throughput_lost_most": accuracy.losses.last(),
        })
    };
    let all = |all: &[Accuracy]| all.iter().map(accuracy).collect::<Vec<_>>();
    let point = |point: &Point| {
        let paper = TABLE_1.iter().find(|(percent, _)| *percent == point.trained_percent);
        json!({
            "trained_percent": point.trained_percent,
            "unboosted": accuracy(&point.unboosted),
            "boosted": accuracy(&point.boosted),
            "paper_percent": paper.map(|(_, [unboosted, boosted])| json!({ "unboosted": unboosted, "boosted": boosted })),
        })
    };
    let workload = |one: &Measured| {
        json!({
            "write_share": one.workload.write_share,
            "object_bytes": one.workload.bytes,
            "operations_per_second_by_write_quorum": one.throughputs,
            "best_write_quorum": one.best(),
        })
    };
    json!({
        "source": "Couceiro and others (2015), section V, figures 3 to 5, table I",
        "seed": options.seed,
        "operations": options.operations,
        "splits": SPLITS,
        "far_off_from": FAR_OFF,
        "workloads": evaluation.workloads.iter().map(workload).collect::<Vec<_>>(),
        "trained": evaluation.points.iter().map(point).collect::<Vec<_>>(),
        "computed_from_costs": accuracy(&evaluation.analytic),
        "write_quorum_of_all": all(&evaluation.fixed),
        "by_rank": all(&evaluation.ranks),
    })
}
