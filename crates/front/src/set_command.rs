//! Words of a client to an operation on a set.

use quorate_object::SetOp;

use crate::object_command::Call;
use crate::refusal::Refusal;

pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<SetOp<'a>, Refusal> {
    unreachable!("{:?} is no command on sets", call.spec.id)
}
