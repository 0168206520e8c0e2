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
use super::{AGAIN_AFTER, CONNECTIONS, TRIES, ask_again, counted, is_for_now};
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{complain, say, table, trimmed};

/// Objects that wait for one connection.
const WAITING: usize = 256;
/// Bytes that are sent together, and a single object that is larger.
const SENT_BYTES_MAX: usize = 1 << 20;
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
    if path == Path::new("-") {
        let stdin = io::stdin().lock();
        return if options.check { check(&look(path, stdin)?) } else { restore(options, None, stdin) };
    }
    let cannot_read = format!("cannot read {}", path.display());
    let mut file = File::open(path).context(&cannot_read)?;
    let held = look(path, &mut file)?;
    if options.check {
        return check(&held);
    }
    for number in &options.namespaces {
        if !held.iter().any(|namespace| namespace.number == *number) {
            return Err(Failure(format!("{} holds no namespace {number}", path.display())));
        }
    }
    file.rewind().context(&cannot_read)?;
    restore(options, Some(&held), file)
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

fn check(held: &[Held]) -> Result<ExitCode, Failure> {
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
    // Before anything is written.
    for namespace in held.into_iter().flatten().filter(|namespace| options.wants(namespace.number)) {
        enter(options, namespace.number, &namespace.words)?;
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
    Err(Failure(format!("{} could not be written", counted(failures.len() as u64, "object"))))
}

/// Makes a namespace unless it is there, and looks whether it may be written into.
fn enter(options: &Options, number: u32, words: &[String]) -> Result<(), Failure> {
    let endpoint = &options.endpoint;
    let mut client = Client::connect(endpoint)?;
    let mut selected = ask_to_select(&mut client, number)?;
    if matches!(&selected, Value::Error(text) if text.contains("DB index is out of range")) && !words.is_empty() {
        let number = number.to_string();
        let create = ["QUORATE", "NAMESPACE", "CREATE", &number].into_iter().chain(words.iter().map(String::as_str));
        let told = |Failure(why): Failure| {
            Failure(format!(
                "namespace {number} cannot be made as it was ({}): {why}; make it, then go on",
                words.join(" ")
            ))
        };
        client.ask(&create.collect::<Vec<_>>()).map_err(told)?;
        // This node hears of it in a moment.
        for _ in 0..TRIES {
            selected = ask_to_select(&mut client, number.parse().unwrap_or_default())?;
            if !matches!(selected, Value::Error(_)) {
                break;
            }
            thread::sleep(AGAIN_AFTER);
        }
    }
    if let Value::Error(text) = selected {
        return Err(Failure(format!("namespace {number} of {endpoint}: {text}")));
    }
    let told = |Failure(why): Failure| Failure(format!("namespace {number} of {endpoint}: {why}"));
    match ask_again(&mut client, &["DBSIZE"]).map_err(told)? {
        Value::Integer(count) if count > 0 && !options.overwrite => {
            let count = counted(count.unsigned_abs(), "object");
            Err(Failure(format!(
                "namespace {number} has {count}: nothing is written. With --overwrite those of the same keys are replaced, and others stay"
            )))
        }
        _ => Ok(()),
    }
}

fn ask_to_select(client: &mut Client, number: u32) -> Result<Value, Failure> {
    for _ in 0..TRIES {
        match client.call(&["SELECT", &number.to_string()])? {
            Value::Error(text) if is_for_now(&text) => thread::sleep(AGAIN_AFTER),
            other => return Ok(other),
        }
    }
    Ok(client.call(&["SELECT", &number.to_string()])?)
}

/// One object, to be written.
struct Unit {
    namespace: u32,
    key: Vec<u8>,
    requests: Vec<u8>,
    count: usize,
}

/// Gives each object to the connection that has its key.
fn hand_out<R: Read>(
    options: &Options,
    is_looked_at: bool,
    reader: &mut Reader<R>,
    workers: &[SyncSender<Unit>],
) -> Result<(), Failure> {
    let (hash, mut current) = (RandomState::new(), None);
    while let Some(part) = reader.next().context(options.file.display())? {
        match part {
            Part::Namespace { number, words } => {
                current = Some(number).filter(|&number| options.wants(number));
                if current.is_some() && !is_looked_at {
                    enter(options, number, &words)?;
                }
            }
            Part::Object { key, requests, count } => {
                let Some(namespace) = current else { continue };
                let at = hash.hash_one(&key) as usize % workers.len();
                if workers[at].send(Unit { namespace, key, requests, count }).is_err() {
                    return Err(Failure::new("a connection has ended"));
                }
            }
        }
    }
    Ok(())
}

#[derive(Default)]
struct Done {
    written: u64,
    /// What was answered in place of OK, with the key.
    failures: Vec<String>,
}

fn write_all(endpoint: &Endpoint, units: &Receiver<Unit>) -> Result<Done, Failure> {
    let mut done = Done::default();
    let mut connected: Option<(u32, Client)> = None;
    let mut ahead: Option<Unit> = None;
    while let Some(first) = ahead.take().or_else(|| units.recv().ok()) {
        let namespace = first.namespace;
        let mut together = vec![first];
        let mut length = together[0].requests.len();
        while length < SENT_BYTES_MAX {
            match units.try_recv() {
                Ok(next) if next.namespace == namespace => {
                    length += next.requests.len();
                    together.push(next);
                }
                Ok(next) => {
                    ahead = Some(next);
                    break;
                }
                Err(_) => break,
            }
        }
        let client = match &mut connected {
            Some((entered, client)) if *entered == namespace => client,
            other => &mut other.insert((namespace, Client::connect_to_namespace(endpoint, namespace)?)).1,
        };
        write(client, together, &mut done)?;
    }
    Ok(done)
}

/// Writes objects, and again those of which something was not executed.
fn write(client: &mut Client, mut units: Vec<Unit>, done: &mut Done) -> Result<(), Failure> {
    for tried in 1.. {
        let requests = units.iter().map(|unit| &unit.requests[..]).collect::<Vec<_>>().concat();
        let answers = client.exchange(&requests, units.iter().map(|unit| unit.count).sum())?;
        let (mut rest, mut again, mut wait) = (&answers[..], Vec::new(), AGAIN_AFTER);
        for unit in units {
            let (own, others) = rest.split_at(unit.count);
            rest = others;
            let error = own.iter().find_map(|answer| if let Value::Error(text) = answer { Some(text) } else { None });
            match error {
                None => done.written += 1,
                Some(text) if tried < TRIES && text.starts_with("TIMEOUT") => {
                    wait = SETTLED_AFTER;
                    again.push(unit);
                }
                Some(text) if tried < TRIES && is_for_now(text) => again.push(unit),
                Some(text) => done.failures.push(format!("{}: {text}", unit.key.escape_ascii())),
            }
        }
        if again.is_empty() {
            return Ok(());
        }
        thread::sleep(wait);
        units = again;
    }
    Ok(())
}
