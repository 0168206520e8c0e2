//! Registers: objects that are only written, with values that nobody writes twice, read, and deleted. Judged in
//! O(n log n), which is millions of calls, where the general search needs few calls at a time.
//!
//! A value's write and its reads are a *cluster* (Gibbons and Korach 1997). Between the first return and the last
//! invocation of a cluster, if they are in that order, the register holds that value: a *forward zone*. Otherwise all its
//! calls overlap, and any moment between the last invocation and the first return will do: a *backward zone*. A history
//! of writes and reads is linearizable if and only if
//! - every value read was written, not later than it was read;
//! - no two forward zones overlap, and no backward zone lies within a forward zone.
//!
//! Writes of unknown fate belong if their value was read, and are taken not to have happened otherwise.
//!
//! Deletes all write the same *nil*, so which of them a read saw is not known, and two conditions are only necessary:
//! - no delete and no read of nil lies within a forward zone (nothing deleted comes back);
//! - a read of nil that follows a call with a value is preceded by a delete that may have followed that call.
//!
//! So this judge never rejects a correct history; it decides exactly where nothing is deleted. Whether a DEL answered 1
//! or 0, and the order of a connection's overlapping calls, are left to the general search.

use std::collections::HashMap;

use crate::check::{Bounds, Verdict, lanes};
use crate::history::{Action, Answer, CallId, Fate, History, Object};

/// Judges one object by all its calls. Anything but SET, GET and DEL makes it give up.
pub fn check_object(history: &History, object: Object, calls: &[CallId], bounds: &Bounds) -> Verdict {
    let collected = Register::of(history, calls, bounds);
    let verdict = |fault: Fault, is_violation: bool| {
        let explanation = format!("{}\n{}", fault.explanation, lanes(history, &fault.calls));
        if is_violation { Verdict::Violation { object, explanation } } else { Verdict::Unknown { object, explanation } }
    };
    let register = match collected {
        Ok(register) => register,
        Err(fault) => return verdict(fault, false),
    };
    match register.check() {
        Ok(()) => Verdict::Linearizable,
        Err(fault) => verdict(fault, true),
    }
}

struct Fault {
    explanation: String,
    calls: Vec<CallId>,
}

fn fault(explanation: impl Into<String>, calls: &[CallId]) -> Fault {
    Fault { explanation: explanation.into(), calls: calls.to_vec() }
}

/// A call's time.
#[derive(Clone, Copy)]
struct Span {
    id: CallId,
    invoked_us: u64,
    end_us: u64,
}

/// The write of one value and the reads that saw it.
struct Cluster {
    write: Option<(Span, /* answered: */ bool)>,
    first_end: Span,
    last_invoked: Span,
    read: bool,
}

#[derive(Default)]
struct Register<'a> {
    clusters: HashMap<&'a [u8], Cluster>,
    /// Reads that saw a value, and writes that were answered.
    valued: Vec<Span>,
    nil_reads: Vec<Span>,
    /// Those of unknown fate as well.
    deletes: Vec<(Span, /* answered: */ bool)>,
}

impl<'a> Register<'a> {
    fn of(history: &'a History, calls: &[CallId], bounds: &Bounds) -> Result<Self, Fault> {
        let mut register = Self::default();
        for &id in calls {
            let record = history.record(id);
            let (end_us, answer) = match &record.fate {
                Fate::NotExecuted => continue,
                Fate::Unknown => (bounds.unknown_end_us(record.invoked_us), None),
                Fate::Answered { at_us, answer } => (*at_us, Some(answer)),
            };
            let span = Span { id, invoked_us: record.invoked_us, end_us };
            match (&record.call.action, answer) {
                (Action::Set { value }, None | Some(Answer::Ok)) => {
                    register.add_write(value, span, answer.is_some())?
                }
                (Action::Get, Some(Answer::Bytes(value))) => register.add_read(value, span),
                (Action::Get, Some(Answer::Nil)) => register.nil_reads.push(span),
                (Action::Get, None) => {}
                (Action::Del | Action::Erase, None | Some(Answer::Int(_))) => {
                    register.deletes.push((span, answer.is_some()))
                }
                _ => return Err(fault("this call or its answer is not a register's", &[id])),
            }
        }
        Ok(register)
    }

    fn add_write(&mut self, value: &'a [u8], span: Span, answered: bool) -> Result<(), Fault> {
        if answered {
            self.valued.push(span);
        }
        let cluster = self.clusters.entry(value).or_insert_with(|| Cluster::of(span));
        if let Some((other, _)) = cluster.write {
            return Err(fault("two writes of one value", &[other.id, span.id]));
        }
        cluster.write = Some((span, answered));
        cluster.widen(span);
        Ok(())
    }

    fn add_read(&mut self, value: &'a [u8], span: Span) {
        self.valued.push(span);
        let cluster = self.clusters.entry(value).or_insert_with(|| Cluster::of(span));
        cluster.read = true;
        cluster.widen(span);
    }

    fn check(&self) -> Result<(), Fault> {
        let mut clusters: Vec<&Cluster> = self.clusters.values().collect();
        // The map's order is random, and which fault is told of shall not be.
        clusters.sort_by_key(|cluster| cluster.first_end.id);
        clusters.iter().try_for_each(|cluster| cluster.check_written())?;
        clusters.retain(|cluster| cluster.read || cluster.write.is_some_and(|(_, answered)| answered));
        let zones = ForwardZones::of(&clusters)?;
        for cluster in clusters.iter().filter(|cluster| !cluster.is_forward()) {
            let (begin, end) = (cluster.last_invoked, cluster.first_end);
            zones.check_outside("this value was held", begin.invoked_us, end.end_us, begin.id)?;
        }
        for read in &self.nil_reads {
            zones.check_outside("the object was absent", read.invoked_us, read.end_us, read.id)?;
        }
        for (delete, _) in self.deletes.iter().filter(|(_, answered)| *answered) {
            zones.check_outside("the object was deleted", delete.invoked_us, delete.end_us, delete.id)?;
        }
        self.check_nil_reads(&clusters)
    }

    /// Each read of nil needs a delete, unless it may have come before every value.
    fn check_nil_reads(&self, clusters: &[&Cluster]) -> Result<(), Fault> {
        let mut reads = self.nil_reads.clone();
        reads.sort_by_key(|read| read.invoked_us);
        let read_anyway = clusters.iter().filter_map(|cluster| cluster.write.filter(|(_, answered)| !answered));
        let mut valued: Vec<Span> = self.valued.iter().copied().chain(read_anyway.map(|(write, _)| write)).collect();
        valued.sort_by_key(|span| span.end_us);
        // The latest end of a delete among those invoked so far.
        let mut deletes: Vec<Span> = self.deletes.iter().map(|(delete, _)| *delete).collect();
        deletes.sort_by_key(|delete| delete.invoked_us);
        let mut latest_end_us = 0;
        for delete in &mut deletes {
            latest_end_us = latest_end_us.max(delete.end_us);
            delete.end_us = latest_end_us;
        }
        let mut valued = valued.into_iter().peekable();
        let mut latest: Option<Span> = None;
        for read in reads {
            while let Some(before) = valued.next_if(|span| span.end_us < read.invoked_us) {
                latest = latest.filter(|latest| latest.invoked_us >= before.invoked_us).or(Some(before));
            }
            let Some(latest) = latest else { continue };
            let count = deletes.partition_point(|delete| delete.invoked_us <= read.end_us);
            let is_explained = count > 0 && deletes[count - 1].end_us >= latest.invoked_us;
            if !is_explained {
                let explanation = "the object was absent, and no delete since this value explains that";
                return Err(fault(explanation, &[latest.id, read.id]));
            }
        }
        Ok(())
    }
}

impl Cluster {
    fn of(span: Span) -> Self {
        Self { write: None, first_end: span, last_invoked: span, read: false }
    }

    fn widen(&mut self, span: Span) {
        if span.end_us < self.first_end.end_us {
            self.first_end = span;
        }
        if span.invoked_us > self.last_invoked.invoked_us {
            self.last_invoked = span;
        }
    }

    fn is_forward(&self) -> bool {
        self.first_end.end_us < self.last_invoked.invoked_us
    }

    fn check_written(&self) -> Result<(), Fault> {
        match self.write {
            None => Err(fault("nobody wrote this value", &[self.first_end.id])),
            Some((write, _)) if self.first_end.end_us < write.invoked_us => {
                Err(fault("a value was read before it was written", &[self.first_end.id, write.id]))
            }
            Some(_) => Ok(()),
        }
    }
}

/// The forward zones, which do not overlap, in the order of time.
struct ForwardZones<'a>(Vec<&'a Cluster>);

impl<'a> ForwardZones<'a> {
    fn of(clusters: &[&'a Cluster]) -> Result<Self, Fault> {
        let mut zones: Vec<&Cluster> = clusters.iter().copied().filter(|cluster| cluster.is_forward()).collect();
        zones.sort_by_key(|zone| (zone.first_end.end_us, zone.first_end.id));
        for pair in zones.windows(2) {
            let [before, after] = pair else { continue };
            if after.first_end.end_us < before.last_invoked.invoked_us {
                let calls = [before, after].map(|zone| [zone.first_end.id, zone.last_invoked.id]);
                return Err(fault("two values were held at the same time", calls.as_flattened()));
            }
        }
        Ok(Self(zones))
    }

    /// Something that happened at some moment of an interval cannot have happened while another value was held.
    fn check_outside(&self, what: &str, begin_us: u64, end_us: u64, id: CallId) -> Result<(), Fault> {
        let begun = self.0.partition_point(|zone| zone.first_end.end_us < begin_us);
        let Some(zone) = begun.checked_sub(1).map(|last| self.0[last]) else {
            return Ok(());
        };
        if end_us < zone.last_invoked.invoked_us {
            let explanation = format!("{what} while another value was");
            return Err(fault(explanation, &[zone.first_end.id, id, zone.last_invoked.id]));
        }
        Ok(())
    }
}
