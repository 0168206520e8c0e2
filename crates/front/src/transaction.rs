//! MULTI, EXEC and DISCARD: commands that are queued, and then executed with nothing between them.
//!
//! They become one operation, so their keys have to lie in one hash slot, as in Redis Cluster. What is wrong with a command's name
//! or the number of its words is told at once, and nothing is executed then; what is wrong with its words, in its place
//! among the answers.

use quorate_object::{Command, NAME_BYTES_MAX, Outcome, Transaction, slot_of_key};
use quorate_resp::{Arguments, ReplyWriter, Request};

use crate::backend::{Backend, Target};
use crate::connection::Connection;
use crate::front::Front;
use crate::gather::{Collected, Gathering, Parts};
use crate::object_command::{self, Call};
use crate::refusal::Refusal;
use crate::reply::write_outcome;
use crate::slot_command;
use crate::specs::{Id, Shape, Spec};
use crate::submit::{self, command_on_key, count_keys};

const ABORTED: Refusal = Refusal::fixed("EXECABORT Transaction discarded because of previous errors.");
const NESTED: Refusal = Refusal::fixed("ERR MULTI calls can not be nested");
const TOO_LONG: Refusal = Refusal::fixed("ERR the transaction is longer than 16 MiB");
const TOO_MANY: Refusal =
    Refusal::fixed("ERR the transaction has more than 10,000 commands, each key of MGET and the like counted");
const TOO_LARGE: Refusal = Refusal::fixed("ERR the transaction would write more than 32 MiB");
const NOT_HERE: &str = "ERR not in a transaction: it takes commands on keys, PING and ECHO, not '";

/// Commands of one transaction: it is executed at once, and nobody else is served meanwhile.
const COMMANDS_MAX: usize = 10_000;
/// What a queued request takes besides its words, and a word besides its bytes, about.
const REQUEST_BYTES: usize = 96;
const WORD_BYTES: usize = 8;

/// What a connection has queued since MULTI.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    requests: Vec<(&'static Spec, Request)>,
    length: usize,
    /// Something was refused: nothing is to be executed.
    is_spoiled: bool,
}

impl Queued {
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Roughly the memory that it takes.
    pub(crate) fn kept_length(&self) -> usize {
        if self.is_spoiled { 0 } else { self.length }
    }
}

/// Whether a command is queued, or refused, between MULTI and EXEC.
pub(crate) fn is_queued(id: Id) -> bool {
    !matches!(id, Id::Multi | Id::Exec | Id::Discard | Id::Reset | Id::Quit)
}

pub(crate) fn begin(connection: &mut Connection) -> Result<(), Refusal> {
    if connection.client.transaction.is_some() {
        return Err(NESTED);
    }
    connection.client.transaction = Some(Box::default());
    connection.reply(|writer| writer.simple("OK"));
    Ok(())
}

pub(crate) fn discard(connection: &mut Connection) -> Result<(), Refusal> {
    connection.client.transaction.take().ok_or(Refusal::fixed("ERR DISCARD without MULTI"))?;
    connection.reply(|writer| writer.simple("OK"));
    Ok(())
}

/// A command of this name was refused before anybody looked at what it says. EXEC with too many words is the end of the transaction.
pub(crate) fn refused(connection: &mut Connection, name: &[u8]) {
    match name.eq_ignore_ascii_case(b"EXEC") {
        true => connection.client.transaction = None,
        false => spoil(connection),
    }
}

/// The transaction, if there is one, will not be executed.
fn spoil(connection: &mut Connection) {
    if let Some(queued) = &mut connection.client.transaction {
        queued.is_spoiled = true;
        queued.requests = Vec::new();
    }
}

/// Queues a command, or refuses it.
pub(crate) fn queue(connection: &mut Connection, spec: &'static Spec, words: Arguments<'_>, length_max: usize) {
    let Some(queued) = &mut connection.client.transaction else { return };
    let is_for_keys = matches!(spec.shape, Shape::Object | Shape::Keys | Shape::Slot);
    queued.length += REQUEST_BYTES + words.iter().map(|word| word.len() + WORD_BYTES).sum::<usize>();
    let refusal = match spec.id {
        _ if queued.length > length_max => TOO_LONG,
        _ if queued.len() >= COMMANDS_MAX => TOO_MANY,
        Id::Ping | Id::Echo => return accept(connection, spec, words),
        _ if is_for_keys => return accept(connection, spec, words),
        _ => Refusal::quoting(NOT_HERE, spec.name.as_bytes(), "'"),
    };
    spoil(connection);
    connection.refuse(&refusal);
}

fn accept(connection: &mut Connection, spec: &'static Spec, words: Arguments<'_>) {
    if let Some(queued) = connection.client.transaction.as_mut().filter(|queued| !queued.is_spoiled) {
        queued.requests.push((spec, words.to_request()));
    }
    connection.reply(|writer| writer.simple("QUEUED"));
}

/// EXEC.
pub(crate) fn submit<B: Backend>(
    front: &mut Front,
    index: usize,
    call: &Call<'_>,
    backend: &mut B,
) -> Result<(), Refusal> {
    let connection = &mut front.connections[index];
    let queued = connection.client.transaction.take().ok_or(Refusal::fixed("ERR EXEC without MULTI"))?;
    if queued.is_spoiled {
        return Err(ABORTED);
    }
    let (mut commands, mut parts) = (Vec::new(), Vec::with_capacity(queued.len()));
    for (number, (spec, request)) in queued.requests.iter().enumerate() {
        let call = Call { spec, words: request.arguments(), seed: call.seed.wrapping_add(number as u64), ..*call };
        match Part::of(&call, &mut commands) {
            Err(refusal) if refusal == Refusal::CROSS_SLOT => return Err(refusal),
            part => parts.push(part.unwrap_or_else(Part::Refused)),
        }
        if commands.len() > COMMANDS_MAX {
            return Err(TOO_MANY);
        }
    }
    let key = commands.iter().flat_map(Command::keys).next().unwrap_or_default();
    let slot = slot_of_key(key);
    if commands.iter().flat_map(Command::keys).any(|key| slot_of_key(key) != slot) {
        return Err(Refusal::CROSS_SLOT);
    }
    // SETRANGE makes much of few words.
    if commands.iter().filter_map(Command::growth_bytes_max).sum::<usize>() > 2 * call.object_length_max {
        return Err(TOO_LARGE);
    }
    let answers = Answers { parts, outcomes: Vec::new() };
    let Some(transaction) = Transaction::new(commands) else {
        connection.reply(|writer| answers.write(writer));
        return Ok(());
    };
    let gathering = Gathering::new(Collected::Transaction(answers), Parts::Read, 1);
    let namespace = connection.client.namespace;
    let sequence = connection.await_answers(front.operations.next(), gathering);
    let target = Target::Object { slot, key, command: Command::Transaction(transaction) };
    submit::begin(front, index, sequence, namespace, target, backend);
    Ok(())
}

/// What one of the queued commands is answered.
#[derive(Debug)]
enum Part {
    Refused(Refusal),
    Pong,
    Bulk(Vec<u8>),
    /// The outcome of one command.
    One,
    /// MGET: the values of so many.
    Values(usize),
    /// MSET: OK if so many are.
    AllOk(usize),
    /// DEL, UNLINK, EXISTS: the sum of so many.
    Sum(usize),
}

impl Part {
    /// Appends what is to be executed for it.
    fn of<'a>(call: &Call<'a>, commands: &mut Vec<Command<'a>>) -> Result<Part, Refusal> {
        match (call.spec.id, call.words.len()) {
            (Id::Ping, 1) => return Ok(Part::Pong),
            (Id::Ping | Id::Echo, 2) => return Ok(Part::Bulk(call.word(1).to_vec())),
            (Id::Ping | Id::Echo, _) => return Err(Refusal::wrong_arity(call.spec)),
            _ => {}
        }
        if call.spec.shape == Shape::Slot {
            commands.push(slot_command::parse(call)?);
            return Ok(Part::One);
        }
        if call.spec.shape == Shape::Object {
            if call.word(1).len() > NAME_BYTES_MAX {
                return Err(Refusal::KEY_TOO_LONG);
            }
            commands.push(object_command::parse(call)?);
            return Ok(Part::One);
        }
        let count = count_keys(call)?;
        if (0..count).any(|number| command_on_key(call, number).0.len() > NAME_BYTES_MAX) {
            return Err(Refusal::KEY_TOO_LONG);
        }
        commands.extend((0..count).map(|number| command_on_key(call, number).1));
        Ok(match call.spec.id {
            Id::MGet => Part::Values(count),
            Id::MSet => Part::AllOk(count),
            _ => Part::Sum(count),
        })
    }

    /// Writes the answer that these outcomes make; those that it takes are gone.
    fn write<'o>(&self, writer: &mut ReplyWriter<'_>, outcomes: &mut impl Iterator<Item = &'o Outcome>) {
        match self {
            Part::Refused(refusal) => writer.error(refusal.text()),
            Part::Pong => writer.simple("PONG"),
            Part::Bulk(bytes) => writer.bulk(bytes),
            Part::One => write_outcome(writer, outcomes.next().unwrap_or(&Outcome::Nil)),
            Part::Values(count) => {
                writer.array(*count);
                for outcome in outcomes.take(*count) {
                    match outcome {
                        // What is no string is shown as nothing.
                        Outcome::Error(line) if line.starts_with("WRONGTYPE") => writer.null(),
                        outcome => write_outcome(writer, outcome),
                    }
                }
            }
            Part::AllOk(count) => {
                let refused = outcomes.take(*count).fold(None, |first, outcome| match outcome {
                    Outcome::Error(_) => first.or(Some(outcome)),
                    _ => first,
                });
                write_outcome(writer, refused.unwrap_or(&Outcome::Ok));
            }
            Part::Sum(count) => {
                let sum = outcomes.take(*count).fold(Outcome::Int(0), |sum, outcome| match (sum, outcome) {
                    (Outcome::Int(sum), Outcome::Int(number)) => Outcome::Int(sum + number),
                    (Outcome::Int(_), refused) => refused.clone(),
                    (refused, _) => refused,
                });
                write_outcome(writer, &sum);
            }
        }
    }
}

/// What EXEC is answered: for each queued command its own answer.
#[derive(Debug)]
pub(crate) struct Answers {
    parts: Vec<Part>,
    pub(crate) outcomes: Vec<Outcome>,
}

impl Answers {
    pub(crate) fn write(&self, writer: &mut ReplyWriter<'_>) {
        writer.array(self.parts.len());
        let mut outcomes = self.outcomes.iter();
        self.parts.iter().for_each(|part| part.write(writer, &mut outcomes));
    }
}
