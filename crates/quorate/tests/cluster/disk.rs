//! Disks that fill up, fail, decay and are replaced, under real processes.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use redis::{Connection, RedisResult};

use crate::nodes::{Cluster, until};

/// Enough for the first segment of the log and the checkpoints, not for another segment.
const SMALL_DISK: &str = "size=220m";
const VALUE_BYTES: usize = 1 << 20;
/// A log segment takes no more of such values.
const VALUES_MAX: usize = 200;

/// A small file system of its own, where the test may mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Option<SmallDisk> {
        std::fs::create_dir_all(at).expect("a directory");
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", SMALL_DISK, "quorate-test"]).arg(at).stdin(Stdio::null());
        command.output().is_ok_and(|output| output.status.success()).then(|| SmallDisk(at.to_owned()))
    }

    /// Takes all the space that is left.
    fn fill(&self) {
        let mut file = File::create(self.0.join("ballast")).expect("space for a name");
        loop {
            match file.write(&[1; 64 << 10]) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return,
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn make_space(&self) {
        std::fs::remove_file(self.0.join("ballast")).expect("there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: the node may be about to end.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn set(client: &mut Connection, key: &str, value: &str) -> RedisResult<()> {
    redis::cmd("SET").arg(key).arg(value).exec(client)
}

fn get(client: &mut Connection, key: &str) -> RedisResult<Option<String>> {
    redis::cmd("GET").arg(key).query(client)
}

fn inspect(cluster: &Cluster, index: usize) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.arg("inspect").arg(cluster.node_directory(index)).stdin(Stdio::null()).output().expect("started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Three nodes, of which the second has a small file system. `None` where that cannot be had.
fn with_a_small_disk(name: &str) -> Option<(Cluster, SmallDisk)> {
    let mut cluster = Cluster::new(name, 3);
    let Some(disk) = SmallDisk::mount(&cluster.node_directory(1)) else {
        println!("SKIPPED: only root may mount a small file system");
        return None;
    };
    cluster.up();
    Some((cluster, disk))
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    let Some((mut cluster, disk)) = with_a_small_disk("full") else { return };
    let (mut first, mut second) = (cluster.client(0), cluster.client(1));
    until("both serve", || set(&mut first, "a", "1").is_ok() && set(&mut second, "b", "1").is_ok());
    disk.fill();
    // The others are a quorum and take all of this; the second node fills its log with it.
    let large = "x".repeat(VALUE_BYTES);
    let mut written = 0;
    let refusal = loop {
        set(&mut first, &format!("large{}", written % 8), &large).expect("a quorum has space");
        written += 1;
        match set(&mut second, "b", &written.to_string()) {
            Ok(()) => assert!(written < VALUES_MAX, "the disk does not fill"),
            Err(error) => break error,
        }
    };
    assert_eq!((refusal.code(), written > 10), (Some("MISCONF"), true), "{refusal:?} after {written}");
    for number in 0..20 {
        set(&mut first, "a", &number.to_string()).expect("a quorum has space");
        assert_eq!(get(&mut second, "a").expect("reads go on"), Some(number.to_string()));
        let refusal = set(&mut second, "b", "refused").expect_err("no space");
        assert_eq!(refusal.code(), Some("MISCONF"), "{refusal:?}");
    }
    let alarms = || cluster.status().nodes[1].own.as_ref().map(|own| own.alarms.join("; ")).unwrap_or_default();
    until("the status tells", || alarms().contains("no space left for the log"));
    disk.make_space();
    until("writes go on", || set(&mut second, "c", "after").is_ok());
    let check = |cluster: &Cluster| {
        for index in 0..3 {
            let mut client = cluster.client(index);
            for (key, value) in [("a", "19"), ("b", &*(written - 1).to_string()), ("c", "after"), ("large0", &large)] {
                until("the value is read", || get(&mut client, key).is_ok_and(|found| found.as_deref() == Some(value)));
            }
        }
    };
    check(&cluster);
    cluster.kill(1);
    cluster.start_by_hand(1);
    check(&cluster);
    cluster.stop_all();
}

#[test]
fn a_full_disk_ends_no_node_while_checkpoints_are_merged() {
    let Some((mut cluster, disk)) = with_a_small_disk("full-merge") else { return };
    let (mut first, mut second) = (cluster.client(0), cluster.client(1));
    until("both serve", || set(&mut first, "a", "1").is_ok() && set(&mut second, "b", "1").is_ok());
    let log_path = cluster.node_directory(1).join("log");
    let log = || std::fs::read_to_string(&log_path).unwrap_or_default();
    // Enough to be checkpointed a few times, and the disk is full while its files are merged.
    let large = "x".repeat(VALUE_BYTES);
    let mut number = 0;
    let mut write_some = |client: &mut Connection| {
        for _ in 0..24 {
            set(client, &format!("large{}", number % 48), &large).expect("a quorum has space");
            number += 1;
        }
    };
    write_some(&mut first);
    disk.fill();
    until("checkpoints find no space", || {
        write_some(&mut first);
        log().contains("no space left for checkpoints")
    });
    write_some(&mut first);
    // It may hear of nobody by now: what others send is to be logged, and too much of it waits.
    let pid_of = |cluster: &Cluster| cluster.status_of(1).ok()?.nodes[1].own.as_ref().map(|own| own.pid);
    let pid = pid_of(&cluster);
    assert!(pid.is_some(), "the node without space is there: {}", log());
    disk.make_space();
    until("there is space again", || log().contains("there is space for checkpoints again"));
    until("writes go on", || set(&mut second, "b", "after").is_ok());
    assert_eq!(pid_of(&cluster), pid, "{}", log());
    // One that has no space to say that it stopped stops all the same.
    disk.fill();
    cluster.down();
    assert!(log().contains("stopped; the next start takes"), "{}", log());
    disk.make_space();
    cluster.up();
    let mut second = cluster.client(1);
    until("it is back", || get(&mut second, "b").is_ok_and(|value| value.as_deref() == Some("after")));
    cluster.stop_all();
}

/// One node under strace, which makes all calls of a kind on each thread fail from some number on.
fn fails_and_recovers(name: &str, durability: &str, inject: &str, told: &str) {
    let mut cluster = Cluster::new(name, 1);
    let mut command = cluster.up_command();
    command.args(["--durability", durability]);
    cluster.up_as(command);
    set(&mut cluster.client(0), "before", "kept").expect("stored");
    cluster.down();
    let calls = "trace=fdatasync,pwrite64";
    let words = ["strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", calls, "-e", inject];
    cluster.start_by_hand_under(0, &words);
    let mut client = cluster.client(0);
    let mut acknowledged = 0u64;
    until("the disk fails", || match set(&mut client, "count", &(acknowledged + 1).to_string()) {
        Ok(()) => {
            acknowledged += 1;
            false
        }
        Err(error) if error.code() == Some("LOADING") || error.code() == Some("NOQUORUM") => false,
        Err(error) => {
            assert!(error.is_io_error() || error.is_connection_dropped(), "answered after a failed write: {error:?}");
            true
        }
    });
    assert_eq!(cluster.wait_by_hand(0), Some(1));
    let log = cluster.log_of(0);
    let last = log.lines().last().unwrap_or_default();
    assert!(last.starts_with("quorate: the log failed and this node stops: ") && last.contains(told), "{log}");
    assert!(last.contains("Input/output error"), "{last}");
    assert!(acknowledged > 0, "it failed before it served");
    cluster.start_by_hand(0);
    let mut client = cluster.client(0);
    let mut found = None;
    until("it serves again", || get(&mut client, "count").map(|value| found = value).is_ok());
    let found: u64 = found.and_then(|value| value.parse().ok()).expect("a number");
    assert!((acknowledged..=acknowledged + 1).contains(&found), "{found}, and {acknowledged} was acknowledged");
    assert_eq!(get(&mut client, "before").expect("read").as_deref(), Some("kept"));
    cluster.stop_all();
}

fn has_strace() -> bool {
    let has = Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success());
    if !has {
        println!("SKIPPED: strace is not installed, which makes system calls fail");
    }
    has
}

#[test]
fn a_failed_write_of_the_log_ends_the_process() {
    if has_strace() {
        fails_and_recovers("eio-write", "sync", "inject=pwrite64:error=EIO:when=40+", "cannot write ");
    }
}

#[test]
fn a_failed_sync_of_the_log_ends_the_process() {
    if has_strace() {
        // Here the log is written without direct I/O, and synced every 50 ms.
        fails_and_recovers("eio-sync", "interval", "inject=fdatasync:error=EIO:when=10+", "cannot sync ");
    }
}

#[test]
fn a_replaced_directory_stays_out_and_says_so() {
    let mut cluster = Cluster::started("replaced", 3);
    let mut first = cluster.client(0);
    for number in 0..50 {
        set(&mut first, &format!("key{number}"), "kept").expect("stored");
    }
    cluster.down();
    // A disk is replaced: what is left is the configuration.
    move_data(&cluster.node_directory(2), &cluster.data().join("lost"));
    cluster.start_by_hand(1);
    cluster.start_by_hand(2);
    // One whole member and one that lost its disk are no quorum.
    let refused = "n2 knows n3 by another data directory";
    until("the new node is refused", || cluster.log_of(1).contains(refused) && cluster.log_of(2).contains(refused));
    for index in [1, 2] {
        let refusal = set(&mut cluster.client(index), "key0", "never").expect_err("no quorum");
        assert!(matches!(refusal.code(), Some("LOADING" | "NOQUORUM" | "TIMEOUT" | "TRYAGAIN")), "{refusal:?}");
        let status = cluster.status_of(index).expect("told");
        let alarms: Vec<String> =
            status.nodes.iter().flat_map(|node| node.own.clone()).flat_map(|own| own.alarms).collect();
        assert!(alarms.iter().any(|alarm| alarm.contains(refused)), "node {}: {alarms:?}", index + 1);
    }
    let status = cluster.status_of(2).expect("told");
    let own = status.nodes[2].own.as_ref().expect("its own");
    assert!(own.alarms[0].starts_with("its data directory is new: it neither votes nor serves"), "{:?}", own.alarms);
    // Two whole members are one, and lose nothing.
    cluster.start_by_hand(0);
    let mut first = cluster.client(0);
    until("a quorum serves", || set(&mut first, "key0", "after").is_ok());
    for number in 1..50 {
        assert_eq!(get(&mut first, &format!("key{number}")).expect("read").as_deref(), Some("kept"));
    }
    cluster.stop_all();
    let seen = inspect(&cluster, 2);
    assert!(text(&seen.stdout).contains("new: not all other nodes have accepted it"), "{}", text(&seen.stdout));
}

/// From its next start on, this is the so manieth data directory of the node.
fn set_directory(cluster: &Cluster, index: usize, directory: u32) {
    let config = cluster.node_directory(index).join("node.toml");
    let text = std::fs::read_to_string(&config).expect("it was written");
    let is_kept = |line: &&str| !line.starts_with("directory = ");
    let kept: String = text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect();
    std::fs::write(&config, kept.replace("[node]\n", &format!("[node]\ndirectory = {directory}\n"))).expect("written");
}

/// Moves what is in one directory to another one, but for the configuration.
fn move_data(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory").map(|entry| entry.expect("listed").path()) {
        if !entry.ends_with("node.toml") {
            std::fs::rename(&entry, to.join(entry.file_name().expect("a name"))).expect("moved");
        }
    }
}

/// Objects with groups of their own that begin anew. A chain takes its members in again.
const OWN: [(&str, &str); 3] = [("key10", "paxos"), ("key11", "register"), ("key12", "paxos")];

#[test]
fn a_new_directory_takes_the_place_of_a_lost_one() {
    let mut cluster = Cluster::started("replacement", 3);
    let mut first = cluster.client(0);
    for number in 0..200 {
        set(&mut first, &format!("key{number}"), "kept").expect("stored");
    }
    for (key, protocol) in OWN {
        redis::cmd("QUORATE").arg(&["GROUP", "PROMOTE", key, "PROTOCOL", protocol]).exec(&mut first).expect("promoted");
    }
    cluster.down();
    (0..2).for_each(|index| cluster.start_by_hand(index));
    let (lost, kept_apart) = (cluster.node_directory(2), cluster.data().join("lost"));
    move_data(&lost, &kept_apart);
    set_directory(&cluster, 2, 2);
    cluster.start_by_hand(2);
    let is_silent = |cluster: &Cluster| {
        let status = cluster.status_of(2).expect("told");
        let own = status.nodes[2].own.as_ref().expect("its own");
        let mut members = status.volumes.iter().flat_map(|volume| &volume.members);
        !own.alarms.is_empty() || status.volumes.is_empty() || members.any(|member| member.silent.is_some())
    };
    until("all its replicas take part", || cluster.status_of(2).is_ok() && !is_silent(&cluster));
    set(&mut cluster.client(2), "key0", "after").expect("stored");
    let renewed = |cluster: &Cluster| {
        let info: String = redis::cmd("INFO").arg("quorate").query(&mut cluster.client(2)).expect("told");
        info.contains(&format!("own_groups_renewed:{}\r\n", OWN.len()))
    };
    until("own groups begin anew", || renewed(&cluster));
    // What the first one has now, nobody but the new one has besides.
    cluster.kill(1);
    let mut third = cluster.client(2);
    until("the other two are a quorum", || set(&mut third, "key1", "later").is_ok());
    // A slow machine may suspect the first one, too, for a moment.
    let mut read = |key: &str| {
        let mut value = None;
        until("the other two serve", || get(&mut third, key).map(|found| value = found).is_ok());
        value
    };
    for number in 2..200 {
        assert_eq!(read(&format!("key{number}")).as_deref(), Some("kept"));
    }
    assert_eq!(read("key0").as_deref(), Some("after"));
    for (key, _) in OWN {
        until("own groups are written", || set(&mut third, key, "later").is_ok());
    }
    // The lost directory is found again, too late.
    cluster.stop_by_hand(2);
    move_data(&lost, &cluster.data().join("second"));
    move_data(&kept_apart, &lost);
    set_directory(&cluster, 2, 1);
    cluster.start_by_hand(2);
    let refused = "n1 knows n3 by its data directory 2, which has taken the place of this one";
    until("the lost one is refused", || cluster.log_of(0).contains(refused) && cluster.log_of(2).contains(refused));
    cluster.stop_all();
}

#[test]
fn a_log_that_lost_its_end_after_a_clean_stop_silences_its_groups() {
    let mut cluster = Cluster::started("cut-short", 3);
    let mut first = cluster.client(0);
    for number in 0..200 {
        set(&mut first, &format!("key{number}"), "kept").expect("stored");
    }
    cluster.down();
    let segment = cluster.node_directory(2).join("wal/log-00000000000000000001.qlog");
    let file = OpenOptions::new().write(true).open(&segment).expect("the first segment");
    file.set_len(40_000).expect("cut short");
    let damaged = inspect(&cluster, 2);
    let told = text(&damaged.stdout);
    assert_eq!(damaged.status.code(), Some(1), "{told}");
    assert!(told.contains("DAMAGE the log is damaged: segment 1 is unreadable at offset "), "{told}");
    (0..3).for_each(|index| cluster.start_by_hand(index));
    let status = cluster.status_of(2).expect("told");
    let alarms = &status.nodes[2].own.as_ref().expect("its own").alarms;
    assert!(alarms[0].starts_with("the log is damaged: segment 1 is unreadable at offset "), "{alarms:?}");
    let mut client = cluster.client(2);
    for number in 0..200 {
        assert_eq!(get(&mut client, &format!("key{number}")), Ok(Some("kept".into())));
    }
    cluster.stop_all();
}

#[test]
fn a_lost_checkpoint_store_is_damage_and_no_start() {
    let mut cluster = Cluster::started("store-gone", 3);
    set(&mut cluster.client(0), "key", "kept").expect("stored");
    cluster.down();
    let directory = cluster.node_directory(2);
    std::fs::remove_dir_all(directory.join("checkpoint")).expect("removed");
    let seen = inspect(&cluster, 2);
    let told = text(&seen.stdout);
    assert_eq!(seen.status.code(), Some(1), "{told}");
    assert!(told.contains("lacks checkpoint: the node may have forgotten what it promised"), "{told}");
    assert!(told.contains("  unknown\n") && !told.contains("dropped"), "{told}");
    let around = Command::new(env!("CARGO_BIN_EXE_quorate")).arg("inspect").arg(directory.join("wal")).output();
    let told = text(&around.expect("started").stderr);
    assert!(told.contains(&format!("wal is not the data directory of a node; {} is", directory.display())), "{told}");
    (0..2).for_each(|index| cluster.start_by_hand(index));
    let mut first = cluster.client(0);
    until("a quorum serves", || get(&mut first, "key") == Ok(Some("kept".into())));
    cluster.stop_all();
}

#[test]
fn a_flipped_bit_silences_the_groups_that_it_may_concern() {
    let mut cluster = Cluster::started("flipped", 3);
    let mut first = cluster.client(0);
    for number in 0..200 {
        set(&mut first, &format!("key{number}"), "kept").expect("stored");
    }
    let running = inspect(&cluster, 2);
    assert!(text(&running.stderr).contains("is in use by another process (pid "), "{}", text(&running.stderr));
    cluster.down();
    let sound = inspect(&cluster, 2);
    let told = text(&sound.stdout);
    assert!(sound.status.success() && told.ends_with("no damage\n") && told.contains("stopped cleanly"), "{told}");
    // A bit of the log's second block.
    let segment = cluster.node_directory(2).join("wal/log-00000000000000000001.qlog");
    let file = OpenOptions::new().read(true).write(true).open(&segment).expect("the first segment");
    let mut byte = [0];
    file.read_exact_at(&mut byte, 4096 + 90).expect("read");
    file.write_all_at(&[byte[0] ^ 4], 4096 + 90).expect("written");
    let damaged = inspect(&cluster, 2);
    let told = text(&damaged.stdout);
    assert_eq!(damaged.status.code(), Some(1), "{told}");
    assert!(
        told.contains("DAMAGE the log is damaged: segment 1 is unreadable at offset 4096, up to segment 1"),
        "{told}"
    );
    (0..3).for_each(|index| cluster.start_by_hand(index));
    let status = cluster.status_of(2).expect("told");
    let own = status.nodes[2].own.as_ref().expect("its own");
    assert!(
        own.alarms[0].starts_with("the log is damaged: segment 1 is unreadable at offset 4096"),
        "{:?}",
        own.alarms
    );
    let silent = status.volumes.iter().flat_map(|volume| &volume.members).filter(|member| member.silent.is_some());
    let nodes: Vec<u32> = silent.map(|member| member.node).collect();
    assert!(!nodes.is_empty() && nodes.iter().all(|&node| node == 3), "{nodes:?}");
    cluster.stop_all();
}
