//! The log record of an own group's birth: what it begins with.

use quorate_protocol::wire::Malformed;
use quorate_protocol::{GroupId, NodeId};

use super::group::{Group, Own};
use super::transfer::{decode_snapshot, encode_snapshot};
use crate::group_state::GroupState;

/// Begins the log record of a birth; no record of a replica begins so.
const BIRTH: u8 = 0xB1;

/// Whether a record of the log is a birth.
pub(crate) fn is_birth(record: &[u8]) -> bool {
    record.first() == Some(&BIRTH)
}

/// The group that a birth's record says was born.
pub(super) fn decode_birth(group: GroupId, record: &[u8], me: NodeId) -> Result<Group, Malformed> {
    let snapshot = decode_snapshot(group, record.get(1..).unwrap_or_default())?;
    let meta = snapshot.meta;
    if !meta.configuration.contains(me) {
        return Err(Malformed::UnknownTag { of: "member of an own group", tag: 0 });
    }
    let protocol = meta.position.protocol();
    let mut born =
        Group::new(protocol, meta.configuration, meta.namespace, meta.durability, meta.hash_key, snapshot.machine, me);
    born.own = Own::of(group, &meta.name);
    born.state = GroupState::Alive;
    // No checkpoint has anything of it yet.
    born.checkpoint.whole = true;
    born.checkpoint.changed = true;
    born.replica.restore(meta.position);
    born.begin_register(&meta.name);
    Ok(born)
}

pub(super) fn encode_birth(group: &Group) -> Vec<u8> {
    let mut record = encode_snapshot(group);
    record.insert(0, BIRTH);
    record
}

#[cfg(test)]
mod tests {
    use quorate_object::Command;
    use quorate_protocol::NodeId;

    use crate::Target;
    use crate::frame::Message;
    use crate::host::batches::{GroupAction, GroupRequest};
    use crate::host::three_nodes::{Cluster, Fate, arrives};
    use crate::host::{Host, Submission};

    fn incomplete(host: &Host) -> Option<usize> {
        host.groups().find_map(|group| group.machine.children()).map(|children| children.starting.len())
    }

    #[test]
    fn what_a_group_began_with_is_not_kept_once_it_has_ended_whoever_has_told_of_its_birth() {
        let is_untold = |_: NodeId, _: NodeId, message: &Message<'_>| match message {
            Message::Born { .. } => Fate::IsLost,
            _ => Fate::Arrives,
        };
        // The others have no replica of the volume.
        let mut cluster = Cluster::new(|settings| settings.defaults.replicas = 1);
        let number = cluster.next_number();
        let mut request = GroupRequest::of(GroupAction::Create { value: b"v".to_vec() });
        request.names = vec![b"own".to_vec()];
        request.members = ["n1", "n2", "n3"].map(str::to_owned).to_vec();
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(500, is_untold);
        assert!(cluster.nodes.iter().all(|node| node.host.own_groups().count() == 1));
        assert_eq!(incomplete(&cluster.node(1).host), Some(1));
        let number = cluster.next_number();
        let target = Target::Slot { namespace: 0, slot: 0 };
        cluster.node(1).host.submit(Submission {
            number,
            predecessor: None,
            target,
            command: &Command::Del { key: b"own" },
        });
        cluster.pass(10_000, is_untold);
        assert!(cluster.nodes.iter().all(|node| node.host.own_groups().count() == 0));
        cluster.pass(3_000, arrives);
        assert_eq!(incomplete(&cluster.node(1).host), Some(0));
    }

    #[test]
    fn births_are_completed_after_all_nodes_were_started_anew_though_nobody_uses_the_volume() {
        let mut cluster = Cluster::new(|_| {});
        let number = cluster.next_number();
        let mut request = GroupRequest::of(GroupAction::Create { value: b"v".to_vec() });
        request.names = vec![b"own".to_vec()];
        cluster.node(1).host.submit_group_request(number, 0, request);
        cluster.pass(20, arrives);
        // By this one every log says that the birth is decided.
        cluster.write(1, b"value");
        cluster.pass(20, arrives);
        for id in 1..=3 {
            assert_eq!(incomplete(&cluster.node(id).host), Some(1), "on node {id}");
            cluster.restart(id);
        }
        for id in 1..=3 {
            let host = &mut cluster.node(id).host;
            assert_eq!(incomplete(host), Some(1), "on node {id}");
            (1..=3).filter(|&peer| peer != id).for_each(|peer| host.linked(NodeId(peer)));
        }
        cluster.pass(3_000, arrives);
        for id in 1..=3 {
            assert_eq!(incomplete(&cluster.node(id).host), Some(0), "on node {id}");
        }
    }
}
