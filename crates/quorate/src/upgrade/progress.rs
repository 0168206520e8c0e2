//! What the root keeps of the upgrade, and that only one drives it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use quorate_resp::Value;
use quorate_server::directory::random_u64;

use super::look::Nodes;
use crate::failure::{Context, Failure};
use crate::output::{fields, say};

/// How often the driver tells that it is there.
const BEAT_EVERY: Duration = Duration::from_secs(2);
/// Who has told nothing for so long is gone.
const GONE_AFTER: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long nodes may take to greet each other.
const MET_WITHIN: Duration = Duration::from_secs(10);

/// What `QUORATE UPGRADE SHOW` tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) state: String,
    pub(super) version: String,
    beat: String,
    pub(super) done: Vec<String>,
}

/// This process, as whoever drives the upgrade.
pub(super) struct Driver<'a> {
    nodes: &'a Nodes,
    number: String,
    batch: String,
    told_at: Instant,
}

pub(super) fn show(nodes: &Nodes) -> Result<Shown, Failure> {
    let told = nodes.ask(&["QUORATE", "UPGRADE", "SHOW"])?;
    let mut shown = Shown::default();
    for (name, value) in fields(&told) {
        match &name[..] {
            "state" => shown.state = value,
            "version" => shown.version = value,
            "beat" => shown.beat = value,
            "done" => shown.done = value.split(", ").filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            _ => {}
        }
    }
    match shown.state.is_empty() {
        true => {
            Err(Failure(format!("QUORATE UPGRADE SHOW was answered with {told:?}; is the node of another release?")))
        }
        false => Ok(shown),
    }
}

impl<'a> Driver<'a> {
    /// Begins an upgrade to this version, or goes on with it. One that somebody else drives is refused, once that has been seen to be
    /// alive.
    pub(super) fn begin(nodes: &'a Nodes, version: &str, anew: bool) -> Result<Driver<'a>, Failure> {
        // A number of 53 bits, so that whatever prints or reads it as JSON keeps it.
        let number = (random_u64().context("cannot draw a random number")? >> 11).max(1).to_string();
        let driver = Driver { nodes, number, batch: String::new(), told_at: Instant::now() };
        let seen = show(nodes)?;
        if seen.state != "driven" {
            return driver.say_begin(version, anew, None).map(|()| driver);
        }
        say(format_args!("an upgrade to {} is under way; looking whether somebody still drives it", seen.version));
        let deadline = Instant::now() + GONE_AFTER;
        while Instant::now() < deadline {
            sleep(LOOK_EVERY);
            if show(nodes)? != seen {
                return Err(Failure(format!(
                    "an upgrade to {} is under way, and there is one at a time: wait until it is over",
                    seen.version
                )));
            }
        }
        driver.say_begin(version, anew, Some(&seen.beat)).map(|()| driver)
    }

    fn say_begin(&self, version: &str, anew: bool, silent_at: Option<&str>) -> Result<(), Failure> {
        let mut words = vec!["BEGIN", version, "DRIVER", &self.number];
        if anew {
            words.push("ANEW");
        }
        words.extend(silent_at.into_iter().flat_map(|beat| ["SILENT", beat]));
        self.say(&words)
    }

    /// These nodes are being restarted now, and those are done.
    pub(super) fn note(&mut self, batch: &[String], done: &[String]) -> Result<(), Failure> {
        self.batch = batch.join(",");
        let done = done.join(",");
        let mut words = vec!["NOTE", "DRIVER", &self.number];
        for (option, names) in [("BATCH", &self.batch), ("DONE", &done)] {
            words.extend(Some([option, names]).filter(|_| !names.is_empty()).into_iter().flatten());
        }
        self.say(&words)?;
        self.told_at = Instant::now();
        Ok(())
    }

    /// To be called again and again: whoever wants to drive as well finds out that this one is alive.
    pub(super) fn beat(&mut self) -> Result<(), Failure> {
        if self.told_at.elapsed() < BEAT_EVERY {
            return Ok(());
        }
        let batch: Vec<String> = self.batch.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        self.note(&batch, &[])
    }

    /// Ends without being done.
    pub(super) fn leave(&self) -> Result<(), Failure> {
        self.say(&["LEAVE", "DRIVER", &self.number])
    }

    /// All nodes are done: what the new release can do may be used from now on. The node that is asked may not have met all others since
    /// they were restarted.
    pub(super) fn raise_level(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + MET_WITHIN;
        loop {
            match self.say(&["RAISE"]) {
                Err(_) if Instant::now() < deadline => sleep(LOOK_EVERY),
                raised => return raised,
            }
        }
    }

    /// All nodes are done.
    pub(super) fn end(&self) -> Result<(), Failure> {
        self.say(&["END", "DRIVER", &self.number])
    }

    fn say(&self, words: &[&str]) -> Result<(), Failure> {
        match self.nodes.ask(&[&["QUORATE", "UPGRADE"], words].concat())? {
            Value::Error(text) => Err(Failure(format!("the cluster refuses: {text}"))),
            _ => Ok(()),
        }
    }
}
