//! `quorate status`: what one node knows of the cluster.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use quorate_node::replica::Protocol;
use quorate_node::status::{NamespaceStatus, NodeState, NodeStatus, OwnGroupsStatus, Status, VolumeStatus};
use quorate_resp::Value;

use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{align_right, duration, say, size, table, trimmed};

/// Show nodes, namespaces, and who coordinates which volumes
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// List every volume instead of counting them
    #[arg(long, conflicts_with = "json")]
    volumes: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let status = fetch(&mut Client::connect(&options.endpoint)?)?;
    if options.json {
        let json = serde_json::to_string_pretty(&status).context("cannot print the status")?;
        say(json);
    } else {
        say(render(&status, options.volumes));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn fetch(client: &mut Client) -> Result<Status, Failure> {
    match client.ask(&["QUORATE", "STATUS", "JSON"])? {
        Value::Bulk(json) | Value::Verbatim { text: json, .. } => {
            serde_json::from_slice(&json).context("the node's status is not understood; is it of another release?")
        }
        other => Err(Failure(format!("QUORATE STATUS JSON was answered with {other:?}"))),
    }
}

fn render(status: &Status, all_volumes: bool) -> String {
    let live = status.nodes.iter().filter(|node| node.state == NodeState::Live).count();
    let summary = format!(
        "cluster {}: {live} of {} nodes live, as {} sees it",
        status.cluster,
        status.nodes.len(),
        status.answered_by
    );
    let volumes = if all_volumes { volume_table(status) } else { String::new() };
    let tables = [summary, node_table(status), namespace_table(status), own_group_table(status), volumes];
    let parts = tables.into_iter().chain([silence(status), alarms(status)]);
    let parts: Vec<String> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("\n\n")
}

/// A line if some replicas neither vote nor serve.
fn silence(status: &Status) -> String {
    let members = status.volumes.iter().flat_map(|volume| &volume.members);
    match members.filter(|member| member.silent.is_some()).count() {
        0 => String::new(),
        count => format!("replicas that neither vote nor serve: {count} (--volumes says which and why)"),
    }
}

/// What is wrong with which node, a line each.
fn alarms(status: &Status) -> String {
    let of = |node: &NodeStatus| {
        let alarms = node.own.iter().flat_map(|own| own.alarms.iter());
        alarms.map(|alarm| format!("{}: {alarm}", node.name)).collect::<Vec<String>>()
    };
    status.nodes.iter().flat_map(of).collect::<Vec<String>>().join("\n")
}

fn node_table(status: &Status) -> String {
    let mut table =
        table(&["node", "state", "clients at", "admin", "version", "up", "log", "files", "live", "coordinates"]);
    let coordinated = coordinated_by(&status.volumes);
    for node in &status.nodes {
        let own = node.own.as_ref();
        let shown = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.add_row([
            node.name.clone(),
            node.state.word().to_owned(),
            node.client.clone(),
            node.admin.clone(),
            shown(own.map(|own| own.version.clone())),
            shown(own.map(|own| duration(own.uptime_s))),
            shown(own.map(|own| size(own.log.bytes))),
            shown(own.map(|own| own.log.segments.to_string())),
            shown(own.map(|own| size(own.log.live_bytes))),
            coordinated.get(&Some(node.id)).copied().unwrap_or(0).to_string(),
        ]);
    }
    align_right(&mut table, 6..10);
    trimmed(table)
}

/// Nothing where no object has a group of its own.
fn own_group_table(status: &Status) -> String {
    let owns = |node: &&NodeStatus| {
        node.own.as_ref().is_some_and(|own| own.own_groups.active + own.own_groups.idle + own.own_groups.paused > 0)
    };
    if !status.nodes.iter().any(|node| owns(&node)) {
        return String::new();
    }
    let mut table = table(&["own groups on", "active", "idle", "memory", "paused", "woken"]);
    for node in status.nodes.iter().filter(owns) {
        let own = node.own.as_ref().map(|own| own.own_groups).unwrap_or_default();
        let count = |count: u64| count.to_string();
        let memory = size(own.idle_bytes);
        let OwnGroupsStatus { active, idle, paused, wakeups, .. } = own;
        table.add_row([node.name.clone(), count(active), count(idle), memory, count(paused), count(wakeups)]);
    }
    align_right(&mut table, 1..6);
    trimmed(table)
}

/// How many volumes each node coordinates; `None` counts those without a coordinator.
fn coordinated_by<'a>(volumes: impl IntoIterator<Item = &'a VolumeStatus>) -> BTreeMap<Option<u32>, usize> {
    let mut counts = BTreeMap::new();
    for volume in volumes {
        *counts.entry(volume.coordinator).or_insert(0) += 1;
    }
    counts
}

/// Nothing where the node does not know any yet.
fn namespace_table(status: &Status) -> String {
    if status.namespaces.is_empty() {
        return String::new();
    }
    let header = [
        "namespace",
        "protocol",
        "replicas",
        "volumes",
        "durability",
        "reads",
        "groups",
        "coordinators",
        "lag at most",
    ];
    let mut table = table(&header);
    for namespace in &status.namespaces {
        let NamespaceStatus { id, protocol, replicas, volumes, durability, reads, groups } = namespace;
        let own: Vec<&VolumeStatus> = status.volumes.iter().filter(|volume| volume.namespace == *id).collect();
        let lag = own.iter().flat_map(|volume| &volume.members).filter_map(|member| member.lag).max();
        table.add_row([
            id.to_string(),
            protocol.clone(),
            replicas.to_string(),
            volumes.to_string(),
            durability.clone(),
            reads.clone(),
            groups.clone(),
            if protocol == REGISTER { "-".to_owned() } else { coordinators(&own, &status.nodes) },
            lag.map_or_else(|| "-".to_owned(), |lag| lag.to_string()),
        ]);
    }
    align_right(&mut table, [2, 3, 8]);
    trimmed(table)
}

/// Nobody coordinates registers, and their members are not behind each other.
const REGISTER: &str = Protocol::Register.word();

/// `n1 22, n2 21, n3 20, none 1`.
fn coordinators(volumes: &[&VolumeStatus], nodes: &[NodeStatus]) -> String {
    let counts = coordinated_by(volumes.iter().copied());
    let by_node = counts.iter().filter_map(|(node, count)| node.map(|node| (name_of(node, nodes), *count)));
    let without = counts.get(&None).map(|&count| ("none".to_owned(), count));
    let words: Vec<String> = by_node.chain(without).map(|(name, count)| format!("{name} {count}")).collect();
    if words.is_empty() { "-".to_owned() } else { words.join(", ") }
}

fn name_of(node: u32, nodes: &[NodeStatus]) -> String {
    let known = nodes.iter().find(|known| known.id == node);
    known.map_or_else(|| format!("node {node}"), |known| known.name.clone())
}

/// `; n4 joins; n1 leaves` of one whose replicas are on their way.
fn moves(volume: &VolumeStatus, nodes: &[NodeStatus]) -> String {
    let joins = volume.joining.iter().map(|&node| format!("; {} joins", name_of(node, nodes)));
    let leaves = volume.leaving.iter().map(|&node| format!("; {} leaves", name_of(node, nodes)));
    joins.chain(leaves).collect()
}

fn volume_table(status: &Status) -> String {
    let mut table = table(&["namespace", "volume", "group", "epoch", "coordinator", "next slot", "members (lag)"]);
    for volume in &status.volumes {
        let of_registers = status
            .namespaces
            .iter()
            .any(|namespace| namespace.id == volume.namespace && namespace.protocol == REGISTER);
        let members = volume.members.iter().map(|member| {
            let name = name_of(member.node, &status.nodes);
            match (&member.silent, member.lag) {
                (Some(reason), _) => format!("{name} (silent: {reason})"),
                (None, Some(lag)) => format!("{name} ({lag})"),
                (None, None) if of_registers => name,
                (None, None) => format!("{name} (?)"),
            }
        });
        table.add_row([
            volume.namespace.to_string(),
            volume.index.to_string(),
            volume.group.to_string(),
            volume.epoch.to_string(),
            match volume.coordinator {
                Some(node) => name_of(node, &status.nodes),
                None if of_registers => "-".to_owned(),
                None => "none".to_owned(),
            },
            if of_registers { "-".to_owned() } else { volume.next_slot.to_string() },
            members.collect::<Vec<String>>().join(", ") + &moves(volume, &status.nodes),
        ]);
    }
    align_right(&mut table, [1, 2, 3, 5]);
    trimmed(table)
}

#[cfg(test)]
mod tests {
    use quorate_node::status::{LogStatus, MemberStatus, NodeOwnStatus};

    use super::*;

    fn node(id: u32, state: NodeState, own: Option<NodeOwnStatus>) -> NodeStatus {
        let port = 6999 + id;
        NodeStatus {
            id,
            name: format!("n{id}"),
            state,
            client: format!("127.0.0.1:{port}"),
            admin: "127.0.0.1:8000".to_owned(),
            own,
        }
    }

    fn status() -> Status {
        let log = LogStatus { segments: 2, bytes: 128 << 20, live_bytes: 1536, ..LogStatus::default() };
        let own = NodeOwnStatus {
            version: "0.1.0".to_owned(),
            pid: 7,
            starts: 1,
            not_ready: None,
            uptime_s: 61,
            clients: 1,
            messages_sent: 0,
            log,
            alarms: Vec::new(),
            own_groups: OwnGroupsStatus::default(),
        };
        let member = |node, lag| MemberStatus { node, lag, silent: None };
        let volume = |index, coordinator| VolumeStatus {
            namespace: 0,
            index,
            group: 100 + u64::from(index),
            epoch: 1,
            members: vec![member(1, Some(0)), member(2, None)],
            coordinator,
            next_slot: 5,
            joining: Vec::new(),
            leaving: Vec::new(),
            quorum: String::new(),
        };
        Status {
            cluster: "c0ffee".to_owned(),
            answered_by: "n1".to_owned(),
            nodes: vec![node(1, NodeState::Live, Some(own)), node(2, NodeState::Suspected, None)],
            namespaces: vec![NamespaceStatus {
                id: 0,
                protocol: "paxos".to_owned(),
                replicas: 2,
                volumes: 3,
                durability: "sync".to_owned(),
                reads: "lease".to_owned(),
                groups: "volumes".to_owned(),
            }],
            volumes: vec![volume(0, Some(1)), volume(1, Some(1)), volume(2, None)],
            root: VolumeStatus::default(),
            replace_after_s: Some(600),
        }
    }

    #[test]
    fn volumes_are_summarised_unless_all_are_wanted() {
        assert_eq!(
            render(&status(), false),
            "cluster c0ffee: 1 of 2 nodes live, as n1 sees it\n\n\
             NODE  STATE      CLIENTS AT      ADMIN           VERSION  UP               LOG  FILES     LIVE  COORDINATES\n\
             n1    live       127.0.0.1:7000  127.0.0.1:8000  0.1.0    1 min 1 s  128.0 MiB      2  1.5 KiB            2\n\
             n2    suspected  127.0.0.1:7001  127.0.0.1:8000  -        -                  -      -        -            0\n\n\
             NAMESPACE  PROTOCOL  REPLICAS  VOLUMES  DURABILITY  READS  GROUPS   COORDINATORS  LAG AT MOST\n\
             0          paxos            2        3  sync        lease  volumes  n1 2, none 1            0"
        );
        let all = render(&status(), true);
        assert_eq!(all.lines().filter(|line| line.ends_with("n1 (0), n2 (?)")).count(), 3, "{all}");
        let mut moving = status();
        (moving.volumes[1].joining, moving.volumes[1].leaving) = (vec![2], vec![1]);
        assert!(render(&moving, true).contains("n1 (0), n2 (?); n2 joins; n1 leaves\n"));
    }

    #[test]
    fn own_groups_are_counted_where_there_are_any() {
        let mut status = status();
        let own = status.nodes[0].own.as_mut().expect("live");
        own.own_groups = OwnGroupsStatus { active: 3, idle: 20_000, idle_bytes: 2 << 20, paused: 1, wakeups: 7 };
        assert!(render(&status, false).contains(
            "OWN GROUPS ON  ACTIVE   IDLE   MEMORY  PAUSED  WOKEN\n\
             n1                  3  20000  2.0 MiB       1      7"
        ));
    }

    #[test]
    fn silent_replicas_are_counted_and_explained() {
        let mut status = status();
        status.volumes[1].members[1].silent = Some("it lost what it had promised".to_owned());
        assert!(render(&status, false).ends_with("neither vote nor serve: 1 (--volumes says which and why)"));
        assert!(render(&status, true).contains("n1 (0), n2 (silent: it lost what it had promised)\n"));
    }

    #[test]
    fn what_is_wrong_with_a_node_is_told_last() {
        let mut status = status();
        let own = status.nodes[0].own.as_mut().expect("live");
        own.alarms = vec!["no space".to_owned(), "the log is damaged: segment 3 is missing".to_owned()];
        let text = render(&status, false);
        assert!(text.ends_with("\n\nn1: no space\nn1: the log is damaged: segment 3 is missing"), "{text}");
    }

    #[test]
    fn a_status_of_an_older_release_is_understood() {
        let old = r#"{"cluster":"c","nodes":[{"id":1,"name":"n1","state":"live"}],"unheard_of":1}"#;
        let status: Status = serde_json::from_str(old).expect("understood");
        assert_eq!(status.nodes[0].name, "n1");
        assert!(render(&status, false).contains("1 of 1 nodes live"));
    }
}
