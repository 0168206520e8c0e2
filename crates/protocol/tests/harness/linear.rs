//! Is what the clients of one register saw linearizable? A search for an order (Wing and Gong; Lowe's memory of what was
//! tried), which a few dozen calls with little overlap allow.

use std::collections::HashSet;

use quorate_protocol::id::Stamp;

#[derive(Clone, Debug)]
pub struct Call {
    pub key: String,
    /// What was written, nothing for a delete, and when it expires; none for a read.
    pub write: Option<(Option<String>, Option<Stamp>)>,
    pub called: u64,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Returned {
        at: u64,
        stamp: Stamp,
        value: Option<String>,
    },
    /// It may have happened, or happen still.
    Unknown,
    NotCarriedOut,
}

const TRIED_MAX: usize = 20_000;

/// Index of the write that the register holds; of no write while it is absent.
type State = Option<usize>;

/// False if there are too many orders to say.
pub fn assert_linearizable(key: &str, calls: &[&Call]) -> bool {
    let is_seen = |written: &Option<String>| {
        calls.iter().any(|call| match &call.outcome {
            Outcome::Returned { value, .. } => value == written,
            _ => false,
        })
    };
    // Of unknown fate, and needed by nobody: it may as well not have happened.
    let took_part = |call: &&&Call| match (&call.outcome, &call.write) {
        (Outcome::Returned { .. }, _) => true,
        (Outcome::Unknown, Some((value, expires))) => expires.is_some() || is_seen(value),
        (Outcome::Unknown, None) | (Outcome::NotCarriedOut, _) => false,
    };
    let mut calls: Vec<&Call> = calls.iter().filter(took_part).copied().collect();
    assert!(calls.len() <= 128, "{} calls of one register", calls.len());
    // In the order in which they were called, which the search tries first.
    calls.sort_by_key(|call| call.called);
    let mut tried = HashSet::new();
    let is_linearizable = search(&calls, 0, None, &mut tried);
    if !is_linearizable {
        let mut lines: Vec<_> = calls.iter().map(|call| (call.called, format!("{call:?}"))).collect();
        lines.sort();
        let lines: Vec<_> = lines.into_iter().map(|(_, line)| line).collect();
        panic!("register {key} is not linearizable:\n{}", lines.join("\n"));
    }
    tried.len() <= TRIED_MAX
}

fn returned_at(call: &Call) -> u64 {
    match call.outcome {
        Outcome::Returned { at, .. } => at,
        _ => u64::MAX,
    }
}

fn search(calls: &[&Call], done: u128, state: State, tried: &mut HashSet<(u128, State)>) -> bool {
    let left = || calls.iter().enumerate().filter(move |(index, _)| done >> index & 1 == 0);
    let first_return = left().map(|(_, call)| returned_at(call)).min().unwrap_or(u64::MAX);
    if first_return == u64::MAX {
        return true;
    }
    if !tried.insert((done, state)) {
        return false;
    }
    // Too many orders: this history decides nothing.
    if tried.len() > TRIED_MAX {
        return true;
    }
    let candidates = || left().filter(|(_, call)| call.called < first_return);
    let is_read_here =
        |&(index, call): &(usize, &&Call)| call.write.is_none() && apply(calls, index, call, state) == Some(state);
    // A read that fits now, and changes nothing, may as well come now.
    if let Some((index, _)) = candidates().find(is_read_here) {
        return search(calls, done | 1 << index, state, tried);
    }
    // A delete of unknown fate is of use right before somebody sees nothing; and of several, the first will do.
    let is_nil_read = |(_, call): (usize, &&Call)| {
        call.write.is_none() && matches!(call.outcome, Outcome::Returned { value: None, .. })
    };
    let is_unknown_delete = |call: &Call| call.outcome == Outcome::Unknown && matches!(call.write, Some((None, _)));
    let first_unknown = candidates().find(|(_, call)| is_unknown_delete(call)).map(|(index, _)| index);
    let first_unknown = first_unknown.filter(|_| candidates().any(is_nil_read));
    let sensible = |&(index, call): &(usize, &&Call)| !is_unknown_delete(call) || first_unknown == Some(index);
    candidates().filter(sensible).any(|(index, call)| {
        let next = apply(calls, index, call, state);
        next.is_some_and(|next| search(calls, done | 1 << index, next, tried))
    })
}

/// The state after the call, if the call could have seen what it saw.
fn apply(calls: &[&Call], index: usize, call: &Call, state: State) -> Option<State> {
    let Some((value, _)) = &call.write else {
        let Outcome::Returned { stamp, value, .. } = &call.outcome else { return Some(state) };
        let held = state.and_then(|write| calls[write].write.as_ref());
        return match (held, value) {
            (Some((Some(held), _)), Some(seen)) => (held == seen).then_some(state),
            (None, None) => Some(None),
            // Once somebody has seen that it has expired, nobody sees it again.
            (Some((_, Some(expires))), None) if expires <= stamp => Some(None),
            _ => None,
        };
    };
    Some(value.as_ref().map(|_| index))
}
