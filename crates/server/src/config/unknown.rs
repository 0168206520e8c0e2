//! Finds keys of a configuration that the example does not have.

use toml::Table;
use toml::de::{DeTable, DeValue};

use super::Config;

pub(super) struct Unknown {
    /// With the tables it is in, as in `timing.hartbeat_ms`.
    pub(super) key: String,
    /// Where in the text it stands.
    pub(super) start: usize,
    /// The known key most like it, if it is so like it that it may have been meant.
    pub(super) nearest: Option<String>,
}

/// The first unknown key.
pub(super) fn find(table: &DeTable<'_>) -> Option<Unknown> {
    let known: Table = toml::from_str(Config::EXAMPLE).expect("the example is valid TOML, as a test shows");
    let (key, start) = find_in(table, &known, "")?;
    let mut known_keys = Vec::new();
    list_keys(&known, "", &mut known_keys);
    let near = known_keys.into_iter().filter(|known| is_near(&key, known));
    let nearest = near.min_by_key(|known| unlikeness(&key, known));
    Some(Unknown { key, start, nearest })
}

fn find_in(table: &DeTable<'_>, known: &Table, prefix: &str) -> Option<(String, usize)> {
    // Tables keep their keys by name; the first unknown one is the first in the file.
    let found = table.iter().filter_map(|(key, value)| {
        let path = format!("{prefix}{}", key.get_ref());
        let Some(known) = known.get(key.get_ref().as_ref()) else {
            return Some((path, key.span().start));
        };
        let known = tables_of(known).first().copied()?;
        let path = format!("{path}.");
        match value.get_ref() {
            DeValue::Table(table) => find_in(table, known, &path),
            DeValue::Array(values) => {
                let mut tables = values.iter().filter_map(|value| value.get_ref().as_table());
                tables.find_map(|table| find_in(table, known, &path))
            }
            _ => None,
        }
    });
    found.min_by_key(|(_, start)| *start)
}

fn list_keys(table: &Table, prefix: &str, keys: &mut Vec<String>) {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        if let Some(table) = tables_of(value).first() {
            list_keys(table, &format!("{path}."), keys);
        }
        keys.push(path);
    }
}

/// The tables a value consists of: itself, or those of the list that it is.
fn tables_of(value: &toml::Value) -> Vec<&Table> {
    match value {
        toml::Value::Table(table) => vec![table],
        toml::Value::Array(values) => values.iter().filter_map(toml::Value::as_table).collect(),
        _ => Vec::new(),
    }
}

/// Of keys that are near: those of the same table first, then by the last word's likeness.
fn unlikeness(unknown: &str, known: &str) -> (bool, usize, usize) {
    let is_elsewhere = table_of(unknown) != table_of(known);
    (is_elsewhere, edit_distance(last_word(unknown), last_word(known)), edit_distance(unknown, known))
}

fn table_of(path: &str) -> Option<&str> {
    path.rsplit_once('.').map(|(table, _)| table)
}

/// A slip of the fingers, or a word that lacks its unit: any two short words are a few characters apart.
fn is_near(unknown: &str, known: &str) -> bool {
    let (unknown, known) = (last_word(unknown), last_word(known));
    edit_distance(unknown, known) <= (unknown.chars().count() / 3).max(1)
}

fn last_word(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or_default()
}

/// How many characters must be inserted, removed or replaced to turn one word into the other.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &r) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(l != r);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_insertions_removals_and_replacements() {
        assert_eq!(edit_distance("lease", "lease"), 0);
        assert_eq!(edit_distance("hartbeat", "heartbeat"), 1);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }

    #[test]
    fn only_what_may_have_been_meant_is_near() {
        assert!(is_near("timing.hartbeat_ms", "timing.heartbeat_ms"));
        assert!(is_near("timing.heartbeat", "timing.heartbeat_ms"));
        assert!(is_near("log.timeout_ms", "timing.timeout_ms"));
        assert!(!is_near("cluster.foo", "log") && !is_near("limits.port", "listen.peer"));
    }
}
