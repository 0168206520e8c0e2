//! Finds keys of a configuration that the example does not have.

use toml::Table;
use toml::de::{DeTable, DeValue};

use super::Config;

pub(super) struct Unknown {
    /// With the tables it is in, as in `timing.hartbeat_ms`.
    pub(super) key: String,
    /// Where in the text it stands.
    pub(super) start: usize,
    /// The known key most like it.
    pub(super) nearest: String,
}

/// The first unknown key.
pub(super) fn find(table: &DeTable<'_>) -> Option<Unknown> {
    let known: Table = toml::from_str(Config::EXAMPLE).expect("the example is valid TOML, as a test shows");
    let (key, start) = find_in(table, &known, "")?;
    let mut known_keys = Vec::new();
    list_keys(&known, "", &mut known_keys);
    let nearest = known_keys.into_iter().min_by_key(|known| unlikeness(&key, known))?;
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

/// Ordered by the last word's likeness first: a key is more often put into the wrong table than given another's name.
fn unlikeness(unknown: &str, known: &str) -> (usize, usize) {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    (edit_distance(&last(unknown), &last(known)), edit_distance(unknown, known))
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
}
