//! Sorted sets answer and do what those of Redis 7.0 would, small and large.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{HASH_KEY, Random, bulk, check, error, get, set};
use quorate_object::Outcome::{Float, Int, List, Nil, Ok, Pairs, Word};
use quorate_object::{
    Chance, Command, ElementScan, MemberBound, OBJECT_BYTES_MAX, Objects, Op, Outcome, ScoreBound, ScoreCondition,
    SortedSetOp, Span,
};

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

fn on(op: SortedSetOp<'_>) -> Command<'_> {
    Command::Elements { key: b"k", op: Op::SortedSet(op) }
}

fn add_if<'a>(condition: ScoreCondition, counts_changed: bool, pairs: &[(f64, &'a str)]) -> Command<'a> {
    let pairs = pairs.iter().map(|(score, member)| (member.as_bytes(), *score)).collect();
    on(SortedSetOp::Add { pairs, condition, counts_changed })
}

fn add<'a>(pairs: &[(f64, &'a str)]) -> Command<'a> {
    add_if(ScoreCondition::Always, false, pairs)
}

fn incr(delta: f64, member: &str, condition: ScoreCondition) -> Command<'_> {
    on(SortedSetOp::Incr { member: member.as_bytes(), delta, condition })
}

fn score(member: &str) -> Command<'_> {
    on(SortedSetOp::Score { member: member.as_bytes() })
}

fn range(span: Span<'_>, offset: i64, count: i64, reversed: bool) -> Command<'_> {
    on(SortedSetOp::Range { span, offset, count, reversed, with_scores: false })
}

fn ranks(start: i64, end: i64) -> Span<'static> {
    Span::Ranks { start, end }
}

fn scores(min: f64, max: f64) -> Span<'static> {
    let bound = |score| ScoreBound { score, excluded: false };
    Span::Scores { min: bound(min), max: bound(max) }
}

/// As a client writes them.
fn members<'a>(min: &'a str, max: &'a str) -> Span<'a> {
    let bound = |text: &'a str| match text.as_bytes() {
        b"-" => MemberBound::First,
        b"+" => MemberBound::Last,
        [b'[', member @ ..] => MemberBound::Including(member),
        [_, member @ ..] => MemberBound::Excluding(member),
        [] => unreachable!("no bound"),
    };
    Span::Members { min: bound(min), max: bound(max) }
}

fn list(members: &str) -> Outcome {
    List(members.split_whitespace().map(bulk).collect())
}

fn all() -> Command<'static> {
    on(SortedSetOp::Range { span: ranks(0, -1), offset: 0, count: -1, reversed: false, with_scores: true })
}

#[test]
fn scores_are_set_under_conditions() {
    use ScoreCondition::{IfAbsent, IfGreater, IfLess, IfPresent, IfPresentAndGreater, IfPresentAndLess};
    check(
        &mut Objects::new(HASH_KEY),
        &[
            (0, add_if(IfPresent, false, &[(1.0, "a")]), Int(0)),
            (0, get("k"), Nil),
            (0, add(&[(1.0, "a"), (2.0, "a"), (3.0, "b"), (2.0, "a")]), Int(2)),
            (0, get("k"), error(WRONG_TYPE)),
            (0, Command::Type { key: b"k" }, Word("zset")),
            (0, all(), Pairs(vec![bulk("a"), Float(2.0), bulk("b"), Float(3.0)])),
            (0, add_if(IfAbsent, true, &[(9.0, "a"), (1.0, "c"), (9.0, "c")]), Int(1)),
            (0, add_if(IfPresent, true, &[(9.0, "a"), (9.0, "d")]), Int(1)),
            (0, add_if(IfGreater, true, &[(8.0, "a"), (9.0, "a"), (10.0, "a"), (1.0, "d")]), Int(2)),
            (0, add_if(IfLess, true, &[(11.0, "a"), (5.0, "a"), (4.0, "a")]), Int(2)),
            (0, add_if(IfPresentAndGreater, true, &[(5.0, "a"), (5.0, "e")]), Int(1)),
            (0, add_if(IfPresentAndLess, true, &[(6.0, "a"), (5.0, "e")]), Int(0)),
            (0, score("a"), Float(5.0)),
            (0, score("e"), Nil),
            (0, incr(0.1, "b", IfAbsent), Nil),
            (0, incr(0.1, "b", IfPresent), Float(3.1)),
            (0, incr(0.2, "new", IfPresent), Nil),
            (0, incr(0.0, "b", IfGreater), Nil),
            (0, incr(f64::INFINITY, "b", IfGreater), Float(f64::INFINITY)),
            (0, incr(f64::NEG_INFINITY, "b", IfAbsent), Nil),
            (0, incr(f64::NEG_INFINITY, "b", IfLess), error("ERR resulting score is not a number (NaN)")),
            (0, on(SortedSetOp::Remove { members: vec![b"a", b"b", b"a", b"x", b"c", b"d"] }), Int(4)),
            (0, Command::Count, Int(0)),
            (0, set("k", "v"), Ok),
            (0, add(&[(1.0, "a")]), error(WRONG_TYPE)),
        ],
    );
}

#[test]
fn minus_zero_is_zero_once_it_is_stored() {
    let mut objects = Objects::new(HASH_KEY);
    let shown = |outcome| format!("{outcome:?}");
    assert_eq!(shown(objects.run(&incr(-0.0, "a", ScoreCondition::Always), 0, 0)), "Float(-0.0)");
    assert_eq!(shown(objects.run(&score("a"), 0, 0)), "Float(0.0)");
    assert_eq!(objects.run(&add_if(ScoreCondition::Always, true, &[(-0.0, "a"), (-0.0, "b")]), 0, 0), Int(1));
    assert_eq!(shown(objects.run(&score("b"), 0, 0)), "Float(0.0)");
    let both = Span::Scores {
        min: ScoreBound { score: -0.0, excluded: false },
        max: ScoreBound { score: -0.0, excluded: false },
    };
    assert_eq!(objects.run(&on(SortedSetOp::Count { span: both }), 0, 0), Int(2));
}

#[test]
fn spans() {
    let mut objects = Objects::new(HASH_KEY);
    objects.run(&add(&[(1.0, "a"), (2.0, "b"), (2.0, "c"), (2.0, "d"), (f64::INFINITY, "e")]), 0, 0);
    for (span, offset, count, expected) in [
        (ranks(1, 2), 9, 0, "b c"),
        (ranks(-2, 99), 0, -1, "d e"),
        (ranks(i64::MIN, i64::MAX), 0, -1, "a b c d e"),
        (ranks(3, 1), 0, -1, ""),
        (ranks(5, 9), 0, -1, ""),
        (ranks(0, -6), 0, -1, ""),
        (scores(2.0, 3.0), 0, -1, "b c d"),
        (scores(2.0, 3.0), 1, 1, "c"),
        (scores(2.0, 3.0), 3, 1, ""),
        (scores(2.0, 3.0), -1, 1, ""),
        (scores(2.0, 3.0), 0, 0, ""),
        (scores(3.0, 2.0), 0, -1, ""),
        (scores(f64::NEG_INFINITY, f64::INFINITY), 1, i64::MAX, "b c d e"),
        (members("-", "+"), 1, 2, "b c"),
        (members("[b", "(d"), 0, -1, "b c"),
        (members("(b", "[d"), 0, -1, "c d"),
        (members("(b", "(b"), 0, -1, ""),
        (members("+", "-"), 0, -1, ""),
        (members("-", "-"), 0, -1, ""),
        (members("[d", "[b"), 0, -1, ""),
    ] {
        assert_eq!(objects.run(&range(span, offset, count, false), 0, 0), list(expected), "{span:?} {offset} {count}");
    }
    for (span, offset, count, expected) in [
        (ranks(0, 1), 0, -1, "e d"),
        (scores(2.0, 3.0), 1, 1, "c"),
        (scores(1.0, 2.0), 1, -1, "c b a"),
        (members("[b", "(d"), 0, -1, "c b"),
        (members("-", "+"), 3, 9, "b a"),
    ] {
        assert_eq!(objects.run(&range(span, offset, count, true), 0, 0), list(expected), "{span:?} {offset} {count}");
    }
    let rank = |member, reversed| on(SortedSetOp::Rank { member, reversed });
    let pop = |highest, count| on(SortedSetOp::Pop { highest, count });
    check(
        &mut objects,
        &[
            (0, rank(b"c", false), Int(2)),
            (0, rank(b"c", true), Int(2)),
            (0, rank(b"e", true), Int(0)),
            (0, rank(b"x", true), Nil),
            (0, on(SortedSetOp::Count { span: scores(2.0, 2.0) }), Int(3)),
            (0, on(SortedSetOp::RemoveRange { span: members("[c", "[c") }), Int(1)),
            (0, on(SortedSetOp::RemoveRange { span: members("[c", "[c") }), Int(0)),
            (0, pop(true, None), List(vec![bulk("e"), Float(f64::INFINITY)])),
            (0, pop(false, Some(0)), Pairs(vec![])),
            (0, pop(false, Some(2)), Pairs(vec![bulk("a"), Float(1.0), bulk("b"), Float(2.0)])),
            (0, pop(true, Some(u64::MAX)), Pairs(vec![bulk("d"), Float(2.0)])),
            (0, pop(true, None), List(vec![])),
            (0, Command::Count, Int(0)),
        ],
    );
}

/// What Redis finds by its walk over a small set.
#[test]
fn spans_of_members_in_a_set_whose_scores_differ() {
    let mut objects = Objects::new(HASH_KEY);
    objects.run(&add(&[(1.0, "b"), (2.0, "a"), (3.0, "d"), (4.0, "c"), (5.0, "e")]), 0, 0);
    for (min, max, offset, expected, reversed) in [
        ("[b", "[c", 0, "b a", "c d"),
        ("[c", "[d", 0, "d c", "c d"),
        ("[b", "[c", 1, "a", "d"),
        ("[b", "[c", 3, "c", "b"),
        ("-", "(b", 0, "", ""),
        ("[f", "+", 0, "", ""),
    ] {
        let found = |reversed| range(members(min, max), offset, -1, reversed);
        assert_eq!(objects.run(&found(false), 0, 0), list(expected), "{min} {max} {offset}");
        assert_eq!(objects.run(&found(true), 0, 0), list(reversed), "{min} {max} {offset} reversed");
    }
    let names: Vec<String> = (100..900).map(|number| format!("x{number}")).collect();
    objects.run(&add(&names.iter().map(|name| (6.0, &**name)).collect::<Vec<_>>()), 0, 0);
    assert_eq!(objects.run(&range(members("[b", "[c"), 0, -1, false), 0, 0), list("b a"));
    assert_eq!(objects.run(&range(members("[c", "(x101"), 0, -1, true), 0, 0), list("x100 e c d"));
}

/// A replica that was restored has its members in other chunks.
#[test]
fn what_is_removed_does_not_depend_on_how_the_set_came_about() {
    let mut random = Random(9);
    let mut original = Objects::new(HASH_KEY);
    for _ in 0..4_000 {
        let member = random.below(3_000).to_string();
        original.run(&add(&[(random.below(3) as f64, &member)]), 0, 0);
        let gone = random.below(3_000).to_string();
        original.run(&on(SortedSetOp::Remove { members: vec![gone.as_bytes()] }), 0, 0);
    }
    let mut restored = Objects::new(HASH_KEY);
    original.take_dirty(|key, encoded| {
        restored.restore_object(key, encoded.expect("it is there")).expect("it was encoded");
    });
    for _ in 0..300 {
        let (start, end) = (random.below(4_000).to_string(), random.below(4_000).to_string());
        let span = Span::Members {
            min: MemberBound::Including(start.as_bytes()),
            max: MemberBound::Excluding(end.as_bytes()),
        };
        let remove = on(SortedSetOp::RemoveRange { span });
        assert_eq!(original.run(&remove, 0, 0), restored.run(&remove, 0, 0));
        assert_eq!(original.digest(), restored.digest());
        let member = random.below(3_000).to_string();
        let back = add(&[(random.below(3) as f64, &member)]);
        assert_eq!(original.run(&back, 0, 0), restored.run(&back, 0, 0));
    }
}

/// A large set does as a sorted list does.
#[test]
fn a_large_set_is_a_sorted_list() {
    let mut objects = Objects::new(HASH_KEY);
    let mut naive: BTreeMap<String, i64> = BTreeMap::new();
    let mut random = Random(5);
    for step in 0..6_000 {
        let member = format!("member:{:04}", random.below(3_000));
        if random.below(4) == 0 && step > 2_000 {
            let there = naive.remove(&member).is_some();
            let remove = on(SortedSetOp::Remove { members: vec![member.as_bytes()] });
            assert_eq!(objects.run(&remove, 0, 0), Int(i64::from(there)));
        } else {
            let score = random.below(100) as i64;
            let new = naive.insert(member.clone(), score).is_none();
            assert_eq!(objects.run(&add(&[(score as f64, &member)]), 0, 0), Int(i64::from(new)));
        }
        if step % 50 > 0 {
            continue;
        }
        let mut sorted: Vec<(i64, &str)> = naive.iter().map(|(member, score)| (*score, &**member)).collect();
        sorted.sort_unstable();
        let texts = |part: &[(i64, &str)]| List(part.iter().map(|(_, member)| bulk(member)).collect());
        let (min, max) = (random.below(90) as i64, random.below(110) as i64);
        let part: Vec<_> = sorted.iter().copied().filter(|(score, _)| (min..=max).contains(score)).collect();
        assert_eq!(objects.run(&range(scores(min as f64, max as f64), 0, -1, false), 0, 0), texts(&part));
        let start = random.below(sorted.len() as u64) as usize;
        let end = (start + 40).min(sorted.len() - 1);
        let mut reversed = sorted[start..=end].to_vec();
        reversed.reverse();
        let len = sorted.len() as i64;
        let from_end = ranks(len - 1 - end as i64, len - 1 - start as i64);
        assert_eq!(objects.run(&range(from_end, 0, -1, true), 0, 0), texts(&reversed));
        let rank = on(SortedSetOp::Rank { member: sorted[start].1.as_bytes(), reversed: false });
        assert_eq!(objects.run(&rank, 0, 0), Int(start as i64));
    }
}

#[test]
fn spans_of_members_in_a_large_set() {
    let mut objects = Objects::new(HASH_KEY);
    let names: Vec<String> = (100..900).map(|number| number.to_string()).collect();
    objects.run(&add(&names.iter().map(|name| (0.0, &**name)).collect::<Vec<_>>()), 0, 0);
    let found = |reversed, offset| range(members("[200", "(205"), offset, 2, reversed);
    assert_eq!(objects.run(&found(false, 0), 0, 0), list("200 201"));
    assert_eq!(objects.run(&found(false, 4), 0, 0), list("204"));
    assert_eq!(objects.run(&found(false, 5), 0, 0), list(""));
    assert_eq!(objects.run(&found(true, 1), 0, 0), list("203 202"));
    assert_eq!(objects.run(&found(true, 9), 0, 0), list(""));
    assert_eq!(objects.run(&on(SortedSetOp::Count { span: members("(300", "+") }), 0, 0), Int(599));
}

#[test]
fn a_scan_meets_every_member_that_stays() {
    let mut objects = Objects::new(HASH_KEY);
    let names: Vec<String> = (0..1000).map(|number| format!("member {number}")).collect();
    let pairs: Vec<(f64, &str)> = names.iter().enumerate().map(|(place, name)| (place as f64 / 2.0, &**name)).collect();
    objects.run(&add(&pairs), 0, 0);
    let (mut seen, mut from, mut random) = (BTreeSet::new(), 0, Random(3));
    loop {
        let scan = ElementScan { from, count: 10, pattern: None, wrong: None };
        let List(parts) = objects.run(&on(SortedSetOp::Scan(scan)), 0, 0) else { panic!("no list") };
        let [Outcome::Bulk(next), List(shown)] = &parts[..] else { panic!("{parts:?}") };
        seen.extend(shown.chunks(2).map(|pair| format!("{:?}", pair[0])));
        from = String::from_utf8_lossy(next).parse().expect("a cursor");
        if from == 0 {
            break;
        }
        // Odd ones go, even ones get other scores.
        let gone = format!("member {}", random.below(500) * 2 + 1);
        objects.run(&on(SortedSetOp::Remove { members: vec![gone.as_bytes()] }), 0, 0);
        let moved = format!("member {}", random.below(500) * 2);
        objects.run(&add(&[(random.below(900) as f64, &moved)]), 0, 0);
    }
    for name in names.iter().step_by(2) {
        assert!(seen.contains(&format!("{:?}", bulk(name))), "{name}");
    }
}

#[test]
fn scans_and_chance_show_a_small_set() {
    let mut objects = Objects::new(HASH_KEY);
    objects.run(&add(&[(1e20, "c"), (1e17, "b"), (0.1, "a")]), 0, 0);
    let scan = ElementScan { from: 0, count: 1, pattern: None, wrong: None };
    let shown = list("a 0.10000000000000001 b 100000000000000000 c 1e+20");
    assert_eq!(objects.run(&on(SortedSetOp::Scan(scan)), 0, 0), List(vec![bulk("0"), shown]));
    let random = |count, seed| on(SortedSetOp::Random { with_scores: false, chance: Chance { count, seed } });
    assert_eq!(objects.run(&random(Some(3), 1), 0, 0), list("c b a"));
    assert_eq!(objects.run(&random(Some(0), 1), 0, 0), list(""));
    let Outcome::Bulk(_) = objects.run(&random(None, 1), 0, 0) else { panic!("no member") };
    let List(many) = objects.run(&random(Some(-20), 1), 0, 0) else { panic!("no list") };
    assert_eq!(many.len(), 20);
}

#[test]
fn a_set_has_a_largest_size() {
    let mut objects = Objects::new(HASH_KEY);
    let (half, other) = ("x".repeat(OBJECT_BYTES_MAX / 2), "y".repeat(OBJECT_BYTES_MAX / 2));
    check(
        &mut objects,
        &[
            (0, add(&[(1.0, &half)]), Int(1)),
            (0, add(&[(1.0, &other)]), error("ERR the object would be larger than 16 MiB")),
            (0, add(&[(2.0, &half)]), Int(0)),
            (0, incr(1.0, &other, ScoreCondition::Always), error("ERR the object would be larger than 16 MiB")),
            (0, score(&half), Float(2.0)),
        ],
    );
    assert!(objects.bytes() < OBJECT_BYTES_MAX / 2 + 1000);
    assert_eq!(objects.run(&Command::Flush, 0, 0), Ok);
    assert!(objects.bytes() < 1024);
}
