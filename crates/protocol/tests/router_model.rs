//! A model check of the real `Router` and `Sessions`: every order of what may happen to two routers of one group, as far as a few
//! writes, reads, elections and messages that come twice go, and long random walks of more of them. No read may answer with less
//! than what anybody had been told before it began; as versions are in the order of the log, that is linearizability.
//!
//! Whoever drives the two has rules to keep as well. Each is left out once, and something has to be found.

mod harness;
#[path = "router_model/held.rs"]
mod held;
#[path = "router_model/paths.rs"]
mod paths;
#[path = "router_model/walk.rs"]
mod walk;
#[path = "router_model/world.rs"]
mod world;

use std::sync::atomic::{AtomicU32, Ordering};

use paths::{PATHS, Paths};
use quorate_protocol::router::Kgroup;
use stateright::{Checker, Model, Property};
use walk::walk;
use world::{Action, Omitted, Operation, Stage, Terms, World};

/// How often each may happen in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    ticks: u8,
    asks: [u8; 2],
    again: u8,
    resent: u8,
    given_up: u8,
    elections: u8,
    /// Of routers.
    restarts: u8,
}

/// What is looked at: everything that may happen after a certain moment.
#[derive(Clone, Copy)]
struct Story {
    /// All that was sent is delivered after each.
    before: &'static [Action],
    /// At which router each operation enters, and whether it writes.
    operations: &'static [(usize, bool)],
    /// How much faster than time the first router's clock goes.
    ppm: i64,
    budget: Budget,
}

struct Explored {
    terms: Terms,
    story: Story,
    paths: AtomicU32,
}

#[derive(Clone, Debug, PartialEq, Hash)]
struct State {
    world: World,
    left: Budget,
}

const READ: bool = false;
const WRITE: bool = true;
/// Leases last two ticks, and at their giver three.
const TICKS: Terms = Terms { left_us: 2, margin_us: 1, hold_us: 3, omitted: Omitted::Nothing };
const NONE: Budget = Budget { ticks: 0, asks: [0; 2], again: 0, resent: 0, given_up: 0, elections: 0, restarts: 0 };

/// The first router has a session, and the kgroup is shared with it.
const SHARED: &[Action] = &[Action::Ask { router: 0 }, Action::Begin { number: 0, at: None }];
/// So it is, and an election has not heard of what was proposed before it.
const LEFT_OVER: &[Action] = &[
    Action::Begin { number: 1, at: None },
    Action::Elect { member: 0, found: 0, restarts: false },
    Action::Pass { us: 3 },
    Action::Ask { router: 0 },
    Action::Begin { number: 0, at: None },
];

const WRITES: Story = Story {
    before: SHARED,
    operations: &[(0, READ), (0, WRITE), (1, WRITE), (0, READ)],
    ppm: 0,
    budget: Budget { ticks: 3, asks: [1, 0], given_up: 1, ..NONE },
};
const SESSIONS: Story = Story {
    before: &[],
    operations: &[(0, READ), (1, WRITE), (0, READ)],
    ppm: 0,
    budget: Budget { ticks: 2, asks: [3, 0], ..NONE },
};
const LOST: Story = Story {
    before: SHARED,
    operations: &[(0, READ), (0, WRITE), (0, READ), (1, READ), (0, READ)],
    ppm: 0,
    budget: Budget { ticks: 1, asks: [1, 0], given_up: 1, ..NONE },
};
const OTHERS: Story = Story {
    before: SHARED,
    operations: &[(0, READ), (0, WRITE), (1, READ), (0, READ)],
    ppm: 0,
    budget: Budget { ticks: 2, asks: [1, 0], again: 1, given_up: 1, ..NONE },
};
const ELECTIONS: Story = Story {
    before: LEFT_OVER,
    operations: &[(0, READ), (1, WRITE), (0, READ)],
    ppm: 0,
    budget: Budget { ticks: 3, asks: [1, 0], elections: 1, resent: 1, ..NONE },
};
const TAKE_OVERS: Story = Story {
    before: SHARED,
    operations: &[(0, READ), (1, WRITE), (0, READ)],
    ppm: 0,
    budget: Budget { ticks: 3, asks: [1, 0], elections: 1, resent: 1, ..NONE },
};
const RESTARTS: Story = Story {
    before: SHARED,
    operations: &[(0, READ), (0, WRITE), (0, READ), (1, READ)],
    ppm: 0,
    budget: Budget { ticks: 1, asks: [1, 0], resent: 1, restarts: 1, again: 1, ..NONE },
};

/// The margin is as much as that clock is slow.
const SLOW: Story = Story {
    before: SHARED,
    operations: &[(0, READ), (1, WRITE), (0, READ)],
    ppm: -200_000,
    budget: Budget { ticks: 5, ..NONE },
};
const SLOW_TICKS: Terms = Terms { left_us: 4, margin_us: 1, hold_us: 5, omitted: Omitted::Nothing };

fn kgroup() -> Kgroup {
    Kgroup::of_hash_slot(0)
}

impl Model for Explored {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut world = World::new(self.terms, &[self.story.ppm, 0], &[0, 0], 1);
        let operation = |&(router, is_write): &(usize, bool)| Operation::new(router, kgroup(), is_write);
        world.operations = self.story.operations.iter().map(operation).collect();
        let mut paths = Paths::default();
        for action in self.story.before {
            world.apply(action, &mut paths);
            while let Some(message) = world.network.first().cloned() {
                world.apply(&Action::Deliver { message, again: false }, &mut paths);
            }
        }
        vec![State { world, left: self.story.budget }]
    }

    fn actions(&self, State { world, left }: &State, actions: &mut Vec<Action>) {
        let is_read = |operation: &Operation| !operation.is_write && operation.stage != Stage::Ended;
        if world.broken.is_some() || !world.operations.iter().any(is_read) {
            return;
        }
        if left.ticks > 0 {
            actions.push(Action::Pass { us: 1 });
        }
        actions.extend((0..2).filter(|&router| left.asks[router] > 0).map(|router| Action::Ask { router }));
        for (number, operation) in world.operations.iter().enumerate() {
            let like = |other: &Operation| (other.router, other.is_write) == (operation.router, operation.is_write);
            match operation.stage {
                // Of equal ones the first comes first.
                Stage::Coming
                    if !world.operations[..number].iter().any(|other| other.stage == Stage::Coming && like(other)) =>
                {
                    let places = if operation.is_write { Vec::new() } else { world.places(number) };
                    if places.is_empty() {
                        actions.push(Action::Begin { number, at: None });
                    }
                    actions.extend(places.into_iter().map(|member| Action::Begin { number, at: Some(member) }));
                }
                Stage::Open => {
                    if left.resent > 0 {
                        actions.push(Action::SendAgain { number });
                    }
                    if left.given_up > 0 && operation.is_write {
                        actions.push(Action::GiveUp { number });
                    }
                }
                _ => {}
            }
        }
        for message in &world.network {
            actions.push(Action::Deliver { message: message.clone(), again: false });
            if left.again > 0 {
                actions.push(Action::Deliver { message: message.clone(), again: true });
            }
        }
        if world.can_decide() {
            actions.push(Action::Decide);
        }
        actions.extend((0..2).filter(|&member| world.is_behind(member)).map(|member| Action::Execute { member }));
        if left.elections > 0 {
            let found: &[u32] = if world.left_over_count() > 0 { &[0, u32::MAX] } else { &[0] };
            for (member, restarts) in [(0, false), (0, true), (1, false), (1, true)] {
                actions.extend(found.iter().map(|&found| Action::Elect { member, found, restarts }));
            }
        }
        if left.restarts > 0 {
            actions.push(Action::Restart { router: 0 });
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let State { mut world, mut left } = state.clone();
        match action {
            Action::Pass { .. } => left.ticks -= 1,
            Action::Ask { router } => left.asks[router] -= 1,
            Action::SendAgain { .. } => left.resent -= 1,
            Action::GiveUp { .. } => left.given_up -= 1,
            Action::Deliver { again: true, .. } => left.again -= 1,
            Action::Elect { .. } => left.elections -= 1,
            Action::Restart { .. } => left.restarts -= 1,
            _ => {}
        }
        let mut paths = Paths::default();
        world.apply(&action, &mut paths);
        self.paths.fetch_or(paths.0, Ordering::Relaxed);
        Some(State { world, left })
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("no read is stale", |_, state: &State| state.world.broken.is_none())]
    }
}

/// To the last state, unless a read is stale.
fn explore(terms: Terms, story: Story) -> (usize, Paths, Option<String>) {
    let model = Explored { terms, story, paths: AtomicU32::new(0) };
    let began = std::time::Instant::now();
    let checker = model.checker().threads(2).spawn_dfs().join();
    let (count, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{count} states, up to {depth} steps deep, {:?}", began.elapsed());
    let broken = checker.discoveries().into_values().next();
    let paths = Paths(checker.model().paths.load(Ordering::Relaxed));
    (count, paths, broken.map(|path| format!("{:#?}", path.into_actions())))
}

#[test]
fn in_every_order_two_routers_read_nothing_stale() {
    let mut paths = Paths::default();
    for (story, states) in [
        (WRITES, 100_000),
        (SESSIONS, 500_000),
        (LOST, 50_000),
        (OTHERS, 100_000),
        (ELECTIONS, 50_000),
        (TAKE_OVERS, 100_000),
        (RESTARTS, 100_000),
    ] {
        let (count, taken, broken) = explore(TICKS, story);
        assert_eq!(broken, None);
        assert!(count > states, "{count} states of {:?}", story.operations);
        paths.0 |= taken.0;
    }
    for path in PATHS {
        assert!(paths.contains(path), "{path:?} is not taken");
    }
}

#[test]
fn on_long_walks_several_routers_read_nothing_stale() {
    let mut paths = Paths::default();
    assert_eq!((0..3_000).find_map(|seed| walk(seed, walk::TERMS, &mut paths)), None);
    for path in PATHS {
        assert!(paths.contains(path), "{path:?} is not taken");
    }
}

/// The seed of a walk on which a read is stale, if there is one.
fn find(terms: Terms, seeds: u64) -> Option<u64> {
    (0..seeds).find(|&seed| walk(seed, terms, &mut Paths::default()).is_some())
}

#[test]
fn without_any_rule_of_elections_a_read_is_stale() {
    for omitted in [Omitted::Hold, Omitted::HoldOfAdopted, Omitted::Elected, Omitted::Kept] {
        let (count, _, broken) = explore(Terms { omitted, ..TICKS }, ELECTIONS);
        assert!(broken.is_some(), "{omitted:?} is not found in {count} states");
    }
}

#[test]
fn without_any_other_rule_a_read_is_stale() {
    for omitted in
        [Omitted::InHand, Omitted::AdoptedFirst, Omitted::Process, Omitted::Slot, Omitted::Tag, Omitted::Lost]
    {
        let seed = find(Terms { omitted, ..walk::TERMS }, 30_000);
        println!("{omitted:?}: {seed:?}");
        assert!(seed.is_some(), "{omitted:?} is not found");
    }
}

#[test]
fn a_clock_may_be_slow_by_the_margin() {
    assert_eq!(explore(SLOW_TICKS, SLOW).2, None);
    assert!(explore(Terms { omitted: Omitted::Margin, ..SLOW_TICKS }, SLOW).2.is_some());
}

#[cfg(feature = "planted")]
#[test]
#[ignore = "mutates the whole process: run alone"]
fn planted_bugs_are_found() {
    use quorate_protocol::planted::{Planted, select};
    for (planted, story) in [
        (Planted::RouterLeaseIgnored, WRITES),
        (Planted::RouterIgnoresRecall, WRITES),
        (Planted::RouterWritesUncounted, OTHERS),
    ] {
        select(Some(planted));
        let (count, _, broken) = explore(TICKS, story);
        let seed = find(walk::TERMS, 2_000);
        select(None);
        println!("{planted:?}: {count} states, seed {seed:?}");
        assert!(broken.is_some(), "{planted:?} is not found in {count} states");
        assert!(seed.is_some(), "{planted:?} is not found on any walk");
    }
}
