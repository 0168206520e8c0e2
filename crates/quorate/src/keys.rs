//! Keys as commands take them, by the thousand if they stand in a file, and what became of each.

use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quorate_node::root::NAMESPACE_NUMBER_MAX;
use quorate_resp::Value;

use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::{complain, fields, say};

/// Names in one command; a file may have any number.
const NAMES_PER_COMMAND: usize = 10_000;
/// How the answer begins for a name that nothing was done about.
const TRY_AGAIN: &str = "TRYAGAIN";

/// The node that is asked, and where the keys are.
#[derive(Debug, Args)]
pub(crate) struct Place {
    #[command(flatten)]
    endpoint: Endpoint,
    /// The namespace that the keys are in
    #[arg(short = 'n', long, global = true, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=i64::from(NAMESPACE_NUMBER_MAX)))]
    namespace: u32,
}

impl Place {
    pub(crate) fn connect(&self) -> Result<Client, Failure> {
        Client::connect_to_namespace(&self.endpoint, self.namespace)
    }
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Keys {
    /// The keys
    #[arg(value_name = "KEY")]
    pub(crate) keys: Vec<String>,
    /// Read the keys from a file, one a line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

impl Keys {
    /// Asks for all of them in as few commands as possible: `QUORATE`, the words of `action`, the keys, `tail`.
    pub(crate) fn ask(&self, client: &mut Client, action: &[&str], tail: &[String]) -> Result<ExitCode, Failure> {
        let keys = self.all()?;
        let mut tally = Tally { of: keys.len(), shows_progress: std::io::stderr().is_terminal(), ..Tally::default() };
        for names in keys.chunks(NAMES_PER_COMMAND) {
            let answers = ask_for(client, action, names, tail)?;
            names.iter().zip(&answers).for_each(|(name, answer)| tally.take(name, answer));
        }
        Ok(tally.finish())
    }

    pub(crate) fn all(&self) -> Result<Vec<String>, Failure> {
        let Some(file) = &self.file else { return Ok(self.keys.clone()) };
        let told = format!("cannot read {}", file.display());
        let lines: std::io::Result<Vec<String>> = match file.as_os_str() == "-" {
            true => std::io::stdin().lock().lines().collect(),
            false => BufReader::new(std::fs::File::open(file).context(&told)?).lines().collect(),
        };
        let mut keys = lines.context(&told)?;
        keys.retain(|key| !key.is_empty());
        Ok(keys)
    }
}

/// Asks for some keys in one command, and again for those that the nodes had no room for, as long as they take others: an answer
/// for each.
pub(crate) fn ask_for(
    client: &mut Client,
    action: &[&str],
    names: &[String],
    tail: &[String],
) -> Result<Vec<Value>, Failure> {
    let mut answers = vec![Value::Null; names.len()];
    let mut left: Vec<usize> = (0..names.len()).collect();
    while !left.is_empty() {
        let asked: Vec<String> = left.iter().map(|&at| names[at].clone()).collect();
        let told = match client.ask(&request(action, &asked, tail))? {
            Value::Array(told) if told.len() == asked.len() => told,
            answer => return Err(Failure(format!("QUORATE {} was answered with {answer:?}", action.join(" ")))),
        };
        left.iter().zip(told).for_each(|(&at, answer)| answers[at] = answer);
        left.retain(|&at| matches!(&answers[at], Value::Error(line) if line.starts_with(TRY_AGAIN)));
        if left.len() == asked.len() {
            break;
        }
    }
    Ok(answers)
}

pub(crate) fn request(action: &[&str], names: &[String], tail: &[String]) -> Vec<String> {
    let words = ["QUORATE"].iter().chain(action).chain(&["KEYS"]);
    let mut words: Vec<String> = words.map(|&word| word.to_owned()).collect();
    words.push(names.len().to_string());
    words.extend_from_slice(names);
    words.extend_from_slice(tail);
    words
}

/// What became of each name.
#[derive(Default)]
struct Tally {
    of: usize,
    done: usize,
    failed: usize,
    /// It printed what it was told.
    is_shown: bool,
    shows_progress: bool,
}

impl Tally {
    fn take(&mut self, name: &str, answer: &Value) {
        match answer {
            Value::Error(line) => {
                self.failed += 1;
                complain(format_args!("{name}: {line}"));
            }
            Value::Simple(_) => self.done += 1,
            group => {
                self.done += 1;
                self.is_shown = true;
                let fields: Vec<String> =
                    fields(group).into_iter().map(|(field, value)| format!("  {field}: {value}")).collect();
                say(format_args!("{name}\n{}", fields.join("\n")));
            }
        }
        if self.shows_progress && self.of > NAMES_PER_COMMAND && (self.done + self.failed).is_multiple_of(1000) {
            // Nobody is told anything wrong if it is not shown.
            let _ = write!(std::io::stderr(), "\r{} of {}", self.done + self.failed, self.of);
        }
    }

    fn finish(&self) -> ExitCode {
        if self.shows_progress && self.of > NAMES_PER_COMMAND {
            let _ = writeln!(std::io::stderr());
        }
        if self.is_shown {
            // Nothing but that on standard output.
        } else if self.of > 1 {
            let failed = if self.failed == 0 { String::new() } else { format!(", {} failed", self.failed) };
            say(format_args!("{} done{failed}", self.done));
        } else if self.failed == 0 && self.of == 1 {
            say("OK");
        }
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_from_a_file_too() {
        let file = std::env::temp_dir().join(format!("quorate-keys-{}", std::process::id()));
        std::fs::write(&file, "one\n\ntwo words\n").expect("written");
        let keys = Keys { keys: Vec::new(), file: Some(file.clone()) };
        assert_eq!(keys.all().expect("read"), ["one", "two words"]);
        std::fs::remove_file(&file).expect("removed");
        assert!(keys.all().expect_err("gone").0.contains("cannot read"));
    }
}
