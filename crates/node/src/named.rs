//! Which own groups of a volume name nodes, and how many name each.
//!
//! All of this follows from the records. Those that name somebody are never swapped out, so it can be made from what is in memory; it is
//! kept up to date from then on, since a volume may have very many.

use std::collections::{BTreeMap, BTreeSet};

use crate::machine::Machine;
use crate::volume::{Children, OwnRecord, Record};

impl Record {
    /// Nodes that are members because they are named, or are to be: not those that are members because they are the volume's.
    pub(crate) fn named_nodes(&self) -> BTreeSet<u32> {
        let mut nodes: BTreeSet<u32> = match &self.place {
            OwnRecord::Paxos { members } => members.iter().copied().collect(),
            OwnRecord::Led { record, .. } => record.named().collect(),
        };
        if let Some(plan) = &self.becomes {
            nodes.extend(if plan.protocol.is_led() { plan.led_members() } else { &plan.members });
        }
        nodes
    }
}

impl Children {
    /// Of a volume without own groups.
    pub(crate) fn none_yet() -> Children {
        Children { named: Some(BTreeMap::new()), on_nodes: Some(BTreeMap::new()), ..Children::default() }
    }

    /// One more.
    pub(crate) fn count(&mut self, record: &Record) {
        if let Some(on_nodes) = &mut self.on_nodes {
            record.named_nodes().into_iter().for_each(|node| *on_nodes.entry(node).or_default() += 1);
        }
    }

    /// One less.
    fn discount(&mut self, record: &Record) {
        let Some(on_nodes) = &mut self.on_nodes else { return };
        for node in record.named_nodes() {
            let Some(count) = on_nodes.get_mut(&node) else { continue };
            *count -= 1;
            if *count == 0 {
                on_nodes.remove(&node);
            }
        }
    }

    /// How many own groups name this node.
    pub(crate) fn count_on(&self, node: u32) -> u64 {
        self.on_nodes.as_ref().and_then(|on_nodes| on_nodes.get(&node)).copied().unwrap_or(0)
    }

    /// From this number on, in their order, those of which somebody may be named.
    pub(crate) fn named_from(&self, number: u64) -> impl Iterator<Item = (u64, &[u8])> {
        let mut named = self.named.iter().flat_map(move |named| named.range(number..)).peekable();
        let mut led = self.led.range(number..).peekable();
        std::iter::from_fn(move || {
            let is_named_next = match (named.peek(), led.peek()) {
                (Some((named, _)), Some((led, _))) => named < led,
                (named, _) => named.is_some(),
            };
            let next = if is_named_next { named.next() } else { led.next() };
            next.map(|(number, name)| (*number, &name[..]))
        })
    }
}

impl Machine {
    pub(crate) fn children_mut(&mut self) -> &mut Children {
        self.children.get_or_insert_with(|| Box::new(Children::none_yet()))
    }

    /// A record is another one, or is gone.
    pub(crate) fn count_anew(&mut self, before: Option<Record>, after: Option<&Record>) {
        let Some(children) = &mut self.children else { return };
        if let Some(before) = before {
            children.discount(&before);
        }
        if let Some(after) = after {
            children.count(after);
        }
    }

    /// The own groups that are no led ones, and whose members were named.
    pub(crate) fn names_of_named(&self) -> BTreeMap<u64, Vec<u8>> {
        let mut named = BTreeMap::new();
        self.for_each_record(|name, record| match record {
            Record { number, place: OwnRecord::Paxos { members }, .. } if !members.is_empty() => {
                named.insert(number, name.to_vec());
            }
            _ => {}
        });
        named
    }

    fn nodes_counted(&self) -> BTreeMap<u32, u64> {
        let mut children = Children::none_yet();
        self.for_each_record(|_, record| children.count(&record));
        children.on_nodes.unwrap_or_default()
    }

    fn for_each_record(&self, mut visit: impl FnMut(&[u8], Record)) {
        if let Some(objects) = self.objects() {
            objects.for_each_away(|name, bytes| {
                if let Ok(record) = Record::decode(bytes) {
                    visit(name, record);
                }
            });
        }
    }

    /// Whether what is kept of names and nodes is what follows from the records.
    pub(crate) fn keeps_names_right(&self) -> bool {
        self.children().is_none_or(|children| {
            children.named.as_ref().is_none_or(|named| *named == self.names_of_named())
                && children.on_nodes.as_ref().is_none_or(|on_nodes| *on_nodes == self.nodes_counted())
        })
    }

    /// Finds own groups by their numbers, and by who is named, from now on, without looking at all of them.
    pub(crate) fn keep_names(&mut self) {
        if self.children().is_some_and(|children| children.named.is_none() || children.on_nodes.is_none()) {
            let (named, on_nodes) = (self.names_of_named(), self.nodes_counted());
            if let Some(children) = &mut self.children {
                (children.named, children.on_nodes) = (Some(named), Some(on_nodes));
            }
        }
    }
}
