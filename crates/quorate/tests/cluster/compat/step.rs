//! One thing that a client sends, the same bytes to both servers.

use quorate_resp::write_request;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// What the command means; of an inline command, the words that its line is made of.
    pub(crate) words: Vec<Vec<u8>>,
    pub(crate) form: Form,
    /// What the next batch must wait for.
    pub(crate) after: After,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// An array of bulk strings.
    Request,
    /// A line or anything else, byte by byte.
    Raw(Vec<u8>),
    /// SCAN from 0 on until it is over; the words are its options.
    WholeScan,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum After {
    Nothing,
    /// It ends its batch: the servers may differ within a rule, and are then made equal again.
    EndOfBatch,
    /// A deadline that passes.
    Expiry,
}

impl Step {
    pub(crate) fn request(words: Vec<Vec<u8>>) -> Step {
        Step { words, form: Form::Request, after: After::Nothing }
    }

    pub(crate) fn of(words: &[&str]) -> Step {
        Step::request(words.iter().map(|word| word.as_bytes().to_vec()).collect())
    }

    pub(crate) fn raw(bytes: &[u8]) -> Step {
        Step { words: Vec::new(), form: Form::Raw(bytes.to_vec()), after: After::Nothing }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match &self.form {
            Form::Request => write_request(out, &self.words),
            Form::Raw(bytes) => out.extend_from_slice(bytes),
            Form::WholeScan => unreachable!("a scan is several requests"),
        }
    }

    /// As a person could type it.
    pub(crate) fn told(&self) -> String {
        let words: Vec<String> = self.words.iter().map(|word| shown(word)).collect();
        match &self.form {
            Form::Request => words.join(" "),
            Form::Raw(bytes) => format!("raw {}", shown(bytes)),
            Form::WholeScan => format!("the whole of SCAN {}", words.join(" ")),
        }
    }
}

pub(crate) fn shown(bytes: &[u8]) -> String {
    const LENGTH_MAX: usize = 600;
    let rest = bytes.len().saturating_sub(LENGTH_MAX);
    let text = format!("\"{}\"", bytes[..bytes.len() - rest].escape_ascii());
    if rest == 0 { text } else { format!("{text} and {rest} bytes") }
}
