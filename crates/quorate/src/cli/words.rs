//! A line as words, quoted as in redis-cli: which is how a server reads an inline request.

use quorate_resp::{RequestLimits, RequestParser};

/// The line's words, or none if its quotes do not match.
pub(super) fn split(line: &str) -> Option<Vec<Vec<u8>>> {
    // The space keeps a leading `*` from being taken for the start of an array.
    let mut request = format!(" {}\n", line.trim_end_matches(['\r', '\n'])).into_bytes();
    let limits = RequestLimits { line_length_max: request.len(), ..RequestLimits::default() };
    let mut parser = RequestParser::new(limits);
    match parser.parse(&mut request) {
        Ok(Some(_)) => Some(parser.arguments(&request).iter().map(<[u8]>::to_vec).collect()),
        Ok(None) => Some(Vec::new()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line).expect("balanced").iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect()
    }

    #[test]
    fn quotes_group_and_escapes_are_undone() {
        assert_eq!(words("SET key value"), ["SET", "key", "value"]);
        assert_eq!(words(r#"SET "a b" 'c "d"'"#), ["SET", "a b", "c \"d\""]);
        assert_eq!(words(r#"ECHO "\x41\n\"" "#), ["ECHO", "A\n\""]);
        assert_eq!(words(r#"SET k """#), ["SET", "k", ""]);
        assert_eq!(words("*1"), ["*1"]);
        assert_eq!(words("   "), Vec::<String>::new());
        assert_eq!(words(""), Vec::<String>::new());
    }

    #[test]
    fn unbalanced_quotes_are_noticed() {
        assert_eq!(split("SET \"key"), None);
        assert_eq!(split("SET 'a'b"), None);
    }

    #[test]
    fn long_lines_are_words_too() {
        let long = "x".repeat(1 << 20);
        assert_eq!(words(&format!("SET k {long}"))[2], long);
    }
}
