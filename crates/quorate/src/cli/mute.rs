//! What `CLIENT REPLY` has asked of the node: to wait for an answer that does not come is to wait for ever.

/// Which requests the node answers on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mute {
    #[default]
    Off,
    /// Not the next request.
    Next,
    /// None until `CLIENT REPLY ON`.
    On,
}

impl Mute {
    /// Whether this request, the next on the connection, is answered.
    pub(super) fn is_answered(&mut self, words: &[Vec<u8>]) -> bool {
        let is = |at: usize, word: &str| words.get(at).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()));
        let mode = |word: &str| words.len() == 3 && is(0, "CLIENT") && is(1, "REPLY") && is(2, word);
        let before = *self;
        let is_back = mode("ON") || words.len() == 1 && is(0, "RESET");
        *self = match before {
            _ if is_back => Mute::Off,
            _ if mode("OFF") => Mute::On,
            Mute::On => Mute::On,
            _ if mode("SKIP") => Mute::Next,
            _ => Mute::Off,
        };
        is_back || before == Mute::Off && *self == Mute::Off
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each line whether it is answered.
    fn answered(lines: &[&str]) -> Vec<bool> {
        let mut mute = Mute::default();
        let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        lines.iter().map(|line| mute.is_answered(&words(line))).collect()
    }

    #[test]
    fn nothing_is_waited_for_until_answers_are_wanted_again() {
        let lines = ["PING", "client reply off", "PING", "CLIENT REPLY SKIP", "PING", "CLIENT REPLY ON", "PING"];
        assert_eq!(answered(&lines), [true, false, false, false, false, true, true]);
    }

    #[test]
    fn one_answer_is_skipped() {
        let lines = ["CLIENT REPLY SKIP", "PING", "PING", "CLIENT REPLY SKIP x", "CLIENT REPLY OFF", "RESET"];
        assert_eq!(answered(&lines), [false, false, true, true, false, true]);
    }
}
