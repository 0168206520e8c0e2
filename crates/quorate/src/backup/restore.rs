//! `quorate restore`: writes what a file of `quorate backup` holds.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_resp::Value;

use super::file::{Part, Reader};
use super::{AGAIN_AFTER, CONNECTIONS, PATIENCE, ask_again, counted, may_be_asked_again, shown};
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{complain, say, table, trimmed};

/// Batches that wait for one connection.
const WAITING: usize = 2;
/// Objects that are sent together, and their bytes, unless one alone has more.
const SENT_MAX: usize = 500;
const SENT_BYTES_MAX: usize = 256 << 10;
/// After an answer of unknown outcome: by then the command has been executed or never will be, since its deadline has passed.
const SETTLED_AFTER: Duration = Duration::from_secs(2);
/// Objects that could not be written, of which it is told why.
const FAILURES_TOLD: usize = 5;

const EXAMPLES: &str = "Examples:
  quorate restore monday.quorate           into the cluster of the node at 127.0.0.1:7000
  quorate restore --check monday.quorate   what it holds, and whether it is whole
  zstd -d < all.zst | quorate restore -";

/// Write what a file of `quorate backup` holds into a cluster
///
/// Namespaces that the cluster lacks are made as they were. Nothing is written into a namespace that has objects, unless
/// --overwrite says so. A file is looked at first: one that is damaged or not whole changes nothing.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The file; - is standard input, which is not looked at first
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A namespace to restore, perhaps one of several [default: all that the file holds]
    #[arg(short, long = "namespace", value_name = "N")]
    namespaces: Vec<u32>,
    /// Also into namespaces that have objects: those of the same keys are replaced, others stay
    #[arg(long)]
    overwrite: bool,
    /// Only tell what the file holds, and whether it is whole; no cluster is needed
    #[arg(long)]
    check: bool,
}

impl Options {
    fn wants(&self, namespace: u32) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(&namespace)
    }
}

/// What a file holds of one namespace.
struct Held {
    number: u32,
    words: Vec<String>,
    objects: u64,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let path = &options.file;
    let cannot_read = format!("cannot read {}", path.display());
    // What cannot be read twice is not looked at first.
    let mut file = match path == Path::new("-") {
        true => None,
        false => Some(File::open(path).context(&cannot_read)?),
    };
    let is_file = match &file {
        Some(file) => file.metadata().context(&cannot_read)?.is_file(),
        None => false,
    };
    let input: &mut dyn Read = match &mut file {
        Some(file) => file,
        None => &mut io::stdin(),
    };
    if !is_file && !options.check {
        return restore(options, None, input);
    }
    let held = look(path, input)?;
    for number in &options.namespaces {
        if !held.iter().any(|namespace| namespace.number == *number) {
            return Err(Failure(format!("{} holds no namespace {number}", path.display())));
        }
    }
    match file {
        Some(mut file) if !options.check => {
            file.rewind().context(&cannot_read)?;
            restore(options, Some(&held), file)
        }
        _ => check(held.iter().filter(|namespace| options.wants(namespace.number))),
    }
}

/// Reads a file to its end.
fn look(path: &Path, input: impl Read) -> Result<Vec<Held>, Failure> {
    let mut reader = Reader::new(BufReader::new(input));
    let mut held: Vec<Held> = Vec::new();
    while let Some(part) = reader.next().context(path.display())? {
        match part {
            Part::Namespace { number, words } => held.push(Held { number, words, objects: 0 }),
            Part::Object { .. } => match held.last_mut() {
                Some(namespace) => namespace.objects += 1,
                None => return Err(Failure(format!("{}: an object is of no namespace", path.display()))),
            },
        }
    }
    Ok(held)
}

fn check<'a>(held: impl Iterator<Item = &'a Held>) -> Result<ExitCode, Failure> {
    let mut table = table(&["namespace", "objects", "made with"]);
    for namespace in held {
        let words = namespace.words.join(" ");
        table.add_row([namespace.number.to_string(), namespace.objects.to_string(), words]);
    }
    say(trimmed(table));
    Ok(ExitCode::SUCCESS)
}

fn restore(options: &Options, held: Option<&[Held]>, input: impl Read) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    // All of them, before anything is made.
    let wanted = || held.into_iter().flatten().filter(|namespace| options.wants(namespace.number));
    for namespace in wanted() {
        look_into(options, namespace.number)?;
    }
    for namespace in wanted() {
        make(options, namespace.number, &namespace.words)?;
    }
    let mut reader = Reader::new(BufReader::new(input));
    let (written, failures) = thread::scope(|scope| {
        let workers: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let (units, to_write) = sync_channel(WAITING);
                (units, scope.spawn(move || write_all(&options.endpoint, &to_write)))
            })
            .collect();
        let (all_units, workers): (Vec<_>, Vec<_>) = workers.into_iter().unzip();
        let handed_out = hand_out(options, held.is_some(), &mut reader, &all_units);
        drop(all_units);
        let (mut written, mut failures, mut result) = (0, Vec::new(), Ok(()));
        for worker in workers {
            match worker
                .join()
                .unwrap_or_else(|_| Err(Failure::new("a thread of the restoration panicked: please report it")))
            {
                Ok(done) => {
                    written += done.written;
                    failures.extend(done.failures);
                }
                Err(failure) => result = Err(failure),
            }
        }
        result.and(handed_out).map(|()| (written, failures))
    })
    .map_err(|Failure(why)| Failure(format!("not everything is restored: {why}")))?;
    say(format_args!("{} restored in {:.1} s", counted(written, "object"), began.elapsed().as_secs_f64()));
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    failures.iter().take(FAILURES_TOLD).for_each(complain);
    let more = if failures.len() > FAILURES_TOLD { ", of which these are the first" } else { "" };
    Err(Failure(format!("{} could not be written{more}", counted(failures.len() as u64, "object"))))
}

/// Whether a namespace, if it is there, may be written into.
fn look_into(options: &Options, number: u32) -> Result<(), Failure> {
    let mut client = Client::connect(&options.endpoint)?;
    let told = |why: String| Failure(format!("namespace {number} of {}: {why}", options.endpoint));
    match ask_to_enter(&mut client, number)? {
        Some(text) if text.contains(NOT_THERE) => return Ok(()),
        Some(text) => return Err(told(text)),
        None => {}
    }
    match ask_again(&mut client, &["DBSIZE"]).map_err(|Failure(why)| told(why))? {
        Value::Integer(count) if count > 0 && !options.overwrite => {
            let count = counted(count.unsigned_abs(), "object");
            Err(Failure(format!(
                "namespace {number} has {count}: nothing is written. With --overwrite those of the same keys are replaced, and others stay"
            )))
        }
        _ => Ok(()),
    }
}

/// Makes a namespace, unless it is there.
fn make(options: &Options, number: u32, words: &[String]) -> Result<(), Failure> {
    let mut client = Client::connect(&options.endpoint)?;
    let until = Instant::now() + PATIENCE;
    let mut was_made = words.is_empty();
    while let Some(text) = ask_to_enter(&mut client, number)? {
        if !text.contains(NOT_THERE) || was_made && Instant::now() >= until || words.is_empty() {
            return Err(Failure(format!("namespace {number} of {}: {text}", options.endpoint)));
        }
        if !was_made {
            let number = number.to_string();
            let create = ["QUORATE", "NAMESPACE", "CREATE", &number].into_iter();
            let create: Vec<&str> = create.chain(words.iter().map(String::as_str)).collect();
            match ask_again(&mut client, &create) {
                // An earlier try of which the answer was lost.
                Err(Failure(why)) if !why.contains("exists already") => {
                    return Err(Failure(format!(
                        "namespace {number} cannot be made as it was ({}): {why}; make it as it is to be, then go on",
                        words.join(" ")
                    )));
                }
                _ => was_made = true,
            }
        }
        // This node hears of it in a moment.
        thread::sleep(AGAIN_AFTER);
    }
    Ok(())
}

/// What a node says of a namespace that it does not know.
const NOT_THERE: &str = "DB index is out of range";

/// The error, if there is one.
fn ask_to_enter(client: &mut Client, number: u32) -> Result<Option<String>, Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        match client.call(&["SELECT", &number.to_string()])? {
            Value::Error(text) if may_be_asked_again(&text) && Instant::now() < until => thread::sleep(AGAIN_AFTER),
            Value::Error(text) => return Ok(Some(text)),
            _ => return Ok(None),
        }
    }
}

/// One object, to be written.
struct Unit {
    key: Vec<u8>,
    requests: Vec<u8>,
    count: usize,
}

/// Objects that are sent together.
#[derive(Default)]
struct Batch {
    namespace: u32,
    units: Vec<Unit>,
    bytes: usize,
}

/// Gives each object to the connection that has its key.
fn hand_out<R: Read>(
    options: &Options,
    is_looked_at: bool,
    reader: &mut Reader<R>,
    workers: &[SyncSender<Batch>],
) -> Result<(), Failure> {
    let send = |at: usize, batch: &mut Batch| match std::mem::take(batch) {
        batch if batch.units.is_empty() => Ok(()),
        batch => workers[at].send(batch).map_err(|_| Failure::new("a connection has failed")),
    };
    let mut batches: Vec<Batch> = workers.iter().map(|_| Batch::default()).collect();
    let (hash, mut current, mut missing) = (RandomState::new(), None, options.namespaces.clone());
    while let Some(part) = reader.next().context(options.file.display())? {
        match part {
            Part::Namespace { number, words } => {
                batches.iter_mut().enumerate().try_for_each(|(at, batch)| send(at, batch))?;
                missing.retain(|wanted| *wanted != number);
                current = Some(number).filter(|&number| options.wants(number));
                if current.is_some() && !is_looked_at {
                    look_into(options, number)?;
                    make(options, number, &words)?;
                }
            }
            Part::Object { key, requests, count } => {
                let Some(namespace) = current else { continue };
                let at = hash.hash_one(&key) as usize % workers.len();
                let batch = &mut batches[at];
                batch.namespace = namespace;
                batch.bytes += requests.len();
                batch.units.push(Unit { key, requests, count });
                if batch.units.len() >= SENT_MAX || batch.bytes >= SENT_BYTES_MAX {
                    send(at, batch)?;
                }
            }
        }
    }
    batches.iter_mut().enumerate().try_for_each(|(at, batch)| send(at, batch))?;
    match missing.first() {
        Some(number) => Err(Failure(format!("{} holds no namespace {number}", options.file.display()))),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Done {
    written: u64,
    /// What was answered in place of OK, with the key.
    failures: Vec<String>,
}

fn write_all(endpoint: &Endpoint, batches: &Receiver<Batch>) -> Result<Done, Failure> {
    let mut done = Done::default();
    let mut connected: Option<(u32, Client)> = None;
    for Batch { namespace, units, .. } in batches {
        let client = match &mut connected {
            Some((entered, client)) if *entered == namespace => client,
            other => &mut other.insert((namespace, Client::connect_to_namespace(endpoint, namespace)?)).1,
        };
        write(client, units, &mut done)?;
    }
    Ok(done)
}

/// Writes objects, and again those of which something was not executed.
fn write(client: &mut Client, mut units: Vec<Unit>, done: &mut Done) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    while !units.is_empty() {
        let requests = units.iter().map(|unit| &unit.requests[..]).collect::<Vec<_>>().concat();
        let answers = client.exchange(&requests, units.iter().map(|unit| unit.count).sum())?;
        let (mut rest, mut again, mut wait) = (&answers[..], Vec::new(), Duration::ZERO);
        for unit in units {
            let (own, others) = rest.split_at(unit.count);
            rest = others;
            let error = own.iter().find_map(|answer| if let Value::Error(text) = answer { Some(text) } else { None });
            match error {
                None => done.written += 1,
                Some(text) if may_be_asked_again(text) => {
                    if Instant::now() >= until {
                        return Err(Failure(format!("{}: {text}", shown(&unit.key))));
                    }
                    wait = wait.max(if text.starts_with("TIMEOUT") { SETTLED_AFTER } else { AGAIN_AFTER });
                    again.push(unit);
                }
                Some(text) => {
                    done.failures.push(format!("{}: {text}", shown(&unit.key)));
                    // No part of it passes for the whole. One request has no parts, and has replaced nothing.
                    if unit.count > 1 {
                        client.call(&[b"DEL".as_slice(), &unit.key])?;
                    }
                }
            }
        }
        thread::sleep(wait);
        units = again;
    }
    Ok(())
}
