//! Documents that name what is there: links that lead somewhere, paths that exist, and a word on every golden script.

use super::{Document, Finding};

/// Words in backticks that begin so are paths of the repository.
const FOLDERS: [&str; 8] = ["crates/", "docs/", "clients/", "packaging/", "scripts/", "xtask/", ".ci/", ".cargo/"];
/// The scripts of protocol `p` are in the folder `p` of this, and are named in docs/protocols/p.md.
const SCRIPTS: &str = "crates/protocol/tests/scripts/";

pub(crate) fn check(documents: &[Document]) -> Vec<Finding> {
    let exists = |path: &str| {
        let folder = format!("{}/", path.trim_end_matches('/'));
        documents.iter().any(|document| document.path == path || document.path.starts_with(&folder))
    };
    let pages = documents.iter().filter(|document| document.path.ends_with(".md"));
    let mut findings: Vec<Finding> = pages.flat_map(|page| check_page(page, &exists)).collect();
    findings.extend(check_scripts(documents));
    findings
}

fn check_page(page: &Document, exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in page.text.lines().enumerate() {
        for target in links(line) {
            if !exists(&resolve(&page.path, target)) {
                findings.push(Finding::new(&page.path, index + 1, format!("the link leads nowhere: {target}")));
            }
        }
        for path in paths(line) {
            if !exists(path) {
                findings.push(Finding::new(&page.path, index + 1, format!("there is no {path}")));
            }
        }
    }
    findings
}

fn check_scripts(documents: &[Document]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for script in documents {
        let Some((protocol, file)) = script.path.strip_prefix(SCRIPTS).and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        let name = file.trim_end_matches(".txt");
        let page = format!("docs/protocols/{protocol}.md");
        let text = documents.iter().find(|document| document.path == page).map_or("", |page| page.text.as_str());
        if !text.contains(&format!("`{name}`")) {
            findings.push(Finding::new(&script.path, 1, format!("{page} does not say what `{name}` shows")));
        }
    }
    findings
}

/// The targets of a line's links into this repository, without fragments.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let local = targets.filter(|target| !target.contains("://") && !target.starts_with(['#', '<']));
    local.map(|target| target.split_once('#').map_or(target, |(path, _)| path))
}

/// Paths of the repository between backticks. Patterns and commands are none.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|word| FOLDERS.iter().any(|folder| word.starts_with(folder)) && !word.contains(['*', '{', ' ', '<']))
}

/// `target` as seen from the folder of `page`.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(path: &str, text: &str) -> Document {
        Document { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn links_are_followed_from_where_they_stand() {
        let page = document("docs/a/b.md", "[c](../c.md#x) and [d](e.md), [out](https://example.org), [here](#x)\n");
        let findings = check(&[page, document("docs/c.md", "")]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].to_string(), "docs/a/b.md:1: the link leads nowhere: e.md");
    }

    #[test]
    fn paths_in_backticks_exist() {
        let page = document("README.md", "`crates/x/src` `crates/y` `docs/*.md` `.ci/run` `QUORATE STATUS`\n");
        let findings = check(&[page, document("crates/x/src/lib.rs", ""), document(".ci/run", "")]);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].message, "there is no crates/y");
    }

    #[test]
    fn every_script_is_named_on_its_protocols_page() {
        let scripts =
            [document("crates/protocol/tests/scripts/paxos/a_write.txt", ""), document("docs/protocols/paxos.md", "")];
        assert_eq!(check(&scripts).len(), 1);
        let named = [
            document("crates/protocol/tests/scripts/paxos/a_write.txt", ""),
            document("docs/protocols/paxos.md", "`a_write`"),
        ];
        assert!(check(&named).is_empty());
    }
}
