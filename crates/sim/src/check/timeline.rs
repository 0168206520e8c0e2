//! Calls drawn as lanes over time, for the reader of a failure.

use std::fmt::Write;

use crate::history::{CallId, Fate, History};

const BAR_COLUMNS: u64 = 48;
const TEXT_COLUMNS: usize = 40;

/// One line a call, in the order of invocation: when, who, what, the answer, and a bar from invocation to return. The
/// bar of a call without an answer is open at its end.
pub fn lanes(history: &History, calls: &[CallId]) -> String {
    let mut calls = calls.to_vec();
    calls.sort_unstable();
    calls.dedup();
    let begin_us = calls.iter().map(|&id| history.record(id).invoked_us).min().unwrap_or(0);
    let end_us = calls.iter().map(|&id| returned_us(history, id).unwrap_or(history.record(id).invoked_us)).max();
    let end_us = end_us.unwrap_or(0).max(begin_us + 1);
    let column = |at_us: u64| {
        let offset = u128::from(at_us.min(end_us) - begin_us) * u128::from(BAR_COLUMNS - 1);
        (offset / u128::from(end_us - begin_us)) as usize
    };
    let mut text = String::new();
    for id in calls {
        let record = history.record(id);
        let returned_us = returned_us(history, id);
        let (answer, until) = match &record.fate {
            Fate::Answered { at_us, answer } => (answer.to_string(), format!("{at_us}")),
            Fate::Unknown => ("unknown".into(), "...".into()),
            Fate::NotExecuted => ("not executed".into(), "never".into()),
        };
        let said = shorten(format!("{} -> {answer}", record.call.action));
        let first = column(record.invoked_us);
        let last = returned_us.map_or(BAR_COLUMNS as usize - 1, column);
        let mut bar = format!("{}[{}", " ".repeat(first), "=".repeat((last - first).saturating_sub(1)));
        bar.push(if returned_us.is_some() { ']' } else { '>' });
        let connection = format!("c{}", record.connection.0);
        writeln!(text, "{:>10} {until:>10} us  {connection:<6} {said:<TEXT_COLUMNS$} |{bar}", record.invoked_us)
            .expect("a string takes everything");
    }
    text
}

fn returned_us(history: &History, id: CallId) -> Option<u64> {
    match history.record(id).fate {
        Fate::Answered { at_us, .. } => Some(at_us),
        Fate::Unknown | Fate::NotExecuted => None,
    }
}

/// Keeps both ends of a long text: the action is at its beginning, the answer at its end.
fn shorten(text: String) -> String {
    let length = text.chars().count();
    if length <= TEXT_COLUMNS {
        return text;
    }
    let half = TEXT_COLUMNS / 2 - 1;
    let head: String = text.chars().take(half).collect();
    let tail: String = text.chars().skip(length - half).collect();
    format!("{head}..{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Action, Answer, Call, Connection, Object};

    #[test]
    fn draws_calls_in_order_with_open_ends() {
        let mut history = History::new();
        let call = |action| Call { object: Object(0), action };
        let set = history.invoke(Connection(0), call(Action::Set { value: b"a"[..].into() }), 100);
        let get = history.invoke(Connection(1), call(Action::Get), 200);
        history.settle(get, Fate::Answered { at_us: 300, answer: Answer::Bytes(b"a"[..].into()) });
        let text = lanes(&history, &[get, set]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].contains("SET \"a\" -> unknown") && lines[0].ends_with('>'), "{text}");
        assert!(lines[1].contains("GET -> \"a\"") && lines[1].ends_with(']'), "{text}");
        assert!(lines[1].find('[') > lines[0].find('['), "{text}");
    }

    #[test]
    fn shortens_in_the_middle() {
        let text = shorten(format!("SET {} -> OK", "x".repeat(100)));
        assert!(text.starts_with("SET ") && text.ends_with("-> OK") && text.chars().count() <= TEXT_COLUMNS);
    }
}
