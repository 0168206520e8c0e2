//! Replies: golden bytes of both versions out, and back in.

use quorate_resp::{ReplyError, ReplyLimits, ReplyParser, ReplyWriter, Value, Version, write_request};

fn written(version: Version, write: impl Fn(&mut ReplyWriter<'_>)) -> String {
    let mut out = Vec::new();
    write(&mut ReplyWriter::new(&mut out, version));
    String::from_utf8(out).expect("replies here are text")
}

#[track_caller]
fn assert_written(write: impl Fn(&mut ReplyWriter<'_>), resp2: &str, resp3: &str) {
    assert_eq!(written(Version::Resp2, &write), resp2);
    assert_eq!(written(Version::Resp3, &write), resp3);
}

#[test]
fn every_type_in_both_versions() {
    assert_written(|w| w.simple("OK"), "+OK\r\n", "+OK\r\n");
    assert_written(|w| w.error(b"ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n");
    assert_written(|w| w.integer(-42), ":-42\r\n", ":-42\r\n");
    assert_written(|w| w.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n");
    assert_written(|w| w.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n");
    assert_written(|w| w.null(), "$-1\r\n", "_\r\n");
    assert_written(|w| w.null_array(), "*-1\r\n", "_\r\n");
    assert_written(|w| w.array(3), "*3\r\n", "*3\r\n");
    assert_written(|w| w.map(3), "*6\r\n", "%3\r\n");
    assert_written(|w| w.set(3), "*3\r\n", "~3\r\n");
    assert_written(|w| w.double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n");
    assert_written(|w| w.double(10.0), "$2\r\n10\r\n", ",10\r\n");
    assert_written(|w| w.double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n");
    assert_written(|w| w.double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n");
    assert_written(|w| w.double_text("1e+20"), "$5\r\n1e+20\r\n", ",1e+20\r\n");
    assert_written(|w| w.boolean(true), ":1\r\n", "#t\r\n");
    assert_written(|w| w.boolean(false), ":0\r\n", "#f\r\n");
    assert_written(|w| w.verbatim_text(b"hello"), "$5\r\nhello\r\n", "=9\r\ntxt:hello\r\n");
}

/// Parses all of `input`, whole and byte by byte, which must agree.
fn parsed(limits: ReplyLimits, input: &[u8]) -> Result<Vec<Value>, ReplyError> {
    let whole = parsed_in_steps(limits, input, input.len().max(1));
    let bytewise = parsed_in_steps(limits, input, 1);
    assert_eq!(format!("{whole:?}"), format!("{bytewise:?}"), "{}", input.escape_ascii());
    whole
}

fn parsed_in_steps(limits: ReplyLimits, input: &[u8], step: usize) -> Result<Vec<Value>, ReplyError> {
    let mut parser = ReplyParser::new(limits);
    let mut buffer = Vec::new();
    let mut values = Vec::new();
    for piece in input.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            let (consumed, value) = parser.parse(&buffer)?;
            buffer.drain(..consumed);
            match value {
                Some(value) => values.push(value),
                None => break,
            }
        }
    }
    Ok(values)
}

fn one(input: &[u8]) -> Value {
    let mut values = parsed(ReplyLimits::default(), input).expect("a valid reply");
    assert_eq!(values.len(), 1, "{}", input.escape_ascii());
    values.remove(0)
}

#[test]
fn replies_are_read() {
    assert_eq!(one(b"+OK\r\n"), Value::Simple("OK".into()));
    assert_eq!(one(b"-ERR no\r\n"), Value::Error("ERR no".into()));
    assert_eq!(one(b"!6\r\nERR no\r\n"), Value::Error("ERR no".into()));
    assert_eq!(one(b":-7\r\n"), Value::Integer(-7));
    assert_eq!(one(b"$4\r\na\r\nb\r\n"), Value::Bulk(b"a\r\nb".to_vec()));
    assert_eq!(one(b"$-1\r\n"), Value::Null);
    assert_eq!(one(b"*-1\r\n"), Value::Null);
    assert_eq!(one(b"_\r\n"), Value::Null);
    assert_eq!(one(b",1.5\r\n"), Value::Double(1.5));
    assert_eq!(one(b",-inf\r\n"), Value::Double(f64::NEG_INFINITY));
    assert_eq!(one(b"#t\r\n"), Value::Boolean(true));
    assert_eq!(one(b"(123\r\n"), Value::BigNumber("123".into()));
    assert_eq!(one(b"=6\r\ntxt:ab\r\n"), Value::Verbatim { format: "txt".into(), text: b"ab".to_vec() });
    assert_eq!(one(b"*0\r\n"), Value::Array(vec![]));
    assert_eq!(
        one(b"*2\r\n*1\r\n:1\r\n~1\r\n+a\r\n"),
        Value::Array(vec![Value::Array(vec![Value::Integer(1)]), Value::Set(vec![Value::Simple("a".into())])])
    );
    assert_eq!(one(b"%1\r\n+a\r\n*0\r\n"), Value::Map(vec![(Value::Simple("a".into()), Value::Array(vec![]))]));
    assert_eq!(one(b">1\r\n+a\r\n"), Value::Push(vec![Value::Simple("a".into())]));
}

#[test]
fn attributes_are_skipped_wherever_they_stand() {
    assert_eq!(one(b"|1\r\n+ttl\r\n:3\r\n+OK\r\n"), Value::Simple("OK".into()));
    assert_eq!(
        one(b"*2\r\n:1\r\n|1\r\n+ttl\r\n*1\r\n:3\r\n:2\r\n"),
        Value::Array(vec![Value::Integer(1), Value::Integer(2)])
    );
    assert_eq!(one(b"|0\r\n:5\r\n"), Value::Integer(5));
}

#[test]
fn broken_replies_are_refused() {
    for input in
        [&b"?\r\n"[..], b"\r\n", b":x\r\n", b"#x\r\n", b"_x\r\n", b",x\r\n", b"$-2\r\n", b"$?\r\n", b"=2\r\nab\r\n"]
    {
        parsed(ReplyLimits::default(), input).expect_err(&input.escape_ascii().to_string());
    }
    assert_eq!(parsed(ReplyLimits::default(), b"$1\r\nabc"), Err(ReplyError::MissingLineEnd));
}

#[test]
fn limits_hold_at_their_edges() {
    let limits = ReplyLimits { depth_max: 2, string_length_max: 3, element_count_max: 2, line_length_max: 10 };
    assert!(parsed(limits, b"*1\r\n*1\r\n:1\r\n").is_ok());
    assert_eq!(parsed(limits, b"*1\r\n*1\r\n*1\r\n"), Err(ReplyError::TooDeep));
    assert!(parsed(limits, b"$3\r\nabc\r\n").is_ok());
    assert_eq!(parsed(limits, b"$4\r\n"), Err(ReplyError::StringTooLong));
    assert!(parsed(limits, b"*2\r\n:1\r\n:2\r\n").is_ok());
    assert_eq!(parsed(limits, b"*3\r\n"), Err(ReplyError::TooManyElements));
    assert!(parsed(limits, b"+123456789\r\n").is_ok());
    assert_eq!(parsed(limits, b"+1234567890"), Err(ReplyError::LineTooLong));
    assert_eq!(parsed(limits, b"+1234567890\r\n"), Err(ReplyError::LineTooLong));
}

#[test]
fn a_request_is_written_as_every_server_takes_it() {
    let mut out = Vec::new();
    write_request(&mut out, &["SET", "k", ""]);
    assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
}

#[test]
fn garbage_never_panics() {
    let mut seed: u64 = 0x2545_f491_4f6c_dd1d;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let alphabet = b"+-:$*%~>|=!(,#_\r\n\r\n\r\n0123tf";
    let mut read = 0;
    for _ in 0..20_000 {
        let length = 1 + next() as usize % 60;
        let input: Vec<u8> = (0..length).map(|_| alphabet[next() as usize % alphabet.len()]).collect();
        read += parsed(ReplyLimits::default(), &input).map_or(0, |values| values.len());
    }
    assert!(read > 100, "some of the garbage should be replies: {read}");
}
