//! Words of a client to an operation on a list.

use quorate_object::{ListOp, ListSide};

use crate::object_command::Call;
use crate::refusal::Refusal;
use crate::specs::Id;

pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<ListOp<'a>, Refusal> {
    let push = |side, if_there| ListOp::Push { side, values: call.words.from(2).iter().collect(), if_there };
    Ok(match call.spec.id {
        Id::LPush => push(ListSide::Left, false),
        Id::RPush => push(ListSide::Right, false),
        Id::LPushX => push(ListSide::Left, true),
        Id::RPushX => push(ListSide::Right, true),
        Id::LPop => parse_pop(call, ListSide::Left)?,
        Id::RPop => parse_pop(call, ListSide::Right)?,
        Id::LLen => ListOp::Len,
        Id::LRange => ListOp::Range { start: call.integer(2)?, stop: call.integer(3)? },
        Id::LIndex => ListOp::Index { index: call.word(2) },
        Id::LSet => ListOp::Set { index: call.word(2), value: call.word(3) },
        Id::LInsert => ListOp::Insert { after: parse_after(call.word(2))?, pivot: call.word(3), value: call.word(4) },
        Id::LRem => ListOp::Remove { count: call.integer(2)?, element: call.word(3) },
        Id::LTrim => ListOp::Trim { start: call.integer(2)?, stop: call.integer(3)? },
        Id::LPos => return parse_pos(call),
        other => unreachable!("{other:?} is no command on lists"),
    })
}

fn parse_pop<'a>(call: &Call<'a>, side: ListSide) -> Result<ListOp<'a>, Refusal> {
    let count = match call.words.len() {
        2 => None,
        3 => Some(call.count(2, Refusal::NEGATIVE)?),
        _ => return Err(Refusal::wrong_arity(call.spec)),
    };
    Ok(ListOp::Pop { side, count })
}

fn parse_after(word: &[u8]) -> Result<bool, Refusal> {
    match word {
        _ if word.eq_ignore_ascii_case(b"AFTER") => Ok(true),
        _ if word.eq_ignore_ascii_case(b"BEFORE") => Ok(false),
        _ => Err(Refusal::SYNTAX),
    }
}

fn parse_pos<'a>(call: &Call<'a>) -> Result<ListOp<'a>, Refusal> {
    let (mut rank, mut count, mut compared_max) = (1, None, 0);
    for place in (3..call.words.len()).step_by(2) {
        let option = call.word(place);
        if place + 1 == call.words.len() {
            return Err(Refusal::SYNTAX);
        } else if option.eq_ignore_ascii_case(b"RANK") {
            rank = parse_rank(call, place + 1)?;
        } else if option.eq_ignore_ascii_case(b"COUNT") {
            count = Some(call.count(place + 1, Refusal::fixed("ERR COUNT can't be negative"))?);
        } else if option.eq_ignore_ascii_case(b"MAXLEN") {
            compared_max = call.count(place + 1, Refusal::fixed("ERR MAXLEN can't be negative"))?;
        } else {
            return Err(Refusal::SYNTAX);
        }
    }
    if rank == i64::MIN {
        // The negation of it is still negative in Redis, so that every match is beyond this rank, and none the last.
        (rank, count) = (-1, count.map(|_| 0));
    }
    Ok(ListOp::Pos { element: call.word(2), rank, count, compared_max })
}

fn parse_rank(call: &Call<'_>, place: usize) -> Result<i64, Refusal> {
    match call.integer(place)? {
        0 => Err(Refusal::fixed(
            "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start \
             from the end of the list",
        )),
        rank => Ok(rank),
    }
}
