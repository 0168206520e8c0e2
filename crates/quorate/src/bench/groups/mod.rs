//! `quorate bench groups`: what very many objects with groups of their own cost, awake and idle.
//!
//! Everything happens in namespaces of the benchmark's own, which it makes at first and drops at last. What is compared is
//! measured in turns, as in [`super::pairs`].

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use clap::{Args, ValueEnum};
use quorate_node::root::NAMESPACE_NUMBER_MAX;
use serde::Serialize;

mod create;
mod print;

use super::cluster::{self, Cluster, NodeGroups, NodeIdle, NodeMemory};
use super::load::{self, Load, Measured};
use super::pairs::{self, Compared, Contender};
use super::{CONNECTIONS_MAX, Operation, PIPELINE_MAX, Row, SIZE_MAX};
use crate::client::Endpoint;
use crate::failure::{Context, Failure};
use crate::output::say;
use create::Created;

const EXAMPLES: &str = "Examples:
  quorate bench groups                                     every row, with a million groups: some twenty minutes
  quorate bench groups --groups 20000 --settle 5           a try
  quorate bench groups --rows creation,active --pairs 20   only these
  quorate bench groups --json > figures.json

Rows:
  creation  groups made, a batch of names a command, several commands at once
  memory    bytes that a group at rest takes on each node, and an object without one beside it
  record    of those, what the volume keeps of the group: seen at nodes that are members of the volume alone
  idle      processor time of each node while nobody asks for anything, before and with the groups
  busy      writes to one group, alone and beside all others
  active    writes to all groups in turn, against as many objects in one volume and in 64; with the processor time of what
            they leave to be done, for which each waits
  paused    each group asked once after a rest: one request at a time for some, then all. Which of them were in the
            checkpoint store only is told, and decided by groups.resting_bytes of the nodes' configuration";

/// Measure what very many objects with groups of their own cost
///
/// It makes its own namespaces, and drops them at its end, also after a failure or when it is told to end (Ctrl-C, SIGTERM).
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(super) struct Options {
    /// How many groups
    #[arg(short, long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    groups: u64,
    /// Which rows
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "creation,memory,record,idle,busy,active,paused"
    )]
    rows: Vec<Kind>,
    /// The first of five namespaces to be made, which must not be there
    #[arg(short = 'n', long, value_name = "N", default_value_t = 9_000,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NAMESPACE_NUMBER_MAX - 4)))]
    namespace: u32,
    /// Names in a command that creates groups, up to 10,000
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    /// Such commands at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    batches_at_once: u32,
    /// Seconds of rest before memory and processor time of idle groups are looked at, and before groups are woken: results
    /// of commands are kept for 60. As long again at most, while more than a hundred groups have something in hand
    #[arg(long, value_name = "S", default_value_t = 90, value_parser = clap::value_parser!(u64).range(0..=3600))]
    settle: u64,
    /// Connections of the loads
    #[arg(short, long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=CONNECTIONS_MAX))]
    connections: u32,
    /// How many requests a connection sends at once
    #[arg(short = 'P', long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=PIPELINE_MAX))]
    pipeline: u32,
    /// Bytes of a value
    #[arg(short, long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=SIZE_MAX))]
    size: u32,
    /// Seconds of each measurement that is made in turns with others
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// How often each of those is made; six or more give intervals
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pairs: u32,
    /// Seconds for which idle nodes are looked at
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    idle_seconds: u64,
    /// An empty cluster, with whose one busy group the busy one here is compared in turns [default: the same before there were others]
    #[arg(long, value_name = "HOST:PORT")]
    empty: Option<String>,
    /// The server processes whose CPU time is counted
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pids: Vec<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Creation,
    Memory,
    Record,
    Idle,
    Busy,
    Active,
    Paused,
}

/// All that was measured.
#[derive(Debug, Serialize)]
struct Report {
    groups: u64,
    size_bytes: u32,
    name_bytes: usize,
    rows: Vec<Figures>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "row", rename_all = "lowercase")]
enum Figures {
    Creation(Created),
    /// What all groups together take, and what as many objects in 64 volumes take, a node each.
    Memory {
        settled_s: u64,
        at_rest: Vec<NodeGroups>,
        groups: Vec<NodeMemory>,
        objects: Vec<NodeMemory>,
    },
    /// At nodes that are members of the volumes and not of the groups.
    Record {
        nodes: Vec<NodeMemory>,
    },
    Idle {
        seconds: u64,
        before: Vec<NodeIdle>,
        with_groups: Vec<NodeIdle>,
    },
    Busy {
        compared: Vec<Compared>,
    },
    Active {
        compared: Vec<Compared>,
    },
    Paused {
        settled_s: u64,
        loads: Vec<Woken>,
    },
}

/// Groups asked once each, and where they were before.
#[derive(Debug, Serialize)]
struct Woken {
    at_rest: Vec<NodeGroups>,
    #[serde(flatten)]
    row: Row,
}

/// What the namespaces are for, in the order of their numbers.
#[derive(Clone, Copy)]
enum Place {
    Groups,
    Busy,
    OneVolume,
    Volumes,
    Record,
}

const PLACES: [Place; 5] = [Place::Groups, Place::Busy, Place::OneVolume, Place::Volumes, Place::Record];
/// Groups of which each is asked for alone.
const ALONE_MAX: u64 = 1_000;

pub(super) fn run(endpoint: &Endpoint, options: &Options) -> Result<(), Failure> {
    let cluster = Cluster::find(endpoint, &options.pids)?;
    let empty = options.empty.as_ref().map(|address| {
        let endpoint =
            Endpoint::parse(address).ok_or_else(|| Failure(format!("--empty: '{address}' is no HOST:PORT")))?;
        Cluster::find(&endpoint, &[])
    });
    let bench = Bench { options, cluster, empty: empty.transpose()? };
    cluster::drop_when_told_to_end(&[&bench.cluster].into_iter().chain(&bench.empty).collect::<Vec<_>>())?;
    let Options { groups, size, json, .. } = *options;
    let mut report = Report { groups, size_bytes: size, name_bytes: load::key(0).len(), rows: Vec::new() };
    let measured = bench.make_namespaces().and_then(|()| bench.measure(&mut report.rows));
    let dropped = bench.drop_namespaces();
    if json && !report.rows.is_empty() {
        say(serde_json::to_string_pretty(&report).context("cannot print the measurements")?);
    }
    measured.and(dropped)
}

struct Bench<'a> {
    options: &'a Options,
    cluster: Cluster,
    empty: Option<Cluster>,
}

impl Bench<'_> {
    fn wants(&self, kind: Kind) -> bool {
        self.options.rows.contains(&kind)
    }

    fn number(&self, place: Place) -> u32 {
        self.options.namespace + place as u32
    }

    fn make_namespaces(&self) -> Result<(), Failure> {
        for place in PLACES {
            let settings: &[&str] = match place {
                Place::Groups | Place::Busy => &["GROUPS", "own"],
                Place::OneVolume => &["VOLUMES", "1"],
                Place::Volumes => &["VOLUMES", "64"],
                // Its groups are made by commands.
                Place::Record => &[],
            };
            let made = self.cluster.make_namespace(self.number(place), settings);
            made.map_err(|Failure(why)| {
                Failure(format!(
                    "{why} (-n chooses another namespace; one that was left by an interrupted run can be dropped)"
                ))
            })?;
        }
        if let Some(empty) = &self.empty {
            empty.make_namespace(self.number(Place::Busy), &["GROUPS", "own"])?;
        }
        Ok(())
    }

    fn drop_namespaces(&self) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for cluster in [&self.cluster].into_iter().chain(&self.empty) {
            for number in cluster.made() {
                outcome = outcome.and(cluster.drop_namespace(number));
            }
        }
        outcome
    }

    fn measure(&self, rows: &mut Vec<Figures>) -> Result<(), Failure> {
        let Options { groups, idle_seconds, settle, .. } = *self.options;
        let member = if self.wants(Kind::Record) { Some(self.member_for_record()?) } else { None };
        let mut tell = |figures: Figures| {
            if !self.options.json {
                print::figures(groups, &figures);
            }
            rows.push(figures);
        };
        note("what there is without groups");
        let busy_before = if self.wants(Kind::Busy) && self.empty.is_none() { self.busy_alone()? } else { Vec::new() };
        let idle_before = if self.wants(Kind::Idle) { self.cluster.idle(idle_seconds)? } else { Vec::new() };
        let objects = if self.wants(Kind::Memory) { self.fill_and_weigh(Place::Volumes)? } else { Vec::new() };
        note("making groups");
        let before = self.cluster.memory()?;
        let created = self.create(Place::Groups, None)?;
        if self.wants(Kind::Creation) {
            tell(Figures::Creation(created));
        }
        if [Kind::Memory, Kind::Idle, Kind::Busy, Kind::Paused].into_iter().any(|kind| self.wants(kind)) {
            self.settle()?;
        }
        if self.wants(Kind::Memory) {
            let (at_rest, groups) = (self.cluster.groups()?, self.cluster.memory_since(&before, groups)?);
            tell(Figures::Memory { settled_s: settle, at_rest, groups, objects });
        }
        if self.wants(Kind::Idle) {
            let with_groups = self.cluster.idle(idle_seconds)?;
            tell(Figures::Idle { seconds: idle_seconds, before: idle_before, with_groups });
        }
        if self.wants(Kind::Busy) {
            tell(Figures::Busy { compared: self.busy(&busy_before)? });
        }
        if self.wants(Kind::Paused) {
            tell(Figures::Paused { settled_s: settle, loads: self.paused()? });
        }
        if self.wants(Kind::Active) {
            tell(Figures::Active { compared: self.active()? });
        }
        if let Some(member) = member {
            tell(Figures::Record { nodes: self.record(&member)? });
        }
        Ok(())
    }

    /// So long, and until no group has anything in hand, or as long again.
    fn settle(&self) -> Result<(), Failure> {
        note(format_args!("{} s of rest", self.options.settle));
        let settle = Duration::from_secs(self.options.settle);
        std::thread::sleep(settle);
        self.cluster.wait_for_rest(settle)
    }

    fn create(&self, place: Place, member: Option<&str>) -> Result<Created, Failure> {
        let Options { groups, batch, batches_at_once, size, .. } = *self.options;
        let order = create::Order { namespace: self.number(place), groups, batch, batches_at_once, size, member };
        order.carry_out(&self.cluster)
    }

    /// As many objects without groups as there are groups: what they take on each node.
    fn fill_and_weigh(&self, place: Place) -> Result<Vec<NodeMemory>, Failure> {
        let before = self.cluster.memory()?;
        self.fill(place)?;
        self.settle()?;
        self.cluster.memory_since(&before, self.options.groups)
    }

    fn fill(&self, place: Place) -> Result<(), Failure> {
        let load = Load::fill(self.options.size, self.options.groups).in_namespace(self.number(place));
        pairs::served("filling", self.cluster.run(&load)?).map(|_| ())
    }

    fn load(&self, operation: Operation, place: Place) -> Load {
        let Options { connections, pipeline, size, groups, seconds, .. } = *self.options;
        let load = Load::random(operation, connections, pipeline, size, groups, Duration::from_secs(seconds));
        load.in_namespace(self.number(place))
    }

    fn busy_load(&self) -> Load {
        let Options { connections, pipeline, size, seconds, .. } = *self.options;
        let load = Load::random(Operation::Set, connections, pipeline, size, 1, Duration::from_secs(seconds));
        load.in_namespace(self.number(Place::Busy))
    }

    fn busy_alone(&self) -> Result<Vec<Row>, Failure> {
        let load = self.busy_load();
        (0..self.options.pairs).map(|_| pairs::served("alone", self.cluster.run(&load)?)).collect()
    }

    fn busy(&self, before: &[Row]) -> Result<Vec<Compared>, Failure> {
        let load = self.busy_load();
        if let Some(empty) = &self.empty {
            let beside = Contender { name: "beside all".to_owned(), measure: Box::new(|| self.cluster.run(&load)) };
            let alone = Contender { name: "alone".to_owned(), measure: Box::new(|| empty.run(&load)) };
            return pairs::in_turns(self.options.pairs, &mut [beside, alone]);
        }
        let beside = self.busy_alone()?;
        Ok(vec![pairs::compare("beside all", &beside, &beside), pairs::compare("alone, before", &beside, before)])
    }

    fn active(&self) -> Result<Vec<Compared>, Failure> {
        let places = [("own groups", Place::Groups), ("one volume", Place::OneVolume), ("64 volumes", Place::Volumes)];
        note("writing every key once");
        for (_, place) in places {
            self.fill(place)?;
        }
        self.settle()?;
        let contender = |(name, place): (&str, Place)| {
            let (load, mut key) = (self.load(Operation::Set, place), 0);
            let measure = move || -> Result<Measured, Failure> {
                let measured = self.cluster.run_to_the_end(&load.in_turn(key))?;
                key = measured.key_next;
                Ok(measured)
            };
            Contender { name: name.to_owned(), measure: Box::new(measure) }
        };
        let mut contenders: Vec<Contender<'_>> = places.map(contender).into();
        pairs::in_turns(self.options.pairs, &mut contenders)
    }

    /// At rest already, but for one: some groups, one after the other, then all of them; after another rest once more, for writes.
    fn paused(&self) -> Result<Vec<Woken>, Failure> {
        let Options { size, groups, .. } = *self.options;
        let alone = Load::random(Operation::Get, 1, 1, size, groups.min(ALONE_MAX), Duration::ZERO);
        let alone = self.wake(alone.in_namespace(self.number(Place::Groups)))?;
        let reads = self.wake(self.load(Operation::Get, Place::Groups))?;
        self.settle()?;
        let writes = self.wake(self.load(Operation::Set, Place::Groups))?;
        Ok(vec![alone, reads, writes])
    }

    fn wake(&self, load: Load) -> Result<Woken, Failure> {
        let at_rest = self.cluster.groups()?;
        let row = pairs::served("paused", self.cluster.run(&load.each_once())?)?;
        Ok(Woken { at_rest, row })
    }

    /// Groups of one member each: on the other nodes there is nothing of them but what their volumes know.
    fn record(&self, member: &str) -> Result<Vec<NodeMemory>, Failure> {
        // What the loads have left must not go meanwhile.
        self.settle()?;
        note("making groups of one member");
        let before = self.cluster.memory()?;
        self.create(Place::Record, Some(member))?;
        self.settle()?;
        let mut nodes = self.cluster.memory_since(&before, self.options.groups)?;
        nodes.retain(|node| node.node != member);
        Ok(nodes)
    }

    fn member_for_record(&self) -> Result<String, Failure> {
        match &self.cluster.nodes[..] {
            [first, _, ..] if self.cluster.holds_everywhere(self.number(Place::Record))? => Ok(first.name.clone()),
            _ => {
                let why = "record: it needs more than one node, and namespaces whose volumes all nodes hold";
                Err(Failure(format!("{why}; choose other rows with --rows")))
            }
        }
    }
}

/// For somebody who watches.
fn note(what: impl Display) {
    // Nobody is told anything wrong if it is not shown.
    let _ = writeln!(std::io::stderr(), "... {what}");
}
