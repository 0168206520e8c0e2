//! Requests as clients send them, whole, in pieces, too large, and broken.

use quorate_resp::{GUEST_ARGUMENT_COUNT_MAX, GUEST_ARGUMENT_LENGTH_MAX, ProtocolError, RequestLimits, RequestParser};

type Words = Vec<Vec<u8>>;

/// Feeds `input` in pieces of `step` bytes and collects the requests, up to the first error.
fn feed(parser: &mut RequestParser, input: &[u8], step: usize) -> (Vec<Words>, Option<ProtocolError>) {
    let mut requests = Vec::new();
    let mut buffer = Vec::new();
    for piece in input.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match parser.parse(&mut buffer) {
                Ok(None) => break,
                Ok(Some(length)) => {
                    requests.push(parser.arguments(&buffer).iter().map(<[u8]>::to_vec).collect());
                    buffer.drain(..length);
                }
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

fn requests(input: &[u8]) -> Vec<Words> {
    let (whole, error) = feed(&mut RequestParser::default(), input, input.len().max(1));
    assert_eq!(error, None);
    let bytewise = feed(&mut RequestParser::default(), input, 1);
    assert_eq!(bytewise, (whole.clone(), None), "fed byte by byte");
    whole
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn a_multibulk_request() {
    assert_eq!(requests(b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n"), [words(&["SET", "key", "value"])]);
    assert_eq!(requests(b"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"), [words(&["ECHO", ""])]);
    assert_eq!(requests(b"*1\r\n$4\r\n\r\n\r\n\r\n"), [words(&["\r\n\r\n"])]);
}

#[test]
fn an_inline_request() {
    assert_eq!(requests(b"ping\r\n"), [words(&["ping"])]);
    assert_eq!(requests(b"ping\n"), [words(&["ping"])]);
    assert_eq!(requests(b"set a \"b c\"\r\n"), [words(&["set", "a", "b c"])]);
}

#[test]
fn a_pipeline_of_both_kinds() {
    assert_eq!(
        requests(b"ping\r\n*1\r\n$4\r\nPING\r\nset 'a' b\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n"),
        [words(&["ping"]), words(&["PING"]), words(&["set", "a", "b"]), words(&["GET", "a"])]
    );
}

#[test]
fn requests_without_arguments_are_there_to_be_skipped() {
    assert_eq!(requests(b"\r\n"), [words(&[])]);
    assert_eq!(requests(b"   \r\n*0\r\n*-1\r\nping\r\n"), {
        let empty = words(&[]);
        [empty.clone(), empty.clone(), empty, words(&["ping"])]
    });
}

#[test]
fn what_redis_does_not_look_at_is_not_looked_at() {
    assert_eq!(requests(b"*1\rx$4\rxPINGxx"), [words(&["PING"])]);
}

#[test]
fn a_partial_request_waits() {
    let whole = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n";
    for length in 0..whole.len() {
        let (found, error) = feed(&mut RequestParser::default(), &whole[..length], whole.len());
        assert_eq!((found, error), (vec![], None), "{length} bytes");
    }
}

#[test]
fn counts_and_lengths_have_any_number_of_digits() {
    for number in [0, 1, 9, 10, 11, 99, 100, 101, 1000] {
        let word = "x".repeat(number);
        assert_eq!(requests(format!("*1\r\n${number}\r\n{word}\r\n").as_bytes()), [words(&[&word])]);
        let input = format!("*{number}\r\n{}", "$1\r\na\r\n".repeat(number));
        assert_eq!(requests(input.as_bytes()), [words(&vec!["a"; number])]);
    }
}

#[test]
fn arguments_are_counted_and_sliced() {
    let mut input = b"*3\r\n$4\r\nMGET\r\n$1\r\na\r\n$1\r\nb\r\n".to_vec();
    let mut parser = RequestParser::default();
    assert_eq!(parser.parse(&mut input), Ok(Some(input.len())));
    let arguments = parser.arguments(&input);
    assert_eq!(arguments.len(), 3);
    assert_eq!(&arguments[2], b"b");
    assert_eq!(arguments.at(3), None);
    assert_eq!(arguments.from(1).iter().collect::<Vec<_>>(), [b"a", b"b"]);
    assert!(arguments.from(9).is_empty());
}

#[test]
fn protocol_errors_in_the_words_of_redis() {
    for (input, text) in [
        (&b"*x\r\n"[..], "invalid multibulk length"),
        (b"*+1\r\n", "invalid multibulk length"),
        (b"*01\r\n", "invalid multibulk length"),
        (b"* 1\r\n", "invalid multibulk length"),
        (b"*9999999999\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*1\r\nx4\r\nPING\r\n", "expected '$', got 'x'"),
        (b"*1\r\n\r\n", "expected '$', got ' '"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$\r\n", "invalid bulk length"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$01\r\n", "invalid bulk length"),
        (b"*1\r\n$16777217\r\n", "invalid bulk length"),
        (b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1x\r\n", "invalid bulk length"),
        (b"ping \"a\r\n", "unbalanced quotes in request"),
        (b"ping 'a'b\r\n", "unbalanced quotes in request"),
    ] {
        for step in [input.len(), 1] {
            let (_, error) = feed(&mut RequestParser::default(), input, step);
            let error = error.unwrap_or_else(|| panic!("{} passed", input.escape_ascii()));
            assert_eq!(error.to_string(), format!("Protocol error: {text}"), "{}", input.escape_ascii());
        }
    }
}

#[test]
fn limits_hold_at_their_edges() {
    let limits =
        RequestLimits { argument_length_max: 8, argument_count_max: 3, line_length_max: 16, request_length_max: 40 };
    let outcome = |input: &[u8]| {
        let whole = feed(&mut RequestParser::new(limits), input, input.len());
        let bytewise = feed(&mut RequestParser::new(limits), input, 1);
        assert_eq!(whole.1, bytewise.1, "{}", input.escape_ascii());
        (whole.0.len(), whole.1)
    };
    assert_eq!(outcome(b"*1\r\n$8\r\n12345678\r\n"), (1, None));
    assert_eq!(outcome(b"*1\r\n$9\r\n"), (0, Some(ProtocolError::BulkLength)));
    assert_eq!(outcome(b"*3\r\n$1\r\na\r\n$1\r\na\r\n$1\r\na\r\n"), (1, None));
    assert_eq!(outcome(b"*4\r\n"), (0, Some(ProtocolError::MultibulkLength)));
    assert_eq!(outcome(b"1234567890123456\n"), (1, None));
    assert_eq!(outcome(b"1234567890123456\r\n"), (1, None));
    assert_eq!(outcome(b"12345678901234567\r\n"), (0, Some(ProtocolError::InlineLength)));
    assert_eq!(outcome(b"12345678901234567"), (0, Some(ProtocolError::InlineLength)));
    assert_eq!(outcome(b"*1111111111111111"), (0, Some(ProtocolError::MultibulkLineLength)));
    assert_eq!(outcome(b"*1\r\n$1111111111111111"), (0, Some(ProtocolError::BulkLineLength)));
    // 4 + 12 + 12 + 12 bytes are exactly the limit; one more is too much, known before the argument has arrived.
    assert_eq!(outcome(b"*3\r\n$6\r\n123456\r\n$6\r\n123456\r\n$6\r\n123456\r\n"), (1, None));
    assert_eq!(
        outcome(b"*3\r\n$6\r\n123456\r\n$6\r\n123456\r\n$7\r\n1234567\r\n"),
        (0, Some(ProtocolError::RequestLength))
    );
}

#[test]
fn a_declared_length_costs_nothing() {
    // Each of these announces as much as is allowed; the parser must come back at once and wait.
    let mut parser = RequestParser::default();
    assert_eq!(parser.parse(&mut b"*1048576\r\n$16777216\r\n".to_vec()), Ok(None));
}

#[test]
fn a_long_argument_in_many_pieces() {
    let value = vec![b'v'; 1 << 20];
    let mut input = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", value.len()).into_bytes();
    input.extend_from_slice(&value);
    input.extend_from_slice(b"\r\nping\r\n");
    let (requests, error) = feed(&mut RequestParser::default(), &input, 1000);
    assert_eq!(error, None);
    assert_eq!(requests, [vec![b"ECHO".to_vec(), value], words(&["ping"])]);
}

#[test]
fn garbage_never_panics() {
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let alphabet = b"*$\r\n0123-9 \"'\\xabPING\0\xff";
    let mut refused = 0;
    for round in 0..20_000 {
        let length = 1 + next() as usize % 60;
        let input: Vec<u8> = (0..length)
            .map(|_| match round % 2 {
                0 => alphabet[next() as usize % alphabet.len()],
                _ => next() as u8,
            })
            .collect();
        let whole = feed(&mut RequestParser::default(), &input, length);
        let pieces = feed(&mut RequestParser::default(), &input, 1 + next() as usize % 5);
        assert_eq!(whole, pieces, "{}", input.escape_ascii());
        refused += usize::from(whole.1.is_some());
    }
    assert!(refused > 1_000, "the garbage should be broken often enough: {refused}");
}

#[test]
fn guests_have_narrower_limits_until_they_are_none() {
    let mut parser = RequestParser::default();
    parser.set_guest(true);
    let of_count = |count: usize| format!("*{count}\r\n{}", "$1\r\na\r\n".repeat(count)).into_bytes();
    let of_length = |length: usize| format!("*1\r\n${length}\r\n{}\r\n", "a".repeat(length)).into_bytes();
    for good in [of_count(GUEST_ARGUMENT_COUNT_MAX), of_length(GUEST_ARGUMENT_LENGTH_MAX)] {
        let (found, error) = feed(&mut parser, &good, 100);
        assert_eq!((found.len(), error), (1, None));
    }
    for (bad, text) in [
        (of_count(GUEST_ARGUMENT_COUNT_MAX + 1), "unauthenticated multibulk length"),
        (of_length(GUEST_ARGUMENT_LENGTH_MAX + 1), "unauthenticated bulk length"),
    ] {
        let mut parser = RequestParser::default();
        parser.set_guest(true);
        let (_, error) = feed(&mut parser, &bad, 1);
        assert_eq!(error.expect("too much").to_string(), format!("Protocol error: {text}"));
        let mut parser = RequestParser::default();
        parser.set_guest(true);
        parser.set_guest(false);
        assert_eq!(feed(&mut parser, &bad, bad.len()).1, None);
    }
}
