//! One reply out of the answers of several operations.
//!
//! Each part is atomic, the whole is not: if some parts fail, the reply is an error that says how many were carried out.

use quorate_object::Outcome;
use quorate_resp::ReplyWriter;

use crate::backend::{Answer, Failure};
use crate::refusal::Refusal;
use crate::reply::{answer_length, write_keys};
use crate::scan::Cursor;
use crate::transaction::Answers;

/// What the parts of a reply are made into.
#[derive(Debug)]
pub(crate) enum Collected {
    /// MSET, FLUSHDB, FLUSHALL: OK if all are.
    AllOk,
    /// DEL, UNLINK, EXISTS, DBSIZE.
    Sum(i64),
    /// MGET: a value or nothing for each part, in the order of the keys.
    Values(Vec<Option<Vec<u8>>>),
    /// KEYS.
    Keys(Vec<Vec<u8>>),
    /// SCAN.
    Scan(ScanParts),
    /// EXEC.
    Transaction(Answers),
    /// A command that is wrong, which is told once it is known that there is a string: of another type it is the type that is
    /// wrong. `nil_without` if nothing is wrong where there is no object.
    Late { refusal: Refusal, nil_without: bool },
}

/// The parts of a scan that has asked several volumes at once.
#[derive(Debug)]
pub(crate) struct ScanParts {
    volume_first: u32,
    volume_count: u32,
    /// How many keys are enough.
    wanted: usize,
    /// Of the volumes from the first on: where it goes on, and the keys.
    parts: Vec<(Option<u64>, Vec<Vec<u8>>)>,
}

impl ScanParts {
    /// For `part_count` of the namespace's `volume_count` volumes, from `volume_first` on.
    pub(crate) fn new(volume_first: u32, part_count: usize, volume_count: u32, wanted: usize) -> ScanParts {
        let parts = (0..part_count).map(|_| (None, Vec::new())).collect();
        ScanParts { volume_first, volume_count, wanted, parts }
    }

    /// Keys of whole volumes until there are enough or one has more; what later volumes said is asked again.
    fn write(&self, writer: &mut ReplyWriter<'_>) {
        let mut cursor = Cursor { volume: self.volume_first, place: 0 };
        let mut key_count = 0;
        let mut taken = 0;
        for (next, keys) in &self.parts {
            cursor = Cursor::after(cursor.volume, *next);
            key_count += keys.len();
            taken += 1;
            if cursor.place != 0 || key_count >= self.wanted {
                break;
            }
        }
        let number = if cursor.volume < self.volume_count { cursor.encode() } else { 0 };
        writer.array(2);
        writer.bulk(number.to_string().as_bytes());
        writer.array(key_count);
        let keys = self.parts[..taken].iter().flat_map(|(_, keys)| keys);
        keys.for_each(|key| writer.bulk(key));
    }
}

/// What a failed reply says of the parts that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    /// Nothing: they only read.
    Read,
    /// How many were carried out, counted in this noun.
    Written(&'static str),
}

#[derive(Debug)]
pub(crate) struct Gathering {
    collected: Collected,
    parts: Parts,
    total: usize,
    missing: usize,
    length: usize,
    is_too_long: bool,
    failed_count: usize,
    failed: Option<Failed>,
}

/// The error that is shown of several.
#[derive(Debug)]
struct Failed {
    is_outcome_unknown: bool,
    text: String,
}

impl Gathering {
    pub(crate) fn new(collected: Collected, parts: Parts, total: usize) -> Gathering {
        Gathering {
            collected,
            parts,
            total,
            missing: total,
            length: 0,
            is_too_long: false,
            failed_count: 0,
            failed: None,
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.missing == 0
    }

    /// Takes the answer of part number `part`. Each part is answered once. With more than `length_max` bytes to keep, the
    /// reply becomes an error.
    pub(crate) fn add(&mut self, part: usize, answer: Answer, length_max: usize) {
        self.missing -= 1;
        if self.is_too_long {
            return;
        }
        self.length += answer_length(&answer);
        if self.length > length_max {
            return self.give_up();
        }
        match answer {
            Answer::Outcome(Outcome::Error(text)) => self.add_error(part, text),
            Answer::Outcome(outcome) => self.add_outcome(part, outcome),
            Answer::Failed(failure) => {
                let is_outcome_unknown = failure == Failure::Timeout;
                self.add_failure(Failed { is_outcome_unknown, text: failure.text().to_string() });
            }
            Answer::Tree(_) => self.add_unexpected(),
        }
    }

    fn give_up(&mut self) {
        self.is_too_long = true;
        self.length = 0;
        self.collected = Collected::AllOk;
        let text = "ERR the reply would be too long: use SCAN, or fewer keys".to_string();
        self.add_failure(Failed { is_outcome_unknown: false, text });
    }

    fn add_outcome(&mut self, part: usize, outcome: Outcome) {
        match (&mut self.collected, outcome) {
            (Collected::AllOk, Outcome::Ok) => {}
            (Collected::Sum(sum), Outcome::Int(value)) => *sum = sum.saturating_add(value),
            (Collected::Values(values), Outcome::Bulk(value)) => values[part] = Some(value),
            (Collected::Values(_), Outcome::Nil) => {}
            (Collected::Keys(all), Outcome::Keys(keys)) => all.extend(keys),
            (Collected::Late { nil_without: true, .. }, Outcome::Nil) => {}
            (Collected::Late { refusal, .. }, Outcome::Nil | Outcome::Bulk(_)) => {
                let text = String::from_utf8_lossy(refusal.text()).into_owned();
                self.add_failure(Failed { is_outcome_unknown: false, text });
            }
            (Collected::Transaction(answers), Outcome::List(outcomes)) => answers.outcomes = outcomes,
            (Collected::Scan(scan), Outcome::Scan { next, keys }) => scan.parts[part] = (next, keys),
            _ => self.add_unexpected(),
        }
    }

    fn add_error(&mut self, part: usize, text: String) {
        match &mut self.collected {
            // MGET shows nothing in place of what is no string.
            Collected::Values(values) if text.starts_with("WRONGTYPE") => values[part] = None,
            _ => self.add_failure(Failed { is_outcome_unknown: false, text }),
        }
    }

    fn add_unexpected(&mut self) {
        let text = "ERR internal error: the outcome does not fit the command".to_string();
        self.add_failure(Failed { is_outcome_unknown: false, text });
    }

    /// An unknown outcome is the worst that can be said, so it is what is said; otherwise the first error.
    fn add_failure(&mut self, failed: Failed) {
        self.failed_count += 1;
        let is_worse = match &self.failed {
            None => true,
            Some(shown) => failed.is_outcome_unknown && !shown.is_outcome_unknown,
        };
        if is_worse {
            self.failed = Some(failed);
        }
    }

    /// Roughly the bytes that are kept for the reply.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn write(&self, writer: &mut ReplyWriter<'_>) {
        if let Some(failed) = &self.failed {
            return self.write_failed(writer, failed);
        }
        match &self.collected {
            Collected::AllOk => writer.simple("OK"),
            Collected::Sum(sum) => writer.integer(*sum),
            Collected::Values(values) => {
                writer.array(values.len());
                for value in values {
                    match value {
                        Some(value) => writer.bulk(value),
                        None => writer.null(),
                    }
                }
            }
            Collected::Keys(keys) => write_keys(writer, keys.iter().map(Vec::as_slice)),
            Collected::Scan(scan) => scan.write(writer),
            Collected::Transaction(answers) => answers.write(writer),
            Collected::Late { .. } => writer.null(),
        }
    }

    fn write_failed(&self, writer: &mut ReplyWriter<'_>, failed: &Failed) {
        let executed = self.total - self.failed_count;
        match self.parts {
            Parts::Written(noun) if executed > 0 => {
                let Failed { text, .. } = failed;
                let total = self.total;
                writer.error(format!("{text} ({executed} of {total} {noun} were done)").as_bytes());
            }
            _ => writer.error(failed.text.as_bytes()),
        }
    }
}
