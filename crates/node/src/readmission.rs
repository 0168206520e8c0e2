//! What a replica asks the other members for that has forgotten what it said.

use quorate_protocol::wire::{Malformed, Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// To testify.
    Testimony = 0,
    /// What it has not executed yet: all have testified.
    Slots = 1,
    /// Nothing more: it takes part again, and wants to be sure that this is known.
    Notice = 2,
    /// How far they are: it copies the group, to take a seat in it.
    Standing = 3,
}

impl Asks {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Asks, Malformed> {
        Ok(match reader.u8()? {
            0 => Asks::Testimony,
            1 => Asks::Slots,
            2 => Asks::Notice,
            3 => Asks::Standing,
            tag => return Err(Malformed::UnknownTag { of: "question of a replica that has forgotten", tag }),
        })
    }
}
