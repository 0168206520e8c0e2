//! Objects that follow their clients: groups of their own, at the node where they are asked for.

use std::collections::{BTreeMap, BTreeSet};

use quorate_control::follow::{Change, Follower, Object, Settings, Step};

use super::{Fields, LOOKED_AT, Options, Place, listed, namespaces, shown};
use crate::client::Client;
use crate::demand::Demand;
use crate::failure::Failure;
use crate::output::{complain, say};

pub(super) struct Following {
    settings: Settings,
    follower: Follower,
    /// What each object that was told of is called here.
    objects: BTreeMap<String, (u32, Vec<u8>)>,
}

impl Following {
    pub(super) fn new(options: &Options) -> Following {
        let rounds = if options.once { 1 } else { Settings::default().rounds };
        let settings = Settings { rounds, count_max: options.top.into(), ..Settings::default() };
        Following { settings, follower: Follower::default(), objects: BTreeMap::new() }
    }

    /// Gives objects groups where they are asked for, and takes them back. How many changes were refused.
    pub(super) fn end_round(&mut self, options: &Options, demand: &Demand) -> Result<usize, Failure> {
        let is_fit = |node: &&Fields| node.word("state") == "live" && node.word("draining") == "no";
        let nodes = listed(options, "NODE")?;
        let fit: BTreeSet<String> = nodes.iter().filter(is_fit).map(|node| node.word("name")).collect();
        let objects = self.look(options, demand)?;
        let changes = self.follower.end_round(&objects, &fit, &self.settings);
        Ok(changes.iter().filter(|change| !self.carry_out(options, change)).count())
    }

    /// The objects that are asked for most, and those that have been given groups, with what they live in.
    fn look(&mut self, options: &Options, demand: &Demand) -> Result<Vec<Object>, Failure> {
        let namespaces = namespaces(options)?;
        let may_follow = |namespace: &u32| {
            let is = |fields: &Fields, name: &str, word: &str| fields.word(name) == word;
            namespaces.get(namespace).is_some_and(|fields| {
                is(fields, "protocol", "paxos") && is(fields, "groups", "volumes") && !is(fields, "reads", "routed")
            })
        };
        let hot = demand.hot().into_iter().take(LOOKED_AT).map(|((namespace, key), _)| (*namespace, key.clone()));
        let promoted = self.follower.promoted().filter_map(|id| self.objects.get(id).cloned());
        let wanted: BTreeSet<(u32, Vec<u8>)> =
            hot.chain(promoted).filter(|(namespace, _)| may_follow(namespace)).collect();
        let mut by_namespace: BTreeMap<u32, Vec<&[u8]>> = BTreeMap::new();
        for (namespace, key) in &wanted {
            by_namespace.entry(*namespace).or_default().push(key);
        }
        let mut objects = Vec::new();
        let mut names = BTreeMap::new();
        for (namespace, keys) in by_namespace {
            for (key, group) in keys.iter().zip(shown(options, namespace, &keys)?) {
                let name = (namespace, key.to_vec());
                let id = Place::Object { namespace, key: key.to_vec() }.name();
                let is_own = group.word("kind") == "own";
                if group.word("protocol") != "paxos" || group.word("state") == "stopping" {
                    continue;
                }
                objects.push(Object {
                    id: id.clone(),
                    entered: demand.entered.get(&name).cloned().unwrap_or_default(),
                    has_own_group: is_own,
                    members: group.word("members").split(',').map(|member| member.trim().to_owned()).collect(),
                    coordinator: group.word("coordinator"),
                });
                names.insert(id, name);
            }
        }
        // Of what is gone, or somebody else has made something else of, nothing is to be taken back.
        let lost: Vec<String> =
            self.follower.promoted().filter(|id| !names.contains_key(*id)).map(str::to_owned).collect();
        lost.iter().for_each(|id| self.follower.forget(id));
        self.objects = names;
        Ok(objects)
    }

    /// False if it was refused.
    fn carry_out(&mut self, options: &Options, change: &Change) -> bool {
        let Change { id, step, reason } = change;
        let Some((namespace, key)) = self.objects.get(id) else { return false };
        let (word, members) = match step {
            Step::Promote { members } => ("PROMOTE", Some(members.join(","))),
            Step::Move { members } => ("MOVE", Some(members.join(","))),
            Step::Demote => ("DEMOTE", None),
        };
        let what = match &members {
            Some(members) => format!("a group of its own on {members}"),
            None => "back in its volume".to_owned(),
        };
        if options.dry_run {
            say(format_args!("{id}: would be {what}: {reason}"));
            return true;
        }
        let mut words = vec![b"QUORATE".to_vec(), b"GROUP".to_vec(), word.as_bytes().to_vec(), key.clone()];
        words.extend(members.into_iter().flat_map(|members| [b"MEMBERS".to_vec(), members.into_bytes()]));
        let told =
            Client::connect_to_namespace(&options.endpoint, *namespace).and_then(|mut client| client.ask(&words));
        match told {
            Ok(_) => say(format_args!("{id}: {what}: {reason}")),
            Err(Failure(why)) => {
                complain(format_args!("{id} stays where it is: {why}"));
                return false;
            }
        }
        self.follower.note(change);
        true
    }
}
