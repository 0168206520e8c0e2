//! What people are shown of the group that a key is in. Of chains all members are asked how far they are.

use hashbrown::HashMap;
use quorate_protocol::chain::Membership;
use quorate_protocol::{Epoch, GroupId, Instant, NodeId, Slot};

use super::Host;
use super::Timer;
use super::batches::reply_of;
use super::directory::Place;
use crate::answer::AdminReply;
use crate::chain_view::{ChainRest, ChainView};
use crate::entry::Target;
use crate::frame::Message;
use crate::hash::FixedState;
use crate::replica::Protocol;
use crate::volume::{Plan, Record, own_group};

/// How long members of chains that are not suspected are waited for.
const PATIENCE_US: u64 = 500_000;

/// What a volume says of a name.
pub(super) struct Shown {
    volume: u32,
    /// Of an object with a group of its own.
    record: Option<Record>,
}

impl Shown {
    pub(super) fn in_volume(volume: u32) -> Shown {
        Shown { volume, record: None }
    }

    /// `None` for an error.
    pub(super) fn told(volume: u32, line: &[u8]) -> Option<Shown> {
        (!line.starts_with(b"ERR")).then(|| Shown { volume, record: Record::decode(line).ok() })
    }
}

/// What members of chains have said.
#[derive(Default)]
pub(super) struct Views {
    asked_at: Option<Instant>,
    awaited: Vec<NodeId>,
    /// Those that have answered, be it that they have no replica.
    answered: Vec<NodeId>,
    of: HashMap<(GroupId, NodeId), ChainView, FixedState>,
}

impl Views {
    pub(super) fn are_asked(&self) -> bool {
        self.asked_at.is_some()
    }

    pub(super) fn are_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    fn take(&mut self, from: NodeId, views: &[ChainView]) {
        self.awaited.retain(|&node| node != from);
        self.answered.push(from);
        self.of.extend(views.iter().map(|view| ((view.group, from), *view)));
    }
}

impl Host {
    /// Asks the members of the chains among those that are to be shown. Their answers go to the batch.
    pub(super) fn ask_for_views<'a>(
        &mut self,
        batch: u64,
        namespace: u32,
        shown: impl Iterator<Item = &'a Shown>,
    ) -> Views {
        let mut questions: HashMap<NodeId, Vec<GroupId>, FixedState> = HashMap::default();
        for shown in shown {
            let Some(place) = self.place_shown(namespace, shown).filter(|place| place.protocol.is_chain()) else {
                continue;
            };
            let (members, joining) = self.chain_known(&place);
            for member in members.into_iter().chain(joining) {
                questions.entry(member).or_default().push(place.group);
            }
        }
        let mut views = Views { asked_at: Some(self.clock.now()), ..Views::default() };
        for (node, mut groups) in questions {
            groups.sort_unstable();
            groups.dedup();
            if node == self.settings.node {
                views.take(node, &self.views_here(&groups));
            } else if !self.peers.is_suspected(node) {
                views.awaited.push(node);
                self.outbox.send(node, &Message::ViewQuestion { nonce: batch, groups });
            }
        }
        if views.are_awaited() {
            self.timers.set(self.clock.now().after_us(PATIENCE_US), Timer::Views { batch });
        }
        views
    }

    pub(super) fn handle_view_question(&mut self, from: NodeId, nonce: u64, groups: &[GroupId]) {
        let views = self.views_here(groups);
        self.outbox.send(from, &Message::ViewAnswer { nonce, views });
    }

    pub(super) fn handle_view_answer(&mut self, from: NodeId, batch: u64, views: &[ChainView]) {
        if let Some(open) = self.views_of_batch(batch).filter(|open| open.awaited.contains(&from)) {
            open.take(from, views);
            self.finish_batch(batch);
        }
    }

    pub(super) fn views_timer_fired(&mut self, batch: u64) {
        if let Some(open) = self.views_of_batch(batch) {
            open.awaited.clear();
            self.finish_batch(batch);
        }
    }

    fn views_here(&self, groups: &[GroupId]) -> Vec<ChainView> {
        groups.iter().filter_map(|group| self.view_here(*group)).collect()
    }

    fn view_here(&self, group: GroupId) -> Option<ChainView> {
        let Some(index) = self.find(group) else { return self.view_at_rest(group) };
        let here = &self.groups[index as usize];
        let chain = here.replica.chain().filter(|_| here.is_alive())?;
        let lease_us = chain.status().lease_until.0.saturating_sub(self.clock.now().0);
        let (epoch, received, decided) = (chain.epoch(), chain.received(), chain.next_slot());
        let rest = if here.own.is_some() && chain.is_idle() { ChainRest::Idle } else { ChainRest::Active };
        Some(ChainView { group, rest, epoch, received, decided, lease_us })
    }

    fn view_at_rest(&self, group: GroupId) -> Option<ChainView> {
        let view = |rest, epoch, next_slot| ChainView {
            group,
            rest,
            epoch,
            received: next_slot,
            decided: next_slot,
            lease_us: 0,
        };
        match self.here.resting.chain(group) {
            Some((epoch, next_slot)) => Some(view(ChainRest::Idle, epoch, next_slot)),
            None if self.here.all.contains(group.0) => Some(view(ChainRest::Paused, Epoch(0), Slot(0))),
            None => None,
        }
    }

    /// The place of what is shown, as far as it is led by its parent, or else of its volume.
    fn place_shown(&self, namespace: u32, shown: &Shown) -> Option<Place> {
        let target = Target::Volume { namespace, index: shown.volume };
        let place = self.directory.resolve(target).ok()?;
        let own = shown.record.as_ref().and_then(|record| Some(place.of_own(record.protocol(), record.led()?)));
        Some(own.unwrap_or_else(|| place.clone()))
    }

    /// Who is in a chain, and who is joining. The replica here may have heard of a change first.
    fn chain_known(&self, place: &Place) -> (Vec<NodeId>, Option<NodeId>) {
        let here = self.find(place.group).and_then(|index| self.groups[index as usize].replica.chain());
        let newer = here.map(|chain| &**chain.membership()).filter(|newer| newer.epoch >= place.epoch);
        match newer {
            Some(Membership { members, joining, .. }) => (members.to_vec(), *joining),
            None => (place.members.clone(), place.joining),
        }
    }

    pub(super) fn name_of(&self, node: NodeId) -> String {
        self.node_name(node).unwrap_or("?").to_owned()
    }

    /// What is known of a key's group, here and from its members.
    pub(super) fn show(&self, namespace: u32, shown: &Shown, views: &Views) -> AdminReply {
        let Shown { volume, record } = shown;
        let target = Target::Volume { namespace, index: *volume };
        let (Ok(of_volume), Some(place)) = (self.directory.resolve(target), self.place_shown(namespace, shown)) else {
            return reply_of(b"ERR no such volume");
        };
        let text = |text: &str| AdminReply::Text(text.into());
        let is_led = record.as_ref().is_none_or(|record| record.led().is_some());
        let group = match record {
            Some(record) if !is_led => own_group(place.group, record.number),
            _ => place.group,
        };
        let (kind, state, members) = match record {
            Some(record) => {
                let state = match &record.becomes {
                    Some(_) => "changing",
                    None if record.stopping => "stopping",
                    None => self.state_of_own(group),
                };
                ("own", state, record.member_ids(&of_volume.members))
            }
            None => ("volume", "active", place.members.clone()),
        };
        let epoch = if is_led { place.epoch.0 } else { 0 };
        let here = self.find(group).map(|index| &*self.groups[index as usize]);
        let rests = self.here.resting.coordinator(group);
        let coordinator = here.and_then(|group| group.replica.coordinator()).or(rests).unwrap_or(members[0]);
        let members = members.into_iter().map(|node| AdminReply::Text(self.name_of(node))).collect();
        let mut entries = vec![
            ("group".to_owned(), AdminReply::Int(group.0 as i64)),
            ("kind".into(), text(kind)),
            ("protocol".into(), text(place.protocol.word())),
            ("epoch".into(), AdminReply::Int(i64::from(epoch))),
            ("members".into(), AdminReply::List(members)),
            ("coordinator".into(), AdminReply::Text(self.name_of(coordinator))),
            ("state".into(), text(state)),
            ("volume".into(), AdminReply::Int(i64::from(*volume))),
        ];
        if let Some(plan) = record.as_ref().and_then(|record| record.becomes.as_ref()) {
            entries.push(("becomes".into(), AdminReply::Text(self.describe(plan))));
        }
        match place.protocol {
            Protocol::Register => {
                entries.retain(|(name, _)| name != "coordinator");
                self.show_register(&place, here, &mut entries);
                self.show_part(place.group, &mut entries);
            }
            Protocol::Chain => self.show_chain(&place, views, &mut entries),
            Protocol::Paxos => {}
        }
        if let Some(here) = here.filter(|_| place.protocol.is_ordered()) {
            entries.push(("slots".into(), AdminReply::Int(here.replica.next_slot().0 as i64)));
        }
        AdminReply::Map(entries)
    }

    /// What a group is to become.
    fn describe(&self, plan: &Plan) -> String {
        let members: Vec<String> = plan.members.iter().map(|&member| self.name_of(NodeId(member))).collect();
        let on = if members.is_empty() { "the volume's members".to_owned() } else { members.join(",") };
        match plan.protocol.is_register() {
            true => format!("{} on {on}, quorum {}", plan.protocol.word(), plan.quorum.words()),
            false => format!("{} on {on}", plan.protocol.word()),
        }
    }

    /// The chain as it is known here, and what its members say of themselves.
    fn show_chain(&self, place: &Place, views: &Views, entries: &mut Vec<(String, AdminReply)>) {
        let (members, joining) = self.chain_known(place);
        let mut drawn = members.iter().map(|&node| self.name_of(node)).collect::<Vec<_>>().join(" -> ");
        if let Some(joining) = joining {
            drawn = format!("{drawn} .. {} joining", self.name_of(joining));
        }
        let (head, tail) = (members[0], members[members.len() - 1]);
        let of = |node: NodeId| views.of.get(&(place.group, node));
        let answers = |node: NodeId| views.answered.contains(&node);
        entries.push(("chain".into(), AdminReply::Text(drawn)));
        entries.push(("head".into(), AdminReply::Text(self.name_of(head))));
        entries.push(("tail".into(), AdminReply::Text(self.name_of(tail))));
        if let Some(view) = of(head) {
            entries.push(("in_flight".into(), AdminReply::Int(view.in_flight())));
        }
        let positions =
            members.iter().copied().chain(joining).map(|node| self.show_member(node, answers(node), of(node)));
        entries.push(("positions".into(), AdminReply::List(positions.collect())));
    }

    fn show_member(&self, node: NodeId, answers: bool, view: Option<&ChainView>) -> AdminReply {
        let mut entries = vec![("node".to_owned(), AdminReply::Text(self.name_of(node)))];
        let state = match view {
            Some(view) => view.rest.word(),
            None if answers => "no replica",
            None => "no answer",
        };
        entries.push(("state".to_owned(), AdminReply::Text(state.to_owned())));
        if let Some(view) = view.filter(|view| view.rest != ChainRest::Paused) {
            entries.extend([
                ("epoch".to_owned(), AdminReply::Int(i64::from(view.epoch.0))),
                ("received".to_owned(), AdminReply::Int(view.received.0 as i64)),
                ("decided".to_owned(), AdminReply::Int(view.decided.0 as i64)),
                ("lease_ms".to_owned(), AdminReply::Int((view.lease_us / 1000) as i64)),
            ]);
        }
        AdminReply::Map(entries)
    }
}
