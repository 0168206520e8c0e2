//! Words of a client to an operation on a set.

use quorate_object::SetOp;

use crate::object_command::{Call, parse_chance, parse_element_scan};
use crate::refusal::Refusal;
use crate::specs::Id;

pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<SetOp<'a>, Refusal> {
    let members = || call.words.from(2).iter().collect();
    Ok(match call.spec.id {
        Id::SAdd => SetOp::Add { members: members() },
        Id::SRem => SetOp::Remove { members: members() },
        Id::SIsMember => SetOp::Has { member: call.word(2) },
        Id::SMIsMember => SetOp::HasEach { members: members() },
        Id::SMembers => SetOp::Members,
        Id::SCard => SetOp::Len,
        Id::SPop | Id::SRandMember if call.words.len() > 3 => return Err(Refusal::SYNTAX),
        Id::SPop if call.words.len() == 3 => SetOp::Pop { count: Some(call.count(2, Refusal::NEGATIVE)?) },
        Id::SPop => SetOp::Pop { count: None },
        Id::SRandMember => SetOp::Random { chance: parse_chance(call, None)?.1 },
        Id::SScan => SetOp::Scan(parse_element_scan(call)?),
        other => unreachable!("{other:?} is no command on sets"),
    })
}
