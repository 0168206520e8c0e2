//! A node that is dead for long is replaced by itself.

use std::process::{Command, Output};
use std::time::Duration;

use redis::Value;

use crate::load::Load;
use crate::moves::{counts, started, waits};
use crate::nodes::{Cluster, figure, until};
use crate::random::Random;
use crate::registers::{ask, text};

/// Longer than anybody who is gone is waited for by whoever plans moves.
const STILL: Duration = Duration::from_secs(15);

/// `quorate node ...`, said to a node.
fn node(cluster: &Cluster, at: usize, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.arg("node").args(words).args(["-p", &cluster.address(at).1.to_string()]);
    let Output { status, stdout, stderr } = command.output().expect("it is a program");
    let told = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{words:?}: {told}{}", String::from_utf8_lossy(&stderr));
    told
}

/// What `QUORATE NODE SHOW` tells of n4.
fn shown(cluster: &Cluster, at: usize, field: &str) -> Value {
    let Value::Array(words) = ask(&mut cluster.client(at), "QUORATE NODE SHOW n4") else { panic!("it is not shown") };
    let found = words.chunks(2).find(|pair| text(&pair[0]).as_deref() == Some(field));
    found.unwrap_or_else(|| panic!("no {field} in {words:?}"))[1].clone()
}

fn state(cluster: &Cluster, at: usize) -> String {
    text(&shown(cluster, at, "state")).expect("text")
}

/// Every volume has three members, none of them n4, and none is on its way.
fn are_whole_without_it(cluster: &Cluster, at: usize) -> bool {
    let volumes = cluster.status_of(at).unwrap_or_default().volumes;
    let is_still = volumes.iter().all(|volume| volume.joining.is_empty() && volume.leaving.is_empty());
    let is_whole = volumes.iter().all(|volume| volume.members.len() == 3);
    !volumes.is_empty() && is_still && is_whole && !counts(cluster, at).contains_key(&4)
}

#[test]
fn a_node_that_is_dead_for_long_is_replaced_by_itself_where_volumes_are_chains() {
    is_replaced_by_itself("chain");
}

#[test]
fn a_node_that_is_dead_for_long_is_replaced_by_itself_where_volumes_are_of_paxos() {
    is_replaced_by_itself("paxos");
}

fn is_replaced_by_itself(protocol: &str) {
    let mut random = Random::announced();
    let mut cluster = started(&format!("{protocol}-absent"), protocol);
    let told = node(&cluster, 3, &["list"]);
    assert!(told.contains("a node that is away for 10 min 0 s is replaced by itself"), "{told}");
    assert_eq!(node(&cluster, 1, &["replace-after", "never"]).trim(), "OK");
    let mut load = Load::start(&cluster, &mut random);
    load.wait_for_in_flight(64);
    cluster.kill(3);
    std::thread::sleep(STILL);
    assert_eq!(state(&cluster, 0), "suspected");
    let waiting = format!("{:?}", shown(&cluster, 2, "waiting"));
    assert!(waiting.contains("never replaced by themselves"), "{waiting}");
    assert_eq!(shown(&cluster, 2, "replicas"), Value::Int(48), "nothing moves");

    assert_eq!(node(&cluster, 1, &["replace-after", "2s"]).trim(), "OK");
    until("it is absent", || state(&cluster, 0) == "absent");
    waits("all volumes are whole without it", || are_whole_without_it(&cluster, 0));
    load.ledger().watch();
    until("every counter takes increments", || load.ledger().resumed_after().is_some());
    cluster.one_fewer();
    load.check(&cluster);
    let tells =
        |index: usize| cluster.log_of(index).contains("n4 has been away for 2 s: its replicas get other places");
    assert!((0..3).all(tells), "{}", cluster.log_of(0));

    cluster.one_more();
    cluster.start_by_hand(3);
    until("it is back", || (0..4).all(|at| text(&shown(&cluster, at, "absent")).as_deref() == Some("no")));
    until("it has forgotten what others have", || figure(&mut cluster.client(3), "groups") == 0);
    load.check(&cluster);
    // A chain may be without a member for a moment on a busy machine; none of them gets n4 back.
    waits("all volumes are whole without it", || are_whole_without_it(&cluster, 3));
    assert!(!counts(&cluster, 1).contains_key(&4), "what has moved does not come back by itself");
    assert_eq!(ask(&mut cluster.client(3), "QUORATE NODE LEVEL"), Value::Okay);
    waits("all nodes have as many", || {
        counts(&cluster, 0).values().all(|&count| count == 48) && counts(&cluster, 0).len() == 4
    });
    load.check(&cluster);
    load.stop();
    cluster.stop_all();
}
