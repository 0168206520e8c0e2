//! SLOWLOG: the commands that took long, the newest first.

use quorate_resp::parse_integer;

use crate::front::Front;
use crate::object_command::Call;
use crate::refusal::Refusal;
use crate::specs::Id;

/// How many SLOWLOG GET shows unless it is told a number.
const SHOWN_DEFAULT: usize = 10;

/// Carries out a subcommand of SLOWLOG and replies.
pub(crate) fn execute(front: &mut Front, index: usize, call: &Call<'_>) -> Result<(), Refusal> {
    let Front { journal, connections, .. } = front;
    let connection = &mut connections[index];
    match call.spec.id {
        Id::SlowLogLen => connection.reply(|writer| writer.integer(journal.slow.len() as i64)),
        Id::SlowLogReset => {
            journal.slow.clear();
            connection.reply(|writer| writer.simple("OK"));
        }
        _ => {
            let shown = shown(call)?.min(journal.slow.len());
            connection.reply(|writer| {
                writer.array(shown);
                for command in journal.slow.iter().take(shown) {
                    writer.array(6);
                    writer.integer(command.id as i64);
                    writer.integer(command.time_s as i64);
                    writer.integer(command.duration_us as i64);
                    writer.array(command.words.len());
                    command.words.iter().for_each(|word| writer.bulk(word));
                    writer.bulk(command.address.as_bytes());
                    writer.bulk(&command.name);
                }
            });
        }
    }
    Ok(())
}

/// SLOWLOG GET [count]
fn shown(call: &Call<'_>) -> Result<usize, Refusal> {
    match call.words.len() {
        2 => Ok(SHOWN_DEFAULT),
        3 => match parse_integer(call.word(2)) {
            Some(-1) => Ok(usize::MAX),
            Some(count) if count >= 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
            _ => Err(Refusal::fixed("ERR count should be greater than or equal to -1")),
        },
        _ => {
            let before = "ERR unknown subcommand or wrong number of arguments for '";
            Err(Refusal::quoting(before, call.word(1), "'. Try SLOWLOG HELP."))
        }
    }
}
