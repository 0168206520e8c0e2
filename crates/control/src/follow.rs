//! Which objects should have a group of their own at the node where clients ask for them: a pure function of where commands enter.
//!
//! An object whose commands nearly all enter at one node is coordinated there, with no message for a read under a lease, and no word to another
//! node and back for a write. What is asked for everywhere, or little, stays in its volume, which costs less.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Fewer commands a second are not worth a group.
    pub rate_min: f64,
    /// The share of the commands, 0 to 1, that enters at one node whose object follows it.
    pub share_min: f64,
    /// An object that has followed stays while so large a share of the commands, and half of `rate_min`, enters there.
    pub stays_share: f64,
    /// For so many rounds in a row.
    pub rounds: u32,
    /// So many objects get groups in one round, those that are asked for most.
    pub count_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { rate_min: 100.0, share_min: 0.8, stays_share: 0.5, rounds: 2, count_max: 16 }
    }
}

/// An object, where it is, and where it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Unique.
    pub id: String,
    /// Commands a second, by the node where they enter.
    pub entered: BTreeMap<String, f64>,
    pub has_own_group: bool,
    /// Of its own group, or of its volume.
    pub members: Vec<String>,
    pub coordinator: String,
}

impl Object {
    fn rate(&self) -> f64 {
        self.entered.values().sum()
    }

    fn share(&self, node: &str) -> f64 {
        self.entered.get(node).map_or(0.0, |entered| entered / self.rate().max(f64::MIN_POSITIVE))
    }

    /// Where most of its commands enter.
    fn busiest(&self) -> Option<&str> {
        self.entered.iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(node, _)| node.as_str())
    }

    /// As many members as now, of which this node is the first. Those that are fit go before those that are not.
    fn members_around(&self, node: &str, fit: &BTreeSet<String>) -> Vec<String> {
        let others = self.members.iter().filter(|member| *member != node);
        let (well, missed): (Vec<_>, Vec<_>) = others.partition(|member| fit.contains(*member));
        let all = [node].into_iter().chain(well.into_iter().chain(missed).map(String::as_str));
        all.take(self.members.len().max(1)).map(str::to_owned).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A group of its own, with these members, of which the first coordinates.
    Promote { members: Vec<String> },
    /// Its own group gets other members.
    Move { members: Vec<String> },
    /// Back to its volume.
    Demote,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub id: String,
    pub step: Step,
    /// One sentence.
    pub reason: String,
}

/// What is remembered from round to round.
#[derive(Debug, Default)]
pub struct Follower {
    /// What would be done, and for how many rounds in a row.
    wished: BTreeMap<String, (Option<String>, u32)>,
    /// Those that were given groups: they lose them once they are not asked for as they were.
    promoted: BTreeSet<String>,
}

impl Follower {
    /// Objects that must be told of in the next round, whether or not anybody has asked for them.
    pub fn promoted(&self) -> impl Iterator<Item = &str> {
        self.promoted.iter().map(String::as_str)
    }

    /// The change was carried out.
    pub fn note(&mut self, change: &Change) {
        self.wished.remove(&change.id);
        match change.step {
            Step::Promote { .. } => drop(self.promoted.insert(change.id.clone())),
            Step::Move { .. } => {}
            Step::Demote => self.forget(&change.id),
        }
    }

    /// The object has gone, or somebody else looks after it.
    pub fn forget(&mut self, id: &str) {
        self.promoted.remove(id);
        self.wished.remove(id);
    }

    /// What is to be done now. `fit` are the nodes that may have groups.
    pub fn end_round(&mut self, objects: &[Object], fit: &BTreeSet<String>, settings: &Settings) -> Vec<Change> {
        let mut hottest: Vec<&Object> = objects.iter().collect();
        hottest.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
        let mut changes = Vec::new();
        let mut wished = BTreeMap::new();
        for object in hottest {
            let Some(wish) = self.wish(object, fit, settings) else { continue };
            let before = self.wished.get(&object.id).filter(|(before, _)| *before == wish);
            let rounds = before.map_or(1, |(_, rounds)| rounds + 1);
            wished.insert(object.id.clone(), (wish.clone(), rounds));
            if rounds >= settings.rounds && changes.len() < settings.count_max {
                changes.push(change(object, wish, fit));
            }
        }
        self.wished = wished;
        changes
    }

    /// The node at which the object should be coordinated; `Some(None)`: in its volume. Nothing where it is well where it is.
    fn wish(&self, object: &Object, fit: &BTreeSet<String>, settings: &Settings) -> Option<Option<String>> {
        let busiest = object.busiest().filter(|node| fit.contains(*node));
        let follows = |node: &&str| object.rate() >= settings.rate_min && object.share(node) >= settings.share_min;
        match busiest.filter(follows) {
            Some(node) if node == object.coordinator => None,
            Some(node) => Some(Some(node.to_owned())),
            None => {
                let is_asked_for = object.rate() >= settings.rate_min / 2.0;
                let stays = is_asked_for && object.share(&object.coordinator) >= settings.stays_share;
                let is_ours = object.has_own_group && self.promoted.contains(&object.id);
                (is_ours && !stays).then_some(None)
            }
        }
    }
}

fn change(object: &Object, wish: Option<String>, fit: &BTreeSet<String>) -> Change {
    let rate = object.rate();
    let (step, reason) = match wish {
        None => {
            (Step::Demote, format!("{rate:.0} commands a second, no longer most of them at {}", object.coordinator))
        }
        Some(node) => {
            let members = object.members_around(&node, fit);
            let percent = 100.0 * object.share(&node);
            let reason = format!(
                "{percent:.0}% of its {rate:.0} commands a second enter at {node}, and {} coordinates",
                object.coordinator
            );
            let step = if object.has_own_group { Step::Move { members } } else { Step::Promote { members } };
            (step, reason)
        }
    };
    Change { id: object.id.clone(), step, reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    fn fit() -> BTreeSet<String> {
        words("n1 n2 n3 n4").into_iter().collect()
    }

    fn object(members: &str, entered: &[(&str, f64)]) -> Object {
        let members = words(members);
        Object {
            id: "key".into(),
            entered: entered.iter().map(|(node, rate)| ((*node).to_owned(), *rate)).collect(),
            has_own_group: false,
            coordinator: members[0].clone(),
            members,
        }
    }

    /// As the cluster does it.
    fn apply(change: &Change, object: &mut Object, volume: &[String]) {
        match &change.step {
            Step::Promote { members } | Step::Move { members } => {
                assert_eq!(object.has_own_group, matches!(change.step, Step::Move { .. }));
                (object.has_own_group, object.members) = (true, members.clone());
            }
            Step::Demote => {
                assert!(object.has_own_group);
                (object.has_own_group, object.members) = (false, volume.to_vec());
            }
        }
        object.coordinator = object.members[0].clone();
    }

    fn once() -> Settings {
        Settings { rounds: 1, ..Settings::default() }
    }

    #[test]
    fn an_object_follows_its_clients_and_comes_back_when_they_have_gone() {
        let volume = words("n1 n2 n3");
        let mut object = object("n1 n2 n3", &[("n4", 900.0), ("n1", 100.0)]);
        let (settings, mut follower) = (Settings::default(), Follower::default());
        let mut round = |object: &mut Object| {
            let changes = follower.end_round(std::slice::from_ref(object), &fit(), &settings);
            for change in &changes {
                apply(change, object, &volume);
                follower.note(change);
            }
            changes
        };
        assert_eq!(round(&mut object), [], "one round says little");
        let [change] = &round(&mut object)[..] else { panic!("it follows") };
        assert_eq!(change.step, Step::Promote { members: words("n4 n1 n2") });
        assert_eq!(change.reason, "90% of its 1000 commands a second enter at n4, and n1 coordinates");
        assert_eq!(round(&mut object), []);
        object.entered = [("n2".into(), 500.0)].into();
        assert_eq!(round(&mut object), []);
        assert_eq!(round(&mut object)[0].step, Step::Move { members: words("n2 n4 n1") });
        object.entered = [("n2".into(), 60.0), ("n3".into(), 50.0)].into();
        assert_eq!((round(&mut object), round(&mut object)), (vec![], vec![]), "half of them still do");
        object.entered = [("n2".into(), 20.0)].into();
        assert_eq!(round(&mut object), []);
        assert_eq!(round(&mut object)[0].step, Step::Demote);
        assert_eq!((&object.members, follower.promoted().count()), (&volume, 0));
    }

    #[test]
    fn what_is_asked_for_everywhere_or_little_or_where_nothing_may_be_stays() {
        let mut follower = Follower::default();
        for entered in [&[("n4", 70.0), ("n1", 30.0)][..], &[("n4", 99.0)], &[("n9", 1000.0)], &[("n1", 1000.0)], &[]] {
            let object = object("n1 n2 n3", entered);
            assert_eq!(follower.end_round(&[object], &fit(), &once()), [], "{entered:?}");
        }
        // A group that somebody else has made follows, and is not taken away.
        let mut own = object("n1 n2 n3", &[]);
        own.has_own_group = true;
        assert_eq!(follower.end_round(std::slice::from_ref(&own), &fit(), &once()), []);
        own.entered = [("n3".into(), 1000.0)].into();
        let changes = follower.end_round(&[own], &fit(), &once());
        assert_eq!(changes[0].step, Step::Move { members: words("n3 n1 n2") });
    }

    #[test]
    fn members_that_are_missed_go_first() {
        let object = object("n1 n2 n3", &[("n4", 1000.0)]);
        let fit = words("n2 n3 n4").into_iter().collect();
        let changes = Follower::default().end_round(&[object], &fit, &once());
        assert_eq!(changes[0].step, Step::Promote { members: words("n4 n2 n3") });
    }

    #[test]
    fn the_hottest_go_first_and_the_same_demand_changes_nothing_twice() {
        let mut random = Random::new(3);
        let settings = Settings { count_max: 3, ..once() };
        for _ in 0..200 {
            let any = |at: u64, random: &mut Random| {
                let rates = ["n1", "n2", "n3", "n4"].map(|node| (node, (random.below(1000) >> random.below(8)) as f64));
                Object { id: format!("key{at}"), ..object("n1 n2 n3", &rates) }
            };
            let mut objects: Vec<Object> = (0..10).map(|at| any(at, &mut random)).collect();
            let mut follower = Follower::default();
            let mut rates = Vec::new();
            for _ in 0..10 {
                let changes = follower.end_round(&objects, &fit(), &settings);
                assert!(changes.len() <= 3);
                for change in &changes {
                    let object = objects.iter_mut().find(|object| object.id == change.id).expect("it is there");
                    apply(change, object, &words("n1 n2 n3"));
                    follower.note(change);
                    rates.push(object.rate());
                }
            }
            assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
            assert_eq!(follower.end_round(&objects, &fit(), &settings), []);
        }
    }
}
