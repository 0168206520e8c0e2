//! The program as a person meets it: exit statuses, and one line where something is wrong.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread;

fn quorate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    quorate(arguments).output().expect("started")
}

/// The one line on standard error with which a command refuses.
fn refusal(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    text
}

/// The port of a server that answers each of its clients once.
fn answering(reply: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a client");
            let mut request = [0; 256];
            if stream.read(&mut request).is_ok_and(|length| length > 0) {
                stream.write_all(reply).expect("sent");
            }
        }
    });
    port.to_string()
}

/// A directory of its own for each test, gone when the test ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("quorate-line-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("plain text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn answers_are_printed_raw_in_a_pipe_and_errors_end_with_1() {
    let output = run(&["cli", "-p", &answering(b"$3\r\na b\r\n"), "GET", "k"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"a b\n"[..]));
    let output = run(&["cli", "-p", &answering(b"-ERR no\r\n"), "GET", "k"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b"ERR no\n"[..]));
}

#[test]
fn a_line_that_is_not_understood_keeps_no_other_from_being_sent() {
    let mut command = quorate(&["cli", "-p", &answering(b"$3\r\na b\r\n")]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    child.stdin.take().expect("a pipe").write_all(b"GET \"k\nGET k\n").expect("read");
    let output = child.wait_with_output().expect("it ends");
    let line = refusal(&output);
    assert!(line.contains("line 1: invalid arguments: a quote is not closed") && line.contains("GET \"k"), "{line}");
    assert_eq!(output.stdout, b"a b\n");
}

#[test]
fn nobody_there_is_one_line() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port().to_string();
    for command in [&["status"][..], &["cli", "PING"], &["bench"], &["namespace", "list"]] {
        let arguments: Vec<&str> = [&command[..1], &["-p", &free], &command[1..]].concat();
        let line = refusal(&run(&arguments));
        assert!(line.contains("is a node running there?"), "{arguments:?}: {line}");
    }
}

#[test]
fn another_server_is_no_cluster() {
    let line = refusal(&run(&["status", "-p", &answering(b"-ERR unknown command 'QUORATE'\r\n")]));
    assert!(line.contains("the node refuses: ERR unknown command"), "{line}");
    let line = refusal(&run(&["status", "-p", &answering(b"HTTP/1.1 400 Bad Request\r\n")]));
    assert!(line.contains("does not speak the Redis protocol"), "{line}");
}

#[test]
fn a_closed_output_is_no_panic() {
    let mut child =
        quorate(&["node", "--example-config"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_example_configuration_can_be_started_and_what_is_wrong_with_another_is_told() {
    let scratch = Scratch::new("example");
    std::fs::create_dir(&scratch.0).expect("made");
    let file = scratch.0.join("node.toml");
    let file = file.to_str().expect("plain text");
    let free: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let ports: Vec<String> = free.iter().map(|free| free.local_addr().expect("bound").port().to_string()).collect();
    let example = String::from_utf8(run(&["node", "--example-config"]).stdout).expect("text");
    let example = example.replace(":7000", &format!(":{}", ports[0]));
    let example = example.replace(":17000", &format!(":{}", ports[1])).replace(":8000", &format!(":{}", ports[2]));
    let check = |text: &str| {
        std::fs::write(file, text).expect("writable");
        run(&["node", "--check", "--config", file])
    };
    let line = refusal(&check(&example));
    assert!(line.contains(&format!("cannot listen on 127.0.0.1:{} for clients", ports[0])), "{line}");
    drop(free);
    let output = check(&example);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("node n1 of a cluster of 1; it can start"));
    assert_eq!(std::fs::read_dir(&scratch.0).expect("there").count(), 1, "nothing was made");
    let line = refusal(&check(&example.replacen("data_dir = \".\"", "data_dir = \"node.toml/x\"", 1)));
    assert!(line.contains("node.toml is not a directory"), "{line}");
    let line = refusal(&check("[node]\nid = 1\nnam = \"n1\"\n"));
    assert!(line.contains("line 3: unknown key node.nam; did you mean node.name?"), "{line}");
}

#[test]
fn systemd_is_told_when_a_node_serves_and_when_it_stops() {
    let scratch = Scratch::new("notify");
    std::fs::create_dir(&scratch.0).expect("made");
    let socket = std::os::unix::net::UnixDatagram::bind(scratch.0.join("notify")).expect("a socket");
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a socket");
    let free: Vec<TcpListener> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let ports: Vec<String> = free.iter().map(|free| free.local_addr().expect("bound").port().to_string()).collect();
    drop(free);
    let example = String::from_utf8(run(&["node", "--example-config"]).stdout).expect("text");
    let example = example.replace(":17000", &format!(":{}", ports[1])).replace(":8000", &format!(":{}", ports[2]));
    let file = scratch.0.join("node.toml");
    std::fs::write(&file, example.replace(":7000", &format!(":{}", ports[0]))).expect("writable");
    let mut command = quorate(&["node", "--config", file.to_str().expect("plain text")]);
    let mut child =
        command.env("NOTIFY_SOCKET", scratch.0.join("notify")).stderr(Stdio::null()).spawn().expect("started");
    let next = || {
        let mut message = [0; 256];
        let length = socket.recv(&mut message).expect("told in time");
        String::from_utf8_lossy(&message[..length]).into_owned()
    };
    assert_eq!(next(), "READY=1\nSTATUS=serving");
    let put = |level: &str| {
        let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{}", ports[2])).expect("HTTP is served");
        write!(stream, "PUT /log-level?level={level} HTTP/1.0\r\n\r\n").expect("read");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("answered");
        response
    };
    assert!(put("info,quorate_server=debug").ends_with("{\"level\":\"info,quorate_server=debug\"}"));
    assert!(put("loud").starts_with("HTTP/1.0 400 "));
    // What the file says counts again on SIGHUP.
    let pid = child.id().cast_signed();
    let level = || {
        let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{}", ports[2])).expect("HTTP is served");
        write!(stream, "GET /log-level HTTP/1.0\r\n\r\n").expect("read");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("answered");
        response
    };
    // SAFETY: a plain system call. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(pid, libc::SIGHUP) };
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !level().ends_with("{\"level\":\"info\"}") {
        assert!(std::time::Instant::now() < deadline, "{}", level());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    // SAFETY: a plain system call. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(child.id().cast_signed(), libc::SIGTERM) };
    assert!(next().starts_with("STOPPING=1\n"));
    assert!(child.wait().expect("ended").success());
}

#[test]
fn up_refuses_a_port_in_use_and_leaves_nothing_behind() {
    let scratch = Scratch::new("port");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let line = refusal(&run(&["up", "--nodes", "1", "--port", &port, "--dir", scratch.path()]));
    assert!(line.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{line}");
    assert!(!scratch.0.exists());
}

#[test]
fn up_refuses_a_directory_of_a_newer_version() {
    let scratch = Scratch::new("newer");
    let node = scratch.0.join("node-1");
    std::fs::create_dir_all(&node).expect("made");
    std::fs::write(node.join("node.toml"), run(&["node", "--example-config"]).stdout).expect("writable");
    std::fs::write(node.join("lock"), "").expect("writable");
    std::fs::write(node.join("identity"), "quorate-directory 2\n").expect("writable");
    let line = refusal(&run(&["up", "--dir", scratch.path()]));
    assert!(line.contains("written by a newer quorate (format 2); this one reads 1"), "{line}");
}

/// Ports for the clients, the peers and HTTP of one node that nobody uses now, told by the first and the last.
fn free_ports() -> (String, String) {
    let first = std::process::id() as u16 % 1000;
    let is_free = |port: &u16| {
        [*port, port + 10_000, port + 3_000].iter().all(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok())
    };
    let client = (15_000 + first..18_000).find(is_free).expect("a free port");
    (client.to_string(), (client + 3_000).to_string())
}

#[test]
fn a_secure_cluster_lets_in_who_has_what_it_asks_for() {
    let scratch = Scratch::new("secure");
    let (port, admin_port) = free_ports();
    let dir = scratch.path();
    let mut up =
        quorate(&["up", "--secure", "--nodes", "1", "--port", &port, "--admin-port", &admin_port, "--dir", dir])
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
    let mut told = std::io::BufReader::new(up.stdout.take().expect("piped"));
    let mut welcome = String::new();
    while !welcome.contains("Ctrl-C") {
        assert!(std::io::BufRead::read_line(&mut told, &mut welcome).expect("text") > 0, "it ended: {welcome}");
    }
    let (ca, password) = (format!("{dir}/tls/ca.pem"), format!("{dir}/password"));
    let with = |options: &[&str]| run(&[&["cli", "-p", &port][..], options, &["SET", "key", "value"]].concat());
    let output = with(&["--tls", "--cacert", &ca, "--password-file", &password]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let known = ["-p", &port, "--tls", "--cacert", &ca, "--password-file", &password];
    let run_known = |words: &[&str]| run(&[words, &known].concat());
    let status = run_known(&["status"]);
    let namespaces = run_known(&["namespace", "list"]);
    let bench =
        run_known(&["bench", "--seconds", "1", "--ops", "set", "--pipeline", "16", "--size", "5000", "--spread"]);
    let refused = with(&["--tls", "--cacert", &ca]);
    let plain = with(&[]);
    // SAFETY: a plain system call. The child has not been waited for, so its number is still its own.
    unsafe { libc::kill(up.id().cast_signed(), libc::SIGTERM) };
    assert!(up.wait().expect("ended").success());
    assert!(welcome.contains(&format!("quorate cli --tls --cacert {ca} --password-file {password}")), "{welcome}");
    assert_eq!(printed, "OK\n");
    for output in [status, namespaces, bench] {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(refused.stdout, b"NOAUTH Authentication required.\n");
    assert!(refusal(&plain).contains("is an encrypted port: give --tls and --cacert"), "{plain:?}");
}

#[test]
fn the_lab_prints_and_draws_what_it_measured() {
    let scratch = Scratch::new("lab");
    std::fs::create_dir_all(scratch.path()).expect("made");
    let drawing = scratch.0.join("figure-4.svg");
    let path = drawing.to_str().expect("plain text");
    let output = run(&["lab", "chain-throughput", "--seconds", "1", "--json", "--svg", path]);
    assert!(output.status.success(), "{output:?}");
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["chain_latencies"][1]["update_us"], 94_000);
    assert_eq!(printed["curves"].as_array().map(Vec::len), Some(12));
    assert!(std::fs::read_to_string(&drawing).expect("drawn").contains("requests per second"));
    let output = run(&["lab", "chain-throughput", "--seconds", "1", "--svg", scratch.path()]);
    assert!(refusal(&output).contains("cannot write"));
    let output = run(&["lab", "chain-outage", "--messages"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("n3 -> n1: e2 Connect"), "{text}");
    let output = run(&["lab", "rollup-messages"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("16234") && text.contains("12078"), "{text}");
    let output = run(&["lab", "qopt-reconfiguration", "--objects", "100", "--json", "--svg", path]);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["figure_7"]["points"].as_array().map(Vec::len), Some(10));
    assert!(std::fs::read_to_string(&drawing).expect("drawn").contains("Write quorums of all objects grow"));
    let output = run(&["lab", "flair-throughput", "--nodes", "5", "--operations", "1000", "--json", "--svg", path]);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["bars"].as_array().map(Vec::len), Some(24));
    assert!(std::fs::read_to_string(&drawing).expect("drawn").contains("5 replicas, Zipf 0.99 keys"));
    let output = run(&["lab", "qopt-oracle", "--built-in", "--json", "--svg", path]);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["trained"].as_array().map(Vec::len), Some(9));
    assert!(std::fs::read_to_string(&drawing).expect("drawn").contains("Mistakes of the oracle"));
    let output = run(&["lab", "qopt-oracle", "--built-in"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("figure 4 and table I: 168 workloads"), "{output:?}");
}
