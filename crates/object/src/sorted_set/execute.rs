//! What operations on a sorted set change and answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use super::operation::{MemberBound, ScoreCondition, Scored, SortedSetOp, Span};
use super::order::Entry;
use super::{SCORE_BYTES, SortedSet, SortedSetChange};
use crate::OBJECT_BYTES_MAX;
use crate::collection::{
    Chance, ElementScan, HashKey, PIECE_BYTES, TOO_LARGE, bulk, distinct, error, int, keeps_order,
};
use crate::number::double_text;
use crate::outcome::Outcome;

type Effect<'a> = (Option<SortedSetChange<'a>>, Outcome);

impl<'a> SortedSetOp<'a> {
    /// What it changes of the set, if there is one, and what it answers.
    pub(crate) fn execute(&self, set: Option<&SortedSet>, _seed: u64) -> Effect<'a> {
        let none = SortedSet::new(HashKey([0; 16]));
        let set = set.unwrap_or(&none);
        let float = |score: Option<f64>| score.map_or(Outcome::Nil, Outcome::Float);
        match self {
            SortedSetOp::Add { pairs, condition, counts_changed } => set.add(pairs, *condition, *counts_changed),
            SortedSetOp::Incr { member, delta, condition } => set.increment(member, *delta, *condition),
            SortedSetOp::Remove { members } => {
                let there = distinct(members.iter().copied(), |member| set.score(member).is_some());
                let outcome = int(there.len());
                (removal(there.into_iter().map(Cow::Borrowed).collect()), outcome)
            }
            SortedSetOp::Score { member } => (None, float(set.score(member))),
            SortedSetOp::MScore { members } => {
                (None, Outcome::List(members.iter().map(|member| float(set.score(member))).collect()))
            }
            SortedSetOp::Len => (None, int(set.len())),
            SortedSetOp::Count { span } => (None, int(set.places(span, 0, false).len())),
            SortedSetOp::Range { span, offset, count, reversed, with_scores } => {
                (None, answer(set.range(span, *offset, *count, *reversed), *with_scores))
            }
            SortedSetOp::Rank { member, reversed } => {
                let rank = set.score(member).and_then(|score| set.order.rank(score, member));
                let from_end = |rank: usize| if *reversed { set.len() - 1 - rank } else { rank };
                (None, rank.map_or(Outcome::Nil, |rank| int(from_end(rank))))
            }
            SortedSetOp::Pop { highest, count } => set.pop(*highest, *count),
            SortedSetOp::RemoveRange { span } => {
                let gone = set.ordered(set.places(span, 0, false), false);
                let outcome = int(gone.len());
                (removal(names(&gone)), outcome)
            }
            SortedSetOp::Scan(scan) => (None, set.scan(scan)),
            SortedSetOp::Random { with_scores, chance } => (None, set.random(*with_scores, *chance)),
        }
    }
}

/// Takes members away, if there are any.
fn removal(members: Vec<Cow<'_, [u8]>>) -> Option<SortedSetChange<'_>> {
    (!members.is_empty()).then_some(SortedSetChange::Remove(members))
}

fn names<'a>(entries: &[&Entry]) -> Vec<Cow<'a, [u8]>> {
    entries.iter().map(|entry| Cow::Owned(entry.member.to_vec())).collect()
}

/// Members, with their scores or without.
fn answer(entries: Vec<&Entry>, with_scores: bool) -> Outcome {
    let members = entries.iter().map(|entry| bulk(&entry.member));
    match with_scores {
        false => Outcome::List(members.collect()),
        true => Outcome::Pairs(entries.iter().flat_map(|entry| scored(&entry.member, entry.score)).collect()),
    }
}

fn scored(member: &[u8], score: f64) -> [Outcome; 2] {
    [bulk(member), Outcome::Float(score)]
}

impl SortedSet {
    fn add<'a>(&self, pairs: &[Scored<'a>], condition: ScoreCondition, counts_changed: bool) -> Effect<'a> {
        let mut puts: Vec<Scored<'a>> = Vec::new();
        // Where those are, since each pair sees what the ones before it did.
        let mut places: BTreeMap<&[u8], usize> = BTreeMap::new();
        let (mut added, mut changed) = (0, 0);
        for &(member, score) in pairs {
            let place = places.get(member).copied();
            let old = place.map_or_else(|| self.score(member), |place| Some(puts[place].1));
            if old == Some(score) || !condition.allows(old, score) {
                continue;
            }
            let count = if old.is_none() { &mut added } else { &mut changed };
            *count += 1;
            match place {
                Some(place) => puts[place].1 = score,
                None => {
                    places.insert(member, puts.len());
                    puts.push((member, score));
                }
            }
        }
        self.put_all(puts, int(if counts_changed { added + changed } else { added }))
    }

    fn increment<'a>(&self, member: &'a [u8], delta: f64, condition: ScoreCondition) -> Effect<'a> {
        let old = self.score(member);
        let sum = old.map_or(delta, |old| old + delta);
        if old.is_some() && condition == ScoreCondition::IfAbsent {
            return (None, Outcome::Nil);
        }
        if sum.is_nan() {
            return (None, error("ERR resulting score is not a number (NaN)"));
        }
        if !condition.allows(old, sum) {
            return (None, Outcome::Nil);
        }
        let puts = if old == Some(sum) { Vec::new() } else { vec![(member, sum)] };
        self.put_all(puts, Outcome::Float(sum))
    }

    /// Sets these scores, unless the set would be too large then.
    fn put_all<'a>(&self, mut puts: Vec<Scored<'a>>, outcome: Outcome) -> Effect<'a> {
        // Takes the sign from 0.
        puts.iter_mut().for_each(|(_, score)| *score += 0.0);
        let new = puts.iter().filter(|(member, _)| self.score(member).is_none());
        let new_bytes: usize = new.map(|(member, _)| member.len() + PIECE_BYTES + SCORE_BYTES).sum();
        if self.stored_bytes() + new_bytes > OBJECT_BYTES_MAX {
            return (None, error(TOO_LARGE));
        }
        ((!puts.is_empty()).then_some(SortedSetChange::Put(puts)), outcome)
    }

    fn pop<'a>(&self, highest: bool, count: Option<u64>) -> Effect<'a> {
        let len = self.len();
        let count_max = usize::try_from(count.unwrap_or(1)).unwrap_or(usize::MAX).min(len);
        let ranks = if highest { len - count_max..len } else { 0..count_max };
        let popped = self.ordered(ranks, highest);
        let change = removal(names(&popped));
        let outcome = match count {
            Some(_) => answer(popped, true),
            None => Outcome::List(popped.iter().flat_map(|entry| scored(&entry.member, entry.score)).collect()),
        };
        (change, outcome)
    }

    /// The members of a span that are shown, with their scores.
    pub(crate) fn scored_in(&self, span: &Span<'_>, offset: i64, count: i64, reversed: bool) -> Vec<Scored<'_>> {
        let shown = self.range(span, offset, count, reversed).into_iter();
        shown.map(|entry| (&*entry.member, entry.score)).collect()
    }

    fn range(&self, span: &Span<'_>, offset: i64, count: i64, reversed: bool) -> Vec<&Entry> {
        self.ordered(self.page(span, offset, count, reversed), reversed)
    }

    fn ordered(&self, ranks: Range<usize>, reversed: bool) -> Vec<&Entry> {
        let entries = self.order.range(ranks);
        if reversed { entries.rev().collect() } else { entries.collect() }
    }

    /// The ranks of those of a span that are shown.
    fn page(&self, span: &Span<'_>, offset: i64, count: i64, reversed: bool) -> Range<usize> {
        if let Span::Ranks { .. } = span {
            return self.places(span, 0, reversed);
        }
        // Redis goes on to the end and finds nothing there.
        let Ok(offset) = usize::try_from(offset) else { return 0..0 };
        let places = self.places(span, offset, reversed);
        match usize::try_from(count) {
            Ok(count) if count < places.len() => match reversed {
                false => places.start..places.start + count,
                true => places.end - count..places.end,
            },
            _ => places,
        }
    }

    /// The ranks of a span, without the first `skipped`, or the last ones from the end.
    fn places(&self, span: &Span<'_>, skipped: usize, reversed: bool) -> Range<usize> {
        match span {
            Span::Ranks { start, end } => self.ranks(*start, *end, reversed),
            Span::Scores { min, max } => {
                let is_from_min =
                    |entry: &Entry| if min.excluded { entry.score > min.score } else { entry.score >= min.score };
                let is_to_max =
                    |entry: &Entry| if max.excluded { entry.score < max.score } else { entry.score <= max.score };
                self.between(is_from_min, is_to_max, true, skipped, reversed)
            }
            Span::Members { min, max } if is_void(min, max) => 0..0,
            Span::Members { min, max } => {
                let is_from_min = |entry: &Entry| match min {
                    MemberBound::First => true,
                    MemberBound::Last => false,
                    MemberBound::Including(member) => *entry.member >= **member,
                    MemberBound::Excluding(member) => *entry.member > **member,
                };
                let is_to_max = |entry: &Entry| match max {
                    MemberBound::First => false,
                    MemberBound::Last => true,
                    MemberBound::Including(member) => *entry.member <= **member,
                    MemberBound::Excluding(member) => *entry.member < **member,
                };
                self.between(is_from_min, is_to_max, self.has_one_score(), skipped, reversed)
            }
        }
    }

    /// Its members are then in the order of their bytes.
    fn has_one_score(&self) -> bool {
        let scores = |ranks| self.order.range(ranks).map(|entry| entry.score).next();
        scores(0..1) == scores(self.len().saturating_sub(1)..self.len())
    }

    fn ranks(&self, start: i64, end: i64, reversed: bool) -> Range<usize> {
        let len = self.len();
        let from_end = |place: i64| if place < 0 { place.saturating_add(len as i64) } else { place };
        let start = usize::try_from(from_end(start)).unwrap_or(0).min(len);
        let end = usize::try_from(from_end(end).saturating_add(1)).unwrap_or(0).clamp(start, len);
        if reversed { len - end..len - start } else { start..end }
    }

    /// From the first at or above the minimum on, `skipped` later, as long as they are not above the maximum; or the other way
    /// round, from the last one on. Those that are not `in_order` are walked over: what a search finds among them would depend on
    /// their chunks, which are not the same at every replica, and what Redis finds in a small set is what its walk does.
    fn between(
        &self,
        is_from_min: impl Fn(&Entry) -> bool,
        is_to_max: impl Fn(&Entry) -> bool,
        in_order: bool,
        skipped: usize,
        reversed: bool,
    ) -> Range<usize> {
        let len = self.len();
        let holds = |rank: usize, condition: &dyn Fn(&Entry) -> bool| self.order.range(rank..rank + 1).any(condition);
        if len == 0 || !holds(len - 1, &is_from_min) || !holds(0, &is_to_max) {
            return 0..0;
        }
        if reversed {
            let end = self.trimmed(len, in_order, |entry| !is_to_max(entry));
            if end == 0 || !holds(end - 1, &is_from_min) {
                return 0..0;
            }
            let end = end.saturating_sub(skipped);
            self.trimmed(end, in_order, is_from_min)..end
        } else {
            let start = self.passed(0, in_order, |entry| !is_from_min(entry));
            if start == len || !holds(start, &is_to_max) {
                return 0..0;
            }
            let start = start.saturating_add(skipped).min(len);
            start..self.passed(start, in_order, is_to_max)
        }
    }

    /// The first rank from `from` on for which the condition does not hold. In order, it holds for all before and none after.
    fn passed(&self, from: usize, in_order: bool, condition: impl Fn(&Entry) -> bool) -> usize {
        match in_order {
            true => self.order.count_while(condition).max(from),
            false => from + self.order.range(from..self.len()).take_while(|entry| condition(entry)).count(),
        }
    }

    /// The end of what is left before `to` without the last ones for which the condition holds. In order, it holds for none
    /// before and all after.
    fn trimmed(&self, to: usize, in_order: bool, condition: impl Fn(&Entry) -> bool) -> usize {
        match in_order {
            true => self.order.count_while(|entry| !condition(entry)).min(to),
            false => to - self.order.range(0..to).rev().take_while(|entry| condition(entry)).count(),
        }
    }

    fn scan(&self, scan: &ElementScan<'_>) -> Outcome {
        let len = self.len();
        let is_small = keeps_order(len);
        let entries = if is_small { self.ordered(0..len, false) } else { Vec::new() };
        let at = |place: usize| match is_small {
            true => entries.get(place).map(|entry| (&*entry.member, entry.score)),
            false => self.scores.get_index(place).map(|(member, score)| (&**member, *score)),
        };
        let name = |place| at(place).map_or(&b""[..], |(member, _)| member);
        let show = |place, out: &mut Vec<Outcome>| {
            if let Some((member, score)) = at(place) {
                let text = scan_text(score, is_small);
                out.extend([bulk(member), bulk(text.as_bytes())]);
            }
        };
        scan.answer(len, name, show)
    }

    fn random(&self, with_scores: bool, chance: Chance) -> Outcome {
        let len = self.len();
        let bytes_at = |place| {
            self.scores.get_index(place).map_or(0, |(member, _)| 2 * (PIECE_BYTES + SCORE_BYTES) + member.len())
        };
        let places = match chance.places(len, bytes_at) {
            Ok(places) => places,
            Err(refused) => return refused,
        };
        let is_all = chance.count.is_some_and(|count| count >= len as i64);
        if is_all {
            // Redis shows all of them from the highest on.
            return answer(self.ordered(0..len, true), with_scores);
        }
        let mut shown = places.into_iter().filter_map(|place| self.scores.get_index(place));
        match chance.count {
            None => shown.next().map_or(Outcome::Nil, |(member, _)| bulk(member)),
            Some(_) if with_scores => {
                Outcome::Pairs(shown.flat_map(|(member, score)| scored(member, *score)).collect())
            }
            Some(_) => Outcome::List(shown.map(|(member, _)| bulk(member)).collect()),
        }
    }
}

/// Whether nothing can be between these bounds.
fn is_void(min: &MemberBound<'_>, max: &MemberBound<'_>) -> bool {
    use MemberBound::{Excluding, Including};
    match (min, max) {
        (Including(min), Including(max)) => min > max,
        (Including(min) | Excluding(min), Including(max) | Excluding(max)) => min >= max,
        _ => false,
    }
}

/// A score as ZSCAN tells it: Redis stores whole numbers of a small set as integers, up to 2^62.
fn scan_text(score: f64, is_small: bool) -> String {
    const INTEGER_MAX: f64 = (1_u64 << 62) as f64;
    match is_small && score.trunc() == score && score.abs() <= INTEGER_MAX {
        true => (score as i64).to_string(),
        false => double_text(score),
    }
}
