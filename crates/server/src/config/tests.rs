use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, Path::new("node.toml"))
}

/// The message with which the example is refused once `from` is replaced by `to` in it.
fn refusal(from: &str, to: &str) -> String {
    assert!(Config::EXAMPLE.contains(from), "{from}");
    let message = parse(&Config::EXAMPLE.replacen(from, to, 1)).expect_err(to).to_string();
    assert!(!message.contains('\n'), "one line: {message}");
    message
}

#[test]
fn the_example_is_valid_and_shows_the_defaults() {
    let config = parse(Config::EXAMPLE).expect("valid");
    assert_eq!(config.defaults, Defaults { replicas: Some(1), reads: Some(Reads::Lease), ..Defaults::default() });
    assert_eq!(config.timing, Timing::default());
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.storage, Storage::default());
    assert_eq!(config.log, Log::default());
    assert_eq!(config.auth, Auth::default());
    assert_eq!(config.tls, Tls::default());
    assert_eq!(config.node.data_dir, here());
    assert!(!config.node.ephemeral);
}

#[test]
fn the_example_names_every_key() {
    let config = parse(Config::EXAMPLE).expect("valid");
    let written: toml::Table = toml::from_str(&config.to_toml()).expect("valid");
    let example: toml::Table = toml::from_str(Config::EXAMPLE).expect("valid");
    assert_eq!(written, example);
}

#[test]
fn what_is_written_is_read_back() {
    let mut config = parse(Config::EXAMPLE).expect("valid");
    config.defaults.durability = Durability::Interval;
    config.defaults.replicas = None;
    config.cluster.nodes[0].peer = Address { host: "::1".to_owned(), port: 9 };
    assert_eq!(parse(&config.to_toml()).expect("valid"), config);
}

#[test]
fn optional_tables_may_be_left_out() {
    let required = Config::EXAMPLE.split("[auth]").next().expect("a first part");
    let config = parse(required).expect("valid");
    assert_eq!(config.timing, Timing::default());
    assert_eq!(config.settings().replicas, 3, "the root makes no more than there are nodes");
}

#[test]
fn a_node_that_joins_lists_others_and_need_not_list_all() {
    let joins =
        |text: &str| parse(&text.replace("joins = false", "joins = true").replace("replicas = 1\n", "replicas = 5\n"));
    let alone = joins(Config::EXAMPLE).expect_err("it finds nobody").to_string();
    assert!(alone.contains("node.joins is true, and cluster.nodes lists no other node"), "{alone}");
    let other = "[[cluster.nodes]]\nid = 2\nname = \"n2\"\nclient = \"h:3\"\npeer = \"h:1\"\nadmin = \"h:2\"\n\n[auth]";
    let listing = Config::EXAMPLE.replacen("[auth]", other, 1);
    assert!(joins(&listing).expect("valid").node.joins);
    let makes = parse(&listing.replace("replicas = 1\n", "replicas = 5\n")).expect_err("too many").to_string();
    assert!(makes.contains("with 2 nodes in cluster.nodes it can be 1 to 2"), "{makes}");
}

/// The line of the example that begins so, from 1.
fn line_of(beginning: &str) -> usize {
    1 + Config::EXAMPLE.lines().position(|line| line.starts_with(beginning)).expect("there")
}

#[test]
fn unknown_keys_are_refused_with_their_line_and_the_nearest_known_one() {
    let line = line_of("heartbeat_ms");
    assert_eq!(
        refusal("heartbeat_ms", "hartbeat_ms"),
        format!("node.toml, line {line}: unknown key timing.hartbeat_ms; did you mean timing.heartbeat_ms?")
    );
    let line = line_of("[limits]");
    assert_eq!(
        refusal("[limits]", "[limit]"),
        format!("node.toml, line {line}: unknown key limit; did you mean limits?")
    );
    let line = 1 + line_of("[log]");
    assert_eq!(
        refusal("[log]", "[log]\ntimeout_ms = 1"),
        format!("node.toml, line {line}: unknown key log.timeout_ms; did you mean timing.timeout_ms?")
    );
    let nodes = refusal("name = \"n1\"\nclient", "names = \"n1\"\nclient");
    assert!(nodes.contains(": unknown key cluster.nodes.names; did you mean "), "{nodes}");
    let line = 1 + line_of("[limits]");
    assert_eq!(
        refusal("[limits]", "[limits]\nport = 1"),
        format!(
            "node.toml, line {line}: unknown key limits.port; `quorate node --example-config` prints every key there is"
        )
    );
    let client = refusal("[limits]", "[limits]\nclient = 5");
    assert!(client.ends_with("unknown key limits.client; did you mean limits.clients?"), "{client}");
    // Of several, the first in the file.
    let both = Config::EXAMPLE.replacen("[listen]", "[liste]", 1).replacen("heartbeat_ms", "hartbeat_ms", 1);
    assert!(parse(&both).expect_err("refused").to_string().contains("unknown key liste;"));
}

#[test]
fn syntax_and_types_are_refused_with_the_line() {
    let line = line_of("id = 1");
    let message = refusal("id = 1\n", "id = \"one\"\n");
    assert!(message.starts_with(&format!("node.toml, line {line}: ")), "{message}");
    let message = refusal("[node]", "[node");
    assert!(message.contains("line 4"), "{message}");
}

#[test]
fn bad_addresses_are_refused() {
    for bad in ["localhost", "localhost:27601", "127.0.0.1"] {
        let message = refusal("client = \"127.0.0.1:7000\"", &format!("client = {bad:?}"));
        assert!(message.contains("an IP address and a port, as in") && message.contains(bad), "{message}");
    }
    let message = refusal("peer = \"127.0.0.1:17000\"", "peer = \"127.0.0.1:7000\"");
    assert!(message.ends_with("listen.client and listen.peer are both 127.0.0.1:7000; use two ports"), "{message}");
    for bad in ["host", "host:", "host:0", "host:65536", ":1", "a b:1", "::1:1"] {
        assert!(bad.parse::<Address>().is_err(), "{bad}");
    }
    let address: Address = "[::1]:7000".parse().expect("an address");
    assert_eq!((address.host.as_str(), address.to_string().as_str()), ("::1", "[::1]:7000"));
}

#[test]
fn inconsistent_timings_are_refused() {
    let message = refusal("lease_held_ms = 400", "lease_held_ms = 450");
    assert!(message.contains("lease_held_ms (450) < lease_given_ms (450"), "{message}");
    assert!(refusal("suspicion_ms = 500", "suspicion_ms = 449").contains("does not fit together"));
    assert!(refusal("heartbeat_ms = 100", "heartbeat_ms = 200").contains("does not fit together"));
    assert!(refusal("timeout_ms = 5000", "timeout_ms = 0").contains("timing.timeout_ms is 0"));
    assert!(refusal("heartbeat_ms = 100", "heartbeat_ms = 9223372036854775807").contains("timing.heartbeat_ms"));
}

#[test]
fn nodes_must_be_told_apart_and_include_this_one() {
    assert!(refusal("id = 1", "id = 2").contains("does not list this node (id 2)"));
    assert!(refusal("name = \"n1\"", "name = \"first\"").contains("use one name"));
    assert!(refusal("name = \"n1\"\nclient", "name = \"a,b\"\nclient").contains("cannot be a name"));
    let twin = "[[cluster.nodes]]\nid = 2\nname = \"n2\"\nclient = \"127.0.0.1:7000\"\npeer = \"h:1\"\nadmin = \"h:2\"\n\n[defaults]";
    assert!(refusal("[defaults]", twin).contains("the address 127.0.0.1:7000 to two nodes, n1 and n2"));
    let namesake = twin.replace("n2", "n1").replace("127.0.0.1:7000", "h:3");
    assert!(refusal("[defaults]", &namesake).contains("the name \"n1\" to two nodes, 1 and 2"));
}

#[test]
fn limits_and_counts_are_kept() {
    assert!(refusal("slow_command_us = 10000", "slow_command_us = -2").contains("log.slow_command_us is -2"));
    assert!(refusal("replicas = 1", "replicas = 2").contains("it can be 1 to 1"));
    assert!(refusal("volumes = 64", "volumes = 4097").contains("defaults.volumes is 4097"));
    let registers = Config::EXAMPLE.replacen("protocol = \"paxos\"", "protocol = \"register\"", 1);
    for reads in ["lease", "local", "apportioned"] {
        let of_others = parse(&registers.replacen("reads = \"lease\"", &format!("reads = {reads:?}"), 1));
        let refused = of_others.expect_err(reads).to_string();
        assert!(refused.contains(reads) && refused.contains("defaults.protocol is \"register\""), "{refused}");
    }
    for reads in ["reads = \"quorum\"", ""] {
        assert!(parse(&registers.replacen("reads = \"lease\"", reads, 1)).is_ok(), "{reads}");
    }
    let routed = Config::EXAMPLE.replacen("reads = \"lease\"", "reads = \"routed\"", 1);
    assert!(parse(&routed).is_ok());
    let of_chains = parse(&routed.replacen("protocol = \"paxos\"", "protocol = \"chain\"", 1));
    assert!(of_chains.expect_err("reads of chains are not routed").to_string().contains("\"apportioned\""));
    assert!(refusal("clients = 10000", "clients = 0").contains("allow at least one"));
    assert!(refusal("query_buffer_bytes = 33554432", "query_buffer_bytes = 1024").contains("largest value"));
    assert!(refusal("slow_commands_max = 128", "slow_commands_max = 10001").contains("it can be 0 to 10000"));
    assert!(refusal("level = \"info\"", "level = \"inf\"").contains("log.level cannot be used: \"inf\" is no level"));
    assert!(
        refusal("client_buffers_bytes = 1073741824", "client_buffers_bytes = 67108863").contains("for all clients")
    );
    assert!(refusal("request_s = 120", "request_s = 0").contains("at least a second"));
    assert!(refusal("maxmemory = 0", "maxmemory = \"31mb\"").contains("a node alone needs more"));
    assert!(refusal("log_bytes = 536870912", "log_bytes = \"255mb\"").contains("at least 268435456"));
    for amount in ["\"1023b\"", "\"17mb\"", "1"] {
        let refused = refusal("digest_bytes = 0", &format!("digest_bytes = {amount}"));
        assert!(refused.contains("it can be 0, for off, or 1024 to 16777216"), "{refused}");
    }
    assert!(refusal("digest_bytes = 0", "digest_bytes = \"off\"").contains("an amount of memory is like"));
    for (amount, bytes) in [("\"64kb\"", 64 << 10), ("1024", 1024), ("\"16mb\"", 16 << 20), ("0", 0)] {
        let text = Config::EXAMPLE.replacen("digest_bytes = 0", &format!("digest_bytes = {amount}"), 1);
        assert_eq!(parse(&text).expect("valid").groups.digest_bytes, Bytes(bytes));
    }
    assert!(refusal("checkpoint_slots = 32768", "checkpoint_slots = 0").contains("at least 1"));
    assert!(refusal("change me, keep me private", "short").contains("at least 16 characters"));
}

#[test]
fn the_secret_is_never_printed() {
    let config = parse(Config::EXAMPLE).expect("valid");
    assert!(!format!("{config:?}").contains("keep me private"));
}

#[test]
fn hashes_are_read_back_and_anything_else_is_refused() {
    let hash = crate::auth::secrets::cheap_hash(b"secret");
    let token_hash = crate::auth::secrets::Token::random().expect("random").hash();
    let text = Config::EXAMPLE.replacen("password_hash = \"\"", &format!("password_hash = \"{hash}\""), 1);
    let text = text.replacen("admin_token_hash = \"\"", &format!("admin_token_hash = \"{token_hash}\""), 1);
    let config = parse(&text).expect("valid");
    assert_eq!(config.auth, Auth { password_hash: Some(hash), admin_token_hash: Some(token_hash), insecure: false });
    assert_eq!(parse(&config.to_toml()).expect("valid"), config);
    let refused = refusal("password_hash = \"\"", "password_hash = \"secret\"");
    assert!(refused.ends_with("make one with `quorate password`"), "{refused}");
    let refused = refusal("admin_token_hash = \"\"", "admin_token_hash = \"secret\"");
    assert!(refused.ends_with("make one with `quorate token`"), "{refused}");
}

#[test]
fn strangers_are_not_served_unless_the_node_is_told_to() {
    let hash = crate::auth::secrets::cheap_hash(b"secret");
    let token_hash = crate::auth::secrets::Token::random().expect("random").hash();
    let mut config = parse(Config::EXAMPLE).expect("valid");
    assert_eq!(config.check_exposure(), Ok(()));
    for address in ["0.0.0.0:7000", "10.0.0.1:7000", "[::]:7000"] {
        config.auth = Auth::default();
        config.listen.client = address.parse().expect("an address");
        let refused = config.check_exposure().expect_err(address);
        assert!(refused.starts_with(&format!("listen.client is {address}")), "{refused}");
        assert!(refused.contains("`quorate password`"), "{refused}");
        config.auth.password_hash = Some(hash.clone());
        assert_eq!(config.check_exposure(), Ok(()));
    }
    config.listen.admin = "0.0.0.0:8000".parse().expect("an address");
    let refused = config.check_exposure().expect_err("no token");
    assert!(refused.contains("`quorate token`"), "{refused}");
    config.auth.admin_token_hash = Some(token_hash);
    assert_eq!(config.check_exposure(), Ok(()));
    config.auth = Auth::default();
    config.tls = Tls { client: true, client_certificates: true, ..Tls::default() };
    assert!(config.check_exposure().expect_err("HTTP is open").contains("listen.admin"));
    config.tls.admin = true;
    assert_eq!(config.check_exposure(), Ok(()));
    config.tls = Tls::default();
    config.auth = Auth { insecure: true, ..Auth::default() };
    assert_eq!(config.check_exposure(), Ok(()));
    for address in ["127.0.0.1:7000", "127.9.9.9:7000", "[::1]:7000", "[::ffff:127.0.0.1]:7000"] {
        config = parse(Config::EXAMPLE).expect("valid");
        config.listen.client = address.parse().expect("an address");
        assert_eq!(config.check_exposure(), Ok(()), "{address}");
    }
}

#[test]
fn names_that_no_certificate_can_hold_cannot_be_encrypted() {
    let mut config = parse(Config::EXAMPLE).expect("valid");
    for name in ["n1", "node-1.example.org", "a_b"] {
        config.cluster.nodes[0].name = name.to_owned();
        config.node.name = name.to_owned();
        config.tls.peer = true;
        assert_eq!(config.check(), Ok(()), "{name}");
    }
    for name in ["-n1", "10.0.0.1", "17"] {
        config.cluster.nodes[0].name = name.to_owned();
        config.node.name = name.to_owned();
        config.tls.peer = false;
        assert_eq!(config.check(), Ok(()), "{name}");
        config.tls.peer = true;
        assert!(config.check().expect_err(name).starts_with("tls.peer needs names"));
    }
}

#[test]
fn amounts_of_memory_are_written_as_in_redis() {
    for (text, bytes) in
        [("0", 0), ("100", 100), ("1k", 1_000), ("1kb", 1_024), ("512MB", 512 << 20), ("2g", 2_000_000_000), ("7b", 7)]
    {
        assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
    }
    for text in ["", "mb", "-1", "1.5gb", "1 gb", "18446744073709551615kb"] {
        assert!(text.parse::<Bytes>().is_err(), "{text}");
    }
    let written = |value: &str| parse(&Config::EXAMPLE.replacen("maxmemory = 0", &format!("maxmemory = {value}"), 1));
    assert_eq!(written("536870912").expect("valid").limits.maxmemory, Bytes(512 << 20));
    assert_eq!(written("\"512mb\"").expect("valid").limits.maxmemory, Bytes(512 << 20));
    assert!(
        written("\"much\"").expect_err("no amount").to_string().contains("like 536870912 or \"512mb\", not \"much\"")
    );
    assert!(written("true").is_err());
    assert_eq!(parse(&written("\"1gb\"").expect("valid").to_toml()).expect("valid").limits.maxmemory, Bytes(1 << 30));
}

#[test]
fn applications_are_named_once_and_have_an_address() {
    let address = "address = \"127.0.0.1:9100\"";
    let refused = refusal(address, "address = \"somewhere\"");
    assert!(refused.contains("an application's address is unix:PATH, or an IP address and a port"), "{refused}");
    let refused = refusal(address, "address = \"unix:\"");
    assert!(refused.contains("lacks the path"), "{refused}");
    let unix = Config::EXAMPLE.replacen(address, "address = \"unix:/run/stock.sock\"", 1);
    let read = parse(&unix).expect("valid");
    assert_eq!(read.applications[0].address, ApplicationAddress::Unix("/run/stock.sock".into()));
    assert_eq!(parse(&read.to_toml()).expect("valid"), read);
    let refused = refusal("connections = 4", "connections = 0");
    assert!(refused.contains("connections of \"stock\" is 0; it can be 1 to 256"), "{refused}");
    let refused = refusal("timeout_ms = 1000", "timeout_ms = 60001");
    assert!(refused.contains("timeout_ms of \"stock\" is 60001; it can be 1 to 60000"), "{refused}");
    let twice = "timeout_ms = 1000\n[[applications]]\nname = \"stock\"\naddress = \"[::1]:1\"";
    let refused = refusal("timeout_ms = 1000", twice);
    assert!(refused.contains("applications lists \"stock\" twice"), "{refused}");
    let refused = refusal("name = \"stock\"", "name = \"a b\"");
    assert!(refused.contains("applications: "), "{refused}");
    let refused = refusal("connections = 4", "conections = 4");
    assert!(
        refused.contains("unknown key applications.conections; did you mean applications.connections?"),
        "{refused}"
    );
}
