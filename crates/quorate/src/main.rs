//! The `quorate` program: starts clusters and nodes, and talks to them.
//!
//! Each subcommand is a module with its options and a `run`. What goes wrong is told in one line on standard error,
//! with what to do about it, and the exit status is 1.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod backup;
mod bench;
mod cert;
mod cli;
mod client;
mod demand;
mod drain;
mod failure;
mod group;
mod inspect;
mod keys;
mod lab;
mod memory;
mod namespace;
mod node;
mod nodes;
mod output;
mod quorum;
mod replace_after;
mod root;
mod secrets;
mod sim;
mod status;
mod tune;
mod up;
mod upgrade;
mod volume;
mod wire;

use failure::Failure;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting(tikv_jemallocator::Jemalloc);

const EXAMPLES: &str = "Examples:
  quorate up                               a cluster of three nodes on this machine
  quorate cli SET hello world              one command
  quorate cli                              a prompt
  quorate status                           who is there, and who coordinates what";

/// A strongly consistent, replicated object store that speaks the Redis protocol.
#[derive(Debug, Parser)]
#[command(name = "quorate", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Options),
    Node(node::Options),
    Status(status::Options),
    Demand(demand::Options),
    Namespace(namespace::Options),
    Group(group::Options),
    Quorum(quorum::Options),
    Volume(volume::Options),
    Root(root::Options),
    Tune(tune::Options),
    Upgrade(upgrade::Options),
    Backup(backup::SaveOptions),
    Restore(backup::RestoreOptions),
    Password(secrets::PasswordOptions),
    Token(secrets::TokenOptions),
    Cert(cert::Options),
    Cli(cli::Options),
    Bench(Box<bench::Options>),
    Sim(sim::Options),
    Lab(lab::Options),
    Inspect(inspect::Options),
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let runs_nodes = match &command {
        Command::Up(_) => true,
        Command::Node(options) => options.is_of_a_node(),
        _ => false,
    };
    if !runs_nodes {
        output::end_quietly_when_nobody_reads();
    }
    let result = match command {
        Command::Up(options) => up::run(&options),
        Command::Node(options) => node::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Demand(options) => demand::run(&options),
        Command::Namespace(options) => namespace::run(&options),
        Command::Group(options) => group::run(&options),
        Command::Quorum(options) => quorum::run(&options),
        Command::Volume(options) => volume::run(&options),
        Command::Root(options) => root::run(&options),
        Command::Tune(options) => tune::run(&options),
        Command::Upgrade(options) => upgrade::run(&options),
        Command::Backup(options) => backup::save(&options),
        Command::Restore(options) => backup::restore(&options),
        Command::Password(options) => secrets::print_password_hash(&options),
        Command::Token(options) => secrets::print_token(&options),
        Command::Cert(options) => cert::run(&options),
        Command::Cli(options) => cli::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Sim(options) => sim::run(&options),
        Command::Lab(options) => lab::run(&options),
        Command::Inspect(options) => inspect::run(&options),
    };
    result.unwrap_or_else(|Failure(message)| {
        output::complain(&message);
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn refusal(arguments: &[&str]) -> String {
        Arguments::try_parse_from(arguments).expect_err("refused").to_string()
    }

    #[test]
    fn the_options_do_not_contradict_each_other() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_and_option_is_explained() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Arguments::command());
    }

    #[test]
    fn node_counts_and_durabilities_out_of_range_are_refused() {
        assert!(refusal(&["quorate", "up", "--nodes", "65"]).contains("65 is not in 1..=64"));
        assert!(refusal(&["quorate", "up", "--nodes", "0"]).contains("0 is not in 1..=64"));
        assert!(refusal(&["quorate", "up", "--durability", "fast"]).contains("sync"));
        assert!(refusal(&["quorate", "up", "--ephemeral", "--dir", "x"]).contains("cannot be used with"));
    }

    #[test]
    fn every_command_on_groups_and_namespaces_is_taken_apart() {
        for line in [
            "quorate group move k --members n1,n2 --quorum majority",
            "quorate group retype k --protocol register --quorum grid",
            "quorate group show k -n 2",
            "quorate group create k --members n1 --value v",
            "quorate group create k --protocol register --quorum grid",
            "quorate group promote k l --protocol chain --members n2,n1 -n 1",
            "quorate quorum set k l --read 1 --write 3 -n 2",
            "quorate quorum set --file - --read 2 --write 2",
            "quorate quorum show k",
            "quorate namespace create 2 --protocol register --quorum majority --tolerance 1",
            "quorate namespace set 2 --quorum 1 3",
            "quorate up --protocol register --quorum grid --nodes 4",
            "quorate node --config node.toml --check",
            "quorate node list -h db -p 7001 --json",
            "quorate node add n4 --peer h:1 --client h:2 --admin h:3 -p 7001",
            "quorate node remove n4 -p 7001",
            "quorate node drain n4 --no-wait -p 7001",
            "quorate node undrain n4",
            "quorate node level --stop",
            "quorate node replace-after 10m -p 7001",
            "quorate node replace-after never",
            "quorate node replace-after",
            "quorate volume list 0 -p 7001",
            "quorate volume move 0 63 --from n1 --to n4",
            "quorate root show -p 7001",
            "quorate root move --from n1 --to n4",
            "quorate root widen --to n4",
            "quorate backup monday.quorate -n 1 -n 2 -p 7001",
            "quorate restore - --overwrite",
            "quorate restore monday.quorate --check",
        ] {
            assert!(Arguments::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        assert!(refusal(&["quorate", "namespace", "set", "2"]).contains("required"));
        assert!(refusal(&["quorate", "node"]).contains("--config"));
        assert!(refusal(&["quorate", "node", "add", "n4", "--peer", "h:1"]).contains("--client"));
        assert!(refusal(&["quorate", "node", "--config", "x", "list"]).contains("list"));
        let promote = ["quorate", "group", "promote", "k", "--protocol"];
        assert!(refusal(&[&promote[..], &["ring"]].concat()).contains("paxos, chain, register"));
        assert!(refusal(&[&promote[..], &["register", "--quorum", "all"]].concat()).contains("threshold R W"));
        assert!(refusal(&["quorate", "quorum", "set", "k", "--read", "1"]).contains("--write"));
        assert!(refusal(&["quorate", "quorum", "set", "k", "--read", "0", "--write", "3"]).contains("0 is not in 1.."));
    }

    #[test]
    fn commands_of_the_cli_may_look_like_options() {
        let parsed = Arguments::try_parse_from(["quorate", "cli", "-h", "db", "-p", "7001", "INCRBY", "n", "-1"]);
        let Ok(Arguments { command: Command::Cli(options) }) = parsed else { panic!("{parsed:?}") };
        assert_eq!((options.endpoint.host.as_str(), options.endpoint.port), ("db", 7001));
        assert_eq!(options.words, ["INCRBY", "n", "-1"]);
    }
}
