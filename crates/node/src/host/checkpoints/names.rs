//! What a group has in the store has names there.

use quorate_protocol::wire::Malformed;

/// Names in the store begin with what they name.
const OBJECT_NAME: u8 = 0;
pub(super) const RUN_NAME: u8 = 1;
const CHILDREN_NAME: u8 = 2;
/// Where objects begin among the names, and where what is behind them does.
pub(in crate::host) const FIRST_OBJECT: &[u8] = &[OBJECT_NAME];
pub(in crate::host) const BEHIND_OBJECTS: &[u8] = &[RUN_NAME];

pub(in crate::host) fn name_of(key: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(key.len() + 1);
    name.push(OBJECT_NAME);
    name.extend_from_slice(key);
    name
}

/// What a volume keeps of its own groups is mostly one value; if it is long, the rest is in others behind the first.
pub(super) fn children_name(piece: u8) -> Vec<u8> {
    match piece {
        0 => vec![CHILDREN_NAME],
        piece => vec![CHILDREN_NAME, piece],
    }
}

/// What a name in the store names.
pub(crate) enum Name<'a> {
    Object(&'a [u8]),
    Run(u64),
    /// The piece of this number.
    Children(u8),
}

pub(crate) fn take_name(name: &[u8]) -> Result<Name<'_>, Malformed> {
    match name.split_first() {
        Some((&OBJECT_NAME, key)) => Ok(Name::Object(key)),
        Some((&RUN_NAME, run)) => {
            let run = run.try_into().map_err(|_| Malformed::Truncated)?;
            Ok(Name::Run(u64::from_be_bytes(run)))
        }
        Some((&CHILDREN_NAME, [])) => Ok(Name::Children(0)),
        Some((&CHILDREN_NAME, &[piece @ 1..=u8::MAX])) => Ok(Name::Children(piece)),
        Some((&tag, _)) => Err(Malformed::UnknownTag { of: "name in a checkpoint", tag }),
        None => Err(Malformed::Truncated),
    }
}
