//! What a register group's quorums look like, for people.

use quorate_protocol::NodeId;
use quorate_protocol::quorum::QuorumSystem;
use quorate_protocol::register::Stage;

use super::Host;
use super::directory::Place;
use super::group::Group;
use crate::answer::AdminReply;
use crate::quorum::Quorum;

/// Half of the operations are taken for reads where a load is told: an even mix.
const READ_SHARE: f64 = 0.5;

impl Host {
    /// The configurations of a register group, each with its quorums, what it survives and what each member carries; and what
    /// the replica here holds.
    pub(super) fn show_register(&self, place: &Place, here: Option<&Group>, entries: &mut Vec<(String, AdminReply)>) {
        let replica = here.and_then(|group| group.replica.register());
        // The replica here may have heard of a change first.
        let known = replica.map(|replica| replica.core().stages()).filter(|stages| {
            let epoch = |stages: &[Stage]| stages.last().map(Stage::epoch);
            epoch(stages) >= epoch(&place.stages) && !stages.is_empty()
        });
        let stages = known.unwrap_or(&place.stages);
        let Some(newest) = stages.last() else { return };
        let text = |text: String| AdminReply::Text(text);
        let members = &newest.configuration.members;
        let quorum = newest.configuration.quorum;
        entries.push(("quorum".into(), text(Quorum::of_system(quorum).words())));
        if let Some((read, write)) = quorum.sizes(members.len()) {
            entries.push(("read_quorum".into(), AdminReply::Int(read as i64)));
            entries.push(("write_quorum".into(), AdminReply::Int(write as i64)));
        }
        if let QuorumSystem::Grid { columns, .. } = quorum {
            entries.push(("grid".into(), AdminReply::List(self.draw(members, usize::from(columns), quorum))));
        }
        let tolerance = quorum.tolerance(members.len());
        let fatal = (0..members.len()).filter(|at| tolerance.fatal & 1 << at != 0).map(|at| self.name_of(members[at]));
        entries.push(("survives_crashes".into(), AdminReply::Int(tolerance.crash_count as i64)));
        entries.push(("worst_crashes".into(), text(fatal.collect::<Vec<_>>().join(","))));
        let load = quorum.load(members.len(), READ_SHARE);
        entries.push(("load_highest".into(), text(format!("{:.3}", load.highest()))));
        entries.push(("load_optimum".into(), text(format!("{:.3}", load.optimum))));
        if let [oldest, newest] = stages {
            let names: Vec<String> = oldest.configuration.members.iter().map(|&node| self.name_of(node)).collect();
            entries.push(("moving_from".into(), text(names.join(","))));
            let what = if newest.moves() { "versions are moved" } else { "members are told" };
            entries
                .push(("moving".into(), text(format!("epoch {} to {}: {what}", oldest.epoch().0, newest.epoch().0))));
        }
        if let Some(replica) = replica {
            let status = replica.core().status();
            entries.push(("registers_here".into(), AdminReply::Int(status.key_count as i64)));
            entries.push(("tombstones_here".into(), AdminReply::Int(status.tombstone_count as i64)));
            entries.push(("operations_here".into(), AdminReply::Int(status.operation_count as i64)));
        }
    }

    /// A row a line; who is beyond the square, behind it.
    fn draw(&self, members: &[NodeId], columns: usize, quorum: QuorumSystem) -> Vec<AdminReply> {
        let inside = match quorum {
            QuorumSystem::Grid { rows, columns } => members.len().min(usize::from(rows) * usize::from(columns)),
            QuorumSystem::Majority | QuorumSystem::Threshold { .. } => members.len(),
        };
        let (grid, beyond) = members.split_at(inside);
        let names: Vec<String> = grid.iter().map(|&node| self.name_of(node)).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0);
        let row = |row: &[String]| {
            let line: Vec<String> = row.iter().map(|name| format!("{name:width$}")).collect();
            AdminReply::Text(line.join(" ").trim_end().to_owned())
        };
        let mut lines: Vec<AdminReply> = names.chunks(columns.max(1)).map(row).collect();
        if !beyond.is_empty() {
            let names: Vec<String> = beyond.iter().map(|&node| self.name_of(node)).collect();
            lines.push(AdminReply::Text(format!("in no quorum: {}", names.join(" "))));
        }
        lines
    }
}
