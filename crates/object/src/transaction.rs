//! Several commands that are executed with nothing between them: Redis's MULTI and EXEC.

use std::collections::BTreeSet;

use crate::change::Change;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len};
use crate::command::{Access, Command};
use crate::objects::{OBJECT_BYTES_MAX, Objects};
use crate::outcome::Outcome;
use crate::slot::slot_of_key;

/// The answer where one of several objects is held elsewhere, or would be.
pub const APART: &str = "CROSSSLOT Keys in request don't hash to the same slot: an object that has a group of its own can be in a \
                         transaction on itself alone (QUORATE GROUP DEMOTE puts it back)";
const TOO_LONG: &str = "ERR not executed: the answers of the transaction would be longer than 16 MiB together";

/// Commands on one object each, whose names lie in one hash slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction<'a> {
    /// That of the first command.
    key: &'a [u8],
    /// It is that of all others as well.
    is_on_one: bool,
    commands: Vec<Command<'a>>,
}

impl<'a> Transaction<'a> {
    /// `None` if one of them does not concern one object, if they lie apart, or if there are none.
    pub fn new(commands: Vec<Command<'a>>) -> Option<Transaction<'a>> {
        let key = commands.first()?.key()?;
        let slot = slot_of_key(key);
        let mut is_on_one = true;
        for command in &commands {
            let other = command.key().filter(|_| !matches!(command, Command::Transaction(_)))?;
            is_on_one &= other == key;
            if other != key && slot_of_key(other) != slot {
                return None;
            }
        }
        Some(Transaction { key, is_on_one, commands })
    }

    /// What it would change, and what it answers, as [`Objects::execute`]. Which objects a name is among says `of`.
    pub fn execute<'o>(
        &self,
        of: impl Fn(&[u8]) -> &'o Objects,
        time_ms: u64,
        seed: u64,
    ) -> (Option<Change<'a>>, Outcome) {
        let (mut ahead, mut changed, mut changes) = (None, BTreeSet::new(), Vec::new());
        let (mut seen, mut again) = (BTreeSet::new(), BTreeSet::new());
        self.commands.iter().filter_map(Command::key).filter(|name| !seen.insert(*name)).for_each(|name| {
            again.insert(name);
        });
        let outcome = self.answer(seed, |command, seed, room| {
            let name = command.key().unwrap_or_default();
            let objects = of(name);
            // What the commands before this one have made of its object.
            let ahead = ahead.get_or_insert_with(|| Objects::new(objects.hash_key.0));
            let (change, outcome) = match changed.contains(name) {
                true => ahead.execute(command, time_ms, seed),
                false => objects.execute(command, time_ms, seed),
            };
            room.without(&outcome)?;
            let Some(change) = change else { return Some(outcome) };
            // Only for those that are looked at once more.
            if again.contains(name) {
                if changed.insert(name)
                    && let Some(object) = objects.encoded(name)
                {
                    // What cannot be read is taken for gone, as where it is stored.
                    let _ = ahead.put_encoded(name, &object);
                    ahead.advance(time_ms);
                }
                ahead.apply(change.clone(), time_ms);
            }
            changes.push(change);
            Some(outcome)
        });
        ((!changes.is_empty()).then_some(Change::Several(changes)), outcome)
    }

    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        self.is_on_one.then_some(self.key)
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
        out.push(u8::from(self.is_on_one));
        write_bytes(out, self.key);
        write_len(out, self.commands.len());
        for command in &self.commands {
            let mut encoded = Vec::new();
            command.encode(&mut encoded);
            write_bytes(out, &encoded);
        }
    }

    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<Transaction<'a>, Malformed> {
        let (is_on_one, key) = (r.flag()?, r.bytes()?);
        let count = r.u32()?;
        let commands = (0..count).map(|_| {
            let encoded = r.bytes()?;
            // Not a transaction in a transaction, however deep somebody has nested them.
            match Command::key_of(encoded) {
                Some(_) if !Command::is_transaction(encoded) => Command::decode(encoded),
                _ => malformed("a command of a transaction is on no object"),
            }
        });
        match Transaction::new(commands.collect::<Result<_, _>>()?) {
            Some(transaction) if transaction.key == key && transaction.is_on_one == is_on_one => Ok(transaction),
            _ => malformed("not a transaction on these objects"),
        }
    }

    /// What its commands answer as `run` executes them, one after the other. From the first on whose answer has no room any more none
    /// is executed: `run` is told how much there is, and changes nothing then.
    fn answer(&self, seed: u64, mut run: impl FnMut(&Command<'a>, u64, Room) -> Option<Outcome>) -> Outcome {
        let mut room = Some(Room(OBJECT_BYTES_MAX));
        let outcomes = self.commands.iter().zip(seeds(seed)).map(|(command, seed)| {
            let outcome = room.and_then(|room| run(command, seed, room));
            room = room.zip(outcome.as_ref()).and_then(|(room, outcome)| room.without(outcome));
            outcome.unwrap_or_else(|| Outcome::Error(TOO_LONG.into()))
        });
        Outcome::List(outcomes.collect())
    }
}

/// Bytes that are left for answers.
#[derive(Clone, Copy)]
struct Room(usize);

impl Room {
    /// What is left beside this answer, if it has room.
    fn without(self, outcome: &Outcome) -> Option<Room> {
        self.0.checked_sub(outcome.encoded_bytes()).map(Room)
    }
}

/// One for each command.
fn seeds(seed: u64) -> impl Iterator<Item = u64> {
    // Others than those of the commands that follow the transaction.
    std::iter::successors(Some(seed ^ 0x7452_616e_7361_6374), |seed| {
        Some(seed.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F))
    })
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
        let mut keys = transaction.commands.iter().filter_map(Command::key);
        self.away_count > 0 && keys.any(|key| self.away(key).is_some())
    }

    pub(crate) fn run_transaction(&mut self, transaction: &Transaction<'_>, time_ms: u64, seed: u64) -> Outcome {
        if self.is_apart(transaction) {
            return Outcome::Error(APART.into());
        }
        transaction.answer(seed, |command, seed, room| {
            let place = command.key().map(|key| self.place_of_live(key, time_ms));
            let (change, outcome) = self.execute_at(command, place, time_ms, seed);
            room.without(&outcome)?;
            if let Some((change, place)) = change.zip(place) {
                self.apply_at(change, place);
            }
            Some(outcome)
        })
    }

    /// Of one that only reads.
    pub(crate) fn read_transaction(&self, transaction: &Transaction<'_>, time_ms: u64) -> Outcome {
        if self.is_apart(transaction) {
            return Outcome::Error(APART.into());
        }
        transaction.answer(0, |command, _, room| {
            let outcome = self.read(command, time_ms);
            room.without(&outcome).map(|_| outcome)
        })
    }
}
