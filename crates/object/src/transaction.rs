//! Several commands that are executed with nothing between them: Redis's MULTI and EXEC.

use std::collections::BTreeSet;

use crate::change::Change;
use crate::codec::{Malformed, Reader, malformed, write_bytes, write_len};
use crate::command::{Access, Command};
use crate::objects::{OBJECT_BYTES_MAX, Objects};
use crate::on_keys::{LOOKS_MAX, TOO_MANY_LOOKS};
use crate::outcome::Outcome;
use crate::slot::slot_of_key;

/// The answer where one of several objects is held elsewhere, or would be.
pub const APART: &str = "CROSSSLOT Keys in request don't hash to the same slot: an object that has a group of its own can be in a \
                         command or transaction on itself alone (QUORATE GROUP DEMOTE puts it back)";
const TOO_LONG: &str = "ERR not executed: the answers of the transaction would be longer than 16 MiB together";
const TOO_LARGE: &str =
    "ERR not executed: the objects that the transaction stores would be larger than 32 MiB together";

/// What a transaction stores of whole objects, where few words make much.
const STORED_BYTES_MAX: usize = 2 * OBJECT_BYTES_MAX;

/// Commands on objects whose names lie in one hash slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction<'a> {
    /// The first of all names.
    key: &'a [u8],
    /// It is every name that there is.
    is_on_one: bool,
    commands: Vec<Command<'a>>,
}

impl<'a> Transaction<'a> {
    /// `None` if one of them is not on keys, if they lie apart, or if there are none.
    pub fn new(commands: Vec<Command<'a>>) -> Option<Transaction<'a>> {
        let key = commands.first()?.keys().next()?;
        let slot = slot_of_key(key);
        let mut is_on_one = true;
        for command in &commands {
            if matches!(command, Command::Transaction(_)) || command.keys().next().is_none() {
                return None;
            }
            for other in command.keys().filter(|other| *other != key) {
                is_on_one = false;
                if slot_of_key(other) != slot {
                    return None;
                }
            }
        }
        Some(Transaction { key, is_on_one, commands })
    }

    /// What it would change, and what it answers, as [`Command::execute_among`].
    pub(crate) fn execute<'o>(
        &self,
        of: &dyn Fn(&[u8]) -> &'o Objects,
        time_ms: u64,
        seed: u64,
    ) -> (Option<Change<'a>>, Outcome) {
        if self.keys().any(|key| of(key).away(key).is_some()) {
            return (None, Outcome::Error(APART.into()));
        }
        // What the commands so far have made of their objects.
        let mut ahead = Objects::new(of(self.key).hash_key.0);
        let (mut changed, mut changes) = (BTreeSet::new(), Vec::new());
        let (mut seen, mut again) = (BTreeSet::new(), BTreeSet::new());
        self.keys().filter(|name| !seen.insert(*name)).for_each(|name| {
            again.insert(name);
        });
        let outcome = self.answer(seed, |command, seed, room| {
            let among = |name: &[u8]| if changed.contains(name) { &ahead } else { of(name) };
            let room = room.without_looks(command.looks_among(&among, time_ms))?;
            let (change, outcome) = command.execute_among(&among, time_ms, seed);
            let room = room.without(&outcome, change.as_ref())?;
            for change in change.into_iter().flat_map(Change::parts) {
                // Only for those that are looked at once more.
                if let Some(name) = change.key().filter(|name| again.contains(name)) {
                    if changed.insert(name)
                        && let Some(object) = of(name).encoded(name)
                    {
                        // What cannot be read is taken for gone, as where it is stored.
                        let _ = ahead.put_encoded(name, &object);
                        ahead.advance(time_ms);
                    }
                    ahead.apply(change.clone(), time_ms);
                }
                changes.push(change);
            }
            Ok((outcome, room))
        });
        ((!changes.is_empty()).then_some(Change::Several(changes)), outcome)
    }

    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        self.is_on_one.then_some(self.key)
    }

    pub(crate) fn commands(&self) -> &[Command<'a>] {
        &self.commands
    }

    fn keys(&self) -> impl Iterator<Item = &'a [u8]> {
        self.commands.iter().flat_map(Command::keys)
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
            match Command::is_transaction(encoded) {
                false => Command::decode(encoded),
                true => malformed("a transaction in a transaction"),
            }
        });
        match Transaction::new(commands.collect::<Result<_, _>>()?) {
            Some(transaction) if transaction.key == key && transaction.is_on_one == is_on_one => Ok(transaction),
            _ => malformed("not a transaction on these objects"),
        }
    }

    /// What its commands answer as `run` executes them, one after the other. From the first on that has no room any more none is
    /// executed: `run` is told how much there is, and changes nothing then.
    fn answer(
        &self,
        seed: u64,
        mut run: impl FnMut(&Command<'a>, u64, Room) -> Result<(Outcome, Room), NoRoom>,
    ) -> Outcome {
        let mut room = Ok(Room { answers: OBJECT_BYTES_MAX, stored: STORED_BYTES_MAX, looks: LOOKS_MAX });
        let outcomes = self.commands.iter().zip(seeds(seed)).map(|(command, seed)| {
            let run = room.and_then(|left| run(command, seed, left));
            room = run.as_ref().map(|(_, left)| *left).map_err(|none| *none);
            run.map_or_else(|NoRoom(why)| Outcome::Error(why.into()), |(outcome, _)| outcome)
        });
        Outcome::List(outcomes.collect())
    }
}

/// Bytes that are left for answers, and for whole objects that are stored, and elements that commands on several keys may look at.
#[derive(Clone, Copy)]
struct Room {
    answers: usize,
    stored: usize,
    looks: usize,
}

/// What is told from then on.
#[derive(Clone, Copy)]
struct NoRoom(&'static str);

impl Room {
    /// What is left beside this answer and change.
    fn without(self, outcome: &Outcome, change: Option<&Change<'_>>) -> Result<Room, NoRoom> {
        let stored = change.map_or(0, Change::stored_bytes);
        Ok(Room {
            answers: self.answers.checked_sub(outcome.encoded_bytes()).ok_or(NoRoom(TOO_LONG))?,
            stored: self.stored.checked_sub(stored).ok_or(NoRoom(TOO_LARGE))?,
            ..self
        })
    }

    fn without_looks(self, looks: usize) -> Result<Room, NoRoom> {
        let looks = self.looks.checked_sub(looks).ok_or(NoRoom(TOO_MANY_LOOKS))?;
        Ok(Room { looks, ..self })
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
    /// Whether an object that a transaction concerns is held elsewhere.
    fn is_apart(&self, transaction: &Transaction<'_>) -> bool {
        self.away_count > 0 && transaction.keys().any(|key| self.away(key).is_some())
    }

    pub(crate) fn run_transaction(&mut self, transaction: &Transaction<'_>, time_ms: u64, seed: u64) -> Outcome {
        if self.is_apart(transaction) {
            return Outcome::Error(APART.into());
        }
        transaction.answer(seed, |command, seed, room| {
            let room = room.without_looks(command.looks_among(&|_| self, time_ms))?;
            let place = command.key().map(|key| self.place_of_live(key, time_ms));
            let (change, outcome) = self.execute_at(command, place, time_ms, seed);
            let room = room.without(&outcome, change.as_ref())?;
            if let Some(change) = change {
                self.apply_found(change, place, time_ms);
            }
            Ok((outcome, room))
        })
    }

    /// Of one that only reads.
    pub(crate) fn read_transaction(&self, transaction: &Transaction<'_>, time_ms: u64) -> Outcome {
        if self.is_apart(transaction) {
            return Outcome::Error(APART.into());
        }
        transaction.answer(0, |command, _, room| {
            let room = room.without_looks(command.looks_among(&|_| self, time_ms))?;
            let outcome = self.read(command, time_ms);
            let room = room.without(&outcome, None)?;
            Ok((outcome, room))
        })
    }
}
