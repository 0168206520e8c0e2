//! Encrypted ports: who is let in, who is told what, and what a change of the files does.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_server::config::Tls;
use quorate_server::tls::client_config;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConnection, StreamOwned};

use crate::common::{Nodes, PATIENCE, until};
use crate::strangers::{assert_closed, connect, noise};

/// Signs certificates into a directory.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    fn new(directory: &Path) -> Authority {
        std::fs::create_dir_all(directory).expect("made");
        let mut params = CertificateParams::new(Vec::new()).expect("valid");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("signed");
        std::fs::write(directory.join("ca.pem"), certificate.pem()).expect("written");
        Authority { issuer: Issuer::new(params, key), directory: directory.to_owned() }
    }

    /// A certificate for these names, in the files that are called like this.
    fn issue(&self, file: &str, names: &[&str]) {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().expect("a key");
        let certificate = CertificateParams::new(names).and_then(|params| params.signed_by(&key, &self.issuer));
        std::fs::write(self.at(&format!("{file}-key.pem")), key.serialize_pem()).expect("written");
        std::fs::write(self.at(&format!("{file}.pem")), certificate.expect("signed").pem()).expect("written");
    }

    fn at(&self, file: &str) -> PathBuf {
        self.directory.join(file)
    }

    fn tls(&self, file: &str) -> Tls {
        Tls {
            certificate: self.at(&format!("{file}.pem")),
            key: self.at(&format!("{file}-key.pem")),
            ca: self.at("ca.pem"),
            ..Tls::default()
        }
    }

    /// A connection to a port at which whoever answers must be 127.0.0.1.
    fn connect(&self, address: SocketAddr, identity: Option<&str>) -> StreamOwned<ClientConnection, TcpStream> {
        let identity = identity.map(|file| (self.at(&format!("{file}.pem")), self.at(&format!("{file}-key.pem"))));
        let identity = identity.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        let config = client_config(&self.at("ca.pem"), identity).expect("good files");
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let session = ClientConnection::new(Arc::new(config), name).expect("a session");
        let stream = TcpStream::connect(address).expect("somebody listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is open");
        StreamOwned::new(session, stream)
    }

    /// What a node shows to a new client, if it serves it.
    fn shown(&self, address: SocketAddr) -> Option<CertificateDer<'static>> {
        let mut client = self.connect(address, None);
        let served = ask(&mut client, b"PING\r\n", b"+PONG\r\n");
        client.conn.peer_certificates().filter(|_| served).map(|chain| chain[0].clone())
    }
}

/// Nodes that each have a certificate for their name and for 127.0.0.1.
fn certified(count: usize) -> (Nodes, Authority) {
    let mut nodes = Nodes::new(count);
    let authority = Authority::new(&nodes.directory.join("tls"));
    for config in &mut nodes.configs {
        authority.issue(&config.node.name, &[&config.node.name, "127.0.0.1"]);
        config.tls = authority.tls(&config.node.name);
    }
    (nodes, authority)
}

/// Sends something and reads as much as is expected; whether it was that.
fn ask(stream: &mut (impl Read + Write), request: &[u8], expected: &[u8]) -> bool {
    let mut reply = vec![0; expected.len()];
    stream.write_all(request).and_then(|()| stream.read_exact(&mut reply)).is_ok() && reply == expected
}

#[test]
fn a_client_with_tls_is_served_and_one_without_is_told() {
    let (mut nodes, authority) = certified(1);
    nodes.configs[0].tls.client = true;
    nodes.start(0);
    let address = nodes.configs[0].listen.client;
    let mut client = authority.connect(address, None);
    // More than a record, a read or a turn takes, both ways.
    let large = "x".repeat(1 << 20);
    let echo = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{large}\r\n", large.len());
    let reply = format!("${}\r\n{large}\r\n", large.len());
    for _ in 0..3 {
        assert!(ask(&mut client, echo.as_bytes(), reply.as_bytes()));
    }
    assert!(ask(&mut client, b"PING\r\n".repeat(100).as_slice(), b"+PONG\r\n".repeat(100).as_slice()));
    client.conn.send_close_notify();
    client.flush().expect("it is open");
    assert_eq!(client.read(&mut [0; 1]).expect("a goodbye in return"), 0);

    let mut plain = nodes.client(0);
    plain.send(&["PING"]);
    assert_eq!(plain.line(), "-ERR this port speaks TLS: connect with TLS, as in redis-cli --tls");
    assert_eq!(plain.stream.read(&mut [0; 1]).expect("an end"), 0);
}

#[test]
fn a_client_without_a_certificate_is_refused_where_one_is_asked_for() {
    let (mut nodes, authority) = certified(1);
    authority.issue("app", &["app"]);
    let stranger = Authority::new(&nodes.directory.join("elsewhere"));
    stranger.issue("app", &["app"]);
    std::fs::copy(stranger.at("app.pem"), authority.at("stranger.pem")).expect("copied");
    std::fs::copy(stranger.at("app-key.pem"), authority.at("stranger-key.pem")).expect("copied");
    nodes.configs[0].tls.client = true;
    nodes.configs[0].tls.client_certificates = true;
    nodes.start(0);
    let address = nodes.configs[0].listen.client;
    assert!(ask(&mut authority.connect(address, Some("app")), b"PING\r\n", b"+PONG\r\n"));
    assert!(!ask(&mut authority.connect(address, None), b"PING\r\n", b"+PONG\r\n"));
    assert!(!ask(&mut authority.connect(address, Some("stranger")), b"PING\r\n", b"+PONG\r\n"));
}

#[test]
fn encrypted_links_carry_a_cluster() {
    let (mut nodes, authority) = certified(3);
    nodes.configs.iter_mut().for_each(|config| config.tls.peer = true);
    (0..3).for_each(|index| nodes.start(index));
    for number in 1..=10 {
        assert_eq!(nodes.client(0).call_until_served(&["INCR", "counter"]), format!(":{number}"));
    }
    let large = "x".repeat(3 << 20);
    assert_eq!(nodes.client(1).call_until_served(&["SET", "large", &large]), "+OK");
    assert_eq!(nodes.client(2).call_until_served(&["GET", "large"]), large);
    nodes.kill(2);
    assert_eq!(nodes.client(1).call_until_served(&["INCR", "counter"]), ":11");
    nodes.start(2);
    assert_eq!(nodes.client(2).call_until_served(&["INCR", "counter"]), ":12");
    // Whoever shows no certificate learns nothing but that.
    let mut stranger = authority.connect(nodes.configs[0].listen.peer, None);
    let refused = stranger.read(&mut [0; 1]).expect_err("refused");
    assert_eq!(refused.kind(), ErrorKind::InvalidData, "{refused}");
    // And a node that greets plainly is told by a message that it understands.
    let mut plain = TcpStream::connect(nodes.configs[0].listen.peer).expect("somebody listens");
    plain.set_read_timeout(Some(PATIENCE)).expect("it is open");
    plain.write_all(b"\x43\x00\x01QUORATE\n\x01").expect("it is read");
    let mut told = Vec::new();
    plain.read_to_end(&mut told).expect("an end");
    assert!(String::from_utf8_lossy(&told).ends_with("set tls.peer alike in every node.toml file"), "{told:?}");
}

/// A third node that cannot be reached by its name, and does not get in under another's.
fn stays_alone(mut nodes: Nodes) {
    nodes.configs.iter_mut().for_each(|config| config.tls.peer = true);
    (0..3).for_each(|index| nodes.start(index));
    // A cluster first serves once each has accepted all others: this one will not.
    until("the others are linked", || nodes.configs[0].node.data_dir.join("peers").exists());
    let reply = nodes.client(2).call(&["GET", "key"]);
    assert!(reply.starts_with("-LOADING") || reply.starts_with("-NOQUORUM"), "{reply}");
    let known = std::fs::read_to_string(nodes.configs[0].node.data_dir.join("peers")).expect("there");
    assert!(known.contains("node 2 ") && !known.contains("node 3 "), "{known}");
}

#[test]
fn a_node_with_a_certificate_for_another_name_stays_alone() {
    let (nodes, authority) = certified(3);
    authority.issue("n3", &["n2", "n4", "127.0.0.1"]);
    stays_alone(nodes);
}

#[test]
fn a_node_with_a_certificate_by_another_authority_stays_alone() {
    let (mut nodes, _authority) = certified(3);
    let stranger = Authority::new(&nodes.directory.join("elsewhere"));
    stranger.issue("n3", &["n3", "127.0.0.1"]);
    nodes.configs[2].tls = stranger.tls("n3");
    stays_alone(nodes);
}

#[test]
fn http_is_encrypted_too() {
    let (mut nodes, authority) = certified(1);
    nodes.configs[0].tls.admin = true;
    nodes.start(0);
    let mut client = authority.connect(nodes.configs[0].listen.admin, None);
    client.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("it is read");
    let mut response = String::new();
    client.read_to_string(&mut response).expect("a response");
    assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("well\n"), "{response}");
    let (status, body) = nodes.http(0, "GET /healthz");
    assert_eq!((status, body.as_str()), (400, "{\"error\":\"this port speaks TLS: use https\"}\n"));
    // Somebody who says nothing holds nobody up.
    let _silent = TcpStream::connect(nodes.configs[0].listen.admin).expect("somebody listens");
    let mut client = authority.connect(nodes.configs[0].listen.admin, None);
    assert!(ask(&mut client, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", b"HTTP/1.1 200"));
}

#[test]
fn new_certificates_are_taken_without_a_restart_and_bad_ones_are_not() {
    let (mut nodes, authority) = certified(1);
    nodes.configs[0].tls.client = true;
    nodes.start(0);
    let address = nodes.configs[0].listen.client;
    let mut old_client = authority.connect(address, None);
    assert!(ask(&mut old_client, b"PING\r\n", b"+PONG\r\n"));
    let first = authority.shown(address).expect("served");
    // A certificate that its key does not fit is looked at and left alone, until there is one that it fits.
    std::fs::write(authority.at("n1.pem"), "garbage").expect("written");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(authority.shown(address).as_ref(), Some(&first));
    authority.issue("n1", &["n1", "127.0.0.1"]);
    until("the new certificate is shown", || authority.shown(address).is_some_and(|shown| shown != first));
    assert!(ask(&mut old_client, b"PING\r\n", b"+PONG\r\n"), "connections that exist stay");
}

#[test]
fn a_node_without_good_files_does_not_start() {
    let (mut nodes, authority) = certified(1);
    nodes.configs[0].tls.client = true;
    let refusal =
        |nodes: &Nodes| quorate_server::Node::start(nodes.configs[0].clone()).expect_err("refused").to_string();
    authority.issue("other", &["n1"]);
    nodes.configs[0].tls.key = authority.at("other-key.pem");
    assert!(refusal(&nodes).contains("do not go together"), "{}", refusal(&nodes));
    nodes.configs[0].tls.key = authority.at("n1.pem");
    assert!(refusal(&nodes).contains("it must hold a private key in PEM"), "{}", refusal(&nodes));
    nodes.configs[0].tls.key = authority.at("missing.pem");
    assert!(refusal(&nodes).contains("missing.pem: No such file"), "{}", refusal(&nodes));
}

#[test]
fn garbage_at_encrypted_ports_harms_nobody() {
    let (mut nodes, authority) = certified(1);
    let tls = &mut nodes.configs[0].tls;
    (tls.client, tls.peer, tls.admin) = (true, true, true);
    nodes.start(0);
    let listen = nodes.configs[0].listen;
    let mut half_open = Vec::new();
    for (address, identity) in [(listen.client, None), (listen.peer, Some("n1")), (listen.admin, None)] {
        for seed in 0..48 {
            // No handshake, one that breaks off, and one whose first message makes no sense.
            let start = [&b""[..], b"\x16", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"][seed as usize % 3];
            let mut stream = connect(address);
            // It may be refused before all of it is written.
            let _ = stream.write_all(start).and_then(|()| stream.write_all(&noise(seed, 1 << (seed % 16))));
            half_open.push(stream);
        }
        // What comes out of the encryption is garbage too.
        for seed in 0..16 {
            let mut stream = authority.connect(address, identity);
            let _ = stream.write_all(&noise(seed, 1 << seed)).and_then(|()| stream.write_all(b"\r\n\r\n"));
        }
        let mut stream = authority.connect(address, identity);
        let _ = stream.write_all(&noise(7, 4 << 20));
        assert_closed(&mut stream);
    }
    // Those that neither went on nor left hold nobody up.
    assert!(ask(&mut authority.connect(listen.client, None), b"PING\r\n", b"+PONG\r\n"));
    let mut http = authority.connect(listen.admin, None);
    assert!(ask(&mut http, b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", b"HTTP/1.1 200"));
}

#[test]
fn a_client_that_reads_nothing_is_disconnected_through_tls_too() {
    let (mut nodes, authority) = certified(1);
    nodes.configs[0].tls.client = true;
    nodes.configs[0].limits.output_buffer_bytes = 17 << 20;
    nodes.start(0);
    let address = nodes.configs[0].listen.client;
    let value = "v".repeat(4 << 20);
    let set = format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${}\r\n{value}\r\n", value.len());
    until("it serves", || ask(&mut authority.connect(address, None), set.as_bytes(), b"+OK\r\n"));
    let mut greedy = authority.connect(address, None);
    greedy.write_all(&b"GET large\r\n".repeat(64)).expect("it is read");
    let is_gone = || nodes.http(0, "GET /metrics").1.contains("\nquorate_clients_connected 0\n");
    until("it is disconnected", is_gone);
    let mut received = 0;
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = greedy.read(&mut buffer) {
        received += length;
    }
    assert!(received < 64 * value.len(), "{received} bytes were kept for it");
    assert!(ask(&mut authority.connect(address, None), b"PING\r\n", b"+PONG\r\n"));
}
