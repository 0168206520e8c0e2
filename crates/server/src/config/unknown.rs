//! Finds keys of a configuration that the example does not have.

use toml::{Table, Value};

use super::Config;

/// The first unknown key, and the known key most like it, both with the tables they are in.
pub(super) fn find(table: &Table) -> Option<(String, String)> {
    let known: Table = toml::from_str(Config::EXAMPLE).expect("the example is valid TOML, as a test shows");
    let unknown = find_in(table, &known, "")?;
    let mut known_keys = Vec::new();
    list_keys(&known, "", &mut known_keys);
    let nearest = known_keys.into_iter().min_by_key(|key| unlikeness(&unknown, key))?;
    Some((unknown, nearest))
}

fn find_in(table: &Table, known: &Table, prefix: &str) -> Option<String> {
    table.iter().find_map(|(key, value)| {
        let path = format!("{prefix}{key}");
        let Some(known) = known.get(key) else {
            return Some(path);
        };
        match (tables_of(value), tables_of(known).first()) {
            (tables, Some(known)) => tables.iter().find_map(|table| find_in(table, known, &format!("{path}."))),
            (_, None) => None,
        }
    })
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
fn tables_of(value: &Value) -> Vec<&Table> {
    match value {
        Value::Table(table) => vec![table],
        Value::Array(values) => values.iter().filter_map(Value::as_table).collect(),
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
