//! Figures 3, 4 and 5 side by side, as an SVG document.

use super::{Accuracy, Evaluation, Point};
use crate::plot::{document, text};
use crate::qopt::plot::{BLUE, Panel, RED};

const WIDTH: f64 = 1340.0;
const HEIGHT: f64 = 430.0;
const GREY: &str = "#999";
const GREEN: &str = "#009e73";

pub fn svg(evaluation: &Evaluation) -> String {
    document(WIDTH, HEIGHT, |mut line| {
        figure_3(evaluation, &mut line);
        figure_4(evaluation, &mut line);
        figure_5(evaluation, &mut line);
        line(text(
            WIDTH / 2.0,
            HEIGHT - 10.0,
            "middle",
            11,
            "Simulated by quorate lab qopt-oracle, after Couceiro and others (2015), figures 3 to 5, with latencies of our own.",
        ));
    })
}

/// As many workloads as a circle is large.
fn figure_3(evaluation: &Evaluation, line: &mut impl FnMut(String)) {
    let members = evaluation.ranks.len();
    let panel = Panel { left: 60.0, width: 350.0, x_max: 100.0, y_max: members as f64 + 0.5 };
    line(text(235.0, 24.0, "middle", 15, "The best write quorum of each workload"));
    let y_ticks: Vec<_> = (1..=members).map(|write| write as f64).collect();
    panel.axes(&[0.0, 25.0, 50.0, 75.0, 100.0], &y_ticks, "writes, % of operations", "members written to", line);
    let mut counts = std::collections::BTreeMap::new();
    for one in &evaluation.workloads {
        let percent = (one.workload.write_share * 100.0).round() as u64;
        *counts.entry((percent, one.best())).or_insert(0_u32) += 1;
    }
    for ((percent, best), count) in counts {
        let (x, y) = (panel.x(percent as f64), panel.y(best as f64));
        let radius = 2.5 * f64::from(count).sqrt();
        line(format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{BLUE}\" fill-opacity=\"0.5\"/>"));
    }
}

fn figure_4(evaluation: &Evaluation, line: &mut impl FnMut(String)) {
    let points = &evaluation.points;
    let highest = points.iter().map(|point| point.unboosted.misclassified.max(point.boosted.misclassified));
    let y_max = (highest.fold(0.1, f64::max) * 10.0).ceil() * 10.0;
    let panel = Panel { left: 490.0, width: 350.0, x_max: 100.0, y_max };
    line(text(665.0, 24.0, "middle", 15, "Mistakes of the oracle"));
    let y_ticks: Vec<_> = (0..=(y_max / 10.0) as u32).map(|tick| f64::from(tick) * 10.0).collect();
    panel.axes(&[0.0, 25.0, 50.0, 75.0, 100.0], &y_ticks, "workloads learnt from, %", "%", line);
    let mut curve = |of: fn(&Point) -> f64, colour: &str, dashes: &str| {
        let points = points.iter().map(|point| (point.trained_percent as f64, 100.0 * of(point)));
        line(panel.curve(points, colour, dashes));
    };
    curve(|point| point.unboosted.misclassified, RED, "8 4");
    curve(|point| point.boosted.misclassified, RED, "");
    curve(|point| point.unboosted.loss, BLUE, "8 4");
    curve(|point| point.boosted.loss, BLUE, "");
    let words = ["red: misclassified", "blue: throughput lost", "dashed: one tree; solid: boosted"];
    for (number, words) in words.into_iter().enumerate() {
        line(text(835.0, 76.0 + 16.0 * number as f64, "end", 12, words));
    }
}

fn figure_5(evaluation: &Evaluation, line: &mut impl FnMut(String)) {
    let panel = Panel { left: 920.0, width: 380.0, x_max: 100.0, y_max: 100.0 };
    line(text(1110.0, 24.0, "middle", 15, "Throughput, % of the best"));
    let ticks = [0.0, 25.0, 50.0, 75.0, 100.0];
    panel.axes(&ticks, &ticks, "% of the best throughput", "% of workloads with no more", line);
    let last = evaluation.ranks.len() - 1;
    for (number, rank) in evaluation.ranks.iter().enumerate().skip(1) {
        line(panel.curve(distribution(rank), GREY, if number == last { "" } else { "2 3" }));
    }
    for (percent, dashes) in [(10, "8 4"), (50, "")] {
        let point = evaluation.points.iter().find(|point| point.trained_percent == percent);
        if let Some(point) = point {
            line(panel.curve(distribution(&point.boosted), GREEN, dashes));
        }
    }
    let words = ["green: the oracle, having learnt from 50 %", "dashed: from 10 %", "grey: the worst; dotted: between"];
    for (number, words) in words.into_iter().enumerate() {
        line(text(930.0, 76.0 + 16.0 * number as f64, "start", 12, words));
    }
}

/// Of throughput as a part of the best, at each hundredth.
fn distribution(accuracy: &Accuracy) -> impl Iterator<Item = (f64, f64)> + '_ {
    let losses = &accuracy.losses;
    (0..=100_u32).map(|percent| {
        let least = 1.0 - f64::from(percent) / 100.0;
        // Losses are in order.
        let no_more = losses.len() - losses.partition_point(|loss| *loss < least - 1e-12);
        (f64::from(percent), 100.0 * no_more as f64 / losses.len().max(1) as f64)
    })
}
