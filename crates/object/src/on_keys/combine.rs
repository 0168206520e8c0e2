//! Unions, intersections and differences of sets and of sorted sets.
//!
//! Scores are put together as Redis does it, in the order of the sizes of the sets they are of: of sums of doubles the last digit
//! depends on it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::{Effect, View};
use crate::OBJECT_BYTES_MAX;
use crate::collection::{
    ANSWER_TOO_LONG, Elements, HEAD_BYTES, PIECE_BYTES, WRONG_TYPE, Wrong, bulk, distinct, error, int,
};
use crate::on_keys::operation::{Aggregate, Combination, Combined};
use crate::outcome::Outcome;
use crate::set::Set;
use crate::sorted_set::{SCORE_BYTES, Scored, SortedSet};

/// SINTER, SUNION, SDIFF, and what counts or stores the same.
pub(super) fn sets<'a>(view: &View<'_, '_>, keys: &[&'a [u8]], how: Combination, result: Combined) -> Effect<'a> {
    let combined = combined_keys(keys, result);
    let sets = combined.iter().map(|key| view.set(key)).collect::<Result<Vec<_>, _>>()?;
    let members = combine_sets(&sets, how, most(result));
    match result {
        Combined::Members | Combined::Scores => {
            check_answer(members.iter().map(|member| member.len() + PIECE_BYTES).sum())?;
            Ok((None, Outcome::Set(members.into_iter().map(bulk).collect())))
        }
        Combined::Count { .. } => Ok((None, int(members.len().min(most(result))))),
        Combined::Stored => {
            let stored = Set::of(members, view.hash_key(keys[0]));
            view.store(keys[0], stored.len(), stored.stored_bytes(), Elements::Set(stored))
        }
    }
}

/// ZINTER, ZUNION, ZDIFF, and what counts or stores the same.
pub(super) fn sorted_sets<'a>(
    view: &View<'_, '_>,
    keys: &[&'a [u8]],
    how: Combination,
    weights: &[f64],
    aggregate: Aggregate,
    result: Combined,
    wrong: Option<Wrong>,
) -> Effect<'a> {
    let combined = combined_keys(keys, result);
    let weights = weights.iter().copied().chain(std::iter::repeat(1.0));
    let sources = combined.iter().zip(weights).map(|(key, weight)| {
        let members = match view.elements(key)? {
            None => Members::None,
            Some(Elements::Set(set)) => Members::OfSet(set),
            Some(Elements::SortedSet(set)) => Members::Scored(set),
            Some(_) => return Err(error(WRONG_TYPE)),
        };
        Ok(Source { members, weight })
    });
    let sources = sources.collect::<Result<Vec<_>, Outcome>>()?;
    if let Some(wrong) = wrong {
        return Err(wrong.outcome());
    }
    let scored = combine_sorted_sets(sources, how, aggregate, most(result));
    match result {
        Combined::Members => {
            check_answer(scored.iter().map(|(member, _)| member.len() + PIECE_BYTES).sum())?;
            Ok((None, Outcome::List(scored.into_iter().map(|(member, _)| bulk(member)).collect())))
        }
        Combined::Scores => {
            check_answer(scored.iter().map(|(member, _)| member.len() + PIECE_BYTES + SCORE_BYTES).sum())?;
            let pairs = scored.into_iter().flat_map(|(member, score)| [bulk(member), Outcome::Float(score)]);
            Ok((None, Outcome::Pairs(pairs.collect())))
        }
        Combined::Count { .. } => Ok((None, int(scored.len().min(most(result))))),
        Combined::Stored => {
            let stored = SortedSet::of(scored, view.hash_key(keys[0]));
            view.store(keys[0], stored.len(), stored.stored_bytes(), Elements::SortedSet(stored))
        }
    }
}

/// Those that are combined, without the one that the result is stored in.
pub(super) fn combined_keys<'k, 'a>(keys: &'k [&'a [u8]], result: Combined) -> &'k [&'a [u8]] {
    match result {
        Combined::Stored => &keys[1..],
        _ => keys,
    }
}

/// How often a member is looked at or looked for, at most, in sets of these lengths.
pub(super) fn looks(how: Combination, lengths: impl Iterator<Item = usize> + Clone) -> usize {
    let (first, count) = (lengths.clone().next().unwrap_or(0), lengths.clone().count());
    match how {
        Combination::Union => lengths.fold(0, usize::saturating_add),
        Combination::Intersection => lengths.min().unwrap_or(0).saturating_mul(count),
        Combination::Difference => first.saturating_mul(count),
    }
}

/// How many members are looked for, or counted of more.
fn most(result: Combined) -> usize {
    match result {
        Combined::Count { most: most @ 1.. } => usize::try_from(most).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

/// What members take in an answer.
pub(super) fn check_answer(bytes: usize) -> Result<(), Outcome> {
    if HEAD_BYTES + bytes > OBJECT_BYTES_MAX { Err(error(ANSWER_TOO_LONG)) } else { Ok(()) }
}

fn combine_sets<'o>(sets: &[Option<&'o Set>], how: Combination, most: usize) -> Vec<&'o [u8]> {
    let members = sets.iter().flatten().flat_map(|set| set.members());
    match how {
        Combination::Union => distinct(members, |_| true),
        Combination::Intersection => {
            let all: Option<Vec<&Set>> = sets.iter().copied().collect();
            let Some(smallest) = all.iter().flatten().min_by_key(|set| set.len()) else { return Vec::new() };
            let is_everywhere = |member: &&[u8]| all.iter().flatten().all(|set| set.has(member));
            smallest.members().filter(is_everywhere).take(most).collect()
        }
        Combination::Difference => {
            let (first, others) = (sets.first().copied().flatten(), &sets[1..]);
            let is_alone = |member: &&[u8]| !others.iter().flatten().any(|set| set.has(member));
            first.into_iter().flat_map(Set::members).filter(is_alone).collect()
        }
    }
}

/// In the order of a sorted set, but for the sign of 0, which an answer shows.
fn combine_sorted_sets<'o>(
    mut sources: Vec<Source<'o>>,
    how: Combination,
    aggregate: Aggregate,
    most: usize,
) -> Vec<Scored<'o>> {
    if how != Combination::Difference {
        sources.sort_by_key(Source::len);
    }
    let (first, others) = (sources[0], &sources[1..]);
    let mut combined: Vec<Scored<'o>> = match how {
        Combination::Union => {
            let mut scores = BTreeMap::new();
            for (member, score) in sources.iter().flat_map(Source::scored) {
                let score = number(score);
                scores.entry(member).and_modify(|sum| *sum = aggregate.of(*sum, score)).or_insert(score);
            }
            scores.into_iter().collect()
        }
        Combination::Intersection => {
            let everywhere = first.scored().filter_map(|(member, score)| {
                let add = |sum, other: &Source<'_>| Some(aggregate.of(sum, other.score(member)?));
                Some((member, others.iter().try_fold(number(score), add)?))
            });
            everywhere.take(most).collect()
        }
        Combination::Difference => {
            let is_alone = |(member, _): &Scored<'_>| others.iter().all(|other| other.score(member).is_none());
            first.scored().filter(is_alone).collect()
        }
    };
    combined.sort_by(|(member, score), (other, other_score)| {
        score.partial_cmp(other_score).unwrap_or(Ordering::Equal).then(member.cmp(other))
    });
    combined
}

/// What a product is taken for: infinity times 0 is no number.
fn number(product: f64) -> f64 {
    if product.is_nan() { 0.0 } else { product }
}

impl Aggregate {
    /// Infinities of both signs make 0.
    fn of(self, sum: f64, score: f64) -> f64 {
        match self {
            Aggregate::Sum => number(sum + score),
            Aggregate::Least => {
                if score < sum {
                    score
                } else {
                    sum
                }
            }
            Aggregate::Greatest => {
                if score > sum {
                    score
                } else {
                    sum
                }
            }
        }
    }
}

/// What is combined, and what its scores are multiplied by.
#[derive(Clone, Copy)]
struct Source<'o> {
    members: Members<'o>,
    weight: f64,
}

#[derive(Clone, Copy)]
enum Members<'o> {
    None,
    /// Each has a score of 1.
    OfSet(&'o Set),
    Scored(&'o SortedSet),
}

impl<'o> Source<'o> {
    fn len(&self) -> usize {
        match self.members {
            Members::None => 0,
            Members::OfSet(set) => set.len(),
            Members::Scored(set) => set.len(),
        }
    }

    /// The members with their products, which need not be numbers.
    fn scored(&self) -> Box<dyn Iterator<Item = Scored<'o>> + 'o> {
        let weight = self.weight;
        match self.members {
            Members::None => Box::new(std::iter::empty()),
            Members::OfSet(set) => Box::new(set.members().map(move |member| (member, weight))),
            Members::Scored(set) => Box::new(set.scored().map(move |(member, score)| (member, score * weight))),
        }
    }

    /// The product of a member, if it has it.
    fn score(&self, member: &[u8]) -> Option<f64> {
        let score = match self.members {
            Members::None => None,
            Members::OfSet(set) => set.has(member).then_some(1.0),
            Members::Scored(set) => set.score(member),
        };
        score.map(|score| score * self.weight)
    }
}
