//! A Rust file taken apart: what is code, what is comment, and what exists for tests only.
//!
//! Not a parser: it tells strings, characters and comments from code, and finds the end of an item by its braces, which
//! is all that the rules here need.

const TEST_ATTRIBUTE: &str = "#[cfg(test)]";

/// A file with parts of it blanked out. All texts have the length and the lines of the file.
pub(crate) struct Source {
    pub(crate) path: String,
    /// Without comments and without what strings hold.
    pub(crate) code: String,
    /// Nothing but the comments.
    pub(crate) comments: String,
    /// The code without what only tests see.
    pub(crate) production: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let kinds = classify(text.as_bytes());
        let keep = |kind: Kind| -> String {
            let bytes = text.bytes().zip(&kinds).map(|(byte, &found)| match byte {
                b'\n' => byte,
                // Bytes beyond ASCII are blanked one by one: only the length matters where they stand.
                _ if found == kind && byte.is_ascii() => byte,
                _ => b' ',
            });
            bytes.map(char::from).collect()
        };
        let code = keep(Kind::Code);
        let production = if is_test_file(path) { blank(&code, 0..code.len()) } else { without_tests(&code) };
        Source { path: path.to_owned(), comments: keep(Kind::Comment), code, production }
    }

    pub(crate) fn line_count(&self) -> usize {
        self.code.lines().count()
    }
}

/// The number, from 1, of the line that holds the byte at `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Where `word` stands in `text`, not as a part of a longer name.
pub(crate) fn find_words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_name = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let bytes = text.as_bytes();
        let begins_name = is_name(word.as_bytes().first());
        let ends_name = is_name(word.as_bytes().last());
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !(begins_name && is_name(before) || ends_name && is_name(bytes.get(at + word.len())))
    })
}

/// Files that are compiled for tests, benchmarks and demonstrations only.
fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    /// Inside of a string or a character.
    Literal,
}

fn classify(bytes: &[u8]) -> Vec<Kind> {
    let mut kinds = Vec::with_capacity(bytes.len());
    while kinds.len() < bytes.len() {
        let rest = &bytes[kinds.len()..];
        let (kind, length) = next_piece(rest, kinds.last().map_or(b' ', |_| bytes[kinds.len() - 1]));
        kinds.resize((kinds.len() + length).min(bytes.len()), kind);
    }
    kinds
}

/// What `rest` begins with and how long that is. `before` is the byte before it.
fn next_piece(rest: &[u8], before: u8) -> (Kind, usize) {
    let continues_name = before.is_ascii_alphanumeric() || before == b'_';
    match rest {
        [b'/', b'/', ..] => (Kind::Comment, rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => (Kind::Comment, block_comment_length(rest)),
        [b'"', ..] => (Kind::Literal, string_length(rest)),
        [b'r', b'"' | b'#', ..] if !continues_name || before == b'b' => {
            raw_string_length(rest).map_or((Kind::Code, 1), |length| (Kind::Literal, length))
        }
        [b'\'', ..] => character_length(rest).map_or((Kind::Code, 1), |length| (Kind::Literal, length)),
        _ => (Kind::Code, 1),
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `None` for a raw identifier.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let closing = [&b"\""[..], &b"#".repeat(hashes)].concat();
    let body = &rest[2 + hashes..];
    let length = body.windows(closing.len()).position(|window| window == closing);
    Some(length.map_or(rest.len(), |length| 2 + hashes + length + closing.len()))
}

/// `None` for a lifetime.
fn character_length(rest: &[u8]) -> Option<usize> {
    let closes = |from: usize| rest[from..].iter().take(12).position(|&byte| byte == b'\'').map(|at| from + at + 1);
    match rest.get(1)? {
        b'\\' => closes(3),
        byte if byte.is_ascii() => (rest.get(2) == Some(&b'\'')).then_some(3),
        // A character of several bytes.
        _ => closes(2),
    }
}

/// Blanks every item that begins with the test attribute.
fn without_tests(code: &str) -> String {
    let mut production = code.to_owned();
    while let Some(at) = production.find(TEST_ATTRIBUTE) {
        let end = item_end(&production, at);
        production = blank(&production, at..end);
    }
    production
}

/// Where the item that begins at `at` ends: at its closing brace, or at a semicolon before any.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.as_bytes()[at..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth <= 1 => return at + offset + 1,
            b'}' => depth -= 1,
            b';' if depth == 0 => return at + offset + 1,
            _ => {}
        }
    }
    code.len()
}

fn blank(code: &str, range: std::ops::Range<usize>) -> String {
    let is_kept = |at: usize, letter: char| letter == '\n' || !range.contains(&at);
    code.char_indices().map(|(at, letter)| if is_kept(at, letter) { letter } else { ' ' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("crates/x/src/lib.rs", text).code
    }

    #[test]
    fn comments_and_strings_are_no_code() {
        let blanks = |count: usize| " ".repeat(count);
        assert_eq!(code("a /* b /* c */ d */ e // f\ng"), format!("a{}e{}\ng", blanks(19), blanks(5)));
        assert_eq!(code(r#"x("a\"b", c)"#), format!("x({}, c)", blanks(6)));
        assert_eq!(code("let x = r#\"a\"b\"#;"), format!("let x = {};", blanks(8)));
        assert_eq!(code("b\"// none\" y"), format!("b{} y", blanks(9)));
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        assert_eq!(code("f::<'a>('\"', '\\'', 'b', '\u{e4}') // c"), "f::<'a>(   ,     ,    ,     )     ");
        assert_eq!(code("fn f<'a>(x: &'a str) -> r#type {}"), "fn f<'a>(x: &'a str) -> r#type {}");
    }

    #[test]
    fn comments_are_kept_apart() {
        let source = Source::new("crates/x/src/lib.rs", "a(); // b \"c\"\n");
        assert_eq!(source.comments, "     // b \"c\"\n");
    }

    #[test]
    fn what_only_tests_see_is_no_production_code() {
        let text = "a();\n#[cfg(test)]\nmod tests {\n fn b() { c(); }\n}\n#[cfg(test)]\nmod other;\nd();\n";
        let source = Source::new("crates/x/src/lib.rs", text);
        let words: Vec<&str> = source.production.split_whitespace().collect();
        assert_eq!(words, ["a();", "d();"]);
        assert_eq!(source.production.len(), text.len());
        assert!(Source::new("crates/x/src/config/tests.rs", "a();").production.trim().is_empty());
        assert!(Source::new("crates/x/tests/a.rs", "a();").production.trim().is_empty());
    }

    #[test]
    fn words_are_found_whole() {
        let text = "SystemTime MySystemTime SystemTimes x.unwrap() unwrap_or()";
        assert_eq!(find_words(text, "SystemTime").collect::<Vec<_>>(), [0]);
        assert_eq!(find_words(text, ".unwrap()").count(), 1);
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }
}
