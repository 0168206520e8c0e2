//! An own group, as an operation on its object knows it.

use quorate_protocol::{GroupId, NodeId};

use crate::record::GroupRecord;
use crate::replica::Protocol;
use crate::volume::{OwnRecord, Record, own_group};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPlace {
    pub group: GroupId,
    pub members: Vec<NodeId>,
    pub protocol: Protocol,
    /// Of one that its volume leads.
    pub led: Option<Box<GroupRecord>>,
}

impl OwnPlace {
    pub(crate) fn new(volume: GroupId, record: Record, members: &[NodeId]) -> OwnPlace {
        let (group, protocol) = (own_group(volume, record.number), record.protocol());
        let members = record.member_ids(members);
        let led = match record.place {
            OwnRecord::Led { record, .. } => Some(record),
            OwnRecord::Paxos { .. } => None,
        };
        OwnPlace { group, members, protocol, led }
    }
}
