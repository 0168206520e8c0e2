//! Redis's glob patterns on bytes: `*`, `?`, `[a-z]`, `[^a-z]` and `\` before a byte that stands for itself.
//!
//! Matching does not recurse and goes back to the last `*` only, so a hostile pattern costs at most
//! [`MATCH_STEPS_MAX`] steps a name. What Redis does with odd patterns (an open class, an empty name) is kept.

/// The longest pattern that KEYS and SCAN take.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// A name that needs more steps than this does not match. Only patterns made for the purpose on names of many KiB come near.
pub const MATCH_STEPS_MAX: usize = 1 << 20;

/// Whether all of `name` matches `pattern`.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    if name.is_empty() {
        return pattern.is_empty() || pattern == b"*";
    }
    let (mut at_pattern, mut at_name) = (0, 0);
    // Where to go on if what follows the last `*` does not match: the pattern after it, the name one byte further than before.
    let mut retry: Option<(usize, usize)> = None;
    for _ in 0..MATCH_STEPS_MAX {
        let rest = &pattern[at_pattern..];
        if rest.first() == Some(&b'*') {
            at_pattern += 1;
            if at_pattern == pattern.len() {
                return true;
            }
            retry = Some((at_pattern, at_name));
            continue;
        }
        match name.get(at_name) {
            None if rest.is_empty() => return true,
            // A `*` that takes more bytes leaves even fewer for the rest.
            None => return false,
            Some(&byte) => {
                if let Some(len) = match_one(rest, byte) {
                    at_pattern += len;
                    at_name += 1;
                } else if let Some((after_star, from)) = retry {
                    retry = Some((after_star, from + 1));
                    (at_pattern, at_name) = (after_star, from + 1);
                } else {
                    return false;
                }
            }
        }
    }
    false
}

/// Whether the pattern's first element (no `*`) takes `byte`, and then the element's length.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => match_class(pattern, byte),
        [b'\\', literal, ..] => (literal == byte).then_some(2),
        [literal, ..] => (literal == byte).then_some(1),
    }
}

/// Whether the class that `pattern` opens with takes `byte`, and then its length. A class left open ends with the pattern.
fn match_class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = if negated { 2 } else { 1 };
    let mut found = false;
    loop {
        match pattern[at..] {
            [] => break,
            [b'\\', literal, ..] => {
                found |= literal == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [first, b'-', last, ..] => {
                found |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::{MATCH_STEPS_MAX, matches};

    #[test]
    fn patterns_match_as_in_redis() {
        let table: &[(&[u8], &[u8], bool)] = &[
            (b"", b"", true),
            (b"", b"a", false),
            (b"*", b"", true),
            (b"**", b"", false),
            (b"*", b"anything", true),
            (b"a*", b"a", true),
            (b"a**", b"a", true),
            (b"a*?", b"a", false),
            (b"h?llo", b"hello", true),
            (b"h?llo", b"hllo", false),
            (b"h*llo", b"heeeello", true),
            (b"h*llo*", b"hxlloxllo", true),
            (b"*a*b", b"xaxxbxb", true),
            (b"*a*b", b"xaxxbxc", false),
            (b"h[ae]llo", b"hallo", true),
            (b"h[ae]llo", b"hillo", false),
            (b"h[^e]llo", b"hallo", true),
            (b"h[^e]llo", b"hello", false),
            (b"h[a-c]llo", b"hbllo", true),
            (b"h[c-a]llo", b"hbllo", true),
            (b"h[a-c]llo", b"hdllo", false),
            (b"[a-]", b"a", true),
            (b"[a-]", b"^", true),
            (b"[ab", b"b", true),
            (b"[ab", b"c", false),
            (b"[", b"[", false),
            (b"[^", b"x", true),
            (b"[]", b"]", false),
            (b"[\\]]", b"]", true),
            (b"\\*", b"*", true),
            (b"\\*", b"a", false),
            (b"a\\", b"a\\", true),
            (b"\xff?\x00", b"\xff\x80\x00", true),
        ];
        for (pattern, name, expected) in table {
            let shown = (String::from_utf8_lossy(pattern), String::from_utf8_lossy(name));
            assert_eq!(matches(pattern, name), *expected, "{shown:?}");
        }
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let name = vec![b'a'; MATCH_STEPS_MAX / 8];
        let mut pattern = b"*".to_vec();
        pattern.extend_from_slice(&[b'a'; 4000]);
        pattern.push(b'b');
        assert!(!matches(&pattern, &name));
        assert!(!matches(&b"a*".repeat(2000), &vec![b'b'; 1 << 20]));
        assert!(matches(b"*a", &name));
    }
}
