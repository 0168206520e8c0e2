//! `quorate node replace-after`: after what time without a word of it a node is replaced by itself.

use std::process::ExitCode;

use clap::Args;
use quorate_resp::Value;

use crate::client::{Client, Endpoint};
use crate::failure::Failure;
use crate::output::{duration, say};

/// Say after what time a node that is away gets its replicas replaced by itself
///
/// Without a time it tells which it is. Replicas of volumes that such a node has are made anew on other nodes; once it is back, it
/// has what has not been moved. `never` leaves that to `quorate node drain`.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct ReplaceAfter {
    #[command(flatten)]
    endpoint: Endpoint,
    /// As in 90s, 10m, 2h, 1d, or never
    #[arg(value_parser = parse)]
    after: Option<After>,
}

/// Seconds, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct After(Option<u64>);

fn parse(text: &str) -> Result<After, String> {
    if text.eq_ignore_ascii_case("never") {
        return Ok(After(None));
    }
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit_s = match &text[digits.len()..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err("a time is a number and s, m, h or d, as in 10m; or never".to_owned()),
    };
    let count: u64 = digits.parse().map_err(|_| format!("{digits:?} is not a number"))?;
    Ok(After(Some(count.saturating_mul(unit_s))))
}

pub(crate) fn run(ReplaceAfter { endpoint, after }: &ReplaceAfter) -> Result<ExitCode, Failure> {
    let client = &mut Client::connect(endpoint)?;
    match after {
        None => say(sentence(client)?),
        Some(After(seconds)) => {
            let seconds = seconds.map_or_else(|| "NEVER".to_owned(), |seconds| seconds.to_string());
            client.ask(&["QUORATE", "NODE", "REPLACE", "AFTER", &seconds])?;
            say("OK");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What is said so far, in a sentence.
pub(crate) fn sentence(client: &mut Client) -> Result<String, Failure> {
    let reply = client.ask(&["QUORATE", "NODE", "REPLACE", "AFTER"])?;
    let not_understood = || Failure(format!("QUORATE NODE REPLACE AFTER was answered with {reply:?}"));
    let (Value::Bulk(words) | Value::Verbatim { text: words, .. }) = &reply else { return Err(not_understood()) };
    match std::str::from_utf8(words).map(parse) {
        Ok(Ok(After(Some(seconds)))) => {
            Ok(format!("a node that is away for {} is replaced by itself", duration(seconds)))
        }
        Ok(Ok(After(None))) => Ok("a node that is away is never replaced by itself".to_owned()),
        _ => Err(not_understood()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, seconds) in [("90s", 90), ("10m", 600), ("2h", 7_200), ("1d", 86_400), ("0s", 0)] {
            assert_eq!(parse(text), Ok(After(Some(seconds))), "{text}");
        }
        assert_eq!(parse("Never"), Ok(After(None)));
        for text in ["", "10", "m", "10 m", "1.5h", "-1s", "10min", "ever"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
