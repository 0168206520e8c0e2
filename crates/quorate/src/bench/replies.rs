//! Counts replies without keeping them: what SET and GET are answered with, and no more of the protocol.

/// The longest error that is kept to be shown.
const ERROR_LENGTH_MAX: usize = 200;

#[derive(Debug, Default)]
pub(super) struct ReplyCounter {
    state: State,
    /// Replies that were errors.
    pub(super) errors: u64,
    /// The first of them.
    pub(super) first_error: Option<String>,
    /// The error that is being read, if it is the first.
    error: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    /// In a line that is a reply of its own.
    Line,
    /// In an error's line.
    Error,
    /// In a string's length, of which this much is read; none means -1.
    Length(Option<usize>),
    /// In a string, with this much to go, its line end included.
    Text(usize),
}

/// The server answered with something else than SET and GET are answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unexpected(pub(super) u8);

impl ReplyCounter {
    /// How many replies end in `bytes`, which follow those of the last call.
    pub(super) fn count(&mut self, mut bytes: &[u8]) -> Result<u64, Unexpected> {
        let mut count = 0;
        while let Some((&byte, rest)) = bytes.split_first() {
            if let State::Text(left) = self.state {
                let skipped = left.min(bytes.len());
                bytes = &bytes[skipped..];
                self.state = State::Text(left - skipped);
                if skipped == left {
                    self.state = State::Start;
                    count += 1;
                }
                continue;
            }
            bytes = rest;
            count += u64::from(self.take(byte)?);
        }
        Ok(count)
    }

    /// True if the byte ends a reply.
    fn take(&mut self, byte: u8) -> Result<bool, Unexpected> {
        let ends = byte == b'\n';
        self.state = match self.state {
            State::Start => match byte {
                b'+' | b':' | b'_' => State::Line,
                b'-' => State::Error,
                b'$' => State::Length(Some(0)),
                other => return Err(Unexpected(other)),
            },
            State::Line | State::Length(None) if ends => State::Start,
            State::Error if ends => {
                self.end_error();
                State::Start
            }
            State::Length(Some(length)) if ends => {
                self.state = State::Text(length + 2);
                return Ok(false);
            }
            State::Length(_) if byte == b'-' => State::Length(None),
            State::Length(Some(length)) if byte.is_ascii_digit() => {
                let digit = usize::from(byte - b'0');
                State::Length(Some(length.saturating_mul(10).saturating_add(digit)))
            }
            State::Error => {
                if self.errors == 0 && byte != b'\r' && self.error.len() < ERROR_LENGTH_MAX {
                    self.error.push(byte);
                }
                State::Error
            }
            unchanged => unchanged,
        };
        Ok(ends)
    }

    fn end_error(&mut self) {
        if self.errors == 0 {
            self.first_error = Some(String::from_utf8_lossy(&self.error).into_owned());
        }
        self.errors += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: &[u8] = b"+OK\r\n$5\r\na\nb\r\n\r\n$-1\r\n-ERR no\r\n$0\r\n\r\n:1\r\n-ERR again\r\n_\r\n";

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        for piece in 1..=REPLIES.len() {
            let mut counter = ReplyCounter::default();
            let count: u64 = REPLIES.chunks(piece).map(|bytes| counter.count(bytes).expect("known")).sum();
            assert_eq!(count, 8, "in pieces of {piece}");
            assert_eq!(counter.errors, 2);
            assert_eq!(counter.first_error.as_deref(), Some("ERR no"));
        }
    }

    #[test]
    fn other_replies_are_refused() {
        assert_eq!(ReplyCounter::default().count(b"*1\r\n"), Err(Unexpected(b'*')));
    }
}
