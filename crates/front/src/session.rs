//! Commands that concern only the connection or this server, and are answered at once.

use quorate_resp::{Version, parse_integer};

use crate::access::{self, Access, Step};
use crate::backend::Backend;
use crate::client;
use crate::command_info;
use crate::config;
use crate::connection::{Connection, Mute};
use crate::front::Front;
use crate::info;
use crate::kill;
use crate::object_command::Call;
use crate::refusal::Refusal;
use crate::slow_log;
use crate::specs::{Id, Spec};
use crate::transaction;

/// Carries out the call and replies, unless it has to wait: then it is to be called again.
pub(crate) fn execute<B: Backend>(front: &mut Front, index: usize, call: &Call<'_>, backend: &mut B) -> Step {
    let words = call.words;
    let connection = &mut front.connections[index];
    let result = match call.spec.id {
        Id::Ping => ping(connection, call),
        Id::Echo => {
            connection.reply(|writer| writer.bulk(call.word(1)));
            Ok(())
        }
        Id::Auth | Id::Hello => match access::execute(front, index, call, backend) {
            Ok(Step::Waits) => return Step::Waits,
            result => result.map(drop),
        },
        Id::Select => select(connection, call.word(1), backend),
        Id::Time => {
            time(connection, call.now_ms);
            Ok(())
        }
        Id::Reset => {
            reset(connection, front.access);
            Ok(())
        }
        Id::Multi => transaction::begin(connection),
        Id::Discard => transaction::discard(connection),
        Id::Quit => {
            connection.reply(|writer| writer.simple("OK"));
            connection.close();
            Ok(())
        }
        Id::ConfigGet => {
            config::get(front, index, words.from(2), backend);
            Ok(())
        }
        Id::ConfigSet => config::set(front, index, words.from(2), backend),
        Id::ConfigResetStat => {
            front.journal.reset_statistics();
            front.connections[index].reply(|writer| writer.simple("OK"));
            Ok(())
        }
        Id::ConfigRewrite => Err(config::NO_REWRITE),
        Id::SlowLogGet | Id::SlowLogLen | Id::SlowLogReset => slow_log::execute(front, index, call),
        Id::Info => {
            let text = info::text(front, words.from(1), &backend.server_info());
            front.connections[index].reply(|writer| writer.verbatim_text(text.as_bytes()));
            Ok(())
        }
        Id::Command | Id::CommandCount | Id::CommandDocs | Id::CommandInfo => {
            connection.reply(|writer| command_info::write(writer, call));
            Ok(())
        }
        Id::ClientHelp | Id::CommandHelp | Id::ConfigHelp | Id::SlowLogHelp => {
            connection.reply(|writer| command_info::write_help(writer, call.spec));
            Ok(())
        }
        Id::ClientKill => kill::execute(front, index, call),
        _ => client::execute(front, index, call),
    };
    if let Err(refusal) = result {
        front.connections[index].refuse(&refusal);
    }
    Step::Done
}

fn ping(connection: &mut Connection, call: &Call<'_>) -> Result<(), Refusal> {
    match call.words.len() {
        1 => connection.reply(|writer| writer.simple("PONG")),
        2 => connection.reply(|writer| writer.bulk(call.word(1))),
        _ => return Err(Refusal::wrong_arity(call.spec)),
    }
    Ok(())
}

fn select(connection: &mut Connection, word: &[u8], backend: &impl Backend) -> Result<(), Refusal> {
    let number = parse_integer(word).ok_or(Refusal::NOT_AN_INTEGER)?;
    if i32::try_from(number).is_err() {
        return Err(Refusal::fixed("ERR value is out of range, value must between -2147483648 and 2147483647"));
    }
    match u32::try_from(number) {
        Ok(namespace) if backend.namespace_exists(namespace) => {
            connection.client.namespace = namespace;
            connection.reply(|writer| writer.simple("OK"));
            Ok(())
        }
        // It may well exist: nobody has told this node yet.
        Ok(namespace) if backend.volumes(namespace).is_none() => Err(Refusal::LOADING),
        _ => Err(Refusal::NO_NAMESPACE),
    }
}

fn time(connection: &mut Connection, now_ms: u64) {
    connection.reply(|writer| {
        writer.array(2);
        writer.bulk((now_ms / 1000).to_string().as_bytes());
        writer.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    });
}

/// Back to what the connection was when it was new.
fn reset(connection: &mut Connection, access: Access) {
    connection.is_guest = access == Access::Password;
    connection.client.namespace = 0;
    connection.client.version = Version::Resp2;
    connection.client.name.clear();
    connection.client.transaction = None;
    connection.set_mute(Mute::Off);
    connection.reply(|writer| writer.simple("RESET"));
}

/// The full name of the command that a connection has called last, as `CLIENT LIST` prints it.
pub(crate) fn name_of(command: Option<&'static Spec>) -> &'static str {
    command.map_or("NULL", |spec| spec.name)
}
