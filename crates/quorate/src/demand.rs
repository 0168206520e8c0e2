//! `quorate demand`: what clients ask for at all nodes, and which objects most.

use std::collections::BTreeMap;
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use quorate_node::status::NodeState;
use quorate_resp::Value;
use serde_json::json;

use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{align_right, complain, say, size, table, trimmed};
use crate::status;

/// What was counted for less says little of a second.
const WINDOW_S_MIN: f64 = 1.0;
/// Objects that nodes are asked for: all that they tell apart.
const ALL: &str = "100000";

const EXAMPLES: &str = "Examples:
  quorate demand                 reads and writes a second, by namespace, and of the 20 objects that are asked for most
  quorate demand --count 100     of the 100 objects
  quorate demand --json          for programs

Each node counts what its own clients ask for, for ten seconds, and tells of the last ten that are over. When they ask for much, a
sample is counted. `QUORATE DEMAND` and `GET /demand` tell of one node alone.";

/// Show what clients read and write, and which objects most
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    /// How many objects to tell of
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    count: usize,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// How often a second something is read and written, and how large it is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) reads: f64,
    pub(crate) writes: f64,
    pub(crate) value_bytes: f64,
}

impl Rates {
    pub(crate) fn commands(self) -> f64 {
        self.reads + self.writes
    }

    /// Both together.
    fn add(&mut self, other: Rates) {
        // Where no value was seen its size is not known.
        let weight = |rates: &Rates| if rates.value_bytes > 0.0 { rates.commands() } else { 0.0 };
        let (mine, others) = (weight(self), weight(&other));
        if mine + others > 0.0 {
            self.value_bytes = (self.value_bytes * mine + other.value_bytes * others) / (mine + others);
        }
        self.reads += other.reads;
        self.writes += other.writes;
    }

    fn json(self) -> serde_json::Value {
        json!({ "reads_per_s": self.reads, "writes_per_s": self.writes, "value_bytes": self.value_bytes })
    }
}

/// Of all nodes that could be asked.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Demand {
    pub(crate) namespaces: BTreeMap<u32, Rates>,
    pub(crate) objects: BTreeMap<(u32, Vec<u8>), Rates>,
    /// Commands a second of each object, by the node where they enter.
    pub(crate) entered: BTreeMap<(u32, Vec<u8>), BTreeMap<String, f64>>,
    /// Why some could not.
    pub(crate) missing: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let demand = fetch(&options.endpoint)?;
    demand.missing.iter().for_each(complain);
    if options.json {
        let json = serde_json::to_string_pretty(&demand.json(options.count)).context("cannot print the demand")?;
        say(json);
    } else {
        say(demand.render(options.count));
    }
    Ok(ExitCode::SUCCESS)
}

/// Asks all nodes that the one at this endpoint knows as live.
pub(crate) fn fetch(endpoint: &Endpoint) -> Result<Demand, Failure> {
    let status = status::fetch(&mut Client::connect(endpoint)?)?;
    let mut demand = Demand::default();
    for node in &status.nodes {
        if node.state != NodeState::Live {
            demand.missing.push(format!("{} is not counted: it is suspected", node.name));
            continue;
        }
        let told = endpoint.at(&node.client).ok_or_else(|| Failure(format!("its address is {}", node.client)));
        let told = told
            .and_then(|endpoint| Client::connect(&endpoint).map_err(Failure::from))
            .and_then(|mut client| client.ask(&["QUORATE", "DEMAND", "COUNT", ALL]));
        match told {
            Ok(told) => demand.add(&node.name, &told)?,
            Err(Failure(why)) => demand.missing.push(format!("{} is not counted: {why}", node.name)),
        }
    }
    Ok(demand)
}

impl Demand {
    /// What one node has told.
    fn add(&mut self, node: &str, told: &Value) -> Result<(), Failure> {
        let strange = || Failure(format!("QUORATE DEMAND was answered with {told:?}; is the node of another release?"));
        let seconds = number(told, "window_ms").ok_or_else(strange)? / 1000.0;
        // One that has just started.
        if seconds < WINDOW_S_MIN {
            return Ok(());
        }
        for entry in list(told, "namespaces").ok_or_else(strange)? {
            let (namespace, rates) = rates_of(entry, seconds).ok_or_else(strange)?;
            self.namespaces.entry(namespace).or_default().add(rates);
        }
        for entry in list(told, "objects").ok_or_else(strange)? {
            let (namespace, rates) = rates_of(entry, seconds).ok_or_else(strange)?;
            let Some(Value::Bulk(key)) = field(entry, "key") else { return Err(strange()) };
            let object = (namespace, key.clone());
            self.objects.entry(object.clone()).or_default().add(rates);
            self.entered.entry(object).or_default().insert(node.to_owned(), rates.commands());
        }
        Ok(())
    }

    /// The most wanted first.
    pub(crate) fn hot(&self) -> Vec<(&(u32, Vec<u8>), Rates)> {
        let mut hot: Vec<_> = self.objects.iter().map(|(object, &rates)| (object, rates)).collect();
        hot.sort_by(|(_, a), (_, b)| b.commands().total_cmp(&a.commands()));
        hot
    }

    fn render(&self, count: usize) -> String {
        if self.namespaces.is_empty() {
            return "no client has asked for anything in the latest ten seconds that are over".into();
        }
        let mut namespaces = table(&["namespace", "reads/s", "writes/s", "value"]);
        for (namespace, rates) in &self.namespaces {
            namespaces.add_row([namespace.to_string()].into_iter().chain(rates.cells()));
        }
        let mut objects = table(&["object", "namespace", "reads/s", "writes/s", "value"]);
        for ((namespace, key), rates) in self.hot().into_iter().take(count) {
            let (key, namespace) = (key.escape_ascii().to_string(), namespace.to_string());
            objects.add_row([key, namespace].into_iter().chain(rates.cells()));
        }
        align_right(&mut namespaces, 1..4);
        align_right(&mut objects, 2..5);
        let objects = if self.objects.is_empty() { "no object stands out".into() } else { trimmed(objects) };
        format!("{}\n\n{objects}", trimmed(namespaces))
    }

    fn json(&self, count: usize) -> serde_json::Value {
        let mut namespaces = Vec::new();
        for (namespace, rates) in &self.namespaces {
            let mut entry = rates.json();
            entry["namespace"] = json!(namespace);
            namespaces.push(entry);
        }
        let mut objects = Vec::new();
        for ((namespace, key), rates) in self.hot().into_iter().take(count) {
            let mut entry = rates.json();
            entry["namespace"] = json!(namespace);
            match str::from_utf8(key) {
                Ok(text) => entry["key"] = json!(text),
                Err(_) => entry["key_base64"] = json!(BASE64.encode(key)),
            }
            objects.push(entry);
        }
        json!({ "namespaces": namespaces, "objects": objects, "missing": self.missing })
    }
}

impl Rates {
    fn cells(self) -> [String; 3] {
        let rate = |rate: f64| if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") };
        [rate(self.reads), rate(self.writes), size(self.value_bytes as u64)]
    }
}

fn rates_of(entry: &Value, seconds: f64) -> Option<(u32, Rates)> {
    let namespace = number(entry, "namespace")? as u32;
    let (reads, writes) = (number(entry, "reads")? / seconds, number(entry, "writes")? / seconds);
    Some((namespace, Rates { reads, writes, value_bytes: number(entry, "value_bytes")? }))
}

/// Of a map, which in RESP2 is an array of names and values in turn.
fn field<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let is_name = |value: &Value| matches!(value, Value::Bulk(bytes) if bytes == name.as_bytes());
    match map {
        Value::Map(pairs) => pairs.iter().find(|(found, _)| is_name(found)).map(|(_, value)| value),
        Value::Array(flat) => flat.chunks_exact(2).find(|pair| is_name(&pair[0])).map(|pair| &pair[1]),
        _ => None,
    }
}

fn number(map: &Value, name: &str) -> Option<f64> {
    match field(map, name)? {
        Value::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

fn list<'a>(map: &'a Value, name: &str) -> Option<&'a [Value]> {
    match field(map, name)? {
        Value::Array(list) => Some(list),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    /// As in RESP2.
    fn told(window_ms: i64, reads: i64, writes: i64, value_bytes: i64) -> Value {
        let counts = |first: Vec<Value>| {
            let counts = [("reads", reads), ("writes", writes), ("value_bytes", value_bytes), ("namespace", 3)];
            let counts = counts.into_iter().flat_map(|(name, count)| [bulk(name), Value::Integer(count)]);
            Value::Array(first.into_iter().chain(counts).collect())
        };
        Value::Array(vec![
            bulk("window_ms"),
            Value::Integer(window_ms),
            bulk("namespaces"),
            Value::Array(vec![counts(Vec::new())]),
            bulk("objects"),
            Value::Array(vec![counts(vec![bulk("key"), Value::Bulk(b"k\xff".to_vec())])]),
        ])
    }

    #[test]
    fn what_all_nodes_tell_is_added() {
        let mut demand = Demand::default();
        demand.add("n1", &told(10_000, 300, 100, 1000)).expect("understood");
        demand.add("n2", &told(5_000, 0, 200, 3000)).expect("understood");
        demand.add("n1", &told(500, 9, 9, 9)).expect("it has just started");
        demand.add("n1", &told(0, 0, 0, 0)).expect("it has just started");
        let both = Rates { reads: 30.0, writes: 50.0, value_bytes: 2000.0 };
        assert_eq!(demand.namespaces, [(3, both)].into());
        assert_eq!(demand.objects, [((3, b"k\xff".to_vec()), both)].into());
        let entered = [("n1".to_owned(), 40.0), ("n2".to_owned(), 40.0)].into();
        assert_eq!(demand.entered, [((3, b"k\xff".to_vec()), entered)].into());
        let shown = demand.render(20);
        let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["3", "30", "50", "2.0", "KiB"], "{shown}");
        assert_eq!(lines[4], ["k\\xff", "3", "30", "50", "2.0", "KiB"], "{shown}");
        assert_eq!(demand.json(1)["objects"][0]["key_base64"], "a/8=", "as over HTTP");
        assert!(demand.add("n1", &Value::Null).is_err());
    }
}
