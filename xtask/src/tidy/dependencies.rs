//! Which crate may know which: the arrows of ARCHITECTURE.md, and a line of docs/decisions for everything that is not
//! ours.

use toml::Table;

use super::{Document, Finding};

const OURS: &str = "quorate-";
/// Where every dependency of others is explained.
const EXPLAINED_IN: &str = "docs/decisions/0009-dependencies.md";

/// Every crate with those of ours that it may depend on, also in its tests. What is not listed may depend on none.
const ARROWS: [(&str, &[&str]); 14] = [
    ("crates/protocol", &[]),
    ("crates/object", &[]),
    ("crates/resp", &[]),
    ("crates/wal", &[]),
    ("crates/checkpoint", &[]),
    ("crates/front", &["resp", "object"]),
    ("crates/node", &["protocol", "object", "wal", "checkpoint"]),
    ("crates/sim", &["node", "protocol", "object", "wal", "checkpoint"]),
    ("crates/control", &[]),
    ("crates/lab", &["protocol", "control"]),
    ("crates/server", &["node", "front", "protocol", "object", "wal", "checkpoint", "resp"]),
    ("crates/quorate", &["server", "sim", "lab", "control", "node", "resp"]),
    ("fuzz", &["server", "node", "resp", "protocol", "object", "wal"]),
    ("xtask", &[]),
];

/// Crates that depend on nothing that is not ours, whatever is explained.
const WITHOUT_OTHERS: [&str; 3] = ["crates/protocol", "crates/resp", "crates/control"];

pub(crate) fn check(documents: &[Document]) -> Vec<Finding> {
    let manifests = documents.iter().filter(|document| document.path.ends_with("/Cargo.toml"));
    let mut findings: Vec<Finding> = manifests.flat_map(check_manifest).collect();
    let find = |path: &str| documents.iter().find(|document| document.path == path);
    if let Some(workspace) = find("Cargo.toml") {
        let explained = find(EXPLAINED_IN).map_or("", |document| document.text.as_str());
        findings.extend(check_explained(workspace, explained));
    }
    findings
}

fn check_manifest(manifest: &Document) -> Vec<Finding> {
    let path = manifest.path.as_str();
    let folder = path.trim_end_matches("/Cargo.toml");
    let table: Table = match manifest.text.parse() {
        Ok(table) => table,
        Err(error) => return vec![Finding::new(path, 1, format!("cannot be read: {}", error.message()))],
    };
    let Some((_, allowed)) = ARROWS.iter().find(|(crate_folder, _)| *crate_folder == folder) else {
        return vec![Finding::new(path, 1, "a crate that ARCHITECTURE.md and the table of dependencies do not know")];
    };
    let mut findings = Vec::new();
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let names = table.get(section).and_then(|section| section.as_table()).into_iter().flat_map(Table::keys);
        for name in names {
            let message = match name.strip_prefix(OURS) {
                Some(own) if allowed.contains(&own) => continue,
                Some(own) => {
                    format!("{folder} may not depend on {own}: the arrows of ARCHITECTURE.md point the other way")
                }
                None if WITHOUT_OTHERS.contains(&folder) && section == "dependencies" => {
                    format!("{folder} depends on nothing, and so not on {name}")
                }
                None => continue,
            };
            findings.push(Finding::new(path, line_of_key(&manifest.text, name), message));
        }
    }
    findings
}

fn check_explained(workspace: &Document, explained: &str) -> Vec<Finding> {
    let Ok(table) = workspace.text.parse::<Table>() else { return Vec::new() };
    let dependencies = table.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let names = dependencies.and_then(|section| section.as_table()).into_iter().flat_map(Table::keys);
    let unexplained = names.filter(|name| !name.starts_with(OURS) && !explained.contains(&format!("`{name}`")));
    unexplained
        .map(|name| {
            let message = format!("{name} is not explained in {EXPLAINED_IN}");
            Finding::new(&workspace.path, line_of_key(&workspace.text, name), message)
        })
        .collect()
}

/// The line on which a key of a TOML file is set.
fn line_of_key(text: &str, key: &str) -> usize {
    let sets = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with([' ', '.', '=']));
    text.lines().position(sets).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(folder: &str, text: &str) -> Document {
        Document { path: format!("{folder}/Cargo.toml"), text: text.to_owned() }
    }

    fn messages(folder: &str, text: &str) -> Vec<String> {
        check_manifest(&manifest(folder, text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn arrows_point_one_way() {
        let upwards = "[dependencies]\nserde.workspace = true\nquorate-node.workspace = true\n";
        let found = messages("crates/object", upwards);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/object/Cargo.toml:3: crates/object may not depend on node"), "{found:?}");
        assert!(messages("crates/sim", upwards).is_empty());
        assert_eq!(messages("crates/front", "[dev-dependencies]\nquorate-node = { path = \"x\" }\n").len(), 1);
    }

    #[test]
    fn the_protocols_depend_on_nothing() {
        assert_eq!(messages("crates/protocol", "[dependencies]\nserde = \"1\"\n").len(), 1);
        assert!(messages("crates/protocol", "[dev-dependencies]\nproptest = \"1\"\n").is_empty());
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(messages("crates/misc", "[package]\n").len(), 1);
    }

    #[test]
    fn every_dependency_is_explained() {
        let workspace = Document {
            path: "Cargo.toml".to_owned(),
            text: "[workspace.dependencies]\nquorate-wal = { path = \"x\" }\nmio = \"1\"\nslab = \"0.4\"\n".to_owned(),
        };
        let found = check_explained(&workspace, "| `mio` | sockets |");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 4);
    }
}
