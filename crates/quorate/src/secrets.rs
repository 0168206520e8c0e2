//! `quorate password` and `quorate token`: secrets, and the hashes of them that nodes keep.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use clap::Args;
use quorate_server::auth::secrets::{PASSWORD_BYTES_MAX, PasswordHash, Token};

use crate::failure::{Context, Failure};
use crate::output::say;

/// Print the hash of a password, for auth.password_hash in every node.toml
///
/// The password is the first line of standard input, which is asked for on a terminal and then not shown. It cannot be
/// given on the command line, where others on the machine could read it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  quorate password < password.txt")]
pub(crate) struct PasswordOptions {}

/// Draw a random token for the admin port, and print it with its hash, for auth.admin_token_hash in every node.toml
///
/// The token is what administrators show to HTTP, as `Authorization: Bearer TOKEN`. Only its hash is for the nodes.
#[derive(Debug, Args)]
pub(crate) struct TokenOptions {}

pub(crate) fn print_password_hash(_options: &PasswordOptions) -> Result<ExitCode, Failure> {
    let password = if std::io::stdin().is_terminal() { ask_twice()? } else { read_line()? };
    let hash = PasswordHash::make(password.as_bytes()).map_err(|error| Failure(error.to_string()))?;
    say(format_args!("password_hash = \"{hash}\""));
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn print_token(_options: &TokenOptions) -> Result<ExitCode, Failure> {
    let token = Token::random().map_err(|error| Failure(error.to_string()))?;
    // The token alone goes where it is redirected to; the hash is for the person.
    let hash = token.hash();
    if std::io::stdout().is_terminal() {
        say(format_args!("token:  {}\nadmin_token_hash = \"{hash}\"", token.expose()));
    } else {
        say(token.expose());
        let _ = writeln!(std::io::stderr(), "admin_token_hash = \"{hash}\"");
    }
    Ok(ExitCode::SUCCESS)
}

/// A first line, without its end.
pub(crate) fn read_line() -> Result<String, Failure> {
    let mut line = String::new();
    let mut input = std::io::Read::take(std::io::stdin().lock(), PASSWORD_BYTES_MAX as u64 + 2);
    input.read_line(&mut line).context("cannot read the password from standard input")?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn ask_twice() -> Result<String, Failure> {
    let _silence = Silence::begin();
    let first = prompt("password: ")?;
    if prompt("once more: ")? != first {
        return Err(Failure::new("the two are not the same; nothing was made"));
    }
    Ok(first)
}

fn prompt(text: &str) -> Result<String, Failure> {
    let mut stderr = std::io::stderr().lock();
    write!(stderr, "{text}").and_then(|()| stderr.flush()).context("cannot ask for the password")?;
    let line = read_line();
    // The line end that was typed is not shown either.
    let _ = writeln!(stderr);
    line
}

/// While it lives, the terminal does not show what is typed.
struct Silence {
    before: Option<libc::termios>,
}

impl Silence {
    fn begin() -> Silence {
        let mut settings = std::mem::MaybeUninit::<libc::termios>::zeroed();
        // SAFETY: the call writes a termios to the pointer it is given; all bits zero are one, should it fail.
        let before = unsafe {
            match libc::tcgetattr(libc::STDIN_FILENO, settings.as_mut_ptr()) {
                0 => settings.assume_init(),
                _ => return Silence { before: None },
            }
        };
        let mut silent = before;
        silent.c_lflag &= !libc::ECHO;
        apply(&silent);
        Silence { before: Some(before) }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            apply(before);
        }
    }
}

fn apply(settings: &libc::termios) {
    // SAFETY: the call reads the termios that it is given. A terminal that refuses shows what is typed.
    unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, settings) };
}
