//! `quorate tune`: quorum sizes by what clients ask for, of registers of their own one by one, and of namespaces of registers in bulk;
//! and objects that follow their clients.

mod follow;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use quorate_control::data;
use quorate_control::oracle::Oracle;
use quorate_control::policy::{self, Change, Kind, Settings, Sizes, Tunable};
use quorate_control::rounds::Rounds;
use quorate_node::quorum::Quorum;
use quorate_resp::Value;

use self::follow::Following;
use crate::client::{Client, Endpoint};
use crate::demand::{self, Demand, Rates};
use crate::failure::{Context, Failure};
use crate::output::{complain, fields, say};

/// Nodes count for ten seconds at a time.
const WINDOW_S: u64 = 10;
/// Objects that are looked at, the most wanted first, for those that have registers of their own.
const LOOKED_AT: usize = 512;

const EXAMPLES: &str = "Examples:
  quorate tune                   every 30 seconds, until it is interrupted
  quorate tune --once --dry-run  what it would change now, and why
  quorate tune --tolerance 2     quorums that survive two crashes, whichever they hit
  quorate tune --follow          also groups of their own for objects that one node's clients ask for

Reads of a register ask R members, writes ask R and then tell W, and R + W is more than there are. Where most operations read, small
read quorums are cheaper, and where most write, small write quorums are. Which are best is told by decision trees that were trained
with measured workloads (`quorate bench quorums`). Clients go on reading and writing while sizes change.

It begins with the registers of their own that clients ask for most, until the gain of that is small, and goes on with whole
namespaces of registers. Then it waits until clients ask for something else. Three members with a tolerance of 1 leave no choice.

With --follow, an object of which at least 100 commands a second are asked for, four fifths of them at one node, gets a group of its own that
this node coordinates, once that has been so in two rounds. It follows when its clients go elsewhere, and goes back to its volume when
they are gone. Objects that have groups of their own of PROTOCOL paxos follow as well, whoever gave them these.";

/// Choose quorum sizes of registers by what clients read and write
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Seconds between two rounds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(2 * WINDOW_S..=86_400))]
    every: u64,
    /// One round, which does not wait for gains: objects and namespaces at once
    #[arg(long)]
    once: bool,
    /// Tell what would be changed, and why, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// How many objects are tuned one by one in a round
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(0..=512))]
    top: u16,
    /// Crashes that quorums are to survive, or more where the namespace says so
    #[arg(long, value_name = "CRASHES", default_value_t = 1)]
    tolerance: u8,
    /// Learn from the workloads in this file, as `quorate bench quorums --csv` writes them, in place of those that are built in
    #[arg(long, value_name = "FILE")]
    workloads: Option<PathBuf>,
    /// Give objects that one node's clients ask for groups of their own there, and take them back
    #[arg(long)]
    follow: bool,
    /// Change nothing that is expected to gain less
    #[arg(long, value_name = "PERCENT", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=100))]
    gain: u8,
}

/// What is tuned: an object with a register of its own, or all of a namespace of registers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Object { namespace: u32, key: Vec<u8> },
    Namespace(u32),
}

impl Place {
    fn name(&self) -> String {
        match self {
            Place::Object { namespace: 0, key } => format!("\"{}\"", key.escape_ascii()),
            Place::Object { namespace, key } => format!("\"{}\" in namespace {namespace}", key.escape_ascii()),
            Place::Namespace(number) => format!("namespace {number}"),
        }
    }

    fn set(&self, endpoint: &Endpoint, sizes: Sizes) -> Result<(), Failure> {
        let (read, write) = (sizes.read.to_string(), sizes.write.to_string());
        let (namespace, of) = match self {
            Place::Object { namespace, key } => (*namespace, vec![key.clone()]),
            Place::Namespace(number) => (0, vec![b"NAMESPACE".to_vec(), number.to_string().into_bytes()]),
        };
        let first = ["QUORATE", "QUORUM", "SET"].map(|word| word.as_bytes().to_vec());
        let words: Vec<Vec<u8>> = first.into_iter().chain(of).chain([read.into_bytes(), write.into_bytes()]).collect();
        Client::connect_to_namespace(endpoint, namespace)?.ask(&words).map(drop)
    }
}

/// What could be tuned now, and what each is called.
#[derive(Default)]
struct Tunables {
    places: BTreeMap<String, Place>,
    tunables: Vec<Tunable>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let oracle = oracle(options)?;
    let settings = Settings {
        gain_min: f64::from(options.gain) / 100.0,
        hot_count: usize::from(options.top),
        ..Settings::default()
    };
    let mut following = options.follow.then(|| Following::new(options));
    if options.once {
        let demand = demand::fetch(&options.endpoint)?;
        let (throughput, mut tunables) = look(options, &demand)?;
        tunables.keep_hottest(usize::from(options.top));
        let changes = policy::plan_under(throughput, &tunables.tunables, &settings, &oracle);
        if changes.is_empty() {
            say(tunables.why_nothing(&settings));
        }
        let mut failed = changes.iter().filter(|change| !carry_out(options, &tunables, change)).count();
        if let Some(following) = &mut following {
            failed += following.end_round(options, &demand)?;
        }
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    say(format_args!("looking at what clients ask for every {} s; changes are told here", options.every));
    let mut rounds = Rounds::new(settings);
    loop {
        // Nodes come and go: the next round asks again.
        let round = demand::fetch(&options.endpoint).and_then(|demand| {
            let (throughput, tunables) = look(options, &demand)?;
            turn(options, &mut rounds, throughput, &tunables, &oracle);
            following.as_mut().map_or(Ok(0), |following| following.end_round(options, &demand))
        });
        if let Err(Failure(why)) = round {
            complain(why);
        }
        std::thread::sleep(Duration::from_secs(options.every));
    }
}

fn oracle(options: &Options) -> Result<Oracle, Failure> {
    let Some(path) = &options.workloads else { return Ok(Oracle::built_in()) };
    let text = std::fs::read_to_string(path).context(format!("cannot read {}", path.display()))?;
    let measured = data::parse(&text).context(format!("{} is not understood", path.display()))?;
    if measured.is_empty() {
        return Err(Failure(format!(
            "{} holds no workloads: `quorate bench quorums --csv` measures some",
            path.display()
        )));
    }
    Oracle::learnt_from(&measured).context(format!("nothing can be learnt from {}", path.display()))
}

fn turn(options: &Options, rounds: &mut Rounds, throughput: f64, tunables: &Tunables, oracle: &Oracle) {
    let turn = rounds.end_round(throughput, &tunables.tunables, oracle);
    for change in &turn.changes {
        if !carry_out(options, tunables, change) {
            rounds.forget(&change.id);
        }
    }
}

/// False if it was refused.
fn carry_out(options: &Options, tunables: &Tunables, change: &Change) -> bool {
    let Some(place) = tunables.places.get(&change.id) else { return false };
    let Change { id, from, to, reason, .. } = change;
    let would = if options.dry_run { "would become " } else { "" };
    let told = format!("{id}: {would}R {} W {} (was R {} W {}): {reason}", to.read, to.write, from.read, from.write);
    if options.dry_run {
        say(told);
        return true;
    }
    match place.set(&options.endpoint, *to) {
        Ok(()) => say(told),
        Err(Failure(why)) => {
            complain(format_args!("{id} stays as it is: {why}"));
            return false;
        }
    }
    true
}

/// What clients ask for, operations a second in all, and what sizes that concerns.
fn look(options: &Options, demand: &Demand) -> Result<(f64, Tunables), Failure> {
    demand.missing.iter().for_each(complain);
    let namespaces = namespaces(options)?;
    let mut tunables = Tunables::default();
    for (number, rates) in &demand.namespaces {
        if let Some(fields) = namespaces
            .get(number)
            .filter(|fields| fields.word("protocol") == "register" && fields.word("authority") == "parent")
            && let Some(members) = fields.number("replicas")
        {
            let tolerance = fields.tolerance(options.tolerance);
            tunables.add(Place::Namespace(*number), Kind::Bulk, fields, members, tolerance, *rates);
        }
    }
    tunables.add_objects(options, demand, &namespaces)?;
    let throughput = demand.namespaces.values().map(|rates| rates.commands()).sum();
    Ok((throughput, tunables))
}

fn listed(options: &Options, what: &str) -> Result<Vec<Fields>, Failure> {
    let Value::Array(listed) = Client::connect(&options.endpoint)?.ask(&["QUORATE", what, "LIST"])? else {
        return Err(Failure(format!(
            "QUORATE {what} LIST was not answered with a list; is the node of another release?"
        )));
    };
    Ok(listed.iter().map(Fields::of).collect())
}

fn namespaces(options: &Options) -> Result<BTreeMap<u32, Fields>, Failure> {
    Ok(listed(options, "NAMESPACE")?.into_iter().filter_map(Fields::numbered).collect())
}

/// The groups of objects of one namespace, as they are shown; none where the node shows something else.
fn shown(options: &Options, namespace: u32, keys: &[&[u8]]) -> Result<Vec<Fields>, Failure> {
    let first = ["QUORATE", "GROUP", "SHOW", "KEYS"].map(|word| word.as_bytes().to_vec());
    let count = keys.len().to_string().into_bytes();
    let words: Vec<Vec<u8>> = first.into_iter().chain([count]).chain(keys.iter().map(|key| key.to_vec())).collect();
    let Value::Array(shown) = Client::connect_to_namespace(&options.endpoint, namespace)?.ask(&words)? else {
        return Ok(Vec::new());
    };
    Ok(shown.iter().map(Fields::of).collect())
}

impl Tunables {
    /// Of the objects that are asked for most, those that have registers of their own.
    fn add_objects(
        &mut self,
        options: &Options,
        demand: &Demand,
        namespaces: &BTreeMap<u32, Fields>,
    ) -> Result<(), Failure> {
        let mut by_namespace: BTreeMap<u32, Vec<(&[u8], Rates)>> = BTreeMap::new();
        for ((namespace, key), rates) in demand.hot().into_iter().take(LOOKED_AT) {
            let is_volume = |fields: &Fields| fields.word("protocol") == "register";
            if !namespaces.get(namespace).is_none_or(is_volume) {
                by_namespace.entry(*namespace).or_default().push((key, rates));
            }
        }
        for (namespace, objects) in by_namespace {
            let keys: Vec<&[u8]> = objects.iter().map(|(key, _)| *key).collect();
            let shown = shown(options, namespace, &keys)?;
            let tolerance = namespaces
                .get(&namespace)
                .map_or(options.tolerance.into(), |fields| fields.tolerance(options.tolerance));
            for ((key, rates), fields) in objects.into_iter().zip(&shown) {
                if fields.word("kind") == "own" && fields.word("protocol") == "register" {
                    let members = fields.word("members").split(',').count();
                    let place = Place::Object { namespace, key: key.to_vec() };
                    self.add(place, Kind::Hot, fields, members, tolerance, rates);
                }
            }
        }
        Ok(())
    }

    /// Nothing of grids: their shape is what they are for.
    fn add(&mut self, place: Place, kind: Kind, fields: &Fields, members: usize, tolerance: usize, rates: Rates) {
        let sizes = match Quorum::parse(&fields.word("quorum")) {
            Some(Quorum::Majority) => Sizes { read: members / 2 + 1, write: members / 2 + 1 },
            Some(Quorum::Threshold { read, write }) => Sizes { read: read.into(), write: write.into() },
            Some(Quorum::Square | Quorum::Grid { .. }) | None => return,
        };
        let seconds = WINDOW_S as f64;
        let operations = |rate: f64| (rate * seconds).round() as u64;
        let (reads, writes, bytes) = (operations(rates.reads), operations(rates.writes), rates.value_bytes);
        let id = place.name();
        self.places.insert(id.clone(), place);
        self.tunables.push(Tunable { id, kind, members, tolerance, sizes, reads, writes, bytes, seconds });
    }

    /// Of objects, so many.
    fn keep_hottest(&mut self, count: usize) {
        self.tunables.sort_by_key(|tunable| (tunable.kind == Kind::Bulk, Reverse(tunable.operations())));
        let objects = self.tunables.partition_point(|tunable| tunable.kind == Kind::Hot);
        self.tunables.drain(count.min(objects)..objects);
    }

    fn why_nothing(&self, settings: &Settings) -> String {
        if self.tunables.is_empty() {
            return "no client has asked for registers with sizes in the last ten seconds: there is nothing to tune"
                .into();
        }
        let least = settings.operations_min;
        if self.tunables.iter().all(|tunable| tunable.operations() < least) {
            return format!("too little is asked for to tell: fewer than {least} operations in ten seconds");
        }
        let is_fixed = |tunable: &&Tunable| tunable.members <= 2 * tunable.tolerance + 1;
        match self.tunables.iter().filter(is_fixed).count() {
            0 => format!("nothing to change: no other sizes promise {:.0}% more", 100.0 * settings.gain_min),
            fixed => format!(
                "nothing to change; {fixed} of {} leave no choice with so few members: --tolerance says how many crashes \
                 they are to survive",
                self.tunables.len()
            ),
        }
    }
}

/// A map of the node's, as words.
struct Fields(BTreeMap<String, String>);

impl Fields {
    fn of(value: &Value) -> Fields {
        Fields(fields(value).into_iter().collect())
    }

    fn numbered(self) -> Option<(u32, Fields)> {
        Some((self.word("namespace").parse().ok()?, self))
    }

    fn word(&self, name: &str) -> String {
        self.0.get(name).cloned().unwrap_or_default()
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.word(name).parse().ok()
    }

    fn tolerance(&self, least: u8) -> usize {
        self.number("tolerance").unwrap_or_default().max(least.into())
    }
}
