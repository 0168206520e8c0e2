//! Words of a client to an operation on a list.

use quorate_object::ListOp;

use crate::object_command::Call;
use crate::refusal::Refusal;

pub(crate) fn parse<'a>(call: &Call<'a>) -> Result<ListOp<'a>, Refusal> {
    unreachable!("{:?} is no command on lists", call.spec.id)
}
