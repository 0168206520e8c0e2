//! Figure 4 as a drawing: one panel for each replication factor, requests a second over the share of updates.

use std::fmt::Write;

use crate::throughput::{CHANGE_US, CLIENTS, Curve, MESSAGE_US, QUERY_US, REPLICATION_FACTORS, System, UPDATE_US};

const WIDTH: f64 = 1140.0;
const HEIGHT: f64 = 470.0;
const PANEL_WIDTH: f64 = 290.0;
const PANEL_HEIGHT: f64 = 290.0;
const PANEL_TOP: f64 = 70.0;
/// Between the left edges of two panels.
const PANEL_PITCH: f64 = 360.0;
const PANEL_LEFT: f64 = 75.0;

const PER_SECOND_MIN: f64 = 10.0;
const PER_SECOND_MAX: f64 = 3000.0;
const PER_SECOND_TICKS: [u32; 8] = [10, 20, 50, 100, 200, 500, 1000, 2000];
const PERCENT_MAX: f64 = 50.0;
const PERCENT_TICKS: [u32; 6] = [0, 10, 20, 30, 40, 50];

/// Colours that people with any colour vision tell apart, and dashes for those who print without.
fn style(system: System) -> (&'static str, &'static str) {
    match system {
        System::Chain => ("#0072b2", ""),
        System::PrimaryBackup => ("#d55e00", "8 4"),
        System::WeakChain => ("#009e73", "2 3"),
        System::WeakPrimaryBackup => ("#cc79a7", "8 3 2 3"),
    }
}

fn x(panel: usize, percent: f64) -> f64 {
    PANEL_LEFT + panel as f64 * PANEL_PITCH + percent / PERCENT_MAX * PANEL_WIDTH
}

/// Logarithmic, because without updates ten servers answer ten times what one does.
fn y(per_second: f64) -> f64 {
    let share = (per_second / PER_SECOND_MIN).ln() / (PER_SECOND_MAX / PER_SECOND_MIN).ln();
    PANEL_TOP + PANEL_HEIGHT * (1.0 - share.clamp(0.0, 1.0))
}

/// The curves of [`figure_4`](crate::throughput::figure_4) as an SVG document.
pub fn svg(curves: &[Curve]) -> String {
    document(WIDTH, HEIGHT, |mut line| {
        line(text(
            WIDTH / 2.0,
            24.0,
            "middle",
            16,
            "Request throughput by the share of updates, one chain, no failures",
        ));
        for (panel, servers) in REPLICATION_FACTORS.into_iter().enumerate() {
            axes(panel, servers, &mut line);
            for curve in curves.iter().filter(|curve| curve.servers == servers) {
                let points: Vec<_> =
                    curve.points.iter().map(|&(percent, rate)| point(panel, f64::from(percent), rate)).collect();
                line(polyline(curve.system, &points.join(" ")));
            }
        }
        legend(&mut line);
        line(text(
            WIDTH / 2.0,
            HEIGHT - 12.0,
            "middle",
            11,
            &format!(
                "Simulated by quorate lab chain-throughput, after van Renesse and Schneider (2004), figure 4: {CLIENTS} clients, \
             message {} ms, query {} ms, update {} ms, change {} ms. Vertical axis logarithmic.",
                MESSAGE_US / 1000,
                QUERY_US / 1000,
                UPDATE_US / 1000,
                CHANGE_US / 1000
            ),
        ));
    })
}

fn axes(panel: usize, servers: usize, line: &mut impl FnMut(String)) {
    let (left, right) = (x(panel, 0.0), x(panel, PERCENT_MAX));
    let (top, bottom) = (PANEL_TOP, PANEL_TOP + PANEL_HEIGHT);
    line(text(f64::midpoint(left, right), top - 12.0, "middle", 14, &format!("t = {servers}")));
    for tick in PER_SECOND_TICKS {
        let at = y(f64::from(tick));
        line(format!("<path d=\"M{left:.1} {at:.1}H{right:.1}\" stroke=\"#ddd\"/>"));
        line(text(left - 6.0, at + 4.0, "end", 12, &tick.to_string()));
    }
    for tick in PERCENT_TICKS {
        let at = x(panel, f64::from(tick));
        line(format!("<path d=\"M{at:.1} {bottom:.1}v5\" stroke=\"black\"/>"));
        line(text(at, bottom + 18.0, "middle", 12, &tick.to_string()));
    }
    line(format!("<path d=\"M{left:.1} {top:.1}V{bottom:.1}H{right:.1}\" fill=\"none\" stroke=\"black\"/>"));
    line(text(f64::midpoint(left, right), bottom + 36.0, "middle", 12, "updates (% of requests)"));
    let (at, middle) = (left - 46.0, f64::midpoint(top, bottom));
    line(format!(
        "<text transform=\"translate({at:.1} {middle:.1}) rotate(-90)\" text-anchor=\"middle\">requests per second</text>"
    ));
}

fn legend(line: &mut impl FnMut(String)) {
    for (index, system) in System::ALL.into_iter().enumerate() {
        let left = WIDTH / 2.0 - 260.0 + index as f64 * 140.0;
        let at = HEIGHT - 38.0;
        line(polyline(system, &format!("{left:.1},{at:.1} {:.1},{at:.1}", left + 34.0)));
        line(text(left + 42.0, at + 4.0, "start", 12, system.name()));
    }
}

fn point(panel: usize, percent: f64, per_second: f64) -> String {
    format!("{:.1},{:.1}", x(panel, percent), y(per_second))
}

fn polyline(system: System, points: &str) -> String {
    let (colour, dashes) = style(system);
    format!(
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>"
    )
}

/// An SVG document, given what draws it line by line.
pub(crate) fn document(width: f64, height: f64, draw: impl FnOnce(&mut dyn FnMut(String))) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("strings take everything");
    line(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">"
    ));
    line(format!("<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>"));
    draw(&mut line);
    line(String::from("</svg>"));
    out
}

pub(crate) fn text(x: f64, y: f64, anchor: &str, size: u32, words: &str) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{words}</text>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_curve_is_drawn_within_its_panel() {
        let curves: Vec<_> = REPLICATION_FACTORS
            .into_iter()
            .flat_map(|servers| System::ALL.map(|system| (system, servers)))
            .map(|(system, servers)| Curve { system, servers, points: vec![(0, 5000.0), (50, 1.0)] })
            .collect();
        let drawn = svg(&curves);
        // One more of each in the legend.
        assert_eq!(drawn.matches("<polyline").count(), curves.len() + System::ALL.len());
        assert!(drawn.contains("points=\"75.0,70.0 365.0,360.0\""), "{drawn}");
        assert!(drawn.contains("requests per second") && drawn.contains("updates (% of requests)"));
    }
}
