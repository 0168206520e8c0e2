//! Figures 7 and 8 side by side, as an SVG document.

use super::{BUCKET_US, Bulk, Change, PAPER_MAX_US};
use crate::plot::{document, text};

const WIDTH: f64 = 1140.0;
const HEIGHT: f64 = 430.0;
const PANEL_TOP: f64 = 60.0;
const PANEL_HEIGHT: f64 = 280.0;
pub(super) const BLUE: &str = "#0072b2";
pub(super) const RED: &str = "#d55e00";

/// One panel: where it is, and what its axes reach.
pub(crate) struct Panel {
    pub(crate) left: f64,
    pub(crate) width: f64,
    pub(crate) x_max: f64,
    pub(crate) y_max: f64,
}

impl Panel {
    pub(crate) fn x(&self, value: f64) -> f64 {
        self.left + value / self.x_max * self.width
    }

    pub(crate) fn y(&self, value: f64) -> f64 {
        PANEL_TOP + PANEL_HEIGHT * (1.0 - (value / self.y_max).clamp(0.0, 1.0))
    }

    pub(crate) fn axes(
        &self,
        x_ticks: &[f64],
        y_ticks: &[f64],
        x_name: &str,
        y_name: &str,
        line: &mut impl FnMut(String),
    ) {
        let (right, bottom) = (self.left + self.width, PANEL_TOP + PANEL_HEIGHT);
        let left = self.left;
        for &tick in y_ticks {
            let at = self.y(tick);
            line(format!("<path d=\"M{left:.1} {at:.1}H{right:.1}\" stroke=\"#ddd\"/>"));
            line(text(left - 6.0, at + 4.0, "end", 12, &tick.to_string()));
        }
        for &tick in x_ticks {
            let at = self.x(tick);
            line(format!("<path d=\"M{at:.1} {bottom:.1}v5\" stroke=\"black\"/>"));
            line(text(at, bottom + 18.0, "middle", 12, &tick.to_string()));
        }
        line(format!("<path d=\"M{left:.1} {PANEL_TOP:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"black\"/>"));
        line(text(f64::midpoint(left, right), bottom + 38.0, "middle", 12, x_name));
        line(text(left - 30.0, PANEL_TOP - 14.0, "start", 12, y_name));
    }

    pub(crate) fn curve(&self, points: impl Iterator<Item = (f64, f64)>, colour: &str, dashes: &str) -> String {
        let points: Vec<_> = points.map(|(x, y)| format!("{:.1},{:.1}", self.x(x), self.y(y))).collect();
        format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            points.join(" ")
        )
    }
}

pub fn svg(changes: &[Change], bulk: &Bulk) -> String {
    document(WIDTH, HEIGHT, |mut line| {
        figure_7(changes, &mut line);
        figure_8(bulk, &mut line);
        line(text(
            WIDTH / 2.0,
            HEIGHT - 10.0,
            "middle",
            11,
            "Simulated by quorate lab qopt-reconfiguration, after Couceiro and others (2015), figures 7 and 8, with latencies of \
         our own.",
        ));
    })
}

fn figure_7(changes: &[Change], line: &mut impl FnMut(String)) {
    let panel = Panel { left: 70.0, width: 430.0, x_max: 150.0, y_max: 20.0 };
    line(text(285.0, 24.0, "middle", 15, "Duration of a change of quorum sizes"));
    let ms = |us: u64| us as f64 / 1000.0;
    panel.axes(&[0.0, 30.0, 60.0, 90.0, 120.0, 150.0], &[0.0, 5.0, 10.0, 15.0, 20.0], "clients", "ms", line);
    let points = |of: fn(&Change) -> u64| changes.iter().map(move |change| (change.clients as f64, ms(of(change))));
    line(panel.curve(points(|change| change.median_us), BLUE, ""));
    line(panel.curve(points(|change| change.most_us), BLUE, "2 3"));
    line(panel.curve([0.0, 150.0].into_iter().map(|x| (x, ms(PAPER_MAX_US))), RED, "8 4"));
    line(text(panel.x(4.0), panel.y(15.4), "start", 12, "the paper stays below"));
    line(text(panel.x(4.0), panel.y(1.0), "start", 12, "median; dotted: longest"));
}

fn figure_8(bulk: &Bulk, line: &mut impl FnMut(String)) {
    let highest = bulk.throughput.iter().copied().fold(bulk.baseline, f64::max) / 1000.0;
    let y_max = (highest / 10.0).ceil() * 10.0;
    let seconds = bulk.throughput.len() as f64 * BUCKET_US as f64 / 1e6;
    let panel = Panel { left: 630.0, width: 470.0, x_max: seconds, y_max };
    line(text(865.0, 24.0, "middle", 15, "Write quorums of all objects grow from 1 to 5"));
    let x_ticks: Vec<f64> = (0..=seconds as u32).map(f64::from).collect();
    let y_ticks: Vec<f64> = (0..=(y_max / 10.0) as u32).map(|tick| f64::from(tick) * 10.0).collect();
    panel.axes(&x_ticks, &y_ticks, "seconds", "thousand operations per second", line);
    let at = |bucket: usize| (bucket as f64 + 0.5) * BUCKET_US as f64 / 1e6;
    let points = bulk.throughput.iter().enumerate().map(|(bucket, rate)| (at(bucket), rate / 1000.0));
    line(panel.curve(points, BLUE, ""));
    line(panel.curve([0.0, seconds].into_iter().map(|x| (x, bulk.baseline / 1000.0)), RED, "8 4"));
    let changed_at = bulk.changed_at_us as f64 / 1e6;
    line(panel.curve([0.0, y_max].into_iter().map(|y| (changed_at, y)), "#999", "2 3"));
    line(text(panel.x(changed_at) + 5.0, panel.y(y_max * 0.04), "start", 12, "changed here"));
    line(text(panel.x(seconds), panel.y(bulk.baseline / 1000.0) - 6.0, "end", 12, "as if from the start"));
}
