//! The experiments on registers: Rollup's messages, and Q-Opt's changes of quorum sizes.

use std::path::PathBuf;

use clap::Args;
use quorate_lab::qopt::{self, BUCKET_US, Bulk, CHANGES, Change, OBJECTS, READ_PERCENT};
use quorate_lab::rollup::{
    Counted, Distinct, GRANULARITIES, Phases, Reach, SERVERS, Upgrade, formula, formula_of_upgrade, upgrade,
};
use serde_json::{Value, json};

use super::draw;
use crate::failure::Failure;
use crate::output::{align_right, say, table, trimmed};

/// Messages of a rolling upgrade of 25 servers (section V-A of the Rollup paper)
///
/// The paper's formula; the same with as many distinct servers as two rows and two columns hold; and what registers send
/// that decide their configurations by themselves, speaking to two quorums of each kind as in the paper, or to one. Counted
/// as the paper does: questions of the three phases without their answers, messages to oneself included. The rest, answers
/// and what retires the old configuration, stands beside it.
#[derive(Debug, Args)]
pub(super) struct MessagesOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How long a change of quorum sizes takes, and what clients notice of it (figures 7 and 8 of the Q-Opt paper)
///
/// Five registers, their disks and a network, simulated with latencies of our own. Figure 7 by the number of clients, of whose
/// operations half read; in figure 8 all write quorums grow from 1 to 5 under 150 clients that read 95 times of 100.
///
#[derive(Debug, Args)]
pub(super) struct ReconfigurationOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also draw both figures into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Objects of figure 8
    #[arg(long, default_value_t = OBJECTS, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    objects: u64,
    /// Where the clients' choices come from
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=u64::from(u32::MAX)))]
    seed: u64,
}

const FIGURE_8_CLIENTS: usize = 150;

const NAMES: [&str; 3] = ["first", "each following", "last"];

/// What the formula says, and what was counted, of one granularity.
struct Compared {
    granularity: usize,
    twofold: Upgrade,
    preferred: Upgrade,
}

impl Compared {
    fn new(granularity: usize) -> Compared {
        let of = |reach| upgrade(SERVERS, granularity, reach);
        Compared { granularity, twofold: of(Reach::Twofold), preferred: of(Reach::Preferred) }
    }

    /// The first reconfiguration, the second and the last. Those between are alike.
    fn steps(&self) -> [(&'static str, [usize; 2], Counted, Counted); 3] {
        let between = SERVERS - self.granularity;
        let sizes = [[SERVERS, between], [between, between], [between, SERVERS]];
        let last = self.twofold.reconfigurations.len() - 1;
        let numbers = [0, 1, last];
        std::array::from_fn(|step| {
            let of = |upgrade: &Upgrade| upgrade.reconfigurations[numbers[step]];
            (NAMES[step], sizes[step], of(&self.twofold), of(&self.preferred))
        })
    }
}

pub(super) fn rollup_messages(options: &MessagesOptions) {
    let all = GRANULARITIES.map(Compared::new);
    if options.json {
        say(format!(
            "{:#}",
            json!({
                "source": "Gramoli, Bass, Fekete and Sun (2016), section V-A",
                "servers": SERVERS,
                "upgrades": all.iter().map(upgrade_json).collect::<Vec<_>>(),
            })
        ));
        return;
    }
    for compared in &all {
        say(format!("n = {SERVERS}, g = {}: messages of each reconfiguration", compared.granularity));
        let header =
            ["", "servers", "paper", "corrected", "registers, twofold", "rest", "registers, preferred", "rest"];
        let mut rows = table(&header);
        for (name, [before, after], twofold, preferred) in compared.steps() {
            let [paper, corrected] = formulas(before, after).map(|phases| phases.total().to_string());
            let servers = format!("{before} to {after}");
            rows.add_row(
                [name, &servers, &paper, &corrected].map(String::from).into_iter().chain(counted(twofold, preferred)),
            );
        }
        let [paper, corrected] = totals(compared.granularity).map(|total| total.to_string());
        let sums = counted(compared.twofold.total(), compared.preferred.total());
        rows.add_row(["all", "", &paper, &corrected].map(String::from).into_iter().chain(sums));
        align_right(&mut rows, 2..=7);
        say(trimmed(rows));
        say("");
    }
    say(
        "after Gramoli, Bass, Fekete and Sun (2016), section V-A, which counts 18 and 14 distinct servers in two rows and two",
    );
    say(
        "columns of 5 and of 4; there are 16 and 12. Rest: answers, and what moves state and retires the old configuration",
    );
}

fn counted(twofold: Counted, preferred: Counted) -> [String; 4] {
    [twofold.phases.total(), twofold.rest, preferred.phases.total(), preferred.rest].map(|count| count.to_string())
}

fn formulas(before: usize, after: usize) -> [Phases; 2] {
    [Distinct::AsInThePaper, Distinct::Corrected].map(|distinct| formula(before, after, distinct))
}

fn totals(granularity: usize) -> [u64; 2] {
    [Distinct::AsInThePaper, Distinct::Corrected].map(|distinct| formula_of_upgrade(SERVERS, granularity, distinct))
}

fn upgrade_json(compared: &Compared) -> Value {
    let phases = |phases: Phases| {
        let Phases { prepare, propose, propagate } = phases;
        json!({ "prepare": prepare, "propose": propose, "propagate": propagate, "total": phases.total() })
    };
    let counted =
        |counted: Counted| json!({ "phases": phases(counted.phases), "rest": counted.rest, "to_oneself": counted.own });
    let step = |(name, [before, after], twofold, preferred): (&str, [usize; 2], Counted, Counted)| {
        let [paper, corrected] = formulas(before, after).map(phases);
        json!({
            "reconfiguration": name,
            "servers_before": before,
            "servers_after": after,
            "paper": paper,
            "corrected": corrected,
            "registers_twofold": counted(twofold),
            "registers_preferred": counted(preferred),
        })
    };
    let [paper, corrected] = totals(compared.granularity);
    json!({
        "granularity": compared.granularity,
        "reconfigurations": compared.twofold.reconfigurations.len(),
        "steps": compared.steps().into_iter().map(step).collect::<Vec<_>>(),
        "paper": paper,
        "corrected": corrected,
        "registers_twofold": counted(compared.twofold.total()),
        "registers_preferred": counted(compared.preferred.total()),
    })
}

pub(super) fn qopt_reconfiguration(options: &ReconfigurationOptions) -> Result<(), Failure> {
    let changes = qopt::figure_7(OBJECTS / 20, options.seed);
    let bulk = qopt::figure_8(FIGURE_8_CLIENTS, options.objects, options.seed);
    if let Some(path) = &options.svg {
        draw(path, &qopt::plot::svg(&changes, &bulk))?;
    }
    if options.json {
        say(format!("{:#}", reconfiguration_json(options, &changes, &bulk)));
        return Ok(());
    }
    let ms = |us: u64| format!("{:.1}", us as f64 / 1000.0);
    let mut rows = table(&["clients", "operations/s", "shortest ms", "median ms", "longest ms"]);
    for change in &changes {
        let Change { clients, throughput, least_us, median_us, most_us } = *change;
        rows.add_row([clients.to_string(), format!("{throughput:.0}"), ms(least_us), ms(median_us), ms(most_us)]);
    }
    align_right(&mut rows, 0..=4);
    say(format!("figure 7: duration of {CHANGES} changes of quorum sizes; the paper stays below 15 ms"));
    say(trimmed(rows));
    let Bulk { clients, objects, changed_at_us, change_us, throughput, baseline } = &bulk;
    say(format!(
        "\nfigure 8: {clients} clients, {READ_PERCENT} % reads of {objects} objects; after {} s write quorums grow from 1 to 5,\n\
         which takes {} ms; {baseline:.0} operations a second if they had been so from the start",
        changed_at_us / 1_000_000,
        ms(*change_us)
    ));
    let mut rows = table(&["second", "operations/s"]);
    for (second, of_second) in throughput.chunks((1_000_000 / BUCKET_US) as usize).enumerate() {
        let mean = of_second.iter().sum::<f64>() / of_second.len() as f64;
        rows.add_row([format!("{second} to {}", second + 1), format!("{mean:.0}")]);
    }
    align_right(&mut rows, 0..=1);
    say(trimmed(rows));
    say("\nafter Couceiro and others (2015), section V-A, with latencies of our own");
    if let Some(path) = &options.svg {
        say(format!("drawn in {}", path.display()));
    }
    Ok(())
}

fn reconfiguration_json(options: &ReconfigurationOptions, changes: &[Change], bulk: &Bulk) -> Value {
    let change = |change: &Change| {
        json!({
            "clients": change.clients,
            "operations_per_second": change.throughput,
            "least_us": change.least_us,
            "median_us": change.median_us,
            "most_us": change.most_us,
        })
    };
    json!({
        "source": "Couceiro and others (2015), section V-A, figures 7 and 8",
        "seed": options.seed,
        "members": qopt::MEMBERS,
        "message_us": qopt::MESSAGE_US,
        "handle_us": qopt::HANDLE_US,
        "sync_us": qopt::SYNC_US,
        "figure_7": { "changes": CHANGES, "points": changes.iter().map(change).collect::<Vec<_>>() },
        "figure_8": {
            "clients": bulk.clients,
            "objects": bulk.objects,
            "read_percent": READ_PERCENT,
            "changed_at_us": bulk.changed_at_us,
            "change_us": bulk.change_us,
            "bucket_us": BUCKET_US,
            "operations_per_second": bulk.throughput,
            "operations_per_second_from_the_start": bulk.baseline,
        },
    })
}
