//! CLIENT: what a client says of itself and asks about the others.

use std::fmt::Write;

use quorate_resp::{Version, parse_integer};

use crate::connection::{Connection, Mute};
use crate::front::Front;
use crate::object_command::Call;
use crate::refusal::Refusal;
use crate::session::name_of;
use crate::specs::Id;

/// Carries out a subcommand of CLIENT and replies.
pub(crate) fn execute(front: &mut Front, index: usize, call: &Call<'_>) -> Result<(), Refusal> {
    let connection = &mut front.connections[index];
    match call.spec.id {
        Id::ClientId => {
            let id = connection.client.id as i64;
            connection.reply(|writer| writer.integer(id));
        }
        Id::ClientSetName => {
            set_name(connection, call.word(2))?;
            connection.reply(|writer| writer.simple("OK"));
        }
        Id::ClientGetName => {
            let name = connection.client.name.clone();
            connection.reply(|writer| match name.is_empty() {
                true => writer.null(),
                false => writer.bulk(&name),
            });
        }
        Id::ClientSetInfo => {
            set_info(connection, call.word(2), call.word(3))?;
            connection.reply(|writer| writer.simple("OK"));
        }
        Id::ClientReply => {
            let mode = call.word(2);
            if mode.eq_ignore_ascii_case(b"ON") {
                connection.set_mute(Mute::Off);
                connection.reply(|writer| writer.simple("OK"));
            } else if mode.eq_ignore_ascii_case(b"OFF") {
                connection.set_mute(Mute::Always);
            } else if mode.eq_ignore_ascii_case(b"SKIP") {
                connection.set_mute(Mute::Next);
            } else {
                return Err(Refusal::SYNTAX);
            }
        }
        Id::ClientNoEvict => {
            connection.client.is_kept = parse_switch(call.word(2))?;
            connection.reply(|writer| writer.simple("OK"));
        }
        Id::ClientNoTouch => {
            parse_switch(call.word(2))?;
            connection.reply(|writer| writer.simple("OK"));
        }
        Id::ClientInfo => {
            let mut text = Vec::new();
            describe(connection, index, call.now_ms, &mut text);
            connection.reply(|writer| writer.verbatim_text(&text));
        }
        Id::ClientList => {
            let text = list(front, call)?;
            front.connections[index].reply(|writer| writer.verbatim_text(&text));
        }
        other => unreachable!("{other:?} is not a subcommand of CLIENT"),
    }
    Ok(())
}

/// An empty name takes the name away.
pub(crate) fn set_name(connection: &mut Connection, name: &[u8]) -> Result<(), Refusal> {
    if !is_printable(name) {
        return Err(Refusal::fixed("ERR Client names cannot contain spaces, newlines or special characters."));
    }
    connection.client.name = name.to_vec();
    Ok(())
}

fn set_info(connection: &mut Connection, attribute: &[u8], value: &[u8]) -> Result<(), Refusal> {
    let client = &mut connection.client;
    let place = if attribute.eq_ignore_ascii_case(b"LIB-NAME") {
        &mut client.library_name
    } else if attribute.eq_ignore_ascii_case(b"LIB-VER") {
        &mut client.library_version
    } else {
        return Err(Refusal::quoting("ERR Unrecognized option '", attribute, "'"));
    };
    if !is_printable(value) {
        let complaint = " cannot contain spaces, newlines or special characters.";
        return Err(Refusal::quoting("ERR ", attribute, complaint));
    }
    *place = value.to_vec();
    Ok(())
}

/// What may stand in a line of `CLIENT LIST`.
fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

fn parse_switch(word: &[u8]) -> Result<bool, Refusal> {
    let is_on = word.eq_ignore_ascii_case(b"ON");
    if is_on || word.eq_ignore_ascii_case(b"OFF") { Ok(is_on) } else { Err(Refusal::SYNTAX) }
}

/// The client types that Redis knows; all of ours are normal.
const CLIENT_TYPES: [&[u8]; 5] = [b"normal", b"master", b"replica", b"slave", b"pubsub"];

/// Whether our clients are of this type, if it is one.
pub(crate) fn is_type_of_clients(wanted: &[u8]) -> Result<bool, Refusal> {
    match CLIENT_TYPES.iter().position(|name| name.eq_ignore_ascii_case(wanted)) {
        None => Err(Refusal::quoting("ERR Unknown client type '", wanted, "'")),
        Some(place) => Ok(place == 0),
    }
}

/// CLIENT LIST [TYPE type | ID id ...]
fn list(front: &Front, call: &Call<'_>) -> Result<Vec<u8>, Refusal> {
    let option = call.words.at(2);
    let is_option = |name: &[u8]| option.is_some_and(|option| option.eq_ignore_ascii_case(name));
    let mut ids = None;
    if is_option(b"TYPE") && call.words.len() == 4 {
        let wanted = call.word(3);
        if !is_type_of_clients(wanted)? {
            ids = Some(Vec::new());
        }
    } else if is_option(b"ID") && call.words.len() > 3 {
        let wanted = call.words.from(3).iter().map(parse_integer).collect::<Option<Vec<_>>>();
        ids = Some(wanted.ok_or(Refusal::fixed("ERR Invalid client ID"))?);
    } else if option.is_some() {
        return Err(Refusal::SYNTAX);
    }
    let is_wanted = |id: u64| ids.as_ref().is_none_or(|ids| ids.contains(&(id as i64)));
    let wanted = front.connections.iter().filter(|(_, connection)| is_wanted(connection.client.id));
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_unstable_by_key(|(_, connection)| connection.client.id);
    let mut text = Vec::new();
    for (index, connection) in wanted {
        describe(connection, index, call.now_ms, &mut text);
    }
    Ok(text)
}

/// One line with Redis's fields; what has no meaning here is 0.
fn describe(connection: &Connection, index: usize, now_ms: u64, text: &mut Vec<u8>) {
    let client = &connection.client;
    let age_s = now_ms.saturating_sub(client.connected_ms) / 1000;
    let idle_s = now_ms.saturating_sub(client.active_ms) / 1000;
    let output_length = connection.reply_length();
    // Names are printable ASCII, so nothing is lost here.
    let mut line = format!(
        "id={} addr={} laddr={} fd={index} name={} age={age_s} idle={idle_s} flags={} db={} ",
        client.id,
        client.address,
        client.local,
        String::from_utf8_lossy(&client.name),
        match (client.transaction.is_some(), client.is_kept) {
            (true, true) => "xe",
            (true, false) => "x",
            (false, true) => "e",
            (false, false) => "N",
        },
        client.namespace,
    );
    let queued = client.transaction.as_ref().map_or(-1, |queued| queued.len() as i64);
    // Writing to a String cannot fail.
    let queued_length = connection.kept_length() - output_length;
    let _ = write!(line, "sub=0 psub=0 ssub=0 multi={queued} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem={queued_length} ");
    let _ = writeln!(
        line,
        "rbs=0 rbp=0 obl={output_length} oll=0 omem={output_length} tot-mem={} events=r \
         cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={}",
        connection.kept_length(),
        name_of(client.last_command),
        if client.version == Version::Resp3 { 3 } else { 2 },
        String::from_utf8_lossy(&client.library_name),
        String::from_utf8_lossy(&client.library_version),
    );
    text.extend_from_slice(line.as_bytes());
}
