//! `quorate backup`: reads what there is, while clients go on.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_resp::Value;

use super::file::Writer;
use super::objects::{Type, is_too_large, write_object};
use super::{AGAIN_AFTER, CONNECTIONS, PATIENCE, ask_again, counted, may_be_asked_again, shown};
use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{complain, fields, say, size};

/// Keys that are looked at together.
const KEYS_AT_ONCE: usize = 200;
/// Bytes of strings that are asked for together. A node disconnects clients that leave more than 64 MiB unread.
const ASKED_BYTES_MAX: usize = 4 << 20;
/// Reads of an object between two looks at its time to live, before it is taken as it is.
const LOOKS: usize = 5;
/// What is told of objects that are left out.
const LEFT_OUT_SHOWN: usize = 10;
const TOLD_EVERY: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "Examples:
  quorate backup monday.quorate            all namespaces, through the node at 127.0.0.1:7000
  quorate backup -n 1 -n 2 two.quorate     two of them
  quorate backup - | zstd > all.zst        compressed
  quorate backup -p 6379 redis.quorate     what a Redis holds, to restore it into a cluster";

/// Write everything that a cluster holds into a file, while clients go on
///
/// Each object is read whole and as it is at one moment; objects are read one after the other. The file is made of Redis
/// commands. `quorate restore` brings it back, into this cluster or another one.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    endpoint: Endpoint,
    /// Where to write; - is standard output
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A namespace to write, perhaps one of several [default: all]
    #[arg(short, long = "namespace", value_name = "N")]
    namespaces: Vec<u32>,
}

/// A namespace, and the words that make one like it.
struct Namespace {
    number: u32,
    words: String,
    holds_registers: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let began = Instant::now();
    let mut client = Client::connect(&options.endpoint)?;
    let mut namespaces = namespaces(&mut client)?;
    for number in &options.namespaces {
        if !namespaces.iter().any(|namespace| namespace.number == *number) {
            return Err(Failure(format!(
                "there is no namespace {number}: `quorate namespace list` shows those that exist"
            )));
        }
    }
    namespaces.retain(|namespace| options.namespaces.is_empty() || options.namespaces.contains(&namespace.number));
    let destination = Destination::open(&options.file)?;
    let told = format!("cannot write {}", options.file.display());
    let mut writer = Writer::begin(BufWriter::with_capacity(1 << 20, destination)).context(&told)?;
    let mut left_out = Vec::new();
    for namespace in &namespaces {
        writer.enter(namespace.number, &namespace.words).context(&told)?;
        let saved = save(&options.endpoint, namespace, writer, &mut left_out, &told);
        writer = saved.map_err(|Failure(why)| Failure(format!("namespace {}: {why}", namespace.number)))?;
    }
    let (objects, bytes) = (writer.objects, writer.bytes);
    let out = writer.end().context(&told)?;
    out.into_inner().map_err(io::IntoInnerError::into_error).and_then(Destination::keep).context(&told)?;
    let (objects, count) = (counted(objects, "object"), counted(namespaces.len() as u64, "namespace"));
    let line = format!("{objects} of {count}, {} in {:.1} s", size(bytes), began.elapsed().as_secs_f64());
    // Not into the backup itself.
    if options.file == Path::new("-") {
        complain(line)
    } else {
        say(line)
    }
    if left_out.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    left_out.sort();
    left_out.dedup();
    let more = left_out.len().saturating_sub(LEFT_OUT_SHOWN);
    left_out.truncate(LEFT_OUT_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Err(Failure(format!(
        "it is written, but some objects cannot be in Quorate and are not in it: {}{more}",
        left_out.join(", ")
    )))
}

/// The namespaces of a cluster, or the databases of a Redis in which there is anything.
fn namespaces(client: &mut Client) -> Result<Vec<Namespace>, Failure> {
    let answer = match client.call(&["QUORATE", "NAMESPACE", "LIST"])? {
        Value::Error(text) if text.starts_with("ERR unknown command") => return databases(client),
        _ => ask_again(client, &["QUORATE", "NAMESPACE", "LIST"])?,
    };
    let Value::Array(entries) = &answer else {
        return Err(Failure(format!("QUORATE NAMESPACE LIST was answered with {answer:?}")));
    };
    entries.iter().map(|entry| namespace(&fields(entry))).collect()
}

fn namespace(fields: &[(String, String)]) -> Result<Namespace, Failure> {
    let value = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
    let number = value("namespace").and_then(|text| text.parse().ok());
    let number = number.ok_or_else(|| Failure::new("QUORATE NAMESPACE LIST tells of a namespace without a number"))?;
    let holds_registers = value("protocol") == Some("register");
    let settings = ["protocol", "replicas", "volumes", "durability", "reads", "groups"];
    let of_registers: &[&str] = if holds_registers { &["quorum", "tolerance", "authority"] } else { &[] };
    let word = |name: &&str| {
        let value = value(name)?;
        let quoted = if value.contains(' ') { format!("\"{value}\"") } else { value.to_owned() };
        Some(format!("{} {quoted}", name.to_uppercase()))
    };
    let words: Vec<String> = settings.iter().chain(of_registers).filter_map(word).collect();
    Ok(Namespace { number, words: words.join(" "), holds_registers })
}

fn databases(client: &mut Client) -> Result<Vec<Namespace>, Failure> {
    let answer = client.ask(&["INFO", "keyspace"])?;
    let text = match &answer {
        Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    let numbers = text.lines().filter_map(|line| line.strip_prefix("db")?.split(':').next()?.parse().ok());
    Ok(numbers.map(|number| Namespace { number, words: String::new(), holds_registers: false }).collect())
}

/// Writes a namespace's objects: one connection lists them, the others read them.
fn save<W: Write + Send>(
    endpoint: &Endpoint,
    namespace: &Namespace,
    writer: Writer<W>,
    left_out: &mut Vec<String>,
    told: &str,
) -> Result<Writer<W>, Failure> {
    let mut scanner = Client::connect_to_namespace(endpoint, namespace.number)?;
    let of_about = match ask_again(&mut scanner, &["DBSIZE"])? {
        Value::Integer(count) => count,
        _ => 0,
    };
    let (batches, to_read) = sync_channel::<Vec<Vec<u8>>>(CONNECTIONS);
    let (to_read, output) = (Arc::new(Mutex::new(to_read)), Mutex::new(writer));
    let before = locked(&output).objects;
    let has_failed = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = |to_read: Batches| {
            let done = read_all(endpoint, namespace, &to_read, |requests, objects| {
                locked(&output).add(requests, objects).context(told)
            });
            has_failed.fetch_or(done.is_err(), Ordering::Relaxed);
            done
        };
        let spawn = |_| {
            let to_read = to_read.clone();
            scope.spawn(move || worker(to_read))
        };
        let workers: Vec<_> = (0..CONNECTIONS).map(spawn).collect();
        // Whoever lists keys is told once nobody takes them any more.
        drop(to_read);
        let tell = || {
            let done = locked(&output).objects - before;
            format!("namespace {}: {done} of about {}", namespace.number, counted(of_about as u64, "object"))
        };
        let scanned = scan(&mut scanner, batches, tell, &has_failed);
        let mut result = Ok(());
        for worker in workers {
            match worker
                .join()
                .unwrap_or_else(|_| Err(Failure::new("a thread of the backup panicked: please report it")))
            {
                Ok(types) => left_out.extend(types),
                Err(failure) => result = Err(failure),
            }
        }
        // What became of the readers says why.
        result.and(scanned)
    })?;
    Ok(output.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Batches of keys, for whoever takes the next one.
type Batches = Arc<Mutex<Receiver<Vec<Vec<u8>>>>>;

/// Reads the objects of one batch of keys after the other. What was left out.
fn read_all(
    endpoint: &Endpoint,
    namespace: &Namespace,
    batches: &Batches,
    mut give: impl FnMut(&[u8], u64) -> Result<(), Failure>,
) -> Result<Vec<String>, Failure> {
    let client = Client::connect_to_namespace(endpoint, namespace.number)?;
    let mut reading = Reading { client, holds_registers: namespace.holds_registers, left_out: Vec::new() };
    while let Some(keys) = next_batch(batches) {
        reading.read(keys, &mut give)?;
    }
    Ok(reading.left_out)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn next_batch(batches: &Mutex<Receiver<Vec<Vec<u8>>>>) -> Option<Vec<Vec<u8>>> {
    locked(batches).recv().ok()
}

/// Every key, in batches, until somebody who takes them has failed.
fn scan(
    client: &mut Client,
    batches: SyncSender<Vec<Vec<u8>>>,
    tell: impl Fn() -> String,
    has_failed: &AtomicBool,
) -> Result<(), Failure> {
    let (mut cursor, mut told_at) = (b"0".to_vec(), Instant::now());
    loop {
        let count = KEYS_AT_ONCE.to_string();
        let answer = ask_again(client, &[b"SCAN", &cursor[..], b"COUNT", count.as_bytes()])?;
        let (Some(next), Some(keys)) = (match answer {
            Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
                Ok([Value::Bulk(next), Value::Array(keys)]) => (Some(next), Some(keys)),
                _ => (None, None),
            },
            _ => (None, None),
        }) else {
            return Err(Failure::new("SCAN was not answered with a cursor and keys"));
        };
        let mut keys: VecDeque<Vec<u8>> =
            keys.into_iter().filter_map(|key| if let Value::Bulk(key) = key { Some(key) } else { None }).collect();
        while !keys.is_empty() {
            let batch = keys.drain(..keys.len().min(KEYS_AT_ONCE)).collect();
            if has_failed.load(Ordering::Relaxed) || batches.send(batch).is_err() {
                return Err(Failure::new("a connection that reads objects has failed"));
            }
        }
        if told_at.elapsed() >= TOLD_EVERY && io::stderr().is_terminal() {
            told_at = Instant::now();
            complain(tell());
        }
        if next == b"0" {
            return Ok(());
        }
        cursor = next;
    }
}

struct Reading {
    client: Client,
    holds_registers: bool,
    /// What Quorate does not hold, and why.
    left_out: Vec<String>,
}

/// What was said of one key.
enum Read {
    Object(Value, i64),
    /// It has another type by now, or another time to live.
    Changed,
    /// No transaction reads it, as this says: it is a register, or as large as an answer may be.
    Apart(String),
    ForNow(String),
}

/// `PEXPIRETIME` of what is not there.
const GONE: i64 = -2;

impl Reading {
    /// Gives the requests that make the objects of these keys, and how many objects, a portion at a time.
    fn read(
        &mut self,
        keys: Vec<Vec<u8>>,
        mut give: impl FnMut(&[u8], u64) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (mut portion, mut asked_bytes) = (Vec::new(), 0);
        for (key, kind, length) in self.types(keys)? {
            if asked_bytes + length > ASKED_BYTES_MAX && !portion.is_empty() {
                let (requests, objects) = self.read_portion(&std::mem::take(&mut portion))?;
                give(&requests, objects)?;
                asked_bytes = 0;
            }
            asked_bytes += length;
            portion.push((key, kind));
        }
        let (requests, objects) = self.read_portion(&portion)?;
        give(&requests, objects)
    }

    /// What these keys hold, and about how much; not those that hold nothing any more.
    fn types(&mut self, keys: Vec<Vec<u8>>) -> Result<Vec<(Vec<u8>, Type, usize)>, Failure> {
        let requests = keys.iter().flat_map(|key| [vec![b"TYPE".as_slice(), key], vec![b"STRLEN", key]]);
        let answers = self.client.pipeline(requests)?;
        let mut found = Vec::with_capacity(keys.len());
        for (key, answers) in keys.into_iter().zip(answers.chunks(2)) {
            let kind = match &answers[0] {
                Value::Simple(word) => word.clone(),
                _ => self.type_of(&key)?,
            };
            // A collection is asked for alone.
            let length = match answers[1] {
                Value::Integer(length) if kind == "string" => length.unsigned_abs() as usize + 4 * key.len(),
                _ => ASKED_BYTES_MAX + 1,
            };
            match Type::of(&kind) {
                Some(kind) => found.push((key, kind, length)),
                None if kind == "none" => {}
                None => self.left_out.push(format!("{} (of type {kind})", shown(&key))),
            }
        }
        Ok(found)
    }

    fn type_of(&mut self, key: &[u8]) -> Result<String, Failure> {
        match ask_again(&mut self.client, &[b"TYPE", key])? {
            Value::Simple(word) => Ok(word),
            other => Err(Failure(format!("TYPE was answered with {other:?}"))),
        }
    }

    fn read_portion(&mut self, portion: &[(Vec<u8>, Type)]) -> Result<(Vec<u8>, u64), Failure> {
        let is_apart = self.holds_registers;
        let answers = self.client.pipeline(portion.iter().flat_map(|(key, kind)| requests(key, *kind, is_apart)))?;
        let each = answers.len().checked_div(portion.len()).unwrap_or(1).max(1);
        let (mut out, mut objects) = (Vec::new(), 0);
        for ((key, kind), answers) in portion.iter().zip(answers.chunks(each)) {
            let object = match taken(answers) {
                Read::Object(value, expires_ms) => Some((*kind, value, expires_ms)),
                _ => self.read_again(key)?,
            };
            match object {
                Some((_, value, _)) if is_too_large(&value) => {
                    self.left_out.push(format!("{} (a value of more than 16 MiB)", shown(key)));
                }
                Some((kind, value, expires_ms)) => {
                    objects += u64::from(write_object(key, kind, &value, expires_ms, &mut out));
                }
                None => {}
            }
        }
        Ok((out, objects))
    }

    /// One that somebody changes, or that could not be read a moment ago. None if there is none any more.
    fn read_again(&mut self, key: &[u8]) -> Result<Option<(Type, Value, i64)>, Failure> {
        let (mut is_apart, mut looks, until) = (self.holds_registers, 0, Instant::now() + PATIENCE);
        loop {
            let word = self.type_of(key)?;
            let Some(kind) = Type::of(&word) else {
                if word != "none" {
                    self.left_out.push(format!("{} (of type {word})", shown(key)));
                }
                return Ok(None);
            };
            let answers = self.client.pipeline(requests(key, kind, is_apart))?;
            let why = match taken(&answers) {
                Read::Object(value, expires_ms) => return Ok(Some((kind, value, expires_ms))),
                Read::Apart(_) if !is_apart => {
                    is_apart = true;
                    continue;
                }
                Read::Apart(text) => return Err(Failure(format!("{} cannot be read: {text}", shown(key)))),
                // Its time to live changes all the time: it is what it was a moment ago.
                Read::Changed if is_apart && looks >= LOOKS => match &answers[..] {
                    [_, value, Value::Integer(expires_ms)] if *expires_ms != GONE && !is_nothing(value) => {
                        return Ok(Some((kind, value.clone(), *expires_ms)));
                    }
                    _ => "it changes all the time".to_owned(),
                },
                Read::Changed => "it changes all the time".to_owned(),
                Read::ForNow(text) => text,
            };
            if Instant::now() >= until {
                return Err(Failure(format!("{} cannot be read: {why}", shown(key))));
            }
            looks += 1;
            thread::sleep(AGAIN_AFTER.min(Duration::from_millis(10) * looks as u32));
        }
    }
}

/// What reads an object and its time to live in one step; or, where no transaction takes it, looks whether that stays what it is.
fn requests(key: &[u8], kind: Type, is_apart: bool) -> Vec<Vec<&[u8]>> {
    let expires: Vec<&[u8]> = vec![b"PEXPIRETIME", key];
    match is_apart {
        true => vec![expires.clone(), kind.reads(key), expires],
        false => vec![vec![b"MULTI"], kind.reads(key), expires, vec![b"EXEC"]],
    }
}

/// What is read of a key that has no object.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Null) || matches!(value, Value::Array(elements) if elements.is_empty())
}

/// What was read, of the answers to the requests for one key.
fn taken(answers: &[Value]) -> Read {
    let error = |answers: &[Value]| {
        answers.iter().find_map(|answer| if let Value::Error(text) = answer { Some(text.clone()) } else { None })
    };
    let inner = if let [.., Value::Array(inner)] = answers { error(inner) } else { None };
    match error(answers).or(inner) {
        Some(text) if may_be_asked_again(&text) => return Read::ForNow(text),
        Some(text) if text.starts_with("WRONGTYPE") => return Read::Changed,
        Some(text) => return Read::Apart(text),
        None => {}
    }
    match answers {
        // It was not there at all three moments, unless all three say that it was.
        [Value::Integer(before), value, Value::Integer(after)]
            if before == after && *after != GONE && !is_nothing(value) =>
        {
            Read::Object(value.clone(), *after)
        }
        [.., Value::Array(inner)] => match &inner[..] {
            [value, Value::Integer(expires_ms)] => Read::Object(value.clone(), *expires_ms),
            _ => Read::Changed,
        },
        _ => Read::Changed,
    }
}

/// Where a backup goes: under another name until it is whole.
enum Destination {
    Stdout(io::Stdout),
    File { file: File, partial: Partial, path: PathBuf },
}

/// The file's name until it is whole, and no file if that never comes.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // It has another name by now, or nobody wants it.
        let _ = fs::remove_file(&self.0);
    }
}

impl Destination {
    fn open(path: &Path) -> Result<Destination, Failure> {
        if path == Path::new("-") {
            return match io::stdout().is_terminal() {
                true => Err(Failure::new(
                    "a backup is not for a terminal: give the name of a file, or send it on with | or >",
                )),
                false => Ok(Destination::Stdout(io::stdout())),
            };
        }
        if path.exists() {
            return Err(Failure(format!("{} is there already: choose another name, or remove it", path.display())));
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        // Whoever can read objects here need not be whoever can read files.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial);
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure(format!(
                "{} is there: another backup is being written, or one was interrupted; then remove it",
                partial.display()
            )),
            _ => Failure(format!("cannot write {}: {error}", partial.display())),
        })?;
        Ok(Destination::File { file, partial: Partial(partial), path: path.to_owned() })
    }

    /// It is whole, and durable.
    fn keep(self) -> io::Result<()> {
        match self {
            Destination::Stdout(mut stdout) => stdout.flush(),
            Destination::File { file, partial, path } => {
                file.sync_all()?;
                fs::rename(&partial.0, &path)?;
                let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
            }
        }
    }
}

impl Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Destination::Stdout(stdout) => stdout.write(bytes),
            Destination::File { file, .. } => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Destination::Stdout(stdout) => stdout.flush(),
            Destination::File { file, .. } => file.flush(),
        }
    }
}
