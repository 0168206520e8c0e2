//! CLIENT KILL: closes connections.
//!
//! What a killed connection has asked may still be executed; nobody is told.

use quorate_resp::parse_integer;

use crate::client::is_type_of_clients;
use crate::connection::{Connection, ConnectionId};
use crate::front::Front;
use crate::object_command::Call;
use crate::refusal::Refusal;

/// Which connections are meant: those that fit everything that is said.
#[derive(Debug, Default)]
struct Filter<'a> {
    id: Option<i64>,
    address: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    /// Of a type that no client here is.
    nobody: bool,
    age_s_min: u64,
    with_me: bool,
}

/// CLIENT KILL ip:port, or CLIENT KILL option value [option value ...]
pub(crate) fn execute(front: &mut Front, index: usize, call: &Call<'_>) -> Result<(), Refusal> {
    let is_old_form = call.words.len() == 3;
    let filter = if is_old_form {
        Filter { address: Some(call.word(2)), with_me: true, ..Filter::default() }
    } else {
        parse(call)?
    };
    let mut count = 0;
    let mut kills_me = false;
    for (other, connection) in &mut front.connections {
        if connection.is_closing() || !filter.fits(connection, call.now_ms) || (other == index && !filter.with_me) {
            continue;
        }
        count += 1;
        if other == index {
            kills_me = true;
        } else {
            connection.abandon();
            front.touched.push(ConnectionId { index: other as u32, generation: connection.generation });
        }
    }
    if is_old_form && count == 0 {
        return Err(Refusal::fixed("ERR No such client"));
    }
    let connection = &mut front.connections[index];
    connection.reply(|writer| if is_old_form { writer.simple("OK") } else { writer.integer(count) });
    if kills_me {
        connection.close();
    }
    Ok(())
}

fn parse<'a>(call: &Call<'a>) -> Result<Filter<'a>, Refusal> {
    let mut filter = Filter::default();
    let mut words = call.words.from(2).iter();
    while let Some(option) = words.next() {
        let value = words.next().ok_or(Refusal::SYNTAX)?;
        let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
        if is("ID") {
            let id = parse_integer(value).filter(|&id| id > 0);
            filter.id = Some(id.ok_or(Refusal::fixed("ERR client-id should be greater than 0"))?);
        } else if is("TYPE") {
            filter.nobody = !is_type_of_clients(value)?;
        } else if is("ADDR") {
            filter.address = Some(value);
        } else if is("LADDR") {
            filter.local = Some(value);
        } else if is("USER") {
            if value != b"default" {
                return Err(Refusal::quoting("ERR No such user '", value, "'"));
            }
        } else if is("SKIPME") {
            filter.with_me = match value {
                word if word.eq_ignore_ascii_case(b"YES") => false,
                word if word.eq_ignore_ascii_case(b"NO") => true,
                _ => return Err(Refusal::SYNTAX),
            };
        } else if is("MAXAGE") {
            let age_s = parse_integer(value).ok_or(Refusal::fixed("ERR maxage is not an integer or out of range"))?;
            let age_s = u64::try_from(age_s).ok().filter(|&age_s| age_s > 0);
            filter.age_s_min = age_s.ok_or(Refusal::fixed("ERR maxage should be greater than 0"))?;
        } else {
            return Err(Refusal::SYNTAX);
        }
    }
    Ok(filter)
}

impl Filter<'_> {
    fn fits(&self, connection: &Connection, now_ms: u64) -> bool {
        let client = &connection.client;
        !self.nobody
            && self.id.is_none_or(|id| client.id as i64 == id)
            && self.address.is_none_or(|address| client.address.as_bytes() == address)
            && self.local.is_none_or(|local| client.local.as_bytes() == local)
            && now_ms.saturating_sub(client.connected_ms) / 1000 >= self.age_s_min
    }
}
