//! CONFIG: what can be asked about this server, and changed while it runs.
//!
//! Several changes are made together or not at all. They last until the server ends: its file is for people to edit.

use quorate_object::glob;
use quorate_resp::{Arguments, parse_integer};

use crate::backend::Backend;
use crate::front::Front;
use crate::journal::{SLOW_LOG_LENGTH_MAX, SlowLogSettings};
use crate::refusal::Refusal;

/// The parameters that are the front's own; all others are the backend's.
const SLOWER_THAN: &str = "slowlog-log-slower-than";
const LENGTH_MAX: &str = "slowlog-max-len";

pub(crate) const NO_REWRITE: Refusal = Refusal::fixed(
    "ERR Rewriting config file: node.toml is for people to edit, what CONFIG SET changes lasts until the node ends",
);

fn parameters<B: Backend>(front: &Front, backend: &B) -> Vec<(&'static str, String)> {
    let SlowLogSettings { slower_than_us, length_max } = front.journal.settings;
    let own = [(SLOWER_THAN, slower_than_us.to_string()), (LENGTH_MAX, length_max.to_string())];
    let mut parameters = backend.config();
    parameters.extend(own);
    parameters
}

/// A parameter is listed once for a pattern, under its own name, or for a plain name, as it was asked for.
pub(crate) fn get<B: Backend>(front: &mut Front, index: usize, wanted: Arguments<'_>, backend: &B) {
    let parameters = parameters(front, backend);
    let wanted: Vec<_> = wanted.iter().map(|word| (word, word.to_ascii_lowercase())).collect();
    let is_pattern = |word: &[u8]| word.iter().any(|byte| b"*?[".contains(byte));
    let found: Vec<_> = parameters
        .iter()
        .filter_map(|(name, value)| {
            let (asked, _) = wanted.iter().find(|(_, pattern)| glob::matches(pattern, name.as_bytes()))?;
            let shown = if is_pattern(asked) { name.as_bytes() } else { *asked };
            Some((shown, value))
        })
        .collect();
    front.connections[index].reply(|writer| {
        writer.map(found.len());
        for (name, value) in found {
            writer.bulk(name);
            writer.bulk(value.as_bytes());
        }
    });
}

/// CONFIG SET parameter value [parameter value ...]
pub(crate) fn set<B: Backend>(
    front: &mut Front,
    index: usize,
    words: Arguments<'_>,
    backend: &mut B,
) -> Result<(), Refusal> {
    if !words.len().is_multiple_of(2) {
        return Err(Refusal::SYNTAX);
    }
    let known = parameters(front, backend);
    let mut changes: Vec<(&str, &[u8])> = Vec::with_capacity(words.len() / 2);
    for number in 0..words.len() / 2 {
        let asked = words.at(2 * number).unwrap_or_default();
        let found = known.iter().find(|(name, _)| name.as_bytes().eq_ignore_ascii_case(asked));
        let Some((name, _)) = found else {
            return Err(Refusal::quoting("ERR Unknown option or number of arguments for CONFIG SET - '", asked, "'"));
        };
        if changes.iter().any(|(changed, _)| changed == name) {
            // As it was asked for, unlike where a value is wrong.
            return Err(failed(asked, "duplicate parameter"));
        }
        changes.push((name, words.at(2 * number + 1).unwrap_or_default()));
    }
    let mut slow_log = front.journal.settings;
    for &(name, value) in &changes {
        let checked = match name {
            SLOWER_THAN => config_integer(value, -1, i64::MAX).map(|number| slow_log.slower_than_us = number),
            LENGTH_MAX => {
                let number = config_integer(value, 0, SLOW_LOG_LENGTH_MAX as i64);
                number.map(|number| slow_log.length_max = number as usize)
            }
            _ => backend.check_config(name, value),
        };
        checked.map_err(|reason| failed(name.as_bytes(), &reason))?;
    }
    front.set_slow_log(slow_log);
    changes.iter().for_each(|(name, value)| backend.set_config(name, value));
    front.connections[index].reply(|writer| writer.simple("OK"));
    Ok(())
}

fn failed(name: &[u8], reason: &str) -> Refusal {
    let after = format!("') - {reason}");
    Refusal::quoting("ERR CONFIG SET failed (possibly related to argument '", name, &after)
}

/// The value of a parameter that is an integer within bounds, or why it is none, as Redis words it.
pub fn config_integer(value: &[u8], min: i64, max: i64) -> Result<i64, String> {
    match parse_integer(value) {
        None => Err("argument couldn't be parsed into an integer".to_owned()),
        Some(number) if (min..=max).contains(&number) => Ok(number),
        Some(_) => Err(format!("argument must be between {min} and {max} inclusive")),
    }
}
