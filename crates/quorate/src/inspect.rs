//! `quorate inspect`: what the data directory of a stopped node holds, and whether it is whole.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quorate_server::inspect::{Details, GroupFacts, Inspection, inspect};

use crate::failure::{Context, Failure};
use crate::output::{align_right, complain, say, size, table, trimmed};

/// Check and show the data directory of a stopped node
///
/// Reads all of the log and of the checkpoints and changes nothing; the checkpoint store is copied to the directory for
/// temporary files (TMPDIR) to be read. The exit status is 1 if anything is damaged or a replica is silent.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The node's data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// List every record of the log, one a line
    #[arg(long, conflicts_with = "json")]
    log: bool,
    /// List what the checkpoints hold, one object a line
    #[arg(long, conflicts_with = "json")]
    checkpoints: bool,
    /// Only this group
    #[arg(long, value_name = "NUMBER")]
    group: Option<u64>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let details = Details { log: options.log, checkpoints: options.checkpoints, group: options.group };
    let mut found = inspect(&options.directory, details, say)?;
    if let Some(group) = options.group {
        found.groups.retain(|&number, _| number == group);
    }
    if options.json {
        say(serde_json::to_string_pretty(&found).context("cannot print what was found")?);
    } else {
        say(render(&found));
    }
    if let Some(number) = options.group.filter(|_| found.groups.is_empty()) {
        complain(format_args!("there is no group {number} in {}, as far as can be read", found.path));
    }
    Ok(if found.damage.is_empty() && found.silent_replicas == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn render(found: &Inspection) -> String {
    let parts = [identity(found), log(found), segments(found), groups(found), damage(found)];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<String>>().join("\n\n")
}

fn identity(found: &Inspection) -> String {
    let Some(identity) = &found.identity else {
        return format!("{}: nobody can tell whose data these are", found.path);
    };
    let end = if identity.stopped_cleanly { "stopped cleanly" } else { "not stopped cleanly" };
    let starts = if identity.starts == 1 { "once".to_owned() } else { format!("{} times", identity.starts) };
    let directory = match identity.directory {
        1 => String::new(),
        later => format!(", directory {later} of it"),
    };
    let new = if identity.is_new { ", new: not all other nodes have accepted it" } else { "" };
    format!(
        "{}: node {} of cluster {}{directory}, incarnation {}, started {starts}, {end}{new}",
        found.path, identity.node, identity.cluster, identity.incarnation
    )
}

fn log(found: &Inspection) -> String {
    let log = &found.log;
    let torn = match log.torn_bytes {
        0 => String::new(),
        bytes => format!("; {} at its end were never acknowledged", size(bytes)),
    };
    format!("log: {} records in {} blocks{torn}", log.records, log.blocks)
}

fn segments(found: &Inspection) -> String {
    if found.log.segments.is_empty() {
        return String::new();
    }
    let mut table =
        table(&["segment", "size", "first block at", "last block at", "blocks", "records", "bytes", "groups", "live"]);
    let offset = |offset: Option<u64>| offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
    for segment in &found.log.segments {
        table.add_row([
            segment.segment.to_string(),
            size(segment.bytes),
            offset(segment.first),
            offset(segment.last),
            segment.blocks.to_string(),
            segment.records.to_string(),
            size(segment.record_bytes),
            segment.groups.to_string(),
            size(segment.live_bytes),
        ]);
    }
    align_right(&mut table, 0..9);
    trimmed(table)
}

fn groups(found: &Inspection) -> String {
    if found.groups.is_empty() {
        return String::new();
    }
    let header = [
        "group",
        "namespace",
        "durability",
        "epoch",
        "members",
        "promised",
        "checkpoint",
        "objects",
        "bytes",
        "log",
        "last slot",
        "state",
    ];
    let mut table = table(&header);
    for (number, group) in &found.groups {
        table.add_row(group_row(*number, group, found.store_is_read));
    }
    align_right(&mut table, [0, 3, 6, 7, 8, 9, 10]);
    trimmed(table)
}

fn group_row(number: u64, group: &GroupFacts, store_is_read: bool) -> Vec<String> {
    let none = || "-".to_owned();
    let checkpoint = group.checkpoint.as_ref();
    let of = |text: Option<String>| text.unwrap_or_else(none);
    let namespace = |namespace: u32| if namespace == u32::MAX { "root".to_owned() } else { namespace.to_string() };
    let members = |members: &[u32]| members.iter().map(u32::to_string).collect::<Vec<String>>().join(",");
    let state = match checkpoint {
        Some(checkpoint) => checkpoint.silent.unwrap_or("alive"),
        None if store_is_read => "dropped",
        None => "unknown",
    };
    vec![
        number.to_string(),
        of(checkpoint.map(|checkpoint| namespace(checkpoint.namespace))),
        of(checkpoint.map(|checkpoint| checkpoint.durability.to_owned())),
        of(checkpoint.map(|checkpoint| checkpoint.epoch.to_string())),
        of(checkpoint.map(|checkpoint| members(&checkpoint.members))),
        of(group.promised.clone()),
        of(checkpoint.map(|checkpoint| checkpoint.next_slot.to_string())),
        of(checkpoint.map(|checkpoint| checkpoint.objects.to_string())),
        of(checkpoint.map(|checkpoint| size(checkpoint.bytes))),
        group.log_records.to_string(),
        of(group.slot_last.map(|slot| slot.to_string())),
        state.to_owned(),
    ]
}

fn damage(found: &Inspection) -> String {
    let mut lines: Vec<String> = found.damage.iter().map(|damage| format!("DAMAGE {damage}")).collect();
    let made_out = &found.log.groups_made_out;
    if !made_out.is_empty() {
        let groups: Vec<String> = made_out.iter().map(u64::to_string).collect();
        lines.push(format!("records that can be made out there are of the groups {}", groups.join(", ")));
    }
    // Also once what was damaged is gone from the log.
    let why = "neither votes nor serves, since it may have forgotten what it promised";
    match found.silent_replicas {
        0 => {}
        1 => lines.push(format!("1 replica is silent: it {why}")),
        count => lines.push(format!("{count} replicas are silent: each {why}")),
    }
    if lines.is_empty() { "no damage".to_owned() } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_replicas_are_counted_where_nothing_is_damaged_any_more() {
        let told = |silent_replicas| damage(&Inspection { silent_replicas, ..Inspection::default() });
        assert_eq!(told(0), "no damage");
        assert!(told(1).starts_with("1 replica is silent: it neither votes"), "{}", told(1));
        assert!(told(2).starts_with("2 replicas are silent: each neither votes"), "{}", told(2));
    }
}
