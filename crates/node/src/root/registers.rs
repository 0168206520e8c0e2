//! Configurations of volumes of registers, as the root decides them: one successor at a time.

use quorate_object::Outcome;
use quorate_protocol::register::are_sound;
use quorate_protocol::{Epoch, GroupId};

use super::{GroupRecord, Namespace, REGISTER_REPLICAS_MAX, RootState, Settings, error, no_such_namespace};
use crate::quorum::{Quorum, Stages};
use crate::record::{STILL_CHANGING, is_ahead};

/// Why a namespace cannot be made with these settings, if it is for its quorums.
pub fn check_quorum(settings: &Settings) -> Result<(), String> {
    if !settings.protocol.is_register() {
        let is_said = settings.quorum != Quorum::Majority || settings.tolerance != 0;
        return match is_said {
            true => Err("ERR QUORUM and TOLERANCE are for PROTOCOL register: the others decide by majorities".into()),
            false => Ok(()),
        };
    }
    settings.quorum.check(usize::from(settings.replicas), settings.tolerance)
}

const DECIDED_BY_MEMBERS: &str = "the namespace's members decide that, and the node that was asked did not know it yet: try \
                                  again";

impl RootState {
    pub(super) fn check_authority(&self, settings: &Settings, members: &[u32]) -> Result<(), String> {
        if !settings.authority.is_members() {
            return match members {
                [] => Ok(()),
                _ => {
                    Err("ERR MEMBERS goes with AUTHORITY members: otherwise the root spreads volumes over the nodes"
                        .into())
                }
            };
        }
        if !settings.protocol.is_register() {
            return Err(
                "ERR AUTHORITY members goes with PROTOCOL register: the members of other groups have a parent".into()
            );
        }
        if settings.volumes != 1 {
            return Err("ERR AUTHORITY members goes with VOLUMES 1: the namespace is one group".into());
        }
        let is_known = |member: &u32| self.nodes.iter().any(|node| node.id == *member);
        let is_named_twice = members.iter().enumerate().any(|(at, member)| members[..at].contains(member));
        match members.iter().all(is_known) && !is_named_twice {
            true => Ok(()),
            false => Err("ERR MEMBERS names nodes of the cluster, each once".into()),
        }
    }

    /// What the members have told of themselves, if it is news.
    pub(super) fn note_members(&mut self, group: u64, stages: &Stages) -> Outcome {
        let of_members = |namespace: &&mut Namespace| namespace.settings.authority.is_members();
        let mut volumes = self.namespaces.values_mut().filter(of_members).flat_map(|namespace| &mut namespace.volumes);
        let found = volumes.find(|volume| volume.group == group).filter(|_| are_sound(&stages.0));
        if let Some(volume) = found.filter(|volume| is_ahead(&stages.0, &volume.stages.0)) {
            *volume = GroupRecord::of_stages(GroupId(group), stages.0.clone());
            self.version += 1;
        }
        Outcome::Ok
    }

    pub(super) fn set_quorum(&mut self, number: u32, quorum: Quorum) -> Outcome {
        let Some(namespace) = self.namespaces.get_mut(&number) else { return no_such_namespace(number) };
        if !namespace.settings.protocol.is_register() {
            return error("QUORUM is for PROTOCOL register: the others decide by majorities");
        }
        if namespace.settings.authority.is_members() {
            return error(DECIDED_BY_MEMBERS);
        }
        if quorum.is_grid() || namespace.settings.quorum.is_grid() {
            return error("the sizes of a grid's quorums are its shape: QUORATE GROUP MOVE gives a group another one");
        }
        for volume in &namespace.volumes {
            if volume.is_moving() {
                return Outcome::Error(STILL_CHANGING.into());
            }
            if let Err(refusal) = quorum.check(volume.members.len(), namespace.settings.tolerance) {
                return Outcome::Error(refusal);
            }
        }
        for volume in &mut namespace.volumes {
            volume.follow(volume.members.clone(), quorum);
        }
        namespace.settings.quorum = quorum;
        self.version += 1;
        Outcome::Ok
    }

    pub(super) fn move_registers(&mut self, group: u64, members: &[u32], quorum: Option<Quorum>) -> Outcome {
        let unknown = members.iter().any(|member| !self.nodes.iter().any(|node| node.id == *member));
        let found = self.namespaces.values_mut().find_map(|namespace| {
            let settings = namespace.settings;
            let volume = namespace.volumes.iter_mut().find(|volume| volume.group == group)?;
            Some((settings, volume))
        });
        let Some((settings, volume)) = found.filter(|(settings, _)| settings.protocol.is_register()) else {
            return error("only groups of PROTOCOL register are moved so far");
        };
        if settings.authority.is_members() {
            return error(DECIDED_BY_MEMBERS);
        }
        if members.is_empty() || members.len() > usize::from(REGISTER_REPLICAS_MAX) || unknown {
            return error(&format!("MEMBERS names from 1 to {REGISTER_REPLICAS_MAX} nodes of the cluster"));
        }
        if volume.is_moving() {
            return Outcome::Error(STILL_CHANGING.into());
        }
        let quorum = quorum.unwrap_or(settings.quorum);
        if let Err(refusal) = quorum.check(members.len(), settings.tolerance) {
            return Outcome::Error(refusal);
        }
        volume.follow(members.to_vec(), quorum);
        self.version += 1;
        Outcome::Ok
    }

    pub(super) fn renew_registers(&mut self, group: u64, epoch: u32, fence: Option<Epoch>) -> Outcome {
        if let Some(volume) = self.volume_at(group, epoch).filter(|volume| !volume.is_moving()) {
            volume.renew(fence);
            self.version += 1;
        }
        Outcome::Ok
    }

    pub(super) fn retire_before(&mut self, group: u64, epoch: u32) -> Outcome {
        if self.volume_at(group, epoch).is_some_and(|volume| volume.retire_before(epoch)) {
            self.version += 1;
        }
        Outcome::Ok
    }

    fn volume_at(&mut self, group: u64, epoch: u32) -> Option<&mut GroupRecord> {
        let mut volumes = self.namespaces.values_mut().flat_map(|namespace| &mut namespace.volumes);
        volumes.find(|volume| volume.group == group && volume.epoch == epoch)
    }
}

#[cfg(test)]
mod tests {
    use quorate_protocol::NodeId;

    use super::*;
    use crate::replica::Protocol;
    use crate::root::{Authority, ROOT, RootCommand};

    /// Four nodes, and one volume of registers on all of them.
    fn root(quorum: Quorum, tolerance: u8) -> RootState {
        let settings = Settings {
            protocol: Protocol::Register,
            replicas: 4,
            volumes: 1,
            quorum,
            tolerance,
            ..Settings::default()
        };
        RootState::of_nodes(4, settings)
    }

    fn refusal(root: &mut RootState, command: &RootCommand) -> String {
        match root.execute(command, 1) {
            Outcome::Error(line) => line,
            other => panic!("{command:?} was answered with {other:?}"),
        }
    }

    fn epochs(root: &RootState) -> Vec<u32> {
        root.led(Protocol::Register).flat_map(|volume| &volume.stages.0).map(|stage| stage.epoch().0).collect()
    }

    #[test]
    fn one_successor_is_decided_at_a_time_and_what_was_before_it_goes_by_its_epoch() {
        let mut root = root(Quorum::Majority, 0);
        let group = ROOT.0 + 1;
        let resize = |read, write| RootCommand::SetQuorum { number: 0, quorum: Quorum::Threshold { read, write } };
        assert_eq!(root.execute(&resize(1, 4), 1), Outcome::Ok);
        assert_eq!(epochs(&root), [0, 1]);
        assert_eq!(refusal(&mut root, &resize(4, 1)), STILL_CHANGING);
        let retire = |epoch| RootCommand::RetireBefore { group, epoch };
        root.execute(&retire(2), 1);
        assert_eq!(epochs(&root), [0, 1], "of no epoch that there is");
        root.execute(&retire(1), 1);
        root.execute(&retire(1), 1);
        assert_eq!(epochs(&root), [1], "once");
        let members = vec![4, 2];
        let moved = RootCommand::MoveRegisters { group, members, quorum: Some(Quorum::Majority) };
        assert_eq!(root.execute(&moved, 1), Outcome::Ok);
        let volume = root.led(Protocol::Register).next().expect("there is one");
        assert!(volume.lives_on(NodeId(1), Protocol::Register), "until its epoch is retired");
        root.execute(&retire(2), 1);
        let volume = root.led(Protocol::Register).next().expect("there is one");
        assert!(!volume.lives_on(NodeId(1), Protocol::Register) && volume.members == [4, 2]);
    }

    #[test]
    fn a_fence_is_that_of_the_last_epoch() {
        let mut root = root(Quorum::Square, 0);
        let group = ROOT.0 + 1;
        let renew = |epoch, fence| RootCommand::RenewRegisters { group, epoch, fence };
        root.execute(&renew(0, None), 1);
        root.execute(&renew(1, Some(1)), 1);
        assert_eq!(epochs(&root), [0, 1], "not while another is on its way");
        root.execute(&RootCommand::RetireBefore { group, epoch: 1 }, 1);
        root.execute(&renew(1, Some(1)), 1);
        let volume = root.led(Protocol::Register).next().expect("there is one");
        let fences: Vec<u32> = volume.stages.0.iter().map(|stage| stage.fence.0).collect();
        assert_eq!((epochs(&root), fences), (vec![1, 2], vec![0, 1]));
        assert!(volume.stages.0.iter().all(|stage| !stage.moves() || stage.epoch() == Epoch(0)), "nothing moves");
    }

    #[test]
    fn where_members_decide_the_root_only_takes_note() {
        let mut root = root(Quorum::Majority, 0);
        let settings = Settings {
            protocol: Protocol::Register,
            replicas: 2,
            volumes: 1,
            authority: Authority::Members,
            ..Settings::default()
        };
        let create =
            |settings, members: &[u32]| RootCommand::CreateNamespace { number: 1, settings, members: members.to_vec() };
        let two = Settings { volumes: 2, ..settings };
        assert!(refusal(&mut root, &create(two, &[])).contains("VOLUMES 1"));
        let chain = Settings { protocol: Protocol::Chain, ..settings };
        assert!(refusal(&mut root, &create(chain, &[])).contains("PROTOCOL register"));
        let led = Settings { authority: Authority::Parent, ..settings };
        assert!(refusal(&mut root, &create(led, &[2, 4])).contains("AUTHORITY members"));
        assert!(refusal(&mut root, &create(settings, &[2, 2])).contains("each once"));
        assert!(refusal(&mut root, &create(settings, &[2, 9])).contains("of the cluster"));
        assert_eq!(root.execute(&create(settings, &[4, 2]), 1), Outcome::Ok);
        let volume = root.namespaces[&1].volumes[0].clone();
        assert_eq!(volume.members, [4, 2]);
        assert!(root.led(Protocol::Register).all(|led| led.group != volume.group), "nobody leads it");
        let moved = RootCommand::MoveRegisters { group: volume.group, members: vec![1], quorum: None };
        assert!(refusal(&mut root, &moved).contains("members decide"));
        let resize = RootCommand::SetQuorum { number: 1, quorum: Quorum::Threshold { read: 1, write: 2 } };
        assert!(refusal(&mut root, &resize).contains("members decide"));
        let mut later = volume.clone();
        later.follow(vec![1, 3], Quorum::Majority);
        let note = |stages: &Stages| RootCommand::NoteMembers { group: volume.group, stages: stages.clone() };
        let version = root.version;
        assert_eq!(root.execute(&note(&volume.stages), 1), Outcome::Ok);
        assert_eq!(root.version, version, "it was known");
        root.execute(&note(&later.stages), 1);
        root.execute(&note(&volume.stages), 1);
        let noted = &root.namespaces[&1].volumes[0];
        assert_eq!((noted.epoch, &noted.members[..], noted.stages.0.len()), (1, &[1, 3][..], 2));
    }

    #[test]
    fn what_is_unsound_or_too_weak_is_refused() {
        let mut root = root(Quorum::Square, 1);
        let group = ROOT.0 + 1;
        let resize = RootCommand::SetQuorum { number: 0, quorum: Quorum::Threshold { read: 2, write: 3 } };
        assert!(refusal(&mut root, &resize).contains("shape"), "a grid has no sizes");
        let moved = |members: &[u32], quorum| RootCommand::MoveRegisters { group, members: members.to_vec(), quorum };
        assert!(refusal(&mut root, &moved(&[], None)).contains("MEMBERS"));
        assert!(refusal(&mut root, &moved(&[1, 9], None)).contains("MEMBERS"));
        assert!(refusal(&mut root, &moved(&[1, 2], None)).contains("survives 0 crashes"));
        let grid = Some(Quorum::Grid { rows: 3, columns: 3 });
        assert!(refusal(&mut root, &moved(&[1, 2, 3], grid)).contains("3x3"));
        assert_eq!(root.execute(&moved(&[3, 2, 1], None), 1), Outcome::Ok, "three are a majority");
        let (settings, weak) = (Settings { protocol: Protocol::Paxos, ..Settings::default() }, Quorum::Square);
        assert!(check_quorum(&settings).is_ok() && check_quorum(&Settings { quorum: weak, ..settings }).is_err());
    }
}
