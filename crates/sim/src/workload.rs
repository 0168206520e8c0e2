//! What clients do in a run: many calls on few objects, drawn from a seed.
//!
//! Each object has a [`Role`], so that every checker finds objects that it can judge: the general search judges all of
//! them, the register and counter judges those that are only used as such. Values are unique in a run.

use quorate_object::{
    Command, Condition, ExpireCondition, Expiry, HashOp, KeysOp, OnKeys, Op, Outcome, SetAnswer, Transaction, TtlUnit,
};

use crate::history::{Action, Answer, Bytes, Call, Fate, Object};
use crate::random::Random;

/// What an object is used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// SET, GET and DEL.
    Register,
    /// INCR and GET.
    Counter,
    /// Everything that has nothing to do with time.
    Text,
    /// Everything.
    Expiring,
}

const ROLES: [Role; 4] = [Role::Register, Role::Counter, Role::Text, Role::Expiring];

/// How the clients behave.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub objects: u16,
    /// The most calls that a client sends before it waits for an answer.
    pub pipeline_max: usize,
    /// How many of a thousand turns of a client are pipelines of more than one call.
    pub pipelines_per_mille: u64,
    /// The mean life of what expires.
    pub expiry_mean_ms: u64,
    /// All objects are registers: nothing reads and writes in one step.
    pub registers: bool,
    /// Some are at times: then nobody can tell whether a DEL has found one.
    pub may_be_registers: bool,
    /// Objects that are only read, overwritten and counted are fields of hashes in place of strings.
    pub hashes: bool,
    /// The same are two strings each, which are written and read in one step and so never differ.
    pub pairs: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            objects: 12,
            pipeline_max: 8,
            pipelines_per_mille: 150,
            expiry_mean_ms: 2_000,
            registers: false,
            may_be_registers: false,
            hashes: false,
            pairs: false,
        }
    }
}

impl Shape {
    pub fn of_seed(seed: u64) -> Shape {
        Shape { hashes: Random::new(seed ^ 0x4A54).chance(300), ..Shape::default() }
    }
}

/// An object is written anew after about so many appends, lest the history grow with its square.
const APPENDS_MAX: u32 = 12;

pub struct Workload {
    random: Random,
    shape: Shape,
    written: u64,
    objects: Vec<Known>,
}

/// What the clients last heard of an object: what a compare-and-set shall compare with.
#[derive(Clone, Default)]
struct Known {
    value: Bytes,
    appends: u32,
}

impl Workload {
    pub fn new(seed: u64, shape: Shape) -> Self {
        assert!(shape.objects > 0 && shape.pipeline_max > 0, "a workload needs objects and calls: {shape:?}");
        let objects = vec![Known::default(); usize::from(shape.objects)];
        Self { random: Random::new(seed), shape, written: 0, objects }
    }

    pub fn role(object: Object) -> Role {
        ROLES[usize::from(object.0) % ROLES.len()]
    }

    /// What a client sends next on its connection, at once: one call, or a pipeline of several. Half of the pipelines
    /// stay on one object, where their order can be seen.
    pub fn next_calls(&mut self, now_ms: i64) -> Vec<Call> {
        let is_pipeline = self.shape.pipeline_max > 1 && self.random.chance(self.shape.pipelines_per_mille);
        let count = if is_pipeline { self.random.range(2..self.shape.pipeline_max as u64 + 1) } else { 1 };
        let first = self.pick_object();
        let stays = self.random.chance(500);
        (0..count)
            .map(|_| {
                let object = if stays { first } else { self.pick_object() };
                Call { object, action: self.next_action(object, now_ms) }
            })
            .collect()
    }

    /// What a client that only reads sends next.
    pub fn next_read(&mut self) -> Call {
        Call { object: self.pick_object(), action: Action::Get }
    }

    /// A read of every object, for the end of a run.
    pub fn last_reads(&self) -> Vec<Call> {
        (0..self.shape.objects).map(|object| Call { object: Object(object), action: Action::Get }).collect()
    }

    /// Tells the clients what one of them was answered.
    pub fn observe(&mut self, call: &Call, answer: &Answer) {
        let known = &mut self.objects[usize::from(call.object.0)];
        match (&call.action, answer) {
            (Action::Get, Answer::Bytes(value)) => known.value = value.clone(),
            (Action::IncrBy { .. }, Answer::Int(number)) => known.value = number.to_string().into_bytes().into(),
            (Action::SetIfEqual { value, .. } | Action::Set { value }, Answer::Ok) => known.value = value.clone(),
            _ => {}
        }
    }

    fn pick_object(&mut self) -> Object {
        Object(self.random.below(u64::from(self.shape.objects)) as u16)
    }

    fn next_action(&mut self, object: Object, now_ms: i64) -> Action {
        if self.shape.registers {
            return self.next_register_action(now_ms);
        }
        match self.next_ordered_action(object, now_ms) {
            Action::Del if self.shape.may_be_registers => Action::Erase,
            action => action,
        }
    }

    fn next_ordered_action(&mut self, object: Object, now_ms: i64) -> Action {
        match Self::role(object) {
            Role::Register => match self.random.below(10) {
                0..5 => Action::Get,
                5..9 => Action::Set { value: self.next_value() },
                _ => Action::Del,
            },
            Role::Counter => match self.random.below(10) {
                0..3 => Action::Get,
                _ => Action::IncrBy { delta: 1 },
            },
            Role::Text => self.next_text_action(object),
            Role::Expiring => match self.random.below(10) {
                0..4 => self.next_text_action(object),
                4..6 => Action::SetExpiring { value: self.next_value(), at_ms: self.next_expiry_ms(now_ms) },
                6 => Action::ExpireAt { at_ms: self.next_expiry_ms(now_ms) },
                7 => Action::Persist,
                8 => Action::Pttl,
                _ => Action::Get,
            },
        }
    }

    fn next_register_action(&mut self, now_ms: i64) -> Action {
        match self.random.below(20) {
            0..8 => Action::Get,
            8..14 => Action::Set { value: self.next_value() },
            14..16 => Action::SetExpiring { value: self.next_value(), at_ms: self.next_expiry_ms(now_ms) },
            16 => Action::Erase,
            17 => Action::Exists,
            18 => Action::Strlen,
            _ => Action::Pttl,
        }
    }

    fn next_text_action(&mut self, object: Object) -> Action {
        let known = &mut self.objects[usize::from(object.0)];
        if known.appends >= APPENDS_MAX {
            known.appends = 0;
            return Action::Set { value: self.next_value() };
        }
        match self.random.below(100) {
            0..25 => Action::Get,
            25..40 => Action::Set { value: self.next_value() },
            40..58 => {
                known.appends += 1;
                Action::Append { value: self.next_value() }
            }
            58..66 => Action::SetIfEqual { expected: known.value.clone(), value: self.next_value() },
            66..72 => Action::SetIfAbsent { value: self.next_value() },
            72..78 => Action::GetSet { value: self.next_value() },
            78..82 => Action::GetDel,
            82..86 => Action::Del,
            86..89 => Action::Strlen,
            89..92 => Action::Exists,
            92..95 => Action::Set { value: self.next_number() },
            _ => Action::IncrBy { delta: self.random.range(1..100) as i64 },
        }
    }

    fn next_value(&mut self) -> Bytes {
        self.written += 1;
        format!("v{};", self.written).into_bytes().into()
    }

    /// A value that INCR takes, far from all others.
    fn next_number(&mut self) -> Bytes {
        self.written += 1;
        format!("{}", self.written * 1_000_000).into_bytes().into()
    }

    /// Mostly ahead; sometimes past, which deletes.
    fn next_expiry_ms(&mut self, now_ms: i64) -> i64 {
        let delay_ms = self.random.delay(self.shape.expiry_mean_ms) as i64;
        if self.random.chance(50) { now_ms - delay_ms } else { now_ms + delay_ms }
    }
}

impl Call {
    /// The call as the store takes it.
    pub fn with_command<R>(&self, shape: &Shape, use_command: impl FnOnce(&Command<'_>) -> R) -> R {
        let name = self.object.to_string();
        let key = name.as_bytes();
        if shape.pairs && matches!(Workload::role(self.object), Role::Register | Role::Counter) {
            let [left, right] = ["left", "right"].map(|which| format!("{{{name}}}{which}").into_bytes());
            let commands = self.on_pair(&left, &right).expect("a register and a counter do no more");
            return use_command(&Command::Transaction(Transaction::new(commands).expect("both have one slot")));
        }
        if shape.hashes
            && let Some(op) = self.on_field()
        {
            let change = Command::Elements { key, op: Op::Hash(op) };
            let Action::IncrBy { .. } = self.action else { return use_command(&change) };
            // With a look at what it has come to: nobody may come between.
            let look = Command::Elements { key, op: Op::Hash(HashOp::Get { field: FIELD }) };
            let both = Transaction::new(vec![change, look]).expect("both are on one object");
            return use_command(&Command::Transaction(both));
        }
        let set = |value, condition, expiry, answer| Command::Set { key, value, condition, expiry, answer };
        let command = match &self.action {
            Action::Get => Command::Get { key },
            Action::Exists => Command::Exists { key },
            Action::Strlen => Command::Strlen { key },
            Action::Pttl => Command::Ttl { key, unit: TtlUnit::Milliseconds },
            Action::Set { value } => set(value, Condition::Always, Expiry::Unset, SetAnswer::Ok),
            Action::SetExpiring { value, at_ms } => set(value, Condition::Always, Expiry::AtMs(*at_ms), SetAnswer::Ok),
            Action::SetIfAbsent { value } if shape.pairs => {
                let op = KeysOp::SetIfAllAbsent { values: vec![value] };
                Command::OnKeys(OnKeys::new(vec![key], op).expect("one key and its value"))
            }
            Action::SetIfAbsent { value } => set(value, Condition::IfAbsent, Expiry::Unset, SetAnswer::Flag),
            Action::SetIfEqual { expected, value } => {
                set(value, Condition::IfEqual(expected), Expiry::Unset, SetAnswer::Ok)
            }
            Action::GetSet { value } => Command::GetSet { key, value },
            Action::Append { value } => Command::Append { key, value },
            Action::IncrBy { delta } => Command::IncrBy { key, delta: *delta },
            Action::Del | Action::Erase => Command::Del { key },
            Action::GetDel => Command::GetDel { key },
            Action::ExpireAt { at_ms } => Command::ExpireAt { key, at_ms: *at_ms, condition: ExpireCondition::Always },
            Action::Persist => Command::Persist { key },
        };
        use_command(&command)
    }
}

/// The field of a hash that stands for a string.
const FIELD: &[u8] = b"field";

impl Call {
    /// The same on a field of a hash, if it is one of those that a register or a counter can do.
    fn on_field(&self) -> Option<HashOp<'_>> {
        if !matches!(Workload::role(self.object), Role::Register | Role::Counter) {
            return None;
        }
        match &self.action {
            Action::Get => Some(HashOp::Get { field: FIELD }),
            Action::Set { value } => Some(HashOp::Set { pairs: vec![(FIELD, value)], answers_ok: true }),
            Action::IncrBy { delta } => Some(HashOp::IncrBy { field: FIELD, delta: *delta }),
            Action::Del | Action::Erase => Some(HashOp::Del { fields: vec![FIELD] }),
            _ => None,
        }
    }
}

impl Call {
    /// The same on two strings that are to be alike, in one of several ways, if it is one of those that a register or a counter can do.
    fn on_pair<'c>(&'c self, left: &'c [u8], right: &'c [u8]) -> Option<Vec<Command<'c>>> {
        let set = |key, value| {
            let (condition, expiry, answer) = (Condition::Always, Expiry::Unset, SetAnswer::Ok);
            Command::Set { key, value, condition, expiry, answer }
        };
        let both = |keys: [&'c [u8]; 2], op| OnKeys::new(keys.into(), op).map(Command::OnKeys);
        let copied = |from, to| both([from, to], KeysOp::Copy { replace: true });
        Some(match &self.action {
            Action::Get => vec![Command::Get { key: left }, Command::Get { key: right }],
            Action::Set { value } => match value.iter().map(|&byte| u32::from(byte)).sum::<u32>() % 4 {
                0 => vec![set(left, value), copied(left, right)?],
                1 => vec![set(right, value), copied(right, left)?],
                2 => {
                    let renamed = both([left, right], KeysOp::Rename { if_absent: false })?;
                    vec![set(left, value), renamed, copied(right, left)?]
                }
                _ => {
                    let anew = both([left, right], KeysOp::SetIfAllAbsent { values: vec![value, value] })?;
                    vec![Command::Del { key: left }, Command::Del { key: right }, anew]
                }
            },
            Action::IncrBy { delta } => {
                let counted = Command::IncrBy { key: left, delta: *delta };
                vec![counted, copied(left, right)?, Command::Get { key: right }]
            }
            Action::Del | Action::Erase => vec![Command::Del { key: left }, Command::Del { key: right }],
            _ => return None,
        })
    }
}

/// The words that begin an error which promises that nothing was executed.
const NOT_EXECUTED: [&str; 6] = ["NOQUORUM", "TRYAGAIN", "LOADING", "OOM", "MISCONF", "PROTOCOL"];
/// The word that begins an error which promises nothing.
const UNKNOWN: &str = "TIMEOUT";

/// What a client knows of its call after this outcome. An outcome that no call of a workload can have becomes an answer
/// that no object gives, so that the checkers refuse it.
pub fn fate(outcome: &Outcome, at_us: u64) -> Fate {
    let answer = match outcome {
        Outcome::Ok => Answer::Ok,
        Outcome::Nil => Answer::Nil,
        Outcome::Int(number) => Answer::Int(*number),
        Outcome::Bulk(bytes) => Answer::Bytes(bytes.as_slice().into()),
        Outcome::Error(line) => {
            let word = line.split(' ').next().unwrap_or_default();
            if word == UNKNOWN {
                return Fate::Unknown;
            }
            if NOT_EXECUTED.contains(&word) {
                return Fate::NotExecuted;
            }
            Answer::Error(line.as_str().into())
        }
        Outcome::List(outcomes) => of_transaction(outcomes),
        Outcome::Word(_)
        | Outcome::Keys(_)
        | Outcome::Scan { .. }
        | Outcome::Float(_)
        | Outcome::NilList
        | Outcome::Set(_)
        | Outcome::Map(_)
        | Outcome::Pairs(_) => Answer::Error(format!("unexpected outcome {outcome:?}").into()),
    };
    Fate::Answered { at_us, answer }
}

/// What a transaction that stands for one call has come to, if its commands say the same.
fn of_transaction(outcomes: &[Outcome]) -> Answer {
    match outcomes {
        [Outcome::Int(number), Outcome::Bulk(text)] | [Outcome::Int(number), Outcome::Int(1), Outcome::Bulk(text)]
            if number.to_string().as_bytes() == text =>
        {
            Answer::Int(*number)
        }
        [Outcome::Bulk(left), Outcome::Bulk(right)] if left == right => Answer::Bytes(left.as_slice().into()),
        [Outcome::Nil, Outcome::Nil] => Answer::Nil,
        [Outcome::Ok, Outcome::Int(1)] | [Outcome::Ok, Outcome::Ok, Outcome::Int(1)] => Answer::Ok,
        [Outcome::Int(left), Outcome::Int(right), Outcome::Int(1)] if left == right => Answer::Ok,
        [Outcome::Int(left), Outcome::Int(right)] if left == right => Answer::Int(*left),
        _ => Answer::Error(format!("unexpected outcomes {outcomes:?}").into()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn draw(seed: u64, turns: usize) -> Vec<Call> {
        let mut workload = Workload::new(seed, Shape::default());
        (0..turns).flat_map(|turn| workload.next_calls(turn as i64)).collect()
    }

    #[test]
    fn a_seed_gives_the_same_calls() {
        assert_eq!(draw(1, 500), draw(1, 500));
        assert_ne!(draw(1, 500), draw(2, 500));
    }

    #[test]
    fn every_action_occurs_and_roles_are_kept() {
        let calls = draw(3, 5_000);
        let actions: HashSet<_> = calls.iter().map(|call| std::mem::discriminant(&call.action)).collect();
        assert_eq!(actions.len(), 15, "each variant of Action");
        for call in &calls {
            let fits = match Workload::role(call.object) {
                Role::Register => {
                    matches!(call.action, Action::Get | Action::Set { .. } | Action::Del)
                }
                Role::Counter => matches!(call.action, Action::Get | Action::IncrBy { delta: 1 }),
                Role::Text => !call.action.sets_expiry(),
                Role::Expiring => true,
            };
            assert!(fits, "{call:?}");
        }
    }

    #[test]
    fn values_are_unique() {
        let calls = draw(4, 5_000);
        let mut written = HashSet::new();
        for call in &calls {
            if let Action::Set { value } | Action::Append { value } | Action::GetSet { value } = &call.action {
                assert!(written.insert(value.clone()), "{call:?}");
            }
        }
        assert!(written.len() > 1_000);
    }

    #[test]
    fn errors_say_whether_something_was_executed() {
        let of = |line: &str| fate(&Outcome::Error(line.into()), 9);
        assert_eq!(of("NOQUORUM not executed, try again"), Fate::NotExecuted);
        assert_eq!(of("TIMEOUT outcome unknown"), Fate::Unknown);
        let line = "ERR value is not an integer or out of range";
        assert_eq!(of(line), Fate::Answered { at_us: 9, answer: Answer::Error(line.into()) });
    }

    #[test]
    fn commands_carry_the_call() {
        let expected = Box::from(&b"a"[..]);
        let value = Box::from(&b"b"[..]);
        let call = Call { object: Object(2), action: Action::SetIfEqual { expected, value } };
        let is_right = call.with_command(&Shape::default(), |command| {
            matches!(command, Command::Set { key: b"object-2", value: b"b", condition: Condition::IfEqual(b"a"), .. })
        });
        assert!(is_right);
    }
}
