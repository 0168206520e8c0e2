//! `quorate cli`: a small client for any Redis command, so that nobody needs another.
//!
//! Words on the command line are one command; otherwise each line of standard input is one, edited and remembered when
//! it is a terminal. Answers look as redis-cli's do, on a terminal and in a pipe.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use quorate_resp::Value;
use rustyline::error::ReadlineError;

mod mute;
mod print;
mod words;

use mute::Mute;

use crate::client::{Client, Endpoint};
use crate::failure::{Context, Failure};
use crate::output::complain;

const EXAMPLES: &str = "Examples:
  quorate cli                              a prompt at 127.0.0.1:7000
  quorate cli -p 7001 -n 3 GET greeting    one command at the second node, in namespace 3
  quorate cli < commands.txt               one command a line";

/// Send Redis commands, one from the command line or many interactively
///
/// With words it sends them as one command, prints the answer and ends: with status 1 if the answer is an error.
/// Without, it reads commands line by line, quoted as in redis-cli ("a b", 'a b', "\x00"). In a pipe answers are
/// printed raw.
#[derive(Debug, Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) endpoint: Endpoint,
    /// The namespace to enter first
    #[arg(short, long, value_name = "N")]
    namespace: Option<u32>,
    /// Speak RESP2 (the default)
    #[arg(long, conflicts_with = "resp3")]
    resp2: bool,
    /// Speak RESP3
    #[arg(long)]
    resp3: bool,
    /// Print answers raw, as in a pipe
    #[arg(long)]
    raw: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let raw = options.raw || !std::io::stdout().is_terminal();
    let mut session =
        Session { options, client: None, namespace: options.namespace.unwrap_or(0), raw, mute: Mute::default() };
    if !options.words.is_empty() {
        let words: Vec<Vec<u8>> = options.words.iter().map(|word| word.clone().into_bytes()).collect();
        return Ok(exit_code(session.execute(&words)?));
    }
    if std::io::stdin().is_terminal() { session.converse() } else { session.read_lines() }
}

fn exit_code(succeeded: bool) -> ExitCode {
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Session<'a> {
    options: &'a Options,
    /// None before the first command and after a connection is lost.
    client: Option<Client>,
    /// The namespace that this session has entered.
    namespace: u32,
    raw: bool,
    /// Whether the node answers on this connection.
    mute: Mute,
}

const UNBALANCED: &str = "invalid arguments: a quote is not closed, or something follows a closing quote";

impl Session<'_> {
    /// Lines from a person.
    fn converse(&mut self) -> Result<ExitCode, Failure> {
        let mut editor = rustyline::DefaultEditor::new().context("cannot use this terminal")?;
        let history = history_path();
        if let Some(path) = &history {
            // The first time there is none.
            let _ = editor.load_history(path);
        }
        if let Err(Failure(message)) = self.connected() {
            complain(message);
        }
        loop {
            let line = match editor.readline(&self.prompt()) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted | ReadlineError::Eof) => break,
                Err(error) => return Err(Failure(format!("cannot read from this terminal: {error}"))),
            };
            if line.trim().is_empty() {
                continue;
            }
            if let Err(error) = editor.add_history_entry(&line) {
                complain(format_args!("cannot remember this line: {error}"));
            }
            match words::split(&line) {
                Some(words) if is_farewell(&words) => break,
                Some(words) => {
                    if let Err(Failure(message)) = self.execute(&words) {
                        complain(message);
                    }
                }
                None => complain(UNBALANCED),
            }
        }
        if let Some(Err(error)) = history.map(|path| editor.append_history(&path)) {
            complain(format_args!("cannot save the history: {error}"));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Lines from a program.
    fn read_lines(&mut self) -> Result<ExitCode, Failure> {
        let mut all_succeeded = true;
        for (number, line) in (1..).zip(std::io::stdin().lock().lines()) {
            let line = line.context("cannot read standard input")?;
            match words::split(&line) {
                Some(words) if words.is_empty() => {}
                Some(words) if is_farewell(&words) => break,
                Some(words) => all_succeeded &= self.execute(&words)?,
                // As redis-cli does: the others are of use.
                None => {
                    complain(format_args!("line {number}: {UNBALANCED}: {line}"));
                    all_succeeded = false;
                }
            }
        }
        Ok(exit_code(all_succeeded))
    }

    /// Sends one command and prints its answer. False if that is an error.
    fn execute(&mut self, words: &[Vec<u8>]) -> Result<bool, Failure> {
        self.connected()?;
        let is_answered = self.mute.is_answered(words);
        let client = self.connected()?;
        let called = if is_answered { client.call(words).map(Some) } else { client.send(words).map(|()| None) };
        let value = match called {
            Ok(Some(value)) => value,
            Ok(None) => return Ok(true),
            Err(error) => {
                self.client = None;
                return Err(error.into());
            }
        };
        self.follow(words, &value);
        let mut text = Vec::new();
        if self.raw {
            print::raw(&value, &mut text)
        } else {
            print::formatted(&value, &mut text)
        }
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&text).and_then(|()| stdout.flush()).context("cannot print the answer")?;
        Ok(!matches!(value, Value::Error(_)))
    }

    /// Keeps track of the namespace, for the prompt and for the next connection.
    fn follow(&mut self, words: &[Vec<u8>], answer: &Value) {
        let is_ok = matches!(answer, Value::Simple(text) if text == "OK");
        match words {
            [verb, number] if is_ok && verb.eq_ignore_ascii_case(b"select") => {
                let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
                self.namespace = number.unwrap_or(self.namespace);
            }
            [verb] if matches!(answer, Value::Simple(_)) && verb.eq_ignore_ascii_case(b"reset") => self.namespace = 0,
            _ => {}
        }
    }

    fn connected(&mut self) -> Result<&mut Client, Failure> {
        let client = match self.client.take() {
            Some(client) => client,
            None => self.connect()?,
        };
        Ok(self.client.insert(client))
    }

    fn connect(&mut self) -> Result<Client, Failure> {
        self.mute = Mute::default();
        let mut client = Client::connect(&self.options.endpoint)?;
        if self.options.resp3 {
            client.ask(&["HELLO", "3"])?;
        }
        if self.namespace != 0 {
            client.ask(&["SELECT", &self.namespace.to_string()])?;
        }
        Ok(client)
    }

    fn prompt(&self) -> String {
        match (&self.client, self.namespace) {
            (None, _) => "not connected> ".to_owned(),
            (Some(_), 0) => format!("{}> ", self.options.endpoint),
            (Some(_), namespace) => format!("{}[{namespace}]> ", self.options.endpoint),
        }
    }
}

fn is_farewell(words: &[Vec<u8>]) -> bool {
    matches!(words, [word] if word.eq_ignore_ascii_case(b"quit") || word.eq_ignore_ascii_case(b"exit"))
}

fn history_path() -> Option<PathBuf> {
    std::env::home_dir().map(|home| home.join(".quorate_history"))
}
