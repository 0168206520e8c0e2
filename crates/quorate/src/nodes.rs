//! `quorate node list|add|remove|drain|undrain|level|replace-after`: the nodes of a cluster, in the words of `QUORATE NODE`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use quorate_resp::Value;
use serde_json::json;

use crate::client::{Client, Endpoint};
use crate::drain;
use crate::failure::Failure;
use crate::output::{fields, say, table, trimmed};
use crate::{replace_after, status};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    List(List),
    Add(Add),
    Remove(Remove),
    Drain(drain::Drain),
    Undrain(drain::Undrain),
    Level(drain::Level),
    ReplaceAfter(replace_after::ReplaceAfter),
}

/// List the nodes of a cluster
///
/// With the number and the addresses of each, how many volumes it has a replica of, and whether it is a member of the root, which
/// decides what nodes and volumes there are; and when a node that is away is replaced by itself, which `quorate status --json` tells
/// programs.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct List {
    #[command(flatten)]
    endpoint: Endpoint,
    /// As a JSON array of objects
    #[arg(long)]
    json: bool,
}

/// Let a new node into a running cluster
///
/// It is told which number the node has: no other one ever gets it. The node is started afterwards, with `joins = true` in its
/// configuration, and begins with no data. `quorate up --nodes N` does both for a cluster on this machine.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Add {
    #[command(flatten)]
    endpoint: Endpoint,
    /// What people call it
    name: String,
    /// Where the other nodes reach it
    #[arg(long, value_name = "HOST:PORT")]
    peer: String,
    /// Where Redis clients reach it
    #[arg(long, value_name = "HOST:PORT")]
    client: String,
    /// Where it is reached over HTTP
    #[arg(long, value_name = "HOST:PORT")]
    admin: String,
    /// Tell the number as a JSON object
    #[arg(long)]
    json: bool,
}

/// Let a node go for good
///
/// It must be stopped and have no replicas. The others do not let it in again; its data directory is of no use any more.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Remove {
    #[command(flatten)]
    endpoint: Endpoint,
    /// What people call it
    name: String,
}

/// A node as `QUORATE NODE LIST` tells of it: names and values.
type Listed = Vec<(String, String)>;

pub(crate) fn run(command: &Command) -> Result<ExitCode, Failure> {
    match command {
        Command::List(List { endpoint, json }) => {
            let client = &mut Client::connect(endpoint)?;
            let nodes = list(client)?;
            match json {
                true => say(in_json(&nodes)),
                false => say(format_args!("{}\n\n{}", in_a_table(&nodes), replace_after::sentence(client)?)),
            }
        }
        Command::Add(options) => {
            let client = &mut Client::connect(&options.endpoint)?;
            let number = add(client, &options.name, [&options.peer, &options.client, &options.admin])?;
            if options.json {
                say(json!({ "name": options.name, "number": number }));
            } else {
                let cluster = status::fetch(client)?.cluster;
                say(advice(options, number, &cluster, &list(client)?));
            }
        }
        Command::Drain(options) => return drain::drain(options),
        Command::Undrain(options) => return drain::undrain(options),
        Command::Level(options) => return drain::level(options),
        Command::ReplaceAfter(options) => return replace_after::run(options),
        Command::Remove(Remove { endpoint, name }) => {
            Client::connect(endpoint)?.ask(&["QUORATE", "NODE", "REMOVE", name])?;
            say(format_args!("{name} is no node of the cluster any more; its data directory can be removed"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Lets in a node that has these addresses, for peers, clients and HTTP: its number.
pub(crate) fn add(client: &mut Client, name: &str, [peer, clients, admin]: [&str; 3]) -> Result<u32, Failure> {
    let words = ["QUORATE", "NODE", "ADD", name, "PEER", peer, "CLIENT", clients, "ADMIN", admin];
    match client.ask(&words)? {
        Value::Integer(number) if u32::try_from(number).is_ok() => Ok(number as u32),
        other => Err(Failure(format!("QUORATE NODE ADD was answered with {other:?}"))),
    }
}

fn list(client: &mut Client) -> Result<Vec<Listed>, Failure> {
    match client.ask(&["QUORATE", "NODE", "LIST"])? {
        Value::Array(entries) => Ok(entries.iter().map(fields).collect()),
        other => Err(Failure(format!("QUORATE NODE LIST was answered with {other:?}"))),
    }
}

fn in_a_table(nodes: &[Listed]) -> String {
    let header: Vec<&str> = nodes.first().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let mut table = table(&header);
    for node in nodes {
        table.add_row(node.iter().map(|(_, value)| value));
    }
    trimmed(table)
}

/// As over HTTP: what counts is a number.
fn in_json(nodes: &[Listed]) -> String {
    let value = |(name, value): &(String, String)| match (name.as_str(), value.parse::<u64>()) {
        ("number" | "volumes", Ok(number)) => (name.clone(), json!(number)),
        _ => (name.clone(), json!(value)),
    };
    let node = |node: &Listed| serde_json::Value::Object(node.iter().map(value).collect());
    serde_json::Value::Array(nodes.iter().map(node).collect()).to_string()
}

fn of<'a>(node: &'a Listed, field: &str) -> &'a str {
    node.iter().find(|(name, _)| name == field).map_or("", |(_, value)| value)
}

/// What is to be done next.
fn advice(options: &Add, number: u32, cluster: &str, nodes: &[Listed]) -> String {
    let name = &options.name;
    let member = |node: &Listed| {
        let lines = ["name", "client", "peer", "admin"].map(|field| format!("{field} = {:?}\n", of(node, field)));
        format!("\n[[cluster.nodes]]\nid = {}\n{}", of(node, "number"), lines.concat())
    };
    let members: String = nodes.iter().map(member).collect();
    format!(
        "{name} is node {number} of the cluster. Start it with these lines in its node.toml, and with the secret, [defaults] and \
         [timing] of the other nodes:\n\n\
         [node]\nid = {number}\nname = {name:?}\njoins = true\n\n\
         [cluster]\nid = {cluster:?}\n{members}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(number: u32) -> Listed {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        vec![
            field("number", &number.to_string()),
            field("name", &format!("n{number}")),
            field("state", "live"),
            field("peer", &format!("h:1{number}")),
            field("client", &format!("h:2{number}")),
            field("admin", &format!("h:3{number}")),
            field("volumes", "64"),
            field("root", "yes"),
        ]
    }

    #[test]
    fn nodes_are_told_to_people_and_to_programs() {
        let table = in_a_table(&[listed(1), listed(2)]);
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["NUMBER", "NAME", "STATE", "PEER", "CLIENT", "ADMIN", "VOLUMES", "ROOT"]);
        assert_eq!(lines[2], ["2", "n2", "live", "h:12", "h:22", "h:32", "64", "yes"]);
        let told: serde_json::Value = serde_json::from_str(&in_json(&[listed(1)])).expect("JSON");
        assert_eq!((&told[0]["number"], &told[0]["volumes"], &told[0]["root"]), (&json!(1), &json!(64), &json!("yes")));
    }

    #[test]
    fn who_adds_a_node_is_told_how_to_start_it() {
        let endpoint = Endpoint::new("127.0.0.1".to_owned(), 7000);
        let at = |port: u32| format!("h:{port}");
        let (name, peer, client, admin) = ("n2".to_owned(), at(12), at(22), at(32));
        let options = Add { endpoint, name, peer, client, admin, json: false };
        let told = advice(&options, 2, "00c0ffee00c0ffee", &[listed(1), listed(2)]);
        let (_, text) = told.split_once("\n\n").expect("the lines come behind");
        let secret = "secret = \"known to all of the cluster\"\n";
        let listen =
            "[listen]\nclient = \"127.0.0.1:7\"\npeer = \"127.0.0.1:8\"\nadmin = \"127.0.0.1:9\"\n\n[cluster]\n";
        let text = text.replace("[cluster]\n", &format!("{listen}{secret}"));
        let path = std::path::Path::new("node.toml");
        let config = quorate_server::config::Config::parse(&text, path).expect("it is what a node takes");
        assert!(config.node.joins && config.node.id == 2 && config.cluster.nodes.len() == 2);
        assert_eq!(config.cluster.nodes[0].client.to_string(), "h:21");
    }
}
