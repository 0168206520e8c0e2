//! One seed from its first event to its verdict.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

use quorate_node::replica::Protocol;

use crate::check::{self, Bounds, Verdict};
use crate::property::convergence;
use crate::world::{FaultCounts, ORIGIN_MS, Settings, Sometimes, World};

/// How far group time may be from true time: what the wall clocks are off, what a stamp may be ahead, and drift.
const SKEW_MS: u64 = 2_500;

/// How long after it was sent a call of unknown fate may still take effect: its deadline, and how far clocks are apart.
/// A value accepted before its deadline may be decided later, but only where nothing else was executed in between.
const UNKNOWN_EFFECT_US: u64 = 12_000_000;
/// In a chain the tail answers reads while updates are held up before it, and of a register one member may hold a write that
/// nobody has finished: for as long as an outage lasts.
const UNKNOWN_EFFECT_WITHOUT_COORDINATOR_US: u64 = 60_000_000;

/// What the checker may try for one object, in about a gigabyte. Seed 30107, which has a dozen overlapping calls of
/// unknown fate at once, needed more than four million.
const CONFIGURATIONS_MAX: usize = 32_000_000;

/// What a run showed.
#[derive(Clone, Debug)]
pub struct Report {
    pub seed: u64,
    pub calls: usize,
    pub turns: u64,
    pub simulated_us: u64,
    pub trace_hash: u64,
    pub faults: FaultCounts,
    pub sometimes: Sometimes,
    /// What was wrong, if anything.
    pub failure: Option<String>,
    /// Whether that is no more than that the checker gave up.
    pub is_undecided: bool,
}

/// Runs a seed and judges it. A broken invariant inside the run is a failure like any other.
pub fn run_seed(settings: Settings) -> Report {
    run_seed_within(settings, CONFIGURATIONS_MAX)
}

/// The same, but the checker may try only so much for one object.
pub fn run_seed_within(settings: Settings, configurations_max: usize) -> Report {
    let seed = settings.seed;
    let result = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(settings);
        let at_rest = world.run();
        let (failure, is_undecided) = match judge(&world, at_rest, configurations_max) {
            None => (None, false),
            Some(Wrong::Shown(text)) => (Some(text), false),
            Some(Wrong::Undecided(text)) => (Some(text), true),
        };
        Report {
            seed,
            calls: world.history().records().len(),
            turns: world.turns(),
            simulated_us: world.now_us(),
            trace_hash: world.trace_hash(),
            faults: world.faults(),
            sometimes: world.sometimes(),
            failure,
            is_undecided,
        }
    }));
    result.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "a panic without words".into());
        Report {
            seed,
            calls: 0,
            turns: 0,
            simulated_us: 0,
            trace_hash: 0,
            faults: FaultCounts::default(),
            sometimes: Sometimes::default(),
            failure: Some(text),
            is_undecided: false,
        }
    })
}

/// Runs worlds on so many threads, begun in their order, until `each` has heard enough. It hears of them as they end.
pub fn run_worlds(
    worlds: impl Iterator<Item = Settings> + Send,
    threads: NonZeroUsize,
    run: impl Fn(Settings) -> Report + Sync,
    mut each: impl FnMut(Report) -> ControlFlow<()>,
) {
    let worlds = Mutex::new(worlds.fuse());
    let is_enough = AtomicBool::new(false);
    let next = || worlds.lock().expect("taking the next world does not panic").next();
    thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for _ in 0..threads.get() {
            let (tell, next, run, is_enough) = (tell.clone(), &next, &run, &is_enough);
            scope.spawn(move || {
                while !is_enough.load(Ordering::Relaxed)
                    && let Some(world) = next()
                    && tell.send(run(world)).is_ok()
                {}
            });
        }
        drop(tell);
        for report in told {
            if each(report).is_break() {
                is_enough.store(true, Ordering::Relaxed);
                break;
            }
        }
    });
}

/// As many threads as there are cores.
pub fn threads() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

enum Wrong {
    Shown(String),
    Undecided(String),
}

fn judge(world: &World, at_rest: bool, configurations_max: usize) -> Option<Wrong> {
    if !at_rest {
        let (now_us, unrest) = (world.now_us(), world.unrest());
        let text = format!("liveness: {now_us} us after the start the cluster has not come to rest{unrest}");
        return Some(Wrong::Shown(text));
    }
    convergence::assert_same_state(world.nodes());
    let bounds = |unknown_effect_us| Bounds {
        origin_ms: ORIGIN_MS as i64,
        skew_ms: SKEW_MS,
        unknown_effect_us: Some(unknown_effect_us),
        configurations_max,
    };
    let check = |bounds: Bounds| match check::linearizability::check(world.history(), &bounds) {
        Verdict::Linearizable => None,
        verdict @ Verdict::Violation { .. } => Some(Wrong::Shown(verdict.to_string())),
        verdict @ Verdict::Unknown { .. } => Some(Wrong::Undecided(verdict.to_string())),
    };
    // A coordinator that is in the next epoch keeps its lease, and what it has accepted, until the others have heard of that.
    let waits_for_epochs = world.settings().replaces_mean_ms.is_some();
    let may_be_late = world.settings().protocol != Protocol::Paxos || world.settings().led_groups || waits_for_epochs;
    // What can be put in order with little freedom can with more, and is found far sooner.
    match check(bounds(UNKNOWN_EFFECT_US)) {
        Some(_) if may_be_late => check(bounds(UNKNOWN_EFFECT_WITHOUT_COORDINATOR_US)),
        verdict => verdict,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.simulated_us / 1_000_000;
        write!(
            f,
            "seed {}: {} calls, {} turns, {seconds} s, {} crashes, {} partitions, trace {:016x}: {}",
            self.seed,
            self.calls,
            self.turns,
            self.faults.crashes,
            self.faults.partitions,
            self.trace_hash,
            self.failure.as_deref().unwrap_or("passed"),
        )
    }
}
