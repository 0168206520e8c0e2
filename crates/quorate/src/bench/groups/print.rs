//! The rows, for people.

use quorate_node::status::OwnGroupsStatus;

use super::super::cluster::{NodeGroups, NodeIdle, NodeMemory};
use super::super::{HEADER, line, pairs};
use super::create::Created;
use super::{Figures, Woken};
use crate::output::{align_right, say, size, table, trimmed};

pub(super) fn figures(groups: u64, figures: &Figures) {
    match figures {
        Figures::Creation(created) => say(creation(groups, created)),
        Figures::Memory { settled_s, at_rest, groups: of_groups, objects } => {
            say(format_args!("Memory of {groups} groups at rest, {settled_s} s after they were made"));
            say(memory(&[("group", of_groups), ("object in a volume", objects)]));
            at_rest.iter().map(places).for_each(say);
        }
        Figures::Record { nodes } => {
            say(format_args!("Memory of the records of {groups} groups, at nodes that are no members of theirs"));
            say(memory(&[("record", nodes)]));
        }
        Figures::Idle { seconds, before, with_groups } => {
            say(format_args!("Processor time of idle nodes over {seconds} s, in percent of a core"));
            say(idle(before, with_groups));
        }
        Figures::Busy { compared } => {
            say(format_args!("One busy group, beside {groups} idle ones and alone"));
            pairs::print(compared, "group", "the first to the other");
        }
        Figures::Active { compared } => {
            say(format_args!("{groups} keys written in turn"));
            pairs::print(compared, "keys in", "own groups to the others");
        }
        Figures::Paused { settled_s, loads } => {
            say(format_args!("Groups asked once each, after {settled_s} s of rest"));
            say(HEADER);
            for Woken { at_rest, row } in loads {
                say(line(row));
                at_rest.iter().map(places).for_each(say);
            }
        }
    }
    say("");
}

fn places(NodeGroups { node, groups }: &NodeGroups) -> String {
    let OwnGroupsStatus { active, idle, idle_bytes, paused, .. } = groups;
    let held = size(*idle_bytes);
    format!(
        "  before that, {node}: {active} groups active, {idle} idle in memory ({held}), {paused} in the checkpoint store only"
    )
}

fn creation(groups: u64, created: &Created) -> String {
    let Created { batch, batches_at_once, seconds, groups_per_s, batch_p50_ms, batch_max_ms, .. } = created;
    let cpu = created.cpu_us_per_group.map_or_else(|| "-".to_owned(), |us| format!("{us:.2} us"));
    format!(
        "Creation of {groups} groups, {batch} a batch, {batches_at_once} batches at once\n\
         {seconds:.2} s, {groups_per_s:.0} groups/s, CPU {cpu} a group; a batch {batch_p50_ms:.0} ms (median), \
         {batch_max_ms:.0} ms (longest)"
    )
}

fn memory(parts: &[(&str, &Vec<NodeMemory>)]) -> String {
    let mut lines = table(&["node", "of a", "before", "after", "bytes each"]);
    for (what, nodes) in parts {
        for node in *nodes {
            lines.add_row([
                node.node.clone(),
                (*what).to_owned(),
                size(node.before_bytes),
                size(node.after_bytes),
                format!("{:.1}", node.bytes_each),
            ]);
        }
    }
    align_right(&mut lines, 2..5);
    trimmed(lines)
}

fn idle(before: &[NodeIdle], with_groups: &[NodeIdle]) -> String {
    let told = |idle: &NodeIdle| idle.cpu_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.2}"));
    let mut lines = table(&["node", "before", "with the groups"]);
    for (before, with_groups) in before.iter().zip(with_groups) {
        lines.add_row([before.node.clone(), told(before), told(with_groups)]);
    }
    align_right(&mut lines, 1..3);
    trimmed(lines)
}
