//! Standard output and error, without panics when nobody reads them.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use quorate_resp::Value;

/// Makes a closed pipe end the program as it ends others, for commands that have nothing left to do then.
///
/// Not for `up` and `node`, which others depend on whether or not somebody watches.
pub(crate) fn end_quietly_when_nobody_reads() {
    // SAFETY: restores a default disposition before any thread is started.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// A line on standard output; lost if that is closed.
pub(crate) fn say(line: impl Display) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// A line on standard error; lost if that is closed.
pub(crate) fn complain(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "quorate: {line}");
}

/// The pairs of a map, which in RESP2 is an array of names and values in turn.
pub(crate) fn fields(entry: &Value) -> Vec<(String, String)> {
    match entry {
        Value::Map(pairs) => pairs.iter().map(|(name, value)| (text(name), text(value))).collect(),
        Value::Array(flat) => flat.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
        _ => Vec::new(),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Simple(text) | Value::Error(text) => text.clone(),
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Array(list) if list.iter().any(|entry| matches!(entry, Value::Map(_) | Value::Array(_))) => {
            list.iter().map(|entry| format!("\n    {}", on_a_line(entry))).collect()
        }
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(", "),
        other => format!("{other:?}"),
    }
}

/// An entry of a list: `node n1, state idle`.
fn on_a_line(entry: &Value) -> String {
    let pairs = fields(entry).into_iter().map(|(name, value)| format!("{name} {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

/// A table without lines, as other tools on a terminal print it.
pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header(header.iter().map(|name| name.to_uppercase()));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

pub(crate) fn align_right(table: &mut Table, columns: impl IntoIterator<Item = usize>) {
    for index in columns {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// `bytes` with a unit that a person reads at a glance.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{scaled:.1} {}", UNITS[unit]) }
}

/// A duration as its two largest units.
pub(crate) fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// A path as it is given to a shell: quoted if it holds anything that a shell might read as something else.
pub(crate) fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// `lines` without the spaces that pad a table's last column.
pub(crate) fn trimmed(lines: impl Display) -> String {
    let trimmed: Vec<String> = lines.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    trimmed.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_quoted_where_a_shell_would_not_take_it_as_it_is() {
        let word = |text: &str| shell_word(Path::new(text));
        assert_eq!(word("/tmp/node-1/node.toml"), "/tmp/node-1/node.toml");
        assert_eq!(word("/tmp/ü/node.toml"), "/tmp/ü/node.toml");
        assert_eq!(word("/tmp/nc dir/node.toml"), "'/tmp/nc dir/node.toml'");
        assert_eq!(word("it's"), "'it'\\''s'");
        assert_eq!(word(""), "''");
    }

    #[test]
    fn sizes_and_durations_are_read_at_a_glance() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(5 << 40), "5.0 TiB");
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(61), "1 min 1 s");
        assert_eq!(duration(3 * 3600 + 125), "3 h 2 min");
        assert_eq!(duration(90_000), "1 d 1 h");
    }
}
