//! Figures 1 and 2 side by side, as an SVG document.

use super::{Bar, CLIENTS, HANDLE_NS, Keys, MESSAGE_NS, System, Workload, paper};
use crate::plot::{document, text};
use crate::qopt::plot::Panel;

const WIDTH: f64 = 1140.0;
const HEIGHT: f64 = 460.0;
const BAR_WIDTH: f64 = 26.0;

/// Colours that people with any colour vision tell apart.
fn colour(system: System) -> &'static str {
    match system {
        System::Leader => "#999",
        System::Quorum => "#d55e00",
        System::Routed { routers: 1 } => "#0072b2",
        System::Routed { .. } => "#56b4e9",
    }
}

/// The [`figures`](super::figures) of one number of replicas.
pub fn svg(bars: &[Bar]) -> String {
    let replicas = bars.first().map_or(0, |bar| bar.experiment.replicas);
    document(WIDTH, HEIGHT, |mut line| {
        for (index, keys) in Keys::ALL.into_iter().enumerate() {
            let panel = Panel { left: 70.0 + index as f64 * 550.0, width: 480.0, x_max: 3.0, y_max: 5.0 };
            let title = format!("{replicas} replicas, {} keys", keys.name());
            line(text(panel.x(1.5), 24.0, "middle", 15, &title));
            let y_name = "throughput, as a multiple of all reads at the leader";
            panel.axes(&[], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], "workload", y_name, &mut line);
            for (place, workload) in Workload::ALL.into_iter().enumerate() {
                let of_group = |bar: &&Bar| bar.experiment.keys == keys && bar.experiment.workload == workload;
                group(&panel, place, workload, bars.iter().filter(of_group), &mut line);
            }
        }
        legend(&mut line);
        line(text(
            WIDTH / 2.0,
            HEIGHT - 10.0,
            "middle",
            11,
            &format!(
                "Simulated by quorate lab flair-throughput, after Takruri and others (2020), figures 1 and 2 of the technical report: \
                 {} clients, message {} µs, handling one {} µs.",
                bars.first().map_or(CLIENTS, |bar| bar.experiment.clients),
                MESSAGE_NS / 1000,
                HANDLE_NS / 1000
            ),
        ));
    })
}

fn group<'a>(
    panel: &Panel,
    place: usize,
    workload: Workload,
    bars: impl Iterator<Item = &'a Bar>,
    line: &mut impl FnMut(String),
) {
    let middle = panel.x(place as f64 + 0.5);
    let name = format!("{} ({} % writes)", workload.name(), workload.write_percent());
    line(text(middle, panel.y(0.0) + 18.0, "middle", 12, &name));
    for (index, bar) in bars.enumerate() {
        let left = middle + (index as f64 - 2.0) * (BAR_WIDTH + 4.0) + 2.0;
        let (top, colour) = (panel.y(bar.relative), colour(bar.experiment.system));
        let height = panel.y(0.0) - top;
        line(format!(
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{BAR_WIDTH}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        ));
        let said = paper(&bar.experiment).relative.map(|said| panel.y(said));
        if let Some(at) = said {
            let (left, right) = (left - 3.0, left + BAR_WIDTH + 3.0);
            line(format!("<path d=\"M{left:.1} {at:.1}H{right:.1}\" stroke=\"black\" stroke-width=\"2\"/>"));
        }
        let above = said.map_or(top, |at| at.min(top)) - 4.0;
        line(text(left + BAR_WIDTH / 2.0, above, "middle", 10, &format!("{:.2}", bar.relative)));
    }
}

fn legend(line: &mut impl FnMut(String)) {
    let at = HEIGHT - 38.0;
    for (index, system) in System::ALL.into_iter().enumerate() {
        let left = 240.0 + index as f64 * 135.0;
        line(format!(
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{}\"/>",
            at - 6.0,
            colour(system)
        ));
        line(text(left + 18.0, at + 4.0, "start", 12, system.name()));
    }
    let left = 240.0 + 4.0 * 135.0;
    line(format!("<path d=\"M{left:.1} {at:.1}h30\" stroke=\"black\" stroke-width=\"2\"/>"));
    line(text(left + 36.0, at + 4.0, "start", 12, "the paper's, where told"));
}
