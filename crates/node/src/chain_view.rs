//! What a member of a chain says of how far it is, to whoever shows that to people.

use quorate_protocol::wire::{Malformed, Reader};
use quorate_protocol::{Epoch, GroupId, Slot};

/// How far a member of a chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainView {
    pub group: GroupId,
    pub rest: ChainRest,
    pub epoch: Epoch,
    /// All updates below are here. Of one that is paused nothing more is known without a look into the checkpoint store.
    pub received: Slot,
    /// All updates below are known as decided.
    pub decided: Slot,
    /// For how long the member may answer reads by itself.
    pub lease_us: u64,
}

/// How awake a member of a chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainRest {
    Active,
    Idle,
    Paused,
}

impl ChainRest {
    const ALL: [ChainRest; 3] = [ChainRest::Active, ChainRest::Idle, ChainRest::Paused];

    pub(crate) fn word(self) -> &'static str {
        match self {
            ChainRest::Active => "active",
            ChainRest::Idle => "idle",
            ChainRest::Paused => "paused",
        }
    }
}

impl ChainView {
    pub(crate) const BYTES: usize = 37;

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let ChainView { group, rest, epoch, received, decided, lease_us } = self;
        out.extend_from_slice(&group.0.to_le_bytes());
        out.push(*rest as u8);
        out.extend_from_slice(&epoch.0.to_le_bytes());
        [received.0, decided.0, *lease_us].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<ChainView, Malformed> {
        let (group, tag) = (GroupId(r.u64()?), r.u8()?);
        let rest = ChainRest::ALL.get(usize::from(tag)).copied();
        let rest = rest.ok_or(Malformed::UnknownTag { of: "rest of a chain", tag })?;
        let epoch = Epoch(r.u32()?);
        Ok(ChainView { group, rest, epoch, received: Slot(r.u64()?), decided: Slot(r.u64()?), lease_us: r.u64()? })
    }

    /// Updates that this member does not know as decided.
    pub(crate) fn in_flight(&self) -> i64 {
        self.received.0.saturating_sub(self.decided.0) as i64
    }
}
