//! Long walks of more routers, members and kgroups than can be looked at in every order, with clocks that go at rates of their
//! own.

use quorate_protocol::router::Kgroup;

use super::harness::Random;
use super::paths::Paths;
use super::world::{Action, Message, Omitted, Operation, Stage, Terms, World};

/// Those that are meant to be served.
pub const TERMS: Terms = Terms { left_us: 400_000, margin_us: 50_000, hold_us: 450_000, omitted: Omitted::Nothing };
const STEPS: usize = 500;
/// A hundred times what clocks may differ by. The margin is large.
const PPM: i64 = 50_000;
/// On their way at once; more than that are lost.
const MESSAGES_MAX: usize = 40;
const OPEN_MAX: usize = 6;

struct Walk {
    world: World,
    random: Random,
    routers: usize,
    kgroups: u64,
    weather: Weather,
}

/// How often what is done, of a thousand times.
struct Weather {
    /// At most. Seldom much more.
    pass_us: u64,
    again: u64,
    lost: u64,
    late: u64,
    election: u64,
    restart: u64,
    given_up: u64,
    writes: u64,
    executed: u64,
}

/// The steps up to a stale read, if there is one.
pub fn walk(seed: u64, terms: Terms, paths: &mut Paths) -> Option<Vec<Action>> {
    let mut random = Random::new(seed);
    let (routers, members, kgroups) = (1 + random.below(3), 1 + random.below(3), 1 + random.below(3));
    let mut rates = |count: u64| -> Vec<i64> { (0..count).map(|_| PPM * (random.below(3) as i64 - 1)).collect() };
    let (router_rates, member_rates) = (rates(routers), rates(members));
    let weather = Weather {
        pass_us: [1_000, 10_000, 50_000][random.below(3) as usize],
        again: random.below(3) * 100,
        lost: random.below(3) * 50,
        late: random.below(3) * 450,
        election: [0, 10, 40][random.below(3) as usize],
        restart: random.below(3) * 5,
        given_up: random.below(3) * 10,
        executed: [10, 30, 100][random.below(3) as usize],
        writes: 100 + random.below(3) * 200,
    };
    let world = World::new(terms, &router_rates, &member_rates, kgroups as usize);
    let mut walk = Walk { world, random, routers: routers as usize, kgroups, weather };
    let mut actions = Vec::new();
    for _ in 0..STEPS {
        let Some(action) = walk.choose() else { continue };
        walk.world.apply(&action, paths);
        actions.push(action);
        if walk.world.broken.is_some() {
            return Some(actions);
        }
    }
    None
}

impl Walk {
    fn index(&mut self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    fn is_one_of_a_thousand(&mut self, times: u64) -> bool {
        self.random.below(1000) < times
    }

    fn choose(&mut self) -> Option<Action> {
        let Weather { pass_us, election, restart, given_up, executed, .. } = self.weather;
        if self.is_one_of_a_thousand(executed) {
            let member = self.index(self.world.members_count());
            return self.world.is_behind(member).then_some(Action::Execute { member });
        }
        if self.is_one_of_a_thousand(election) {
            let member = self.index(self.world.members_count());
            let found = [0, u32::MAX, self.random.below(1 << 32) as u32][self.index(3)];
            return Some(Action::Elect { member, found, restarts: self.random.chance(30) });
        }
        if self.is_one_of_a_thousand(restart) {
            return Some(Action::Restart { router: self.index(self.routers) });
        }
        let open: Vec<usize> = self.in_stage(Stage::Open).collect();
        if self.is_one_of_a_thousand(given_up) {
            let number = *open.get(self.index(open.len().max(1)))?;
            return self.world.operations[number].is_write.then_some(Action::GiveUp { number });
        }
        match self.random.below(100) {
            0..15 => {
                let us = 1 + self.random.below(pass_us);
                Some(Action::Pass { us: if self.random.chance(2) { us * 10 } else { us } })
            }
            15..23 => Some(Action::Ask { router: self.index(self.routers) }),
            23..40 if open.len() < OPEN_MAX => Some(self.begin()),
            40..43 => Some(Action::SendAgain { number: *open.get(self.index(open.len().max(1)))? }),
            43..50 => self.world.can_decide().then_some(Action::Decide),
            50..52 => Some(Action::RecallAgain),
            _ => self.deliver(),
        }
    }

    fn in_stage(&self, stage: Stage) -> impl Iterator<Item = usize> + '_ {
        let operations = self.world.operations.iter().enumerate();
        operations.filter(move |(_, operation)| operation.stage == stage).map(|(number, _)| number)
    }

    fn begin(&mut self) -> Action {
        let (router, is_write) = (self.index(self.routers), self.is_one_of_a_thousand(self.weather.writes));
        let kgroup = Kgroup::of_hash_slot(self.random.below(self.kgroups) as u16);
        let number = self.world.operations.len();
        let mut operation = Operation::new(router, kgroup, is_write);
        operation.is_wide = is_write && self.random.chance(10);
        self.world.operations.push(operation);
        let places = if is_write { Vec::new() } else { self.world.places(number) };
        let at = if places.is_empty() { None } else { Some(places[self.index(places.len())]) };
        Action::Begin { number, at }
    }

    fn deliver(&mut self) -> Option<Action> {
        let count = self.world.network.len();
        if count == 0 {
            return None;
        }
        let index = self.index(count);
        let message = self.world.network.iter().nth(index).cloned()?;
        let Weather { again, lost, late, .. } = self.weather;
        if count > MESSAGES_MAX || self.is_one_of_a_thousand(lost) {
            return Some(Action::Drop { message });
        }
        // What others may overtake to some effect.
        let delayed = matches!(message, Message::Grant { .. } | Message::Share { .. } | Message::Write { .. });
        if delayed && self.is_one_of_a_thousand(late) {
            return None;
        }
        Some(Action::Deliver { message, again: self.is_one_of_a_thousand(again) })
    }
}
