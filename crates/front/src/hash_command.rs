//! Words of a client to an operation on a hash.

use quorate_object::{HashOp, HashPart, Pair};

use crate::object_command::{Call, parse_chance, parse_element_scan, parse_float};
use crate::refusal::Refusal;
use crate::specs::Id;

pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<HashOp<'a>, Refusal> {
    let field = call.word(2);
    Ok(match call.spec.id {
        Id::HSet => HashOp::Set { pairs: parse_pairs(call)?, answers_ok: false },
        Id::HMSet => HashOp::Set { pairs: parse_pairs(call)?, answers_ok: true },
        Id::HSetNx => HashOp::SetNx { field, value: call.word(3) },
        Id::HGet => HashOp::Get { field },
        Id::HMGet => HashOp::MGet { fields: call.words.from(2).iter().collect() },
        Id::HGetAll => HashOp::All { what: HashPart::Both },
        Id::HKeys => HashOp::All { what: HashPart::Field },
        Id::HVals => HashOp::All { what: HashPart::Value },
        Id::HLen => HashOp::Len,
        Id::HExists => HashOp::Exists { field },
        Id::HStrlen => HashOp::Strlen { field },
        Id::HDel => HashOp::Del { fields: call.words.from(2).iter().collect() },
        Id::HIncrBy => HashOp::IncrBy { field, delta: call.integer(3)? },
        Id::HIncrByFloat => HashOp::IncrByFloat { field, delta: parse_finite(call.word(3))? },
        Id::HScan => HashOp::Scan(parse_element_scan(call)?),
        Id::HRandField => return parse_random(call),
        other => unreachable!("{other:?} is no command on hashes"),
    })
}

fn parse_pairs<'a>(call: &Call<'a>) -> Result<Vec<Pair<'a>>, Refusal> {
    let words = call.words.from(2);
    if !words.len().is_multiple_of(2) {
        return Err(Refusal::wrong_arity(call.spec));
    }
    let mut words = words.iter();
    Ok(std::iter::from_fn(|| words.next().zip(words.next())).collect())
}

fn parse_finite(word: &[u8]) -> Result<f64, Refusal> {
    let number = parse_float(word)?;
    if number.is_finite() { Ok(number) } else { Err(Refusal::fixed("ERR value is NaN or Infinity")) }
}

fn parse_random<'a>(call: &Call<'a>) -> Result<HashOp<'a>, Refusal> {
    let (with_values, chance) = parse_chance(call, Some("WITHVALUES"))?;
    Ok(HashOp::Random { with_values, chance })
}
