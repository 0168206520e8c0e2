use quorate_object::Outcome;
use quorate_protocol::NodeId;

use super::*;
use crate::Target;
use crate::frame::Message;
use crate::host::three_nodes::{Cluster, Fate, arrives};

fn local() -> Cluster {
    let mut cluster = Cluster::new(|settings| settings.defaults.reads = Reads::Local);
    cluster.write(1, b"first");
    cluster.pass(1_000, arrives);
    cluster
}

fn answer(cluster: &mut Cluster, at: u32, number: u64) -> Option<Vec<u8>> {
    let answer = cluster.node(at).answers.iter().find(|(of, _)| *of == number).map(|(_, answer)| answer.clone());
    match answer {
        Some(Answer::Outcome(Outcome::Bulk(value))) => Some(value),
        Some(other) => panic!("{other:?}"),
        None => None,
    }
}

/// Of the group that the key has come to have.
fn own_group(cluster: &mut Cluster, at: u32) -> Option<GroupId> {
    let host = &mut cluster.node(at).host;
    host.find_own(Target::Slot { namespace: 0, slot: 0 }, Some(b"key")).map(|own| own.group)
}

#[test]
fn what_a_client_was_told_of_a_group_before_it_was_born_here_is_read_here() {
    let mut cluster = local();
    let volume = cluster.volume();
    // Node 3 hears of nothing that is decided, and of all answers.
    let decides_without_3 = |_: NodeId, to: NodeId, message: &Message<'_>| match message {
        Message::Replica { .. } if to == NodeId(3) => Fate::IsLost,
        _ => Fate::Arrives,
    };
    let number = cluster.next_number();
    let words = ["GROUP", "PROMOTE", "KEYS", "1", "key"].map(|word| word.as_bytes().to_vec());
    cluster.node(1).host.submit_admin(number, 0, &words);
    cluster.pass(300, decides_without_3);
    assert!(own_group(&mut cluster, 1).is_some() && own_group(&mut cluster, 3).is_none());
    let written = cluster.write(3, b"second");
    cluster.pass(100, decides_without_3);
    assert!(cluster.is_done(3, written));
    // It is born here, as it was then, and hears of nothing that came after that.
    let own = own_group(&mut cluster, 1).expect("it has one");
    let only_of_volume = move |_: NodeId, to: NodeId, message: &Message<'_>| match message {
        Message::Replica { group, .. } if to == NodeId(3) && *group != volume => Fate::IsLost,
        _ => Fate::Arrives,
    };
    let is_here = |cluster: &Cluster| {
        let host = &cluster.nodes[2].host;
        host.find(own).is_some_and(|index| host.groups[index as usize].is_alive())
    };
    for _ in 0..3_000 {
        if is_here(&cluster) {
            break;
        }
        cluster.pass(1, only_of_volume);
    }
    assert!(is_here(&cluster));
    let number = cluster.read(3);
    cluster.pass(100, only_of_volume);
    assert_eq!(answer(&mut cluster, 3, number).as_deref(), Some(&b"second"[..]));
    cluster.pass(2_000, arrives);
    let number = cluster.read(3);
    assert!(!cluster.node(3).host.clients.contains(number), "it is answered without a message");
    cluster.pass(1, arrives);
    assert_eq!(answer(&mut cluster, 3, number).as_deref(), Some(&b"second"[..]));
}

#[test]
fn of_very_many_groups_more_is_taken_for_told_than_was() {
    let mut told = ToldOf::default();
    let of = |slot| Told { below: Slot(slot), own_number: 0 };
    (0..=GROUPS_TOLD_MAX as u64).for_each(|group| told.note(GroupId(group), of(group % 7)));
    assert!(told.is_full());
    told.make_room(|group, _| group < GroupId(GROUPS_TOLD_MAX as u64 * 3 / 4));
    let last = GROUPS_TOLD_MAX as u64;
    assert_eq!((told.of(GroupId(1)), told.of(GroupId(last))), (of(0), of(last % 7)));
    told.note(GroupId(1), of(3));
    (last..last * 2).for_each(|group| told.note(GroupId(group), of(5)));
    told.make_room(|_, _| false);
    assert_eq!((told.of(GroupId(1)), told.of(GroupId(u64::MAX))), (of(6), of(6)));
}
