//! Histories written by hand, each wrong in one way, beside the correct one that differs from it least.

mod common;

use common::{by_hand, bytes, incr, set};
use quorate_sim::check::{Bounds, Verdict, counters, linearizability, registers};
use quorate_sim::history::{Action, Answer, History, Object};

fn ok(at_us: u64) -> Option<(u64, Answer)> {
    Some((at_us, Answer::Ok))
}

fn nil(at_us: u64) -> Option<(u64, Answer)> {
    Some((at_us, Answer::Nil))
}

fn int(at_us: u64, number: i64) -> Option<(u64, Answer)> {
    Some((at_us, Answer::Int(number)))
}

fn value(at_us: u64, text: &str) -> Option<(u64, Answer)> {
    Some((at_us, Answer::Bytes(bytes(text))))
}

fn judge(history: &History) -> Verdict {
    linearizability::check(history, &Bounds::default())
}

fn judge_register(history: &History) -> Verdict {
    let calls = history.by_object().remove(0).1;
    registers::check_object(history, Object(0), &calls, &Bounds::default())
}

fn judge_counter(history: &History, end: i64) -> Verdict {
    let calls = history.by_object().remove(0).1;
    counters::check_object(history, Object(0), &calls, end)
}

#[track_caller]
fn assert_right(verdict: &Verdict) {
    assert_eq!(*verdict, Verdict::Linearizable, "{verdict}");
}

#[track_caller]
fn assert_wrong(verdict: &Verdict) {
    assert!(matches!(verdict, Verdict::Violation { .. }), "{verdict}");
}

#[test]
fn a_stale_read() {
    let with_read = |invoked_us| {
        by_hand(&[(0, set("a"), 0, ok(10)), (0, set("b"), 20, ok(30)), (1, Action::Get, invoked_us, value(50, "a"))])
    };
    let stale = with_read(40);
    assert_wrong(&judge(&stale));
    assert_wrong(&judge_register(&stale));
    let overlapping = with_read(25);
    assert_right(&judge(&overlapping));
    assert_right(&judge_register(&overlapping));
}

#[test]
fn a_read_that_goes_back() {
    // Each read alone overlaps the write; together they see it and then do not.
    let with_reads = |first, second| {
        by_hand(&[
            (0, set("a"), 0, ok(10)),
            (0, set("b"), 20, ok(100)),
            (1, Action::Get, 30, value(40, first)),
            (2, Action::Get, 50, value(60, second)),
        ])
    };
    for judge in [judge, judge_register] {
        assert_wrong(&judge(&with_reads("b", "a")));
        assert_right(&judge(&with_reads("a", "b")));
    }
}

#[test]
fn a_lost_write() {
    let answered = by_hand(&[(0, set("a"), 0, ok(10)), (1, Action::Get, 20, nil(30))]);
    let unanswered = by_hand(&[(0, set("a"), 0, None), (1, Action::Get, 20, nil(30))]);
    for judge in [judge, judge_register] {
        assert_wrong(&judge(&answered));
        assert_right(&judge(&unanswered));
    }
}

#[test]
fn a_write_that_was_never_asked_for() {
    let history = by_hand(&[(0, set("a"), 0, ok(10)), (1, Action::Get, 20, value(30, "x"))]);
    assert_wrong(&judge(&history));
    assert_wrong(&judge_register(&history));
}

#[test]
fn an_unknown_write_may_take_effect_late_but_only_once() {
    let late = [
        (0, set("a"), 0, None),
        (1, set("b"), 10, ok(20)),
        (1, Action::Get, 30, value(40, "b")),
        (1, Action::Get, 50, value(60, "a")),
        (1, Action::Get, 70, value(80, "b")),
    ];
    for judge in [judge, judge_register] {
        assert_right(&judge(&by_hand(&late[..4])));
        assert_wrong(&judge(&by_hand(&late)));
    }
    let bounds = Bounds { unknown_effect_us: Some(45), ..Bounds::default() };
    assert_right(&linearizability::check(&by_hand(&late[..4]), &bounds));
    let bounds = Bounds { unknown_effect_us: Some(25), ..Bounds::default() };
    assert_wrong(&linearizability::check(&by_hand(&late[..4]), &bounds));
}

#[test]
fn two_coordinators_that_both_acknowledge() {
    let history = by_hand(&[
        (0, set("a"), 0, ok(10)),
        (1, set("b"), 20, ok(30)),
        (2, set("c"), 21, ok(31)),
        (1, Action::Get, 40, value(50, "b")),
        (2, Action::Get, 41, value(51, "c")),
        (1, Action::Get, 60, value(70, "b")),
    ]);
    assert_wrong(&judge(&history));
    assert_wrong(&judge_register(&history));
}

#[test]
fn two_coordinators_that_count() {
    let history = by_hand(&[(0, incr(), 0, int(10, 1)), (1, incr(), 5, int(15, 1))]);
    assert_wrong(&judge(&history));
    assert_wrong(&judge_counter(&history, 2));
}

#[test]
fn an_increment_executed_twice() {
    let history = by_hand(&[(0, incr(), 0, int(10, 1)), (0, incr(), 20, int(30, 3))]);
    assert_wrong(&judge(&history));
    assert_wrong(&judge_counter(&history, 3));
    let explained = by_hand(&[(1, incr(), 0, None), (0, incr(), 1, int(10, 1)), (0, incr(), 20, int(30, 3))]);
    assert_right(&judge(&explained));
    assert_right(&judge_counter(&explained, 3));
}

#[test]
fn a_counter_that_ends_wrong() {
    let history = by_hand(&[(0, incr(), 0, int(10, 1)), (0, incr(), 20, None)]);
    for (end, is_right) in [(0, false), (1, true), (2, true), (3, false)] {
        assert_eq!(judge_counter(&history, end).is_linearizable(), is_right, "{end}");
    }
}

#[test]
fn a_counter_that_falls_between_two_calls() {
    // The second call began after the first had answered.
    let fallen =
        by_hand(&[(0, incr(), 0, int(10, 2)), (1, incr(), 1, int(30, 1)), (2, Action::Get, 20, value(25, "1"))]);
    assert_wrong(&judge(&fallen));
    assert_wrong(&judge_counter(&fallen, 2));
    let lost = by_hand(&[(0, incr(), 0, int(10, 1)), (1, Action::Get, 20, nil(25))]);
    assert_wrong(&judge(&lost));
    assert_wrong(&judge_counter(&lost, 1));
}

#[test]
fn a_pipeline_that_changes_places() {
    let sent_by = |connections: [u32; 2]| {
        by_hand(&[
            (connections[0], set("a"), 0, ok(10)),
            (connections[1], set("b"), 0, ok(11)),
            (9, Action::Get, 20, value(30, "a")),
        ])
    };
    assert_wrong(&judge(&sent_by([0, 0])));
    assert_right(&judge(&sent_by([0, 1])));
    let counted = by_hand(&[(0, incr(), 0, int(10, 2)), (0, incr(), 0, int(11, 1))]);
    assert_wrong(&judge(&counted));
    assert_wrong(&judge_counter(&counted, 2));
}

#[test]
fn a_pipeline_may_lose_its_tail_but_not_its_order() {
    let with_reads = |first, second| {
        by_hand(&[
            (0, set("a"), 0, None),
            (0, set("b"), 0, None),
            (9, Action::Get, 20, value(30, first)),
            (9, Action::Get, 40, value(50, second)),
        ])
    };
    assert_right(&judge(&with_reads("a", "b")));
    assert_right(&judge(&with_reads("b", "b")));
    assert_wrong(&judge(&with_reads("b", "a")));
}

#[test]
fn a_delete_that_does_not_last() {
    let resurrected =
        by_hand(&[(0, set("a"), 0, ok(10)), (0, Action::Del, 20, int(30, 1)), (1, Action::Get, 40, value(50, "a"))]);
    let seen_absent = by_hand(&[
        (0, set("a"), 0, ok(10)),
        (0, Action::Del, 20, None),
        (1, Action::Get, 40, nil(50)),
        (1, Action::Get, 60, value(70, "a")),
    ]);
    for history in [resurrected, seen_absent] {
        assert_wrong(&judge(&history));
        assert_wrong(&judge_register(&history));
    }
}

#[test]
fn a_compare_and_set_that_two_win() {
    let swap = |value: &str| Action::SetIfEqual { expected: bytes("a"), value: bytes(value) };
    let won_by = |second| by_hand(&[(0, set("a"), 0, ok(10)), (1, swap("b"), 20, ok(40)), (2, swap("c"), 21, second)]);
    assert_wrong(&judge(&won_by(ok(41))));
    assert_right(&judge(&won_by(nil(41))));
}

#[test]
fn an_expired_value_is_not_read_and_a_live_one_is_not_lost() {
    let expiring = Action::SetExpiring { value: bytes("a"), at_ms: 100 };
    let read = |invoked_us: u64, answer: Option<(u64, Answer)>| {
        let history = by_hand(&[(0, expiring.clone(), 0, ok(10)), (1, Action::Get, invoked_us, answer)]);
        linearizability::check(&history, &Bounds { skew_ms: 5, ..Bounds::default() })
    };
    assert_right(&read(90_000, value(91_000, "a")));
    assert_wrong(&read(90_000, nil(91_000)));
    assert_right(&read(99_000, nil(99_500)));
    assert_right(&read(104_000, value(104_500, "a")));
    assert_wrong(&read(107_000, value(108_000, "a")));
    assert_right(&read(107_000, nil(108_000)));
}

#[test]
fn what_expired_stays_away() {
    let expiring = Action::SetExpiring { value: bytes("a"), at_ms: 100 };
    let history = by_hand(&[
        (0, expiring, 0, ok(10)),
        (1, Action::Get, 98_000, nil(98_500)),
        (1, Action::Get, 99_000, value(99_500, "a")),
    ]);
    assert_wrong(&linearizability::check(&history, &Bounds { skew_ms: 5, ..Bounds::default() }));
}

#[test]
fn giving_up_is_no_verdict() {
    let mut calls: Vec<_> = (0..12).map(|n| (n, set(&format!("v{n}")), u64::from(n), ok(100))).collect();
    calls.push((20, Action::Get, 200, value(210, "x")));
    let bounds = Bounds { configurations_max: 50, ..Bounds::default() };
    let verdict = linearizability::check(&by_hand(&calls), &bounds);
    assert!(matches!(verdict, Verdict::Unknown { .. }), "{verdict}");
    assert!(!verdict.is_linearizable());
}

/// The SET returned before the other connection's pipeline, yet was executed after it: else the APPEND had nothing to
/// find. None of what is unknown helps to see that.
#[test]
fn what_a_read_value_was_appended_to_is_not_left() {
    let append = |value: &str| Action::Append { value: bytes(value) };
    let unknown = |n: u32| {
        let value = char::from(b'A' + n as u8).to_string();
        (n, if n.is_multiple_of(2) { set(&value) } else { append(&value) }, u64::from(n), None)
    };
    let mut calls: Vec<_> = (0..18).map(unknown).collect();
    calls.extend([
        (20, set("a"), 100, ok(110)),
        (20, append("b"), 200, int(301, 2)),
        (20, append("c"), 200, int(302, 3)),
        (20, set("d"), 200, ok(303)),
        (20, append("e"), 200, int(304, 2)),
        (20, Action::Del, 200, int(305, 1)),
        (21, set("f"), 220, ok(300)),
        (21, append("g"), 310, int(320, 2)),
        (22, Action::GetDel, 330, value(340, "fg")),
    ]);
    assert_right(&judge(&by_hand(&calls)));
}

/// The deletion that nobody heard of is all that explains what the reader found. A dozen appends are as little heard of, and in
/// whatever order they are tried they explain nothing.
#[test]
fn what_a_required_call_fits_behind_is_tried_first() {
    let append = |n: u32| Action::Append { value: bytes(&format!("v{n};")) };
    let mut calls = vec![(0, set("a"), 0, ok(10)), (1, Action::Get, 20, value(30, "a")), (2, Action::Del, 40, None)];
    calls.extend((0..16).map(|n| (3 + n, append(n), 50 + u64::from(n), None)));
    calls.push((30, Action::Get, 100, nil(110)));
    let bounds = Bounds { configurations_max: 1_000, ..Bounds::default() };
    assert_right(&linearizability::check(&by_hand(&calls), &bounds));
}

/// The SET that returned first was executed last: else the reads of the other's pipeline could not see its value. The lost
/// INCRBY comes nowhere near that number, so that none of what is unknown can bring it back.
#[test]
fn a_number_out_of_reach_of_all_increments_is_not_left() {
    let unknown = |n: u32| {
        let value = format!("{n};");
        let action = match n % 3 {
            0 => Action::IncrBy { delta: 86 },
            1 => Action::Append { value: bytes(&value) },
            _ => Action::GetSet { value: bytes(&value) },
        };
        (n, action, u64::from(n), None)
    };
    let mut calls: Vec<_> = (0..24).map(unknown).collect();
    calls.extend([
        (30, set("a"), 100, ok(210)),
        (30, Action::Get, 100, value(230, "3553000000")),
        (31, Action::Get, 100, value(220, "3553000000")),
        (32, set("3553000000"), 110, ok(200)),
    ]);
    assert_right(&judge(&by_hand(&calls)));
}

/// Half of the increments were lost on the way back, and the answers of the others came in the reverse order. Each of the
/// numbers is there once: whoever passes one that somebody saw need not be tried.
#[test]
fn a_number_of_a_counter_is_not_passed_before_all_who_saw_it() {
    let incr = || Action::IncrBy { delta: 1 };
    let lost = (0..12).flat_map(|n| [(n, incr(), u64::from(n), None), (n, incr(), u64::from(20 + n), None)]);
    let answered = (0..20).flat_map(|n| {
        let number = 2 * i64::from(n) + 2;
        let ended = 400 - u64::from(n);
        let seen = value(400 - u64::from(n), &number.to_string());
        [(100 + n, incr(), 100, int(ended, number)), (200 + n, Action::Get, 100, seen)]
    });
    let mut calls: Vec<_> = lost.chain(answered).collect();
    calls.sort_by_key(|&(_, _, invoked, _)| invoked);
    assert_right(&judge(&by_hand(&calls)));
}

/// `--outside`, seed 150: a dozen calls waited for a partition to end. Appends of unknown fate, which nobody needs here, come in any
/// number between any two of them; and a write that nobody saw is needed much later, so that they cannot be left out.
#[test]
fn a_crowd_of_calls_is_put_in_order_without_what_nobody_needs_there() {
    let append = |value: &str| Action::Append { value: bytes(value) };
    let mut calls = vec![(0, set("v0;"), 0, ok(5))];
    calls.extend((0..40).map(|n| (1 + n, append(&format!("u{n};")), 10 + u64::from(n), None)));
    calls.extend([
        (50, Action::GetSet { value: bytes("v1;") }, 100, None),
        (51, set("v2;"), 101, ok(1_000)),
        (52, append("v3;"), 102, int(990, 3)),
        (53, set("v4;"), 103, ok(980)),
        (54, Action::Get, 104, value(925, "v8;")),
        (55, Action::GetDel, 105, value(912, "v1;")),
        (55, Action::SetIfAbsent { value: bytes("v5;") }, 105, int(910, 1)),
        (56, append("v6;"), 106, int(930, 6)),
        (57, set("v7;"), 107, ok(970)),
        (58, set("v8;"), 108, ok(911)),
        (59, Action::Del, 109, int(985, 1)),
        (58, Action::GetDel, 940, value(960, "v8;v6;")),
        (58, set("1398000000"), 940, ok(950)),
        (60, Action::Get, 1_100, value(1_110, "v2;")),
        (61, Action::Del, 1_200, int(1_210, 1)),
        (62, set("unseen"), 1_220, None),
        (63, Action::Strlen, 1_230, int(1_240, 6)),
    ]);
    assert_right(&judge(&by_hand(&calls)));
}

#[test]
fn the_fast_judges_refuse_what_they_cannot_judge() {
    let appended = by_hand(&[(0, Action::Append { value: bytes("a") }, 0, int(10, 1))]);
    assert!(matches!(judge_register(&appended), Verdict::Unknown { .. }));
    assert!(matches!(judge_counter(&appended, 1), Verdict::Unknown { .. }));
}
