//! Giving the records of the log back to the replicas that they are of.

use hashbrown::HashMap;
use quorate_checkpoint::Store;
use quorate_protocol::{Epoch, GroupId, NodeId, Slot};
use quorate_wal::{Kind, Recovered};

use super::Fault;
use super::births::{decode_birth, is_birth};
use super::group::{Group, ROOT_NAMESPACE};
use super::open::{Sleeping, Unreadable, give_up_unreadable};
use super::quarantine::isolate;
use crate::group_state::GroupState;
use crate::hash::FixedState;
use crate::replica::AnyRecord;

/// See [`AnyRecord::order`].
type Order = (Epoch, u8, Slot);

pub(super) struct Replay<'a, 'b, S> {
    me: NodeId,
    groups: &'a mut Vec<Group>,
    own: &'a mut Sleeping<'b, S>,
    by_id: HashMap<u64, usize, FixedState>,
    /// Records of groups that nothing is known of so far. What was carried on stands behind what is newer, so that a
    /// group's birth may come last.
    early: HashMap<u64, Vec<(Kind, Vec<u8>)>, FixedState>,
    /// Records of chains and registers, by the place of their group: they are restored in their order, once all are there.
    ordered: HashMap<usize, Vec<(Order, AnyRecord)>, FixedState>,
    /// Own groups that were born, and nobody can read as what.
    lost: Vec<GroupId>,
    faults: &'a mut Vec<Fault>,
}

/// What nobody could be given.
pub(super) struct Rest {
    /// Groups of which the log has records, and of which nothing is known.
    pub(super) strangers: Vec<u64>,
    pub(super) lost: Vec<GroupId>,
}

impl<'a, 'b, S: Store> Replay<'a, 'b, S> {
    pub(super) fn new(
        me: NodeId,
        groups: &'a mut Vec<Group>,
        own: &'a mut Sleeping<'b, S>,
        faults: &'a mut Vec<Fault>,
    ) -> Replay<'a, 'b, S> {
        let by_id = groups.iter().enumerate().map(|(at, group)| (group.id().0, at)).collect();
        Replay {
            me,
            groups,
            own,
            by_id,
            early: HashMap::default(),
            ordered: HashMap::default(),
            lost: Vec::new(),
            faults,
        }
    }

    pub(super) fn take(&mut self, recovered: &Recovered<'_>) {
        if !recovered.is_needed {
            return;
        }
        let known = self.by_id.get(&recovered.group).copied().or_else(|| self.load(recovered.group));
        match known {
            // A checkpoint of the group makes up for its birth.
            Some(_) if is_birth(recovered.bytes) => {}
            Some(at) => self.restore(at, recovered.kind, recovered.bytes),
            None if is_birth(recovered.bytes) => self.bear(recovered.group, recovered.bytes),
            None => {
                let early = self.early.entry(recovered.group).or_default();
                early.push((recovered.kind, recovered.bytes.to_vec()));
            }
        }
    }

    /// An own group that slept in the store.
    fn load(&mut self, group: u64) -> Option<usize> {
        let loaded = self.own.load(GroupId(group), self.faults)?;
        self.groups.push(loaded);
        self.by_id.insert(group, self.groups.len() - 1);
        Some(self.groups.len() - 1)
    }

    pub(super) fn finish(mut self) -> Rest {
        let mut ordered: Vec<(usize, Vec<(Order, AnyRecord)>)> = self.ordered.drain().collect();
        ordered.sort_unstable_by_key(|(at, _)| *at);
        for (at, mut records) in ordered {
            records.sort_by_key(|(order, _)| *order);
            for ((.., number), record) in records {
                self.restore_record(at, record, number);
            }
        }
        let of_lost = |group: &u64| self.lost.contains(&GroupId(*group));
        let mut strangers: Vec<u64> = self.early.keys().copied().filter(|group| !of_lost(group)).collect();
        strangers.sort_unstable();
        Rest { strangers, lost: self.lost }
    }

    fn bear(&mut self, group: u64, birth: &[u8]) {
        match decode_birth(GroupId(group), birth, self.me) {
            Ok(born) => {
                let at = self.groups.len();
                self.groups.push(born);
                self.by_id.insert(group, at);
                for (kind, bytes) in self.early.remove(&group).unwrap_or_default() {
                    self.restore(at, kind, &bytes);
                }
            }
            Err(malformed) => {
                self.lost.push(GroupId(group));
                let (words, group) = (malformed.to_string(), GroupId(group));
                let (doing, namespace) = ("reading its birth", ROOT_NAMESPACE);
                self.faults.push(Fault { group, namespace, doing, words, is_panic: false, is_quarantined: true });
            }
        }
    }

    fn restore(&mut self, at: usize, kind: Kind, bytes: &[u8]) {
        let group = &mut self.groups[at];
        if group.state == GroupState::Quarantined {
            return;
        }
        let record = match group.replica.decode_record(bytes) {
            Ok(record) => record,
            Err(malformed) => {
                let unreadable = Unreadable::Malformed(malformed.to_string());
                return give_up_unreadable(group, self.me, "reading its log", unreadable, self.faults);
            }
        };
        let covered = matches!(kind, Kind::Slot(slot) if slot < group.checkpoint.next_slot.0);
        group.checkpoint.bytes += if covered { 0 } else { bytes.len() as u64 };
        group.checkpoint.changed = true;
        match record.order(kind) {
            // What the store holds of a register is newer.
            Some(_) if covered && matches!(record, AnyRecord::Register(_)) => {}
            Some(order) => self.ordered.entry(at).or_default().push((order, record)),
            None => self.restore_record(at, record, Slot(0)),
        }
    }

    fn restore_record(&mut self, at: usize, record: AnyRecord, number: Slot) {
        let group = &mut self.groups[at];
        if group.state == GroupState::Quarantined {
            return;
        }
        if let Err(words) = isolate(|| group.replica.restore_record(record, number)) {
            give_up_unreadable(group, self.me, "reading its log", Unreadable::Panicked(words), self.faults);
        }
    }
}
