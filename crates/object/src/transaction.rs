//! Several commands that are executed with nothing between them: Redis's MULTI and EXEC.

use std::collections::BTreeSet;

use crate::change::Change;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len, write_optional_bytes};
use crate::command::{Access, Command};
use crate::objects::{OBJECT_BYTES_MAX, Objects};
use crate::outcome::Outcome;

/// The answer where one of several objects is held elsewhere, or would be.
pub const APART: &str = "CROSSSLOT Keys in request don't hash to the same slot: an object that has a group of its own can be in a \
                         transaction on itself alone (QUORATE GROUP DEMOTE puts it back)";
const TOO_LONG: &str = "ERR executed, but the answers of the transaction are longer than 16 MiB together";

/// Commands on one object each.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction<'a> {
    /// The object, if it is the same for all.
    key: Option<&'a [u8]>,
    commands: Vec<Command<'a>>,
}

impl<'a> Transaction<'a> {
    /// `None` if one of them does not concern one object.
    pub fn new(commands: Vec<Command<'a>>) -> Option<Transaction<'a>> {
        let is_on_one = |command: &Command<'_>| command.key().is_some() && !matches!(command, Command::Transaction(_));
        if !commands.iter().all(is_on_one) {
            return None;
        }
        let first = commands.first()?.key();
        let key = first.filter(|_| commands.iter().all(|command| command.key() == first));
        Some(Transaction { key, commands })
    }

    /// What it would change, and what it answers, as [`Objects::execute`]. Which objects a name is among says `of`.
    pub fn execute<'o>(
        &self,
        of: impl Fn(&[u8]) -> &'o Objects,
        time_ms: u64,
        seed: u64,
    ) -> (Option<Change<'a>>, Outcome) {
        let (mut ahead, mut names, mut changes) = (None, BTreeSet::new(), Vec::new());
        let outcomes = self.commands.iter().zip(seeds(seed)).map(|(command, seed)| {
            let name = command.key().unwrap_or_default();
            let objects = of(name);
            // What the commands before this one have made of its object.
            let ahead = ahead.get_or_insert_with(|| Objects::new(objects.hash_key.0));
            let (change, outcome) = match names.contains(name) {
                true => ahead.execute(command, time_ms, seed),
                false => objects.execute(command, time_ms, seed),
            };
            if let Some(change) = change {
                if names.insert(name)
                    && let Some(object) = objects.encoded(name)
                {
                    // What cannot be read is taken for gone, as where it is stored.
                    let _ = ahead.put_encoded(name, &object);
                    ahead.advance(time_ms);
                }
                ahead.apply(change.clone());
                changes.push(change);
            }
            outcome
        });
        let outcome = answers(outcomes);
        ((!changes.is_empty()).then_some(Change::Several(changes)), outcome)
    }

    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        self.key
    }

    pub fn commands(&self) -> &[Command<'a>] {
        &self.commands
    }

    pub(crate) fn access(&self) -> Access {
        let is_read = self.commands.iter().all(|command| command.access() == Access::Read);
        if is_read { Access::Read } else { Access::Write }
    }

    pub(crate) fn growth_bytes_max(&self) -> Option<usize> {
        let growths = self.commands.iter().map(Command::growth_bytes_max);
        growths.fold(None, |sum, growth| sum.map_or(growth, |sum: usize| Some(sum + growth.unwrap_or(0))))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_optional_bytes(out, self.key);
        write_len(out, self.commands.len());
        for command in &self.commands {
            let mut encoded = Vec::new();
            command.encode(&mut encoded);
            write_bytes(out, &encoded);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<Transaction<'a>, Malformed> {
        let key = r.optional(Reader::bytes)?;
        let count = r.u32()?;
        let decoded = (0..count).map(|_| {
            let encoded = r.bytes()?;
            // Not a transaction in a transaction, however deep somebody has nested them.
            if Command::is_transaction(encoded) {
                malformed("a transaction in a transaction")
            } else {
                Command::decode(encoded)
            }
        });
        match Transaction::new(decoded.collect::<Result<_, _>>()?) {
            Some(transaction) if transaction.key == key => Ok(transaction),
            _ => malformed("not a transaction on these objects"),
        }
    }
}

/// One for each command.
fn seeds(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |seed| {
        Some(seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F))
    })
}

/// All of them, unless they have no room in what carries an answer.
fn answers(outcomes: impl Iterator<Item = Outcome>) -> Outcome {
    let mut bytes = 0;
    let outcomes = outcomes.map(|outcome| {
        bytes += size_of::<Outcome>() + outcome.heap_bytes();
        if bytes <= OBJECT_BYTES_MAX { outcome } else { Outcome::Error(TOO_LONG.into()) }
    });
    Outcome::List(outcomes.collect())
}

impl Objects {
    pub(crate) fn execute_transaction<'a>(
        &self,
        transaction: &Transaction<'a>,
        time_ms: u64,
        seed: u64,
    ) -> (Option<Change<'a>>, Outcome) {
        if self.is_apart(transaction) {
            return (None, Outcome::Error(APART.into()));
        }
        transaction.execute(|_| self, time_ms, seed)
    }

    /// Whether an object that a transaction concerns is held elsewhere.
    fn is_apart(&self, transaction: &Transaction<'_>) -> bool {
        let keys = transaction.commands.iter().filter_map(Command::key);
        self.away_count > 0 && keys.into_iter().any(|key| self.away(key).is_some())
    }

    pub(crate) fn run_transaction(&mut self, transaction: &Transaction<'_>, time_ms: u64, seed: u64) -> Outcome {
        if self.is_apart(transaction) {
            return Outcome::Error(APART.into());
        }
        let run = |(command, seed)| self.run_advanced(command, time_ms, seed);
        answers(transaction.commands.iter().zip(seeds(seed)).map(run))
    }

    /// Of one that only reads.
    pub(crate) fn read_transaction(&self, transaction: &Transaction<'_>, time_ms: u64) -> Outcome {
        if self.is_apart(transaction) {
            return Outcome::Error(APART.into());
        }
        answers(transaction.commands.iter().map(|command| self.read(command, time_ms)))
    }
}
