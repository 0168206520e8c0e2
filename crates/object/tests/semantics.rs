//! Every command answers and does what Redis 7.0 would.

mod common;

use common::{HASH_KEY, bulk, check, error, expire, expire_if, get, pttl, set, set_until, set_with};
use quorate_object::Outcome::{Int, Nil, Ok, Word};
use quorate_object::{
    Access, Change, Command, Condition, ExpireCondition, Expiry, NAME_BYTES_MAX, OBJECT_BYTES_MAX, Objects, SetAnswer,
    TtlUnit,
};

const TOO_LARGE: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";

fn objects() -> Objects {
    Objects::new(HASH_KEY)
}

#[test]
fn set_and_get() {
    check(
        &mut objects(),
        &[
            (0, get("k"), Nil),
            (0, set("k", "v"), Ok),
            (0, get("k"), bulk("v")),
            (0, set("k", ""), Ok),
            (0, get("k"), bulk("")),
            (0, Command::Strlen { key: b"k" }, Int(0)),
            (0, Command::Strlen { key: b"absent" }, Int(0)),
            (0, Command::Exists { key: b"k" }, Int(1)),
            (0, Command::Exists { key: b"absent" }, Int(0)),
            (0, Command::Type { key: b"k" }, Word("string")),
            (0, Command::Type { key: b"absent" }, Word("none")),
            (0, Command::Count, Int(1)),
            (0, Command::Del { key: b"k" }, Int(1)),
            (0, Command::Del { key: b"k" }, Int(0)),
            (0, Command::Count, Int(0)),
        ],
    );
}

#[test]
fn set_conditions_and_answers() {
    use Condition::{Always, IfAbsent, IfEqual, IfPresent};
    let set = |value, condition, answer| set_with("k", value, condition, Expiry::Unset, answer);
    check(
        &mut objects(),
        &[
            (0, set("1", IfPresent, SetAnswer::Ok), Nil),
            (0, set("1", IfEqual(b""), SetAnswer::Ok), Nil),
            (0, set("1", IfAbsent, SetAnswer::Ok), Ok),
            (0, set("2", IfAbsent, SetAnswer::Ok), Nil),
            (0, get("k"), bulk("1")),
            (0, set("2", IfPresent, SetAnswer::Ok), Ok),
            (0, set("3", IfEqual(b"1"), SetAnswer::Ok), Nil),
            (0, set("3", IfEqual(b"2"), SetAnswer::Ok), Ok),
            (0, set("4", IfAbsent, SetAnswer::Old), bulk("3")),
            (0, set("4", Always, SetAnswer::Old), bulk("3")),
            (0, set("5", IfAbsent, SetAnswer::Flag), Int(0)),
            (0, get("k"), bulk("4")),
            (0, Command::Del { key: b"k" }, Int(1)),
            (0, set("6", IfPresent, SetAnswer::Old), Nil),
            (0, get("k"), Nil),
            (0, set("6", Always, SetAnswer::Old), Nil),
            (0, get("k"), bulk("6")),
            (0, Command::GetSet { key: b"k", value: b"7" }, bulk("6")),
            (0, Command::GetDel { key: b"k" }, bulk("7")),
            (0, Command::GetDel { key: b"k" }, Nil),
            (0, set("8", IfAbsent, SetAnswer::Flag), Int(1)),
            (0, get("k"), bulk("8")),
        ],
    );
}

#[test]
fn who_keeps_an_expiry_and_who_clears_it() {
    let keep = set_with("k", "w", Condition::Always, Expiry::Keep, SetAnswer::Ok);
    let denied = set_with("k", "w", Condition::IfAbsent, Expiry::AtMs(999), SetAnswer::Ok);
    check(
        &mut objects(),
        &[
            (0, set_until("k", "1", 100), Ok),
            (10, pttl("k"), Int(90)),
            (10, Command::IncrBy { key: b"k", delta: 1 }, Int(2)),
            (10, Command::IncrByFloat { key: b"k", delta: 0.5 }, bulk("2.5")),
            (10, Command::Append { key: b"k", value: b"1234567890" }, Int(13)),
            (10, Command::SetRange { key: b"k", offset: 15, value: b"x" }, Int(16)),
            (10, denied, Nil),
            (10, pttl("k"), Int(90)),
            (10, keep, Ok),
            (10, get("k"), bulk("w")),
            (10, pttl("k"), Int(90)),
            (10, set("k", "v"), Ok),
            (10, pttl("k"), Int(-1)),
            (10, expire("k", 50), Int(1)),
            (10, Command::GetSet { key: b"k", value: b"v" }, bulk("v")),
            (10, pttl("k"), Int(-1)),
            (10, expire("k", 50), Int(1)),
            (10, Command::Persist { key: b"k" }, Int(1)),
            (10, Command::Persist { key: b"k" }, Int(0)),
            (10, Command::Persist { key: b"absent" }, Int(0)),
            (99, pttl("k"), Int(-1)),
            (99, pttl("absent"), Int(-2)),
        ],
    );
}

#[test]
fn time_is_group_time() {
    let mut objects = objects();
    check(&mut objects, &[(0, set_until("k", "v", 100), Ok), (99, get("k"), bulk("v"))]);
    assert!(!objects.is_due(&get("k"), 0, 99));
    assert!(objects.is_due(&get("k"), 0, 100));
    assert!(!objects.is_due(&get("other"), 0, 100));
    assert!(objects.is_due(&Command::Count, 0, 100));
    assert_eq!(objects.next_expiry_ms(), Some(100));
    // Not expired yet, but whoever computes at this time takes it for gone.
    assert_eq!(objects.read(&get("k"), 100), Nil);
    assert_eq!(objects.read(&Command::Count, 100), Int(0));
    assert_eq!(objects.count(), 1);
    let (change, outcome) = objects.execute(&Command::Append { key: b"k", value: b"w" }, 100, 0);
    assert_eq!(outcome, Int(1));
    let value = std::borrow::Cow::Borrowed(&b"w"[..]);
    assert_eq!(change, Some(Change::Put { key: b"k", value, expires_ms: None }));
    objects.advance(100);
    assert_eq!(objects.count(), 0);
    assert_eq!(objects.next_expiry_ms(), None);
    assert!(!objects.is_due(&Command::Count, 0, u64::MAX));
}

#[test]
fn an_expiry_in_the_past_deletes() {
    let mut objects = objects();
    check(
        &mut objects,
        &[
            (1000, set("k", "v"), Ok),
            (1000, expire("k", 1000), Int(1)),
            (1000, get("k"), Nil),
            (1000, expire("k", 2000), Int(0)),
            (1000, set("k", "v"), Ok),
            (1000, expire("k", -5), Int(1)),
            (1000, get("k"), Nil),
            (1000, set("k", "v"), Ok),
            (1000, set_until("k", "w", 999), Ok),
            (1000, get("k"), Nil),
            (1000, set_until("k", "w", 999), Ok),
            (1000, get("k"), Nil),
            (1000, set("k", "v"), Ok),
            (1000, Command::GetEx { key: b"k", expiry: Expiry::AtMs(1) }, bulk("v")),
            (1000, get("k"), Nil),
        ],
    );
    assert_eq!(objects.next_expiry_ms(), None);
}

#[test]
fn expire_conditions() {
    use ExpireCondition::{IfGreater, IfLess, IfNone, IfSome, IfSomeAndLess};
    check(
        &mut objects(),
        &[
            (0, expire_if("k", 9, IfNone), Int(0)),
            (0, set("k", "v"), Ok),
            (0, expire_if("k", 100, IfSome), Int(0)),
            (0, expire_if("k", 100, IfGreater), Int(0)),
            (0, expire_if("k", 100, IfSomeAndLess), Int(0)),
            (0, expire_if("k", 100, IfNone), Int(1)),
            (0, expire_if("k", 200, IfNone), Int(0)),
            (0, expire_if("k", 100, IfGreater), Int(0)),
            (0, expire_if("k", 200, IfGreater), Int(1)),
            (0, expire_if("k", 200, IfLess), Int(0)),
            (0, expire_if("k", 150, IfLess), Int(1)),
            (0, expire_if("k", 140, IfSomeAndLess), Int(1)),
            (0, expire_if("k", 300, IfSome), Int(1)),
            (0, pttl("k"), Int(300)),
            (0, Command::Persist { key: b"k" }, Int(1)),
            (0, expire_if("k", 500, IfLess), Int(1)),
            (0, expire_if("k", -500, IfLess), Int(1)),
            (0, get("k"), Nil),
        ],
    );
}

#[test]
fn time_to_live_in_its_units() {
    let ttl = |unit| Command::Ttl { key: b"k", unit };
    check(
        &mut objects(),
        &[
            (0, set_until("k", "v", 1_700_000_001_500), Ok),
            (1_700_000_000_000, ttl(TtlUnit::Milliseconds), Int(1500)),
            (1_700_000_000_000, ttl(TtlUnit::Seconds), Int(2)),
            (1_700_000_000_001, ttl(TtlUnit::Seconds), Int(1)),
            (1_700_000_001_001, ttl(TtlUnit::Seconds), Int(0)),
            (1_700_000_001_001, ttl(TtlUnit::UnixMilliseconds), Int(1_700_000_001_500)),
            (1_700_000_001_001, ttl(TtlUnit::UnixSeconds), Int(1_700_000_002)),
            (1_700_000_001_500, ttl(TtlUnit::UnixSeconds), Int(-2)),
        ],
    );
}

#[test]
fn getex() {
    let getex = |expiry| Command::GetEx { key: b"k", expiry };
    check(
        &mut objects(),
        &[
            (0, getex(Expiry::AtMs(10)), Nil),
            (0, set("k", "v"), Ok),
            (0, getex(Expiry::AtMs(10)), bulk("v")),
            (0, getex(Expiry::Unset), bulk("v")),
            (0, pttl("k"), Int(10)),
            (0, getex(Expiry::Remove), bulk("v")),
            (0, pttl("k"), Int(-1)),
        ],
    );
    assert_eq!(getex(Expiry::Unset).access(), Access::Read);
    assert_eq!(getex(Expiry::Remove).access(), Access::Write);
}

#[test]
fn append_and_setrange() {
    let append = |value| Command::Append { key: b"k", value };
    let set_range = |offset, value| Command::SetRange { key: b"k", offset, value };
    check(
        &mut objects(),
        &[
            (0, set_range(5, b""), Int(0)),
            (0, Command::Exists { key: b"k" }, Int(0)),
            (0, append(b""), Int(0)),
            (0, Command::Exists { key: b"k" }, Int(1)),
            (0, append(b"Hello "), Int(6)),
            (0, append(b"World"), Int(11)),
            (0, set_range(6, b"Redis"), Int(11)),
            (0, get("k"), bulk("Hello Redis")),
            (0, set_range(100, b""), Int(11)),
            (0, set_range(12, b"!"), Int(13)),
            (0, get("k"), bulk("Hello Redis\0!")),
            (0, Command::Del { key: b"k" }, Int(1)),
            (0, set_range(2, b"ab"), Int(4)),
            (0, get("k"), bulk("\0\0ab")),
        ],
    );
}

#[test]
fn getrange() {
    let mut objects = objects();
    objects.run(&set("k", "This is a string"), 0, 0);
    objects.run(&set("empty", ""), 0, 0);
    for (start, end, expected) in [
        (0, 3, "This"),
        (-3, -1, "ing"),
        (0, -1, "This is a string"),
        (10, 100, "string"),
        (5, 4, ""),
        (-1, -3, ""),
        (-100, -100, "T"),
        (-100, 0, "T"),
        (100, 200, ""),
        (16, 16, ""),
        (i64::MIN, i64::MAX, "This is a string"),
        (i64::MAX, i64::MIN, ""),
    ] {
        let range = Command::GetRange { key: b"k", start, end };
        assert_eq!(objects.run(&range, 0, 0), bulk(expected), "{start}..={end}");
        let of_empty = Command::GetRange { key: b"empty", start, end };
        assert_eq!(objects.run(&of_empty, 0, 0), bulk(""), "{start}..={end}");
        let of_absent = Command::GetRange { key: b"absent", start, end };
        assert_eq!(objects.run(&of_absent, 0, 0), bulk(""), "{start}..={end}");
    }
}

#[test]
fn counters() {
    let incr = |delta| Command::IncrBy { key: b"k", delta };
    let incr_float = |delta| Command::IncrByFloat { key: b"k", delta };
    let not_an_integer = error("ERR value is not an integer or out of range");
    let overflow = error("ERR increment or decrement would overflow");
    check(
        &mut objects(),
        &[
            (0, incr(5), Int(5)),
            (0, incr(-7), Int(-2)),
            (0, get("k"), bulk("-2")),
            (0, set("k", "9223372036854775807"), Ok),
            (0, incr(1), overflow.clone()),
            (0, incr(i64::MIN), Int(-1)),
            (0, incr(i64::MIN), overflow),
            (0, get("k"), bulk("-1")),
            (0, set("k", " 1"), Ok),
            (0, incr(1), not_an_integer.clone()),
            (0, set("k", ""), Ok),
            (0, incr(1), not_an_integer),
            (0, incr_float(1.0), error("ERR value is not a valid float")),
            (0, set("k", "10.50"), Ok),
            (0, incr_float(0.1), bulk("10.6")),
            (0, get("k"), bulk("10.6")),
            (0, incr_float(f64::INFINITY), error("ERR increment would produce NaN or Infinity")),
            (0, Command::Del { key: b"k" }, Int(1)),
            (0, incr_float(0.25), bulk("0.25")),
        ],
    );
}

#[test]
fn an_object_has_a_largest_size() {
    let mut objects = objects();
    let largest = "x".repeat(OBJECT_BYTES_MAX);
    let larger = "x".repeat(OBJECT_BYTES_MAX + 1);
    let set_range = |offset: usize, value| Command::SetRange { key: b"k", offset: offset as u32, value };
    check(
        &mut objects,
        &[
            (0, set("k", &larger), error(TOO_LARGE)),
            (0, Command::Append { key: b"k", value: larger.as_bytes() }, error(TOO_LARGE)),
            (0, set_range(OBJECT_BYTES_MAX, b"x"), error(TOO_LARGE)),
            (0, Command::Count, Int(0)),
            (0, set(&larger[..NAME_BYTES_MAX + 1], ""), error("ERR the key is longer than 64000 bytes")),
            (0, set_range(OBJECT_BYTES_MAX - 1, b"x"), Int(OBJECT_BYTES_MAX as i64)),
            (0, set_range(u32::MAX as usize, b"x"), error(TOO_LARGE)),
            (0, set_range(u32::MAX as usize, b""), Int(OBJECT_BYTES_MAX as i64)),
            (0, Command::Append { key: b"k", value: b"x" }, error(TOO_LARGE)),
            (0, set("k", &largest), Ok),
        ],
    );
    assert!(objects.bytes() < 2 * OBJECT_BYTES_MAX);
    assert_eq!(objects.run(&Command::Flush, 0, 0), Ok);
    assert!(objects.bytes() < 1024, "{} bytes in nothing", objects.bytes());
}

#[test]
#[should_panic(expected = "is no read")]
fn a_write_is_not_read() {
    objects().read(&set("k", "v"), 0);
}
