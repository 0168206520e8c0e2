//! Words of a client to an operation on a sorted set.

use quorate_object::SortedSetOp;

use crate::object_command::Call;
use crate::refusal::Refusal;

pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<SortedSetOp<'a>, Refusal> {
    unreachable!("{:?} is no command on sorted sets", call.spec.id)
}
