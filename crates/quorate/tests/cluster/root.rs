//! The root, which says where everything is, moves itself.

use std::process::{Command, Output};

use redis::Value;

use crate::load::Load;
use crate::moves::{drain, started};
use crate::nodes::{Cluster, until};
use crate::random::Random;
use crate::registers::ask;

/// `quorate ...`, said to a node.
fn quorate(cluster: &Cluster, at: usize, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(words).args(["-p", &cluster.address(at).1.to_string()]);
    let Output { status, stdout, stderr } = command.output().expect("it is a program");
    let told = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{words:?}: {told}{}", String::from_utf8_lossy(&stderr));
    told
}

/// The root has these members, all of which take part, and nobody is on the way.
fn is_on(cluster: &Cluster, at: usize, members: &[u32]) -> bool {
    let root = cluster.status_of(at).unwrap_or_default().root;
    let are_there = root.members.iter().all(|member| member.silent.is_none() && member.lag.is_some());
    let is_still = root.joining.is_empty() && root.leaving.is_empty();
    are_there && is_still && root.members.iter().map(|member| member.node).eq(members.iter().copied())
}

#[test]
fn the_root_leaves_a_node_and_goes_on_without_another_one_while_clients_write() {
    let mut random = Random::announced();
    let mut cluster = started("root-moves", "chain");
    let mut load = Load::start(&cluster, &mut random);
    let told = quorate(&cluster, 1, &["root", "show"]);
    assert!(told.contains("members  n1, n2, n3"), "{told}");
    // Whoever coordinates it, too.
    for (from, to, members) in [("n1", "n4", [4, 2, 3]), ("n4", "n1", [1, 2, 3]), ("n2", "n4", [1, 4, 3])] {
        assert_eq!(quorate(&cluster, 2, &["root", "move", "--from", from, "--to", to]).trim(), "OK");
        (0..4).for_each(|at| until("the root has moved", || is_on(&cluster, at, &members)));
        load.check(&cluster);
    }
    let told = drain(&cluster, 0, "n4");
    assert!(told.contains("n4 has no replica of a volume or of the root any more"), "{told}");
    (0..4).for_each(|at| until("the root has left it", || is_on(&cluster, at, &[1, 2, 3])));
    cluster.kill(3);
    let remove = || {
        Command::new(env!("CARGO_BIN_EXE_quorate"))
            .args(["node", "remove", "n4", "-p", &cluster.address(1).1.to_string()])
            .output()
            .expect("it is a program")
    };
    until("it is removed", || remove().status.success());
    cluster.one_fewer();
    // One of the root's members that were there from the start is lost, and it decides.
    cluster.kill(0);
    until("the root decides", || ask(&mut cluster.client(2), "QUORATE NAMESPACE CREATE 7 VOLUMES 1") == Value::Okay);
    cluster.start_by_hand(0);
    until("it hears of it", || is_on(&cluster, 0, &[1, 2, 3]));
    load.ledger().watch();
    until("every counter takes increments", || load.ledger().resumed_after().is_some());
    load.check(&cluster);
    load.stop();
    cluster.stop_all();
}

#[test]
fn a_cluster_that_was_made_of_one_node_survives_the_loss_of_that_one_once_it_has_grown() {
    let mut cluster = Cluster::started("root-grows", 1);
    assert!(is_on(&cluster, 0, &[1]));
    cluster.down();
    cluster.one_more();
    cluster.one_more();
    cluster.up();
    (0..3).for_each(|at| until("the root is on all nodes", || is_on(&cluster, at, &[1, 2, 3])));
    cluster.kill(0);
    until("the root decides", || ask(&mut cluster.client(2), "QUORATE NAMESPACE CREATE 7 VOLUMES 1") == Value::Okay);
    cluster.start_by_hand(0);
    until("it hears of it", || is_on(&cluster, 0, &[1, 2, 3]));
    cluster.stop_all();
    cluster.up();
    until("it is where it was", || is_on(&cluster, 1, &[1, 2, 3]));
    cluster.stop_all();
}
