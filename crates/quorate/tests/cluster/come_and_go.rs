//! Nodes that are added to a cluster and removed from it while clients go on.

use std::process::{Command, Output, Stdio};

use quorate_server::config::{Address, Config, Member};
use redis::Connection;
use serde_json::Value;

use crate::load::Load;
use crate::nodes::{Cluster, until};
use crate::random::Random;

/// `quorate node ...`, said to a node.
pub(crate) fn node(cluster: &Cluster, at: usize, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.arg("node").args(words).args(["-p", &cluster.address(at).1.to_string()]).stdin(Stdio::null());
    command.output().expect("started")
}

fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

pub(crate) fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// All nodes as one of them lists them; none while that one does not know them, having just started.
fn listed(cluster: &Cluster, at: usize) -> Option<Vec<Value>> {
    let output = node(cluster, at, &["list", "--json"]);
    let is_loading = !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("LOADING");
    (!is_loading).then(|| serde_json::from_str(&told(&output)).expect("JSON"))
}

fn field_of(cluster: &Cluster, at: usize, name: &str, field: &str) -> Option<Value> {
    listed(cluster, at)?.into_iter().find(|node| node["name"] == name).map(|node| node[field].clone())
}

/// What an operator writes for a fourth node, which lists all that there are.
pub(crate) fn write_fourth(cluster: &Cluster, id: u32) -> Member {
    let mut config = Config::load(&cluster.node_directory(0).join("node.toml")).expect("it was written");
    let ports = cluster.ports();
    let at = |port: u16| Address { host: "127.0.0.1".to_owned(), port };
    let member = Member {
        id,
        name: "n4".to_owned(),
        client: at(ports.client + 3),
        peer: at(ports.client + 10_003),
        admin: at(ports.admin + 3),
    };
    (config.node.id, config.node.name, config.node.joins) = (id, member.name.clone(), true);
    config.node.data_dir = ".".into();
    let socket = |address: &Address| address.to_string().parse().expect("an address of this machine");
    config.listen.client = socket(&member.client);
    config.listen.peer = socket(&member.peer);
    config.listen.admin = socket(&member.admin);
    config.cluster.nodes.push(member.clone());
    let directory = cluster.node_directory(3);
    std::fs::create_dir_all(&directory).expect("a directory of its own");
    std::fs::write(directory.join("node.toml"), config.to_toml()).expect("writable");
    member
}

pub(crate) fn add(cluster: &Cluster, at: usize, member: &Member) -> String {
    let (peer, client, admin) = (member.peer.to_string(), member.client.to_string(), member.admin.to_string());
    let words = ["add", &member.name, "--peer", &peer, "--client", &client, "--admin", &admin, "--json"];
    told(&node(cluster, at, &words))
}

pub(crate) fn remove_once_it_is_gone(cluster: &Cluster, at: usize, name: &str) {
    until("the node is removed", || node(cluster, at, &["remove", name]).status.success());
}

#[test]
fn a_node_comes_and_goes_while_clients_work() {
    let mut cluster = Cluster::started("come", 3);
    let mut load = Load::start(&cluster, &mut Random::new(7));
    let member = write_fourth(&cluster, 4);
    cluster.one_more();
    // Before it is added it is refused, told what to do, and tries on.
    cluster.spawn_by_hand(3, &[]);
    until("it is refused", || cluster.log_of(3).contains("add it with `quorate node add`"));
    let loading = redis::cmd("GET").arg("key").query::<String>(&mut cluster.client(3)).expect_err("it serves nobody");
    assert_eq!(loading.code(), Some("LOADING"), "{loading}");
    assert_eq!(serde_json::from_str::<Value>(&add(&cluster, 1, &member)).expect("JSON")["number"], 4);
    cluster.wait_for_answer(3);
    assert!(add(&cluster, 2, &member).contains('4'), "the same again is the same");
    for at in 0..4 {
        until("all know it and hear it", || field_of(&cluster, at, "n4", "state") == Some("live".into()));
        assert_eq!(field_of(&cluster, at, "n4", "volumes"), Some(0.into()));
        assert_eq!(field_of(&cluster, at, "n4", "root"), Some("no".into()));
        assert_eq!(field_of(&cluster, at, "n3", "root"), Some("yes".into()));
    }
    // Clients are served there, though everything is elsewhere.
    let set_and_get = |client: &mut Connection, key: &str, value: &str| {
        redis::cmd("SET").arg(key).arg(value).exec(client).expect("stored");
        redis::cmd("GET").arg(key).query::<String>(client).expect("read")
    };
    for key in 0..50 {
        assert_eq!(set_and_get(&mut cluster.client(3), &format!("by n4 {key}"), "v"), "v");
    }
    load.check(&cluster);
    // A node that was there before is not told in its file.
    let before = std::fs::read_to_string(cluster.node_directory(1).join("node.toml")).expect("there");
    assert!(!before.contains("n4"), "{before}");
    cluster.kill(1);
    cluster.start_by_hand(1);
    until("it knows n4", || field_of(&cluster, 1, "n4", "state") == Some("live".into()));
    until("n4 hears it", || field_of(&cluster, 3, "n2", "state") == Some("live".into()));
    // And the new one comes back from what it has stored.
    cluster.kill(3);
    cluster.start_by_hand(3);
    load.check(&cluster);
    let line = refusal(&node(&cluster, 0, &["remove", "n4"]));
    assert!(line.contains("n4 is live") && line.contains("stop it first"), "{line}");
    let line = refusal(&node(&cluster, 3, &["remove", "n3"]));
    assert!(line.contains("n3 is live"), "{line}");

    cluster.stop_by_hand(3);
    remove_once_it_is_gone(&cluster, 0, "n4");
    cluster.one_fewer();
    for at in 0..3 {
        until("it is known to be gone", || listed(&cluster, at).is_some_and(|all| all.len() == 3));
        assert_eq!(cluster.status_of(at).expect("told").nodes.len(), 3);
    }
    load.check(&cluster);
    load.stop();
    // It is told so if it is started again, and from then on knows it by itself.
    cluster.one_more();
    cluster.spawn_by_hand(3, &[]);
    assert_eq!(cluster.wait_by_hand(3), Some(1));
    let log = cluster.log_of(3);
    assert!(log.contains("n4 was removed from the cluster, and is not let in again"), "{log}");
    cluster.spawn_by_hand(3, &[]);
    assert_eq!(cluster.wait_by_hand(3), Some(1));
    let log = cluster.log_of(3);
    assert!(log.contains("is of a node that was removed from the cluster"), "{log}");
    // What it was called may be used again, its number not. Another node may be down meanwhile.
    std::fs::remove_dir_all(cluster.node_directory(3)).expect("it is of no use");
    cluster.kill(2);
    let member = write_fourth(&cluster, 5);
    let again = serde_json::from_str::<Value>(&add(&cluster, 0, &member)).expect("JSON");
    assert_eq!(again["number"], 5);
    cluster.spawn_by_hand(3, &[]);
    cluster.wait_for_answer(3);
    assert_eq!(set_and_get(&mut cluster.client(3), "by another n4", "v"), "v");
    until("n3 is missed", || field_of(&cluster, 3, "n3", "state") == Some("suspected".into()));
    cluster.start_by_hand(2);
    until("they hear each other", || field_of(&cluster, 3, "n3", "state") == Some("live".into()));
    until("it hears the new one", || field_of(&cluster, 2, "n4", "state") == Some("live".into()));
    cluster.stop_by_hand(3);
    remove_once_it_is_gone(&cluster, 2, "n4");
    cluster.one_fewer();
    cluster.stop_all();
}

#[test]
fn a_member_of_the_root_that_lost_its_directory_gets_another_one_in_a_cluster_that_has_grown() {
    let mut cluster = Cluster::started("grown", 3);
    redis::cmd("SET").arg("key").arg("value").exec(&mut cluster.client(0)).expect("stored");
    let member = write_fourth(&cluster, 4);
    // Who was away when it was added hears of it afterwards.
    cluster.kill(1);
    add(&cluster, 0, &member);
    cluster.one_more();
    cluster.start_by_hand(3);
    cluster.start_by_hand(1);
    until("it has heard of it", || field_of(&cluster, 1, "n4", "state") == Some("live".into()));
    cluster.kill(2);
    let directory = cluster.node_directory(2);
    let file = std::fs::read_to_string(directory.join("node.toml")).expect("there");
    std::fs::remove_dir_all(&directory).expect("it is lost");
    std::fs::create_dir(&directory).expect("another one");
    let configure = |text: &str| std::fs::write(directory.join("node.toml"), text).expect("written");
    let another = file.replacen("directory = 1\n", "directory = 2\n", 1);
    configure(&another);
    cluster.spawn_by_hand(2, &[]);
    until("it is told what to do", || cluster.log_of(2).contains("set node.joins = true"));
    cluster.stop_by_hand(2);
    configure(&another.replacen("joins = false\n", "joins = true\n", 1));
    cluster.start_by_hand(2);
    let is_whole = || {
        let status = cluster.status_of(2).ok()?;
        let mut groups = std::iter::once(&status.root).chain(&status.volumes);
        let is_sound =
            groups.all(|group| group.members.iter().all(|member| member.silent.is_none() && member.lag.is_some()));
        (is_sound && status.root.members.len() == 3).then_some(())
    };
    until("all its replicas take part again", || is_whole().is_some());
    // It votes: of the root's members another one is not needed.
    cluster.kill(0);
    until("the root goes on", || {
        let mut client = cluster.client(3);
        redis::cmd("QUORATE").arg(&["NAMESPACE", "CREATE", "5", "VOLUMES", "1"]).exec(&mut client).is_ok()
    });
    let read = || redis::cmd("GET").arg("key").query::<String>(&mut cluster.client(2));
    until("it is read", || read().is_ok_and(|value| value == "value"));
    cluster.start_by_hand(0);
    cluster.stop_all();
}

#[test]
fn up_adds_nodes_to_a_directory_that_has_fewer_and_leaves_out_those_that_were_removed() {
    let mut cluster = Cluster::started("grow", 1);
    let stored = |client: &mut Connection| redis::cmd("GET").arg("key").query::<Option<String>>(client).expect("read");
    redis::cmd("SET").arg("key").arg("value").exec(&mut cluster.client(0)).expect("stored");
    cluster.down();
    cluster.one_more();
    cluster.one_more();
    cluster.up();
    until("all are up", || cluster.told().contains("Quorate is up: 3 nodes"));
    let words = cluster.told();
    assert!(words.contains("n2 was added to the cluster as node 2") && words.contains("n3 was added"), "{words}");
    for at in 0..3 {
        assert_eq!(stored(&mut cluster.client(at)).as_deref(), Some("value"));
        assert_eq!(listed(&cluster, at).expect("it knows them").len(), 3);
    }
    // The same again starts what there is.
    cluster.down();
    cluster.up();
    assert_eq!(cluster.told().matches("was added").count(), 2);
    assert_eq!(stored(&mut cluster.client(2)).as_deref(), Some("value"));
    cluster.kill(2);
    remove_once_it_is_gone(&cluster, 1, "n3");
    cluster.down();
    cluster.one_fewer();
    cluster.up();
    until("n3 is told", || cluster.told().contains("n3 was removed from the cluster; "));
    assert_eq!(stored(&mut cluster.client(1)).as_deref(), Some("value"));
    cluster.down();
    cluster.up();
    let words = cluster.told();
    assert!(words.contains("node-3 was removed from the cluster: its directory can be removed too"), "{words}");
    cluster.down();
}
