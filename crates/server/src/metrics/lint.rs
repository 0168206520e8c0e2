//! What is exposed keeps the conventions of Prometheus: as far as they can be checked here, and by promtool.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{ApplicationFigures, Figures, PeerFigures};

fn exposition() -> String {
    let mut figures = Figures { node_name: "n1".into(), replicas: vec![("following", 1)], ..Figures::default() };
    figures.peers.push(PeerFigures { name: "a \"b\"\\".into(), is_suspected: true, is_absent: true, is_linked: false });
    figures.applications.push(ApplicationFigures { name: "stock".into(), ..ApplicationFigures::default() });
    figures.certificates.push(("ca", 1_900_000_000));
    figures.front.latencies[0].add(120);
    figures.flushes.add(70_000_000);
    figures.render()
}

struct Family<'t> {
    help: &'t str,
    kind: &'t str,
    samples: Vec<(&'t str, f64)>,
}

/// Panics where the text is not of families, each with its help and type before its samples.
fn families(text: &str) -> BTreeMap<&str, Family<'_>> {
    let mut families = BTreeMap::new();
    let mut current = "";
    let mut help = "";
    for line in text.lines() {
        if let Some((name, words)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            (current, help) = (name, words);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            assert_eq!(name, current, "the type follows the help");
            let twice = families.insert(name, Family { help, kind, samples: Vec::new() });
            assert!(twice.is_none(), "{name} is there twice");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a sample");
            let family = families.get_mut(current).expect("begun");
            let rest = series.strip_prefix(current).expect("samples of one family stand together");
            let suffix = rest.split('{').next().expect("a first part");
            let is_histogram = family.kind == "histogram";
            assert_eq!(is_histogram, ["_bucket", "_sum", "_count"].contains(&suffix), "{line}");
            family.samples.push((series, value.parse().expect("a number")));
        }
    }
    families
}

#[test]
fn names_types_and_units_keep_the_conventions() {
    let text = exposition();
    let families = families(&text);
    assert!(families.len() > 40, "{}", families.len());
    for (name, Family { help, kind, samples }) in &families {
        assert!(name.starts_with("quorate_") || name.starts_with("process_"), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(help.ends_with('.') && help.len() > 8, "{name}: {help}");
        assert_eq!(*kind == "counter", name.ends_with("_total"), "{name} is a {kind}");
        let of_other_units = ["_ms", "_us", "_milliseconds", "_microseconds", "_kilobytes", "_percent", "_count"];
        let bare = name.trim_end_matches("_total");
        assert!(!of_other_units.iter().any(|unit| bare.ends_with(unit)), "{name} is in no base unit");
        for (unit, word) in [("_seconds", "duration"), ("_seconds", "timestamp"), ("_bytes", "size")] {
            assert!(!bare.contains(word) || bare.ends_with(unit), "{name} has no unit");
        }
        assert!(!samples.is_empty(), "{name} has no samples");
    }
}

#[test]
fn histograms_are_cumulative_and_end_with_their_count() {
    let text = exposition();
    for (name, family) in families(&text).iter().filter(|(_, family)| family.kind == "histogram") {
        let mut last = 0.0;
        for (series, value) in &family.samples {
            if series.contains("_bucket{") {
                assert!(*value >= last, "{series}");
                last = if series.contains("le=\"+Inf\"") { 0.0 } else { *value };
            }
        }
        let of = |what: String| {
            let found = family.samples.iter().filter(|(series, _)| series.contains(&what));
            found.map(|(_, value)| *value).collect::<Vec<f64>>()
        };
        assert_eq!(of("le=\"+Inf\"".to_owned()), of(format!("{name}_count")), "{name}");
    }
}

const RULES: &str = include_str!("../../../../packaging/prometheus/quorate.rules.yml");

#[test]
fn reads_of_registers_are_told_by_their_rounds() {
    let mut figures = Figures::default();
    (figures.host.register_reads_one_round, figures.host.register_reads_more_rounds) = (19, 1);
    let text = figures.render();
    let families = families(&text);
    let series = |rounds: &str| format!("quorate_register_reads_total{{rounds=\"{rounds}\"}}");
    let (one, more) = (series("one"), series("more"));
    assert_eq!(families["quorate_register_reads_total"].samples, [(one.as_str(), 19.0), (more.as_str(), 1.0)]);
}

#[test]
fn every_alarm_has_a_page_and_watches_what_there_is() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let index = std::fs::read_to_string(repository.join("docs/operations/alarms/README.md")).expect("readable");
    let text = exposition();
    let families = families(&text);
    let mut alert = "";
    for line in RULES.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            alert = name;
        } else if let Some(page) = line.strip_prefix("runbook: ") {
            let text = std::fs::read_to_string(repository.join(page)).expect(page);
            assert!(text.starts_with(&format!("# {alert}\n")), "{page} is about {alert}");
            for part in ["**What you see.**", "**Why.**", "**What to do.**"] {
                assert!(text.contains(part), "{page} lacks {part}");
            }
            let name = page.rsplit('/').next().expect("a name");
            assert!(index.contains(&format!("[{alert}]({name})")), "{alert} is not in the index");
        } else if let Some(expression) = line.strip_prefix("expr: ") {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            for name in expression.split(|c| !is_of_name(c)).filter(|word| word.starts_with("quorate_")) {
                let family = name.trim_end_matches("_bucket");
                assert!(families.contains_key(family), "{alert} watches {name}, which is not there");
            }
        }
    }
}

/// What promtool says. Fails where there is none, nor a package to take it from.
fn promtool(arguments: &[&str], input: &str) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/promtool");
    let found = Command::new(script).stderr(Stdio::inherit()).output().expect("the script starts");
    assert!(found.status.success(), "no promtool");
    let path = String::from_utf8(found.stdout).expect("a path");
    let mut command = Command::new(path.trim_end());
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // It may not want any.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), told)
}

#[test]
fn promtool_accepts_metrics_and_rules() {
    let (is_good, told) = promtool(&["check", "metrics"], &exposition());
    assert!(is_good && told.trim().is_empty(), "{told}");
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/prometheus/quorate.rules.yml");
    let (is_good, told) = promtool(&["check", "rules", &rules.display().to_string()], "");
    assert!(is_good, "{told}");
}
