//! Replies as redis-cli prints them.

use quorate_resp::Value;

/// For a terminal: types are told apart, elements numbered.
pub(super) fn formatted(value: &Value, out: &mut Vec<u8>) {
    format_at(value, 0, out);
}

/// For a pipe: contents only, an element a line.
pub(super) fn raw(value: &Value, out: &mut Vec<u8>) {
    raw_lines(value, out);
    out.push(b'\n');
}

/// `indent` is the column at which the value stands; its first line is already there.
fn format_at(value: &Value, indent: usize, out: &mut Vec<u8>) {
    let line = match value {
        Value::Simple(text) => text.clone(),
        Value::Error(text) => format!("(error) {text}"),
        Value::Integer(number) => format!("(integer) {number}"),
        Value::BigNumber(number) => format!("(big number) {number}"),
        Value::Double(number) => format!("(double) {number}"),
        Value::Boolean(true) => "(true)".to_owned(),
        Value::Boolean(false) => "(false)".to_owned(),
        Value::Null => "(nil)".to_owned(),
        Value::Bulk(bytes) => quoted(bytes),
        Value::Verbatim { text, .. } => return out.extend_from_slice(&with_line_end(text)),
        Value::Array(elements) => return list(elements, ')', "(empty array)", indent, out),
        Value::Push(elements) => return list(elements, '>', "(empty push)", indent, out),
        Value::Set(elements) => return list(elements, '~', "(empty set)", indent, out),
        Value::Map(pairs) => return map(pairs, indent, out),
    };
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

fn list(elements: &[Value], mark: char, empty: &str, indent: usize, out: &mut Vec<u8>) {
    numbered(elements, mark, empty, indent, out, format_at);
}

fn map(pairs: &[(Value, Value)], indent: usize, out: &mut Vec<u8>) {
    numbered(pairs, '#', "(empty hash)", indent, out, |(key, value), column, out| {
        let start = out.len();
        format_at(key, column, out);
        // The key's line goes on with the value.
        out.pop();
        out.extend_from_slice(b" => ");
        format_at(value, column + (out.len() - start), out);
    });
}

fn numbered<T>(
    elements: &[T],
    mark: char,
    empty: &str,
    indent: usize,
    out: &mut Vec<u8>,
    print: impl Fn(&T, usize, &mut Vec<u8>),
) {
    if elements.is_empty() {
        out.extend_from_slice(format!("{empty}\n").as_bytes());
    }
    let width = elements.len().to_string().len();
    for (index, element) in elements.iter().enumerate() {
        // The first element's line was begun by whoever stands before it.
        let margin = if index == 0 { 0 } else { indent };
        let number = index + 1;
        out.extend_from_slice(format!("{:margin$}{number:>width$}{mark} ", "").as_bytes());
        print(element, indent + width + 2, out);
    }
}

fn raw_lines(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Simple(text) | Value::Error(text) | Value::BigNumber(text) => out.extend_from_slice(text.as_bytes()),
        Value::Integer(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Double(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Boolean(truth) => out.extend_from_slice(truth.to_string().as_bytes()),
        Value::Bulk(bytes) | Value::Verbatim { text: bytes, .. } => out.extend_from_slice(bytes),
        Value::Null => {}
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b'\n');
                }
                raw_lines(element, out);
            }
        }
        Value::Map(pairs) => {
            for (index, (key, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push(b'\n');
                }
                raw_lines(key, out);
                out.push(b' ');
                raw_lines(value, out);
            }
        }
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for &byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x07 => text.push_str("\\a"),
            0x08 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

fn with_line_end(text: &[u8]) -> Vec<u8> {
    let mut lines = text.to_vec();
    if lines.last() != Some(&b'\n') {
        lines.push(b'\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &Value) -> String {
        let mut out = Vec::new();
        formatted(value, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn piped(value: &Value) -> String {
        let mut out = Vec::new();
        raw(value, &mut out);
        String::from_utf8(out).expect("text")
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    #[test]
    fn single_values_name_their_type() {
        assert_eq!(shown(&Value::Integer(1)), "(integer) 1\n");
        assert_eq!(shown(&bulk("a \"b\"\n")), "\"a \\\"b\\\"\\n\"\n");
        assert_eq!(shown(&Value::Bulk(vec![0, 0xff])), "\"\\x00\\xff\"\n");
        assert_eq!(shown(&Value::Null), "(nil)\n");
        assert_eq!(shown(&Value::Simple("OK".to_owned())), "OK\n");
        assert_eq!(shown(&Value::Error("ERR no".to_owned())), "(error) ERR no\n");
        assert_eq!(shown(&Value::Double(1.5)), "(double) 1.5\n");
        assert_eq!(shown(&Value::Boolean(true)), "(true)\n");
    }

    #[test]
    fn elements_are_numbered_and_nested_ones_indented() {
        let inner = Value::Array(vec![Value::Integer(1), Value::Null]);
        let outer = Value::Array(vec![bulk("x"), inner, Value::Array(Vec::new())]);
        assert_eq!(shown(&outer), "1) \"x\"\n2) 1) (integer) 1\n   2) (nil)\n3) (empty array)\n");
        let ten = Value::Array((1..=10).map(Value::Integer).collect());
        assert!(shown(&ten).starts_with(" 1) (integer) 1\n 2) "), "{}", shown(&ten));
    }

    #[test]
    fn maps_show_keys_and_values() {
        let map = Value::Map(vec![
            (bulk("a"), Value::Integer(1)),
            (bulk("b"), Value::Array(vec![Value::Integer(2), Value::Integer(3)])),
        ]);
        assert_eq!(shown(&map), "1# \"a\" => (integer) 1\n2# \"b\" => 1) (integer) 2\n          2) (integer) 3\n");
    }

    #[test]
    fn in_a_pipe_only_contents_are_printed() {
        let nested = Value::Array(vec![bulk("x"), Value::Array(vec![Value::Integer(1), Value::Null])]);
        assert_eq!(piped(&nested), "x\n1\n\n");
        assert_eq!(piped(&bulk("a\nb")), "a\nb\n");
        assert_eq!(piped(&Value::Null), "\n");
        assert_eq!(piped(&Value::Error("ERR no".to_owned())), "ERR no\n");
        assert_eq!(piped(&Value::Map(vec![(bulk("k"), Value::Integer(1))])), "k 1\n");
    }
}
