//! Cuts the power of a node's disk under load, again and again, and looks for every write that was acknowledged.
//!
//! Counted is only what was read before the cut. Two files beside the node's data show that the method means something:
//! one is appended to without a sync, and must lose bytes that its writer was told were written; one is synced after
//! every line, and must not.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::disk_image::DiskImage;
use super::node::{Client, Node, program};
use super::{Failure, Options};

const CYCLES: u64 = 1000;
const IMAGE_BYTES: u64 = 1 << 30;
const WRITERS: usize = 8;
/// Objects that each writer overwrites in turn, and writes that it keeps in flight.
const KEYS: u64 = 200;
const WINDOW: u64 = 8;
const VALUE_BYTES: usize = 300;
/// The cut comes so long after the writers have begun.
const LOAD_MIN_MS: u64 = 50;
const LOAD_RANDOM_MS: u64 = 500;
const REPORT_CYCLES: u64 = 20;
/// The unsynced file must lose something in this share of the cycles, or the method shows nothing.
const CONTROL_SHARE_MIN: f64 = 0.9;

pub(crate) fn run(root: &Path, options: &mut Options) -> Result<(), Failure> {
    let cycles = options.take_number("--cycles")?.unwrap_or(CYCLES);
    let random = options.take_number("--seed")?.unwrap_or(u64::from(std::process::id()));
    let named = options.take("--program")?;
    options.finish()?;
    let program = program(root, named)?;
    let scratch = std::env::temp_dir().join(format!("quorate-power-cuts-{}", std::process::id()));
    println!("{cycles} power cuts, seed {random}, in {}", scratch.display());
    let mut disk = DiskImage::make(&scratch, IMAGE_BYTES)?;
    let mut node = Node::configure(program, &scratch, &disk.root().join("node"))?;
    node.start()?;
    let outcome = cut_again_and_again(cycles, random, &mut disk, &mut node);
    if outcome.is_err() {
        // The directory goes with the image.
        eprintln!("the last that the node said:\n{}", node.last_words());
    }
    outcome
}

fn cut_again_and_again(cycles: u64, seed: u64, disk: &mut DiskImage, node: &mut Node) -> Result<(), Failure> {
    let mut random = seed;
    let ledger = Arc::new(Ledger::default());
    let mut control = Controls::default();
    let began = Instant::now();
    for cycle in 1..=cycles {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut threads: Vec<JoinHandle<()>> =
            (0..WRITERS).map(|writer| ledger.clone().write(writer, node.port(), is_over.clone())).collect();
        let files = ControlFiles::start(&disk.root(), cycle, &is_over, &mut threads)?;
        thread::sleep(Duration::from_millis(LOAD_MIN_MS + next_random(&mut random) % LOAD_RANDOM_MS));
        let acknowledged = ledger.acknowledged();
        let (unsynced, synced) = files.acknowledged();
        disk.cut()?;
        is_over.store(true, Ordering::SeqCst);
        node.kill();
        for thread in threads {
            thread.join().map_err(|_| "a writer panicked")?;
        }
        disk.unmount()?;
        disk.mount()?;
        control.judge(&files, unsynced, synced)?;
        node.start().map_err(|failure| format!("cycle {cycle}: {failure}"))?;
        verify(node, &acknowledged).map_err(|failure| format!("cycle {cycle}: {failure}"))?;
        ledger.resume(node)?;
        if cycle % REPORT_CYCLES == 0 || cycle == cycles {
            let total: u64 = acknowledged.iter().sum();
            println!(
                "{cycle} cycles, {total} acknowledged writes, none lost; {control}; {} s",
                began.elapsed().as_secs()
            );
        }
    }
    if (control.unsynced_cycles as f64) < CONTROL_SHARE_MIN * cycles as f64 {
        return Err(format!("the control lost too rarely for the method to show anything: {control}"));
    }
    Ok(())
}

/// The last write that was acknowledged to each writer: it writes 1, 2, 3 and so on, object by object in turn.
#[derive(Default)]
struct Ledger {
    writers: [Progress; WRITERS],
}

#[derive(Default)]
struct Progress {
    sent: AtomicU64,
    acknowledged: AtomicU64,
}

impl Ledger {
    fn acknowledged(&self) -> Vec<u64> {
        self.writers.iter().map(|writer| writer.acknowledged.load(Ordering::SeqCst)).collect()
    }

    fn write(self: Arc<Self>, writer: usize, port: u16, is_over: Arc<AtomicBool>) -> JoinHandle<()> {
        thread::spawn(move || {
            let progress = &self.writers[writer];
            let write = || -> std::io::Result<()> {
                let mut client = Client::connect(port)?;
                let mut answered = progress.sent.load(Ordering::SeqCst);
                while !is_over.load(Ordering::SeqCst) {
                    while progress.sent.load(Ordering::SeqCst) < answered + WINDOW {
                        let number = progress.sent.fetch_add(1, Ordering::SeqCst) + 1;
                        client.send(&["SET", &key(writer, number), &value(number)])?;
                    }
                    client.answer()?;
                    answered += 1;
                    progress.acknowledged.store(answered, Ordering::SeqCst);
                }
                Ok(())
            };
            // It ends with its connection, when the node is killed.
            let _ = write();
        })
    }

    /// What was sent and not acknowledged may have happened or not; from here on it counts as acknowledged, since each
    /// object is written once more first.
    fn resume(&self, node: &Node) -> Result<(), Failure> {
        let mut client = node.client().map_err(|error| format!("cannot connect: {error}"))?;
        for (writer, progress) in self.writers.iter().enumerate() {
            let (from, to) = (progress.acknowledged.load(Ordering::SeqCst), progress.sent.load(Ordering::SeqCst));
            let set = |number| vec!["SET".to_owned(), key(writer, number), value(number)];
            let answers = client.ask_all((from + 1..=to).map(set));
            answers.map_err(|error| format!("a write after the restart failed: {error}"))?;
            progress.acknowledged.store(to, Ordering::SeqCst);
        }
        Ok(())
    }
}

fn key(writer: usize, number: u64) -> String {
    format!("w{writer}:{}", number % KEYS)
}

fn value(number: u64) -> String {
    format!("{number:>VALUE_BYTES$}")
}

/// Every object holds its last acknowledged write, or a later one of its writer.
fn verify(node: &Node, acknowledged: &[u64]) -> Result<(), Failure> {
    let mut client = node.client().map_err(|error| format!("cannot connect: {error}"))?;
    for (writer, &last) in acknowledged.iter().enumerate() {
        let numbers = last.saturating_sub(KEYS - 1).max(1)..=last;
        let get = |number| vec!["GET".to_owned(), key(writer, number)];
        let answers = client.ask_all(numbers.clone().map(get)).map_err(|error| format!("cannot read: {error}"))?;
        for (number, found) in numbers.zip(answers) {
            let key = key(writer, number);
            let found: u64 = found
                .as_deref()
                .map_or(Ok(0), |text| text.trim().parse())
                .map_err(|_| format!("{key} holds {found:?}"))?;
            if found < number || found % KEYS != number % KEYS {
                return Err(format!("{key} holds write {found}, and {number} was acknowledged: LOST"));
            }
        }
    }
    Ok(())
}

/// What the two files lost, over all cycles.
#[derive(Default)]
struct Controls {
    unsynced_cycles: u64,
    unsynced_lines: u64,
    synced_lines: u64,
}

struct ControlFiles {
    unsynced: (PathBuf, Arc<AtomicU64>),
    synced: (PathBuf, Arc<AtomicU64>),
}

const LINE_BYTES: usize = 100;
/// Writers of files are no load tests.
const LINE_PAUSE: Duration = Duration::from_millis(1);

impl ControlFiles {
    fn start(
        directory: &Path,
        cycle: u64,
        is_over: &Arc<AtomicBool>,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<ControlFiles, Failure> {
        let mut start = |name: &str, is_synced: bool| {
            let path = directory.join(name);
            let file = OpenOptions::new().create(true).append(true).open(&path).and_then(|file| {
                // The cycle begins with an empty file whose name is there to stay.
                file.set_len(0)?;
                file.sync_all()?;
                File::open(directory)?.sync_all()?;
                Ok(file)
            });
            let file = file.map_err(|error| format!("cannot make {}: {error}", path.display()))?;
            let lines = Arc::new(AtomicU64::new(0));
            threads.push(append(file, cycle, is_synced, lines.clone(), is_over.clone()));
            Ok::<_, Failure>((path, lines))
        };
        Ok(ControlFiles { unsynced: start("control-unsynced", false)?, synced: start("control-synced", true)? })
    }

    /// Lines that their writers were told were written, or synced.
    fn acknowledged(&self) -> (u64, u64) {
        (self.unsynced.1.load(Ordering::SeqCst), self.synced.1.load(Ordering::SeqCst))
    }
}

fn append(
    mut file: File,
    cycle: u64,
    is_synced: bool,
    lines: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let width = LINE_BYTES - 1;
        while !is_over.load(Ordering::SeqCst) {
            let line = format!("{:>width$}\n", format!("{cycle}:{}", lines.load(Ordering::SeqCst)));
            let written =
                file.write_all(line.as_bytes()).and_then(|()| if is_synced { file.sync_data() } else { Ok(()) });
            if written.is_err() {
                return;
            }
            lines.fetch_add(1, Ordering::SeqCst);
            thread::sleep(LINE_PAUSE);
        }
    })
}

impl Controls {
    fn judge(&mut self, files: &ControlFiles, unsynced: u64, synced: u64) -> Result<(), Failure> {
        let found = |path: &Path| {
            let read = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()));
            read.map(|bytes| bytes.chunks_exact(LINE_BYTES).filter(|line| line.ends_with(b"\n")).count() as u64)
        };
        let lost = unsynced.saturating_sub(found(&files.unsynced.0)?);
        self.unsynced_lines += lost;
        self.unsynced_cycles += u64::from(lost > 0);
        let synced_lost = synced.saturating_sub(found(&files.synced.0)?);
        self.synced_lines += synced;
        match synced_lost {
            0 => Ok(()),
            lost => Err(format!("the file that is synced lost {lost} lines: the machine does not keep what it syncs")),
        }
    }
}

impl std::fmt::Display for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Controls { unsynced_cycles, unsynced_lines, synced_lines } = self;
        write!(
            f,
            "control: {unsynced_lines} unsynced lines lost in {unsynced_cycles} cycles, none of {synced_lines} synced ones"
        )
    }
}

/// A step of splitmix64.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
