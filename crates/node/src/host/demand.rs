//! What this node's clients ask for: how often objects are read and written, how large they are, and which are asked for most.
//!
//! Objects are told apart by a Space-Saving summary (Metwally, Agrawal and El Abbadi, 2005): it keeps so many of them, and one that
//! is not kept takes the place of the one with the smallest count, and begins with that count. So whatever is asked for more often
//! than the average of all places is kept. When much is asked for, a sample is counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use hashbrown::HashMap;
use quorate_object::{Command, Outcome};
use quorate_protocol::Instant;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::steps::next_random;
use super::{Host, Submission};
use crate::answer::{AdminReply, Answer};
use crate::entry::Target;
use crate::hash::FixedState;

/// What is told is of one window, so that nothing from before is in it.
const WINDOW_US: u64 = 10_000_000;
/// Objects that are told apart.
const KEPT: usize = 512;
/// Longer names count for their namespace alone.
const NAME_BYTES_MAX: usize = 256;
/// So many commands of a window are all counted. After `n` times as many, one of `n` is, for `n`.
const COUNTED_ALL: u64 = 4096;
/// Fewer samples of an object say little of it.
const SAMPLES_MIN: u64 = 100;
/// Objects that are told of, unless somebody says how many.
pub(super) const TOLD: usize = 20;

/// Of one object, or of all of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    reads: u64,
    writes: u64,
    /// Of so many values, so many bytes.
    values: u64,
    bytes: u64,
}

impl Counts {
    fn note(&mut self, is_write: bool, weight: u64) {
        let count = if is_write { &mut self.writes } else { &mut self.reads };
        *count += weight;
    }

    fn note_value(&mut self, bytes: usize) {
        self.values += 1;
        self.bytes += bytes as u64;
    }

    fn commands(&self) -> u64 {
        self.reads + self.writes
    }

    fn entries(&self) -> Vec<(String, AdminReply)> {
        vec![
            ("reads".into(), int(self.reads)),
            ("writes".into(), int(self.writes)),
            ("value_bytes".into(), int(self.bytes.checked_div(self.values).unwrap_or(0))),
        ]
    }
}

#[derive(Clone, Debug)]
struct Hot {
    namespace: u32,
    name: Vec<u8>,
    counts: Counts,
    /// What it took over: so often it may have been asked for before, beside what is counted.
    missed: u64,
    /// For how many commands it was counted last.
    weight: u64,
}

impl Hot {
    /// Where all are asked for alike, each comes and goes, and what is counted of it says nothing.
    fn stands_out(&self) -> bool {
        self.missed == 0 || self.counts.commands() >= self.missed.max(SAMPLES_MIN * self.weight)
    }
}

/// The Space-Saving summary.
#[derive(Debug, Default)]
struct Summary {
    hot: Vec<Hot>,
    /// By place, what is compared again and again.
    counts: Vec<u64>,
    /// Places by the hash of namespace and name.
    places: HashMap<u64, usize, FixedState>,
}

impl Summary {
    /// Its place; none if another one's name has the same hash.
    fn note(&mut self, namespace: u32, name: &[u8], is_write: bool, weight: u64) -> Option<usize> {
        let place = self.place(namespace, name)?;
        self.counts[place] += weight;
        self.hot[place].counts.note(is_write, weight);
        self.hot[place].weight = weight;
        Some(place)
    }

    fn find(&self, namespace: u32, name: &[u8]) -> Option<usize> {
        let place = *self.places.get(&hash(namespace, name))?;
        let hot = &self.hot[place];
        (hot.namespace == namespace && hot.name == name).then_some(place)
    }

    fn place(&mut self, namespace: u32, name: &[u8]) -> Option<usize> {
        let hash = hash(namespace, name);
        if self.places.contains_key(&hash) {
            return self.find(namespace, name);
        }
        if self.hot.len() < KEPT {
            self.hot.push(Hot { namespace, name: name.to_vec(), counts: Counts::default(), missed: 0, weight: 1 });
            self.counts.push(0);
            self.places.insert(hash, self.hot.len() - 1);
            return Some(self.hot.len() - 1);
        }
        let missed = self.counts.iter().copied().min()?;
        let place = self.counts.iter().position(|&count| count == missed)?;
        let hot = &mut self.hot[place];
        self.places.remove(&self::hash(hot.namespace, &hot.name));
        (hot.namespace, hot.counts, hot.missed) = (namespace, Counts::default(), missed);
        hot.name.clear();
        hot.name.extend_from_slice(name);
        self.places.insert(hash, place);
        Some(place)
    }
}

#[derive(Debug)]
struct Window {
    began: Instant,
    commands: u64,
    summary: Summary,
    namespaces: BTreeMap<u32, Counts>,
}

impl Window {
    fn new(began: Instant) -> Window {
        Window { began, commands: 0, summary: Summary::default(), namespaces: BTreeMap::new() }
    }
}

/// A read that was counted, and whose answer tells how large the object is.
struct Awaited {
    number: u64,
    namespace: u32,
    name: Option<Vec<u8>>,
}

pub(super) struct DemandOfClients {
    now: Window,
    /// The last whole one, and when it ended.
    last: Option<(Window, Instant)>,
    /// Commands that are let go by before the next one is counted.
    to_skip: u64,
    random: u64,
    awaited: Option<Awaited>,
}

impl DemandOfClients {
    pub(super) fn new(now: Instant, seed: u64) -> DemandOfClients {
        DemandOfClients { now: Window::new(now), last: None, to_skip: 0, random: seed, awaited: None }
    }

    fn end_window(&mut self, now: Instant) {
        if now.0.saturating_sub(self.now.began.0) < WINDOW_US {
            return;
        }
        let ended = std::mem::replace(&mut self.now, Window::new(now));
        self.last = Some((ended, now));
        (self.to_skip, self.awaited) = (0, None);
    }

    fn note(&mut self, number: u64, namespace: u32, command: &Command<'_>, name: &[u8]) {
        let weight = (self.now.commands / COUNTED_ALL).max(1);
        // From none to twice as many, so that nobody's rhythm is met.
        self.to_skip = next_random(&mut self.random) % (2 * weight - 1);
        self.now.commands += weight;
        let is_write = command.access() == quorate_object::Access::Write;
        let of_namespace = self.now.namespaces.entry(namespace).or_default();
        of_namespace.note(is_write, weight);
        let is_told_apart = name.len() <= NAME_BYTES_MAX;
        let summary = &mut self.now.summary;
        let place = if is_told_apart { summary.note(namespace, name, is_write, weight) } else { None };
        if let Some(bytes) = command.value().map(<[u8]>::len) {
            of_namespace.note_value(bytes);
            if let Some(place) = place {
                self.now.summary.hot[place].counts.note_value(bytes);
            }
        } else if self.awaited.is_none() && matches!(command, Command::Get { .. }) {
            self.awaited = Some(Awaited { number, namespace, name: is_told_apart.then(|| name.to_vec()) });
        }
    }

    fn note_value_read(&mut self, bytes: usize) {
        let Some(Awaited { namespace, name, .. }) = self.awaited.take() else { return };
        self.now.namespaces.entry(namespace).or_default().note_value(bytes);
        if let Some(place) = name.and_then(|name| self.now.summary.find(namespace, &name)) {
            self.now.summary.hot[place].counts.note_value(bytes);
        }
    }

    /// Of the last whole window, or of the first one as far as it has come.
    fn told(&self, now: Instant, count: usize) -> AdminReply {
        let (window, ended) = self.last.as_ref().map_or((&self.now, now), |(window, ended)| (window, *ended));
        let namespaces = window.namespaces.iter().map(|(&namespace, counts)| {
            let mut entries = vec![("namespace".to_owned(), int(u64::from(namespace)))];
            entries.extend(counts.entries());
            AdminReply::Map(entries)
        });
        let mut hot: Vec<&Hot> = window.summary.hot.iter().filter(|hot| hot.stands_out()).collect();
        hot.sort_by_key(|hot| (Reverse(hot.counts.commands()), hot.namespace, &hot.name));
        let objects = hot.into_iter().take(count).map(|hot| {
            let namespace = ("namespace".to_owned(), int(u64::from(hot.namespace)));
            let mut entries = vec![namespace, ("key".to_owned(), AdminReply::Bytes(hot.name.clone()))];
            entries.extend(hot.counts.entries());
            entries.push(("missed_at_most".to_owned(), int(hot.missed)));
            AdminReply::Map(entries)
        });
        AdminReply::Map(vec![
            ("window_ms".into(), int((ended.0 - window.began.0) / 1000)),
            ("namespaces".into(), AdminReply::List(namespaces.collect())),
            ("objects".into(), AdminReply::List(objects.collect())),
        ])
    }
}

fn hash(namespace: u32, name: &[u8]) -> u64 {
    xxh3_64_with_seed(name, namespace.into())
}

fn int(number: u64) -> AdminReply {
    AdminReply::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

impl Host {
    /// A client asks for something, which is about to be carried out.
    pub(super) fn note_demand_of_client(&mut self, submission: &Submission<'_>) {
        let Target::Slot { namespace, .. } = submission.target else { return };
        if let Some(left) = self.demand.to_skip.checked_sub(1) {
            self.demand.to_skip = left;
        } else if let Some(name) = submission.command.key() {
            self.demand.note(submission.number, namespace, submission.command, name);
        }
    }

    /// A client is answered.
    pub(super) fn note_size(&mut self, number: u64, answer: &Answer) {
        if self.demand.awaited.as_ref().is_none_or(|awaited| awaited.number != number) {
            return;
        }
        match answer {
            Answer::Outcome(Outcome::Bulk(value)) => self.demand.note_value_read(value.len()),
            _ => self.demand.awaited = None,
        }
    }

    /// With every heartbeat.
    pub(super) fn tend_demand(&mut self) {
        self.demand.end_window(self.clock.now());
    }

    pub(super) fn tell_demand(&self, count: usize) -> AdminReply {
        self.demand.told(self.clock.now(), count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn get(demand: &mut DemandOfClients, name: &[u8]) {
        if let Some(left) = demand.to_skip.checked_sub(1) {
            demand.to_skip = left;
        } else {
            demand.note(0, 0, &Command::Get { key: name }, name);
        }
    }

    /// Reads and names, the most wanted first.
    fn told(demand: &DemandOfClients, now: u64, count: usize) -> Vec<(Vec<u8>, i64, i64)> {
        let AdminReply::Map(entries) = demand.told(Instant(now), count) else { panic!("a map") };
        let Some((_, AdminReply::List(objects))) = entries.into_iter().next_back() else { panic!("objects") };
        let of_object = |object| {
            let AdminReply::Map(entries) = object else { panic!("a map") };
            let find = |name| entries.iter().find(|(found, _)| found == name).map(|(_, entry)| entry.clone());
            match (find("key"), find("reads"), find("missed_at_most")) {
                (Some(AdminReply::Bytes(name)), Some(AdminReply::Int(reads)), Some(AdminReply::Int(missed))) => {
                    (name, reads, missed)
                }
                other => panic!("{other:?}"),
            }
        };
        objects.into_iter().map(of_object).collect()
    }

    #[test]
    fn what_is_asked_for_most_is_found_among_very_many() {
        let mut demand = DemandOfClients::new(Instant(0), 1);
        let mut random = 7;
        let mut asked = [0_i64; 3];
        for _ in 0..400_000 {
            // Seven of a hundred, five of a hundred, three of a hundred; all others once or so.
            let draw = next_random(&mut random) % 100;
            let hot = match draw {
                0..=6 => Some(0),
                7..=11 => Some(1),
                12..=14 => Some(2),
                _ => None,
            };
            match hot {
                Some(hot) => {
                    asked[hot] += 1;
                    get(&mut demand, &[hot as u8]);
                }
                None => get(&mut demand, &next_random(&mut random).to_le_bytes()),
            }
        }
        let told = told(&demand, 5 * SECOND, 3);
        let names: Vec<&[u8]> = told.iter().map(|(name, ..)| &name[..]).collect();
        assert_eq!(names, [[0], [1], [2]]);
        for ((_, reads, missed), asked) in told.iter().zip(asked) {
            assert!((reads - asked).abs() < asked / 4, "{reads} of {asked}");
            assert!(*missed <= 400_000 / KEPT as i64, "{missed}");
        }
    }

    #[test]
    fn where_all_are_asked_for_alike_none_stands_out() {
        let mut demand = DemandOfClients::new(Instant(0), 1);
        let mut random = 7;
        (0..400_000).for_each(|_| get(&mut demand, &(next_random(&mut random) % 10_000).to_le_bytes()));
        assert_eq!(told(&demand, SECOND, 9), []);
    }

    #[test]
    fn few_commands_are_all_counted() {
        let mut demand = DemandOfClients::new(Instant(0), 1);
        (0..1_000).for_each(|number: u32| get(&mut demand, if number.is_multiple_of(10) { b"rare" } else { b"often" }));
        assert_eq!(told(&demand, SECOND, 9), [(b"often".to_vec(), 900, 0), (b"rare".to_vec(), 100, 0)]);
    }

    #[test]
    fn what_was_asked_for_in_an_earlier_window_is_not_told() {
        let mut demand = DemandOfClients::new(Instant(0), 1);
        get(&mut demand, b"first");
        demand.end_window(Instant(9 * SECOND));
        assert_eq!(told(&demand, 9 * SECOND, 9), [(b"first".to_vec(), 1, 0)], "as far as it has come");
        demand.end_window(Instant(10 * SECOND));
        get(&mut demand, b"second");
        assert_eq!(told(&demand, 11 * SECOND, 9), [(b"first".to_vec(), 1, 0)], "of the last whole one");
        demand.end_window(Instant(20 * SECOND));
        assert_eq!(told(&demand, 21 * SECOND, 9), [(b"second".to_vec(), 1, 0)]);
        demand.end_window(Instant(30 * SECOND));
        assert_eq!(told(&demand, 31 * SECOND, 9), []);
    }

    #[test]
    fn sizes_are_those_of_values_that_are_written_and_read() {
        let mut demand = DemandOfClients::new(Instant(0), 1);
        demand.note(1, 3, &Command::GetSet { key: b"key", value: &[0; 100] }, b"key");
        demand.note(2, 3, &Command::Get { key: b"key" }, b"key");
        demand.note_value_read(300);
        demand.note_value_read(9_999);
        let AdminReply::Map(entries) = demand.told(Instant(SECOND), 1) else { panic!("a map") };
        let text = format!("{entries:?}");
        assert_eq!(text.matches("(\"value_bytes\", Int(200))").count(), 2, "{text}");
    }

    #[test]
    fn a_long_name_counts_for_its_namespace_alone() {
        let mut demand = DemandOfClients::new(Instant(0), 1);
        let name = vec![b'x'; NAME_BYTES_MAX + 1];
        demand.note(1, 3, &Command::Get { key: &name }, &name);
        demand.note_value_read(5);
        assert_eq!(demand.now.namespaces[&3], Counts { reads: 1, writes: 0, values: 1, bytes: 5 });
        assert_eq!(told(&demand, SECOND, 9), []);
    }
}
