//! What the front says of itself, of its clients and of its commands.

mod support;

use quorate_front::{Limits, REDIS_VERSION};
use support::{NOW_MS, Talk};

#[test]
fn hello_changes_the_version_and_describes_the_server() {
    let mut talk = Talk::default();
    let fields = |proto: u8| {
        format!(
            r"$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n{REDIS_VERSION}\r\n$5\r\nproto\r\n:{proto}\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
        )
    };
    assert_eq!(talk.ask("hello"), format!(r"*14\r\n{}", fields(2)));
    assert_eq!(talk.ask("hello 3"), format!(r"%7\r\n{}", fields(3)));
    assert_eq!(talk.ask("hello"), format!(r"%7\r\n{}", fields(3)));
    assert_eq!(talk.ask("get a"), r"_\r\n");
    assert_eq!(talk.ask("hello 2 auth default secret setname joe"), format!(r"*14\r\n{}", fields(2)));
    assert_eq!(talk.ask("client getname"), r"$3\r\njoe\r\n");
}

#[test]
fn a_reply_has_the_version_that_its_request_was_made_in() {
    let mut talk = Talk::default();
    talk.send("get a\r\nhello 3\r\nget a\r\n");
    talk.deliver_all(|length| length - 1);
    let reply = talk.read();
    assert!(reply.starts_with(r"$-1\r\n%7") && reply.ends_with(r"_\r\n"), "{reply}");
}

#[test]
fn what_client_libraries_open_with() {
    let mut talk = Talk::default();
    talk.send("hello 3\r\nclient setinfo LIB-NAME redis-py\r\nclient setinfo LIB-VER 5.0.1\r\n");
    assert!(talk.read().ends_with(r"+OK\r\n+OK\r\n"));
    assert_eq!(talk.ask("client setinfo lib-foo x"), r"-ERR Unrecognized option \'lib-foo\'\r\n");
    assert_eq!(
        talk.ask("client setinfo lib-name 'a b'"),
        r"-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"
    );
    assert_eq!(talk.ask("client no-touch on"), r"+OK\r\n");
    assert_eq!(talk.ask("client id"), r":1\r\n");
}

#[test]
fn client_list_has_a_line_for_each_connection() {
    let mut talk = Talk::default();
    let other = talk.front.connected("10.0.0.2:1234".into(), "127.0.0.1:7000".into(), NOW_MS - 5_000);
    let mut input = b"client setname other\r\nclient setinfo lib-name jedis\r\nselect 1\r\n".to_vec();
    talk.front.received(other, &mut input, NOW_MS - 2_000, &mut talk.backend);
    let list = talk.ask("client list");
    assert!(list.contains(
        "id=1 addr=127.0.0.1:50000 laddr=127.0.0.1:7000 fd=0 name= age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 "
    ));
    assert!(list.contains(" events=r cmd=client|list user=default redir=-1 resp=2 lib-name= lib-ver=\\n"), "{list}");
    assert!(
        list.contains("id=2 addr=10.0.0.2:1234 laddr=127.0.0.1:7000 fd=1 name=other age=5 idle=2 flags=N db=1 "),
        "{list}"
    );
    assert!(list.contains(" cmd=select user=default redir=-1 resp=2 lib-name=jedis lib-ver=\\n"), "{list}");
    assert_eq!(talk.ask("client list id 2 7").matches("id=").count(), 1);
    assert_eq!(talk.ask("client list type normal").matches("addr=").count(), 4);
    assert!(talk.ask("client info").contains("id=1 addr="));
}

#[test]
fn reset_forgets_everything_but_the_identity() {
    let mut talk = Talk::default();
    talk.ask("hello 3 setname joe");
    talk.ask("select 1");
    assert_eq!(talk.ask("reset"), r"+RESET\r\n");
    assert_eq!(talk.ask("client getname"), r"$-1\r\n");
    assert!(talk.ask("client info").contains(" db=0 "));
}

#[test]
fn info_has_the_sections_of_redis_and_our_own() {
    let mut talk = Talk::default();
    let info = talk.ask("info");
    for text in [
        "# Server\\r\\nredis_version:7.0.15\\r\\nquorate_version:0.1.0\\r\\n",
        "tcp_port:7000\\r\\n",
        "\\r\\n\\r\\n# Clients\\r\\nconnected_clients:1\\r\\n",
        "# Persistence\\r\\nloading:0\\r\\n",
        "# Replication\\r\\nrole:master\\r\\n",
        "# Cluster\\r\\ncluster_enabled:0\\r\\n",
        "# Keyspace\\r\\ndb0:keys=3,expires=2,avg_ttl=0\\r\\n\\r\\n# Quorate\\r\\nvolumes:64\\r\\n",
        "total_commands_processed:1\\r\\n",
    ] {
        assert!(info.contains(text), "{text} is not in {info}");
    }
    assert_eq!(talk.ask("info QUORATE"), r"$23\r\n# Quorate\r\nvolumes:64\r\n\r\n");
    assert_eq!(talk.ask("info all"), talk.ask("info everything").replace("processed:4", "processed:3"));
    talk.ask("hello 3");
    assert!(talk.ask("info cluster").starts_with("=34\\r\\ntxt:# Cluster\\r\\n"));
}

#[test]
fn time_is_the_callers() {
    assert_eq!(Talk::default().ask("time"), r"*2\r\n$10\r\n1700000000\r\n$6\r\n123000\r\n");
}

#[test]
fn commands_describe_themselves() {
    let mut talk = Talk::default();
    let count = talk.ask("command count");
    let number: usize = count.trim_start_matches(':').trim_end_matches(r"\r\n").parse().expect("a number");
    assert!(number > 60, "{number}");
    assert!(
        talk.ask("command").starts_with(&format!(r"*{number}\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast"))
    );
    assert_eq!(talk.ask("command info"), talk.ask("command"));
    assert!(talk.ask("command docs").starts_with(&format!(r"*{}\r\n$3\r\nget\r\n*8\r\n$7\r\nsummary", number * 2)));
    talk.ask("hello 3");
    assert_eq!(
        talk.ask("command docs dbsize nosuch strlen"),
        r"%2\r\n$6\r\ndbsize\r\n%3\r\n$7\r\nsummary\r\n$50\r\nReturn the number of keys in the selected database\r\n$5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\ngroup\r\n$6\r\nserver\r\n$6\r\nstrlen\r\n%4\r\n$7\r\nsummary\r\n$43\r\nGet the length of the value stored in a key\r\n$5\r\nsince\r\n$5\r\n2.2.0\r\n$5\r\ngroup\r\n$6\r\nstring\r\n$9\r\narguments\r\n*1\r\n%2\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
    );
    let docs = talk.ask("command docs client");
    assert!(docs.contains(r"subcommands\r\n%11\r\n$9\r\nclient|id\r\n"), "{docs}");
}

#[test]
fn help_lists_the_subcommands() {
    let mut talk = Talk::default();
    let help = talk.ask("config help");
    assert_eq!(
        help,
        r"*11\r\n+CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+GET parameter [parameter ...]\r\n+    Get the values of configuration parameters\r\n+SET parameter value [parameter value ...]\r\n+    Set configuration parameters to the given values\r\n+RESETSTAT\r\n+    Reset the stats returned by INFO\r\n+REWRITE\r\n+    Refused: node.toml is edited by people\r\n+HELP\r\n+    Show helpful text about the different subcommands\r\n"
    );
    assert!(talk.ask("client help").contains(r"+SETINFO LIB-NAME library-name|LIB-VER library-version\r\n"));
}

#[test]
fn administrative_answers_in_both_versions() {
    let mut talk = Talk::new(Limits::default());
    assert_eq!(talk.ask("quorate ok"), r"+OK\r\n");
    assert_eq!(talk.ask("quorate nosuch"), r"-ERR unknown subcommand\r\n");
    assert_eq!(talk.ask("quorate"), r"-ERR wrong number of arguments for \'quorate\' command\r\n");
    assert_eq!(
        talk.ask("quorate tree"),
        r"*12\r\n$4\r\nname\r\n$2\r\nn1\r\n$7\r\nvolumes\r\n:64\r\n$4\r\nload\r\n$3\r\n0.5\r\n$2\r\nup\r\n:1\r\n$6\r\nparent\r\n$-1\r\n$5\r\nwords\r\n*2\r\n+quorate\r\n+tree\r\n"
    );
    talk.ask("hello 3");
    assert_eq!(
        talk.ask("QUORATE Tree"),
        r"%6\r\n$4\r\nname\r\n$2\r\nn1\r\n$7\r\nvolumes\r\n:64\r\n$4\r\nload\r\n,0.5\r\n$2\r\nup\r\n#t\r\n$6\r\nparent\r\n_\r\n$5\r\nwords\r\n*2\r\n+quorate\r\n+tree\r\n"
    );
}
