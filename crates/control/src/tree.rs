//! A decision tree over numbers, grown and pruned as C4.5 and its successor C5.0 do (Quinlan, 1993): binary splits by gain
//! ratio, then subtrees replaced by leaves where the pessimistic estimate of errors does not grow.
//!
//! Not of C5.0: missing values, discrete features, raised subtrees, rules.

use std::fmt;

/// What was observed, and what was right then.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub features: Vec<f64>,
    /// Below the number of classes.
    pub class: usize,
    /// How many cases this one stands for. More than 0.
    pub weight: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The confidence of the pessimistic estimate, above 0 up to 1: the smaller, the more is pruned.
    pub confidence: f64,
    /// What each side of a split weighs at least.
    pub weight_min: f64,
}

impl Default for Growth {
    /// C5.0's.
    fn default() -> Growth {
        Growth { confidence: 0.25, weight_min: 2.0 }
    }
}

/// What is wrong with cases, and with which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainError {
    NoCases,
    /// Not as many features as the first case.
    FeatureCount {
        case: usize,
    },
    /// A feature is infinite or not a number.
    Feature {
        case: usize,
    },
    Weight {
        case: usize,
    },
    Class {
        case: usize,
    },
}

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrainError::NoCases => write!(f, "there are no cases to learn from"),
            TrainError::FeatureCount { case } => write!(f, "case {case} has not as many features as the first"),
            TrainError::Feature { case } => write!(f, "a feature of case {case} is not a finite number"),
            TrainError::Weight { case } => write!(f, "the weight of case {case} is not above 0"),
            TrainError::Class { case } => write!(f, "the class of case {case} is not one of those given"),
        }
    }
}

impl std::error::Error for TrainError {}

/// More levels than that are not grown.
pub const DEPTH_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    root: Node,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    /// The weight of each class there.
    Leaf(Vec<f64>),
    Split(Box<Split>),
}

#[derive(Clone, Debug, PartialEq)]
struct Split {
    feature: usize,
    threshold: f64,
    /// Up to the threshold, and above.
    sides: [Node; 2],
}

impl Tree {
    pub fn train(cases: &[Case], classes: usize, growth: Growth) -> Result<Tree, TrainError> {
        check(cases, classes)?;
        let grower = Grower { cases, classes, growth };
        Ok(Tree { root: grower.grow((0..cases.len()).collect(), 0).0 })
    }

    /// The share of each class among the cases that are like this one.
    pub fn shares(&self, features: &[f64]) -> Vec<f64> {
        let weights = self.leaf(features);
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// The lowest of the most frequent classes among them.
    pub fn classify(&self, features: &[f64]) -> usize {
        heaviest(self.leaf(features))
    }

    pub fn leaf_count(&self) -> usize {
        fn count(node: &Node) -> usize {
            match node {
                Node::Leaf(_) => 1,
                Node::Split(split) => split.sides.iter().map(count).sum(),
            }
        }
        count(&self.root)
    }

    fn leaf(&self, features: &[f64]) -> &[f64] {
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(weights) => return weights,
                Node::Split(split) => {
                    let is_above = usize::from(features[split.feature] > split.threshold);
                    node = &split.sides[is_above];
                }
            }
        }
    }
}

pub(crate) fn check(cases: &[Case], classes: usize) -> Result<(), TrainError> {
    let first = cases.first().ok_or(TrainError::NoCases)?;
    for (number, case) in cases.iter().enumerate() {
        if case.features.len() != first.features.len() {
            return Err(TrainError::FeatureCount { case: number });
        }
        if !case.features.iter().all(|feature| feature.is_finite()) {
            return Err(TrainError::Feature { case: number });
        }
        if !(case.weight.is_finite() && case.weight > 0.0) {
            return Err(TrainError::Weight { case: number });
        }
        if case.class >= classes {
            return Err(TrainError::Class { case: number });
        }
    }
    Ok(())
}

/// The first of the largest.
pub(crate) fn heaviest(weights: &[f64]) -> usize {
    (0..weights.len()).fold(0, |best, class| if weights[class] > weights[best] { class } else { best })
}

struct Grower<'a> {
    cases: &'a [Case],
    classes: usize,
    growth: Growth,
}

/// A way to split, in bits.
#[derive(Clone, Copy)]
struct Candidate {
    feature: usize,
    threshold: f64,
    gain: f64,
    ratio: f64,
}

impl Grower<'_> {
    /// The pruned tree of these cases, and how many errors it is expected to make on as many others.
    fn grow(&self, mut members: Vec<usize>, depth: usize) -> (Node, f64) {
        let weights = self.weights(&members);
        let leaf_errors = self.errors_expected(&weights);
        let leaf = Node::Leaf(weights.clone());
        if depth == DEPTH_MAX || weights.iter().filter(|weight| **weight > 0.0).count() < 2 {
            return (leaf, leaf_errors);
        }
        let Some(Candidate { feature, threshold, .. }) = self.best_split(&mut members, &weights) else {
            return (leaf, leaf_errors);
        };
        let (above, below) = members.into_iter().partition(|&case| self.cases[case].features[feature] > threshold);
        let [(below, below_errors), (above, above_errors)] = [below, above].map(|side| self.grow(side, depth + 1));
        let errors = below_errors + above_errors;
        // C4.5 prefers the leaf up to a tenth of an error.
        if leaf_errors <= errors + 0.1 {
            return (leaf, leaf_errors);
        }
        (Node::Split(Box::new(Split { feature, threshold, sides: [below, above] })), errors)
    }

    fn weights(&self, members: &[usize]) -> Vec<f64> {
        let mut weights = vec![0.0; self.classes];
        for &case in members {
            weights[self.cases[case].class] += self.cases[case].weight;
        }
        weights
    }

    fn errors_expected(&self, weights: &[f64]) -> f64 {
        let total: f64 = weights.iter().sum();
        let errors = total - weights[heaviest(weights)];
        errors + errors_added(total, errors, self.growth.confidence)
    }

    /// The best ratio among splits whose gain is at least their mean: the ratio alone favours splits into most and few.
    fn best_split(&self, members: &mut [usize], weights: &[f64]) -> Option<Candidate> {
        let features = self.cases[members[0]].features.len();
        let candidates: Vec<_> =
            (0..features).filter_map(|feature| self.split_of_feature(feature, members, weights)).collect();
        let mean = candidates.iter().map(|candidate| candidate.gain).sum::<f64>() / candidates.len() as f64;
        let good = candidates.into_iter().filter(|candidate| candidate.gain >= mean - 1e-9);
        good.reduce(|best, next| if next.ratio > best.ratio { next } else { best })
    }

    /// The threshold of most gain.
    fn split_of_feature(&self, feature: usize, members: &mut [usize], weights: &[f64]) -> Option<Candidate> {
        let value = |case: usize| self.cases[case].features[feature];
        members.sort_by(|a, b| value(*a).total_cmp(&value(*b)).then(a.cmp(b)));
        let total: f64 = weights.iter().sum();
        let (mut below, mut above) = (vec![0.0; self.classes], weights.to_vec());
        let (mut below_total, mut distinct, mut best) = (0.0, 1, None::<(f64, f64, f64)>);
        for pair in members.windows(2) {
            let case = &self.cases[pair[0]];
            below[case.class] += case.weight;
            above[case.class] -= case.weight;
            below_total += case.weight;
            let [low, high] = [value(pair[0]), value(pair[1])];
            if low == high {
                continue;
            }
            distinct += 1;
            let least = below_total.min(total - below_total);
            if least + 1e-9 < self.growth.weight_min {
                continue;
            }
            let rest = below_total * bits(&below) + (total - below_total) * bits(&above);
            if best.is_none_or(|(least, ..)| rest < least) {
                best = Some((rest, between(low, high), below_total));
            }
        }
        let (rest, threshold, below_total) = best?;
        // What it costs to tell which threshold it is.
        let cost = f64::from(distinct - 1).log2() / total;
        let gain = bits(weights) - rest / total - cost;
        let ratio = gain / bits(&[below_total, total - below_total]);
        (gain > 1e-9).then_some(Candidate { feature, threshold, gain, ratio })
    }
}

/// At least the lower one and below the higher one, also where nothing is between.
fn between(low: f64, high: f64) -> f64 {
    let middle = f64::midpoint(low, high);
    if middle < high { middle } else { low }
}

/// Entropy.
fn bits(weights: &[f64]) -> f64 {
    let total: f64 = weights.iter().sum();
    let shares = weights.iter().map(|weight| weight / total).filter(|share| *share > 0.0);
    shares.map(|share| -share * share.log2()).sum()
}

/// Errors to be added to those made: up to the upper limit of a binomial with this confidence. C4.5's approximations.
fn errors_added(total: f64, errors: f64, confidence: f64) -> f64 {
    let without = total * (1.0 - (confidence.ln() / total).exp());
    if errors < 1e-6 {
        return without;
    }
    if errors < 0.9999 {
        return without + errors * (errors_added(total, 1.0, confidence) - without);
    }
    if errors + 0.5 >= total {
        return 0.67 * (total - errors);
    }
    let z2 = deviation(confidence).powi(2);
    let root = (z2 * ((errors + 0.5) * (1.0 - (errors + 0.5) / total) + z2 / 4.0)).sqrt();
    total * (errors + 0.5 + z2 / 2.0 + root) / (total + z2) - errors
}

/// How many standard deviations above the mean a normal variable is with this probability.
fn deviation(confidence: f64) -> f64 {
    const TABLE: [(f64, f64); 9] = [
        (0.0, 4.0),
        (0.001, 3.09),
        (0.005, 2.58),
        (0.01, 2.33),
        (0.05, 1.65),
        (0.10, 1.28),
        (0.20, 0.84),
        (0.40, 0.25),
        (1.00, 0.0),
    ];
    let at = TABLE.iter().position(|(value, _)| confidence <= *value).unwrap_or(TABLE.len() - 1).max(1);
    let [(low, from), (high, to)] = [TABLE[at - 1], TABLE[at]];
    from + (to - from) * (confidence.min(1.0) - low) / (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn case(features: &[f64], class: usize) -> Case {
        Case { features: features.to_vec(), class, weight: 1.0 }
    }

    fn train(cases: &[Case]) -> Tree {
        Tree::train(cases, 3, Growth::default()).expect("cases are good")
    }

    /// Three classes in two features.
    fn regions(count: usize, random: &mut Random) -> Vec<Case> {
        let mut one = || {
            let features = [random.share(), random.share()];
            let class = if features[0] > 0.5 { 2 } else { usize::from(features[1] > 0.3) };
            case(&features, class)
        };
        (0..count).map(|_| one()).collect()
    }

    #[test]
    fn regions_are_learnt_and_told_from_few_leaves() {
        let tree = train(&regions(300, &mut Random::new(1)));
        let others = regions(1000, &mut Random::new(2));
        let right = others.iter().filter(|case| tree.classify(&case.features) == case.class).count();
        assert!(right > 950, "{right}");
        assert!(tree.leaf_count() <= 6, "{}", tree.leaf_count());
    }

    #[test]
    fn noise_is_pruned() {
        let mut random = Random::new(3);
        let mut one = || {
            let features = [(); 5].map(|()| random.below(3) as f64);
            let is_noise = random.below(10) < 3;
            case(&features, usize::from((features[0] > 0.5) != is_noise))
        };
        let cases: Vec<_> = (0..300).map(|_| one()).collect();
        let leaves = |confidence: f64| {
            let growth = Growth { confidence, ..Growth::default() };
            Tree::train(&cases, 3, growth).expect("cases are good").leaf_count()
        };
        let [grown, pruned, strict] = [1.0, 0.25, 0.01].map(leaves);
        assert!(strict <= pruned && pruned < grown, "{strict} {pruned} {grown}");
        assert_eq!(strict, 2);
    }

    #[test]
    fn cases_without_anything_to_learn_give_one_leaf() {
        let constant: Vec<_> = (0..9).map(|number| case(&[1.0, -0.0], number % 3)).collect();
        let single: Vec<_> = (0..9).map(|number| case(&[f64::from(number), 0.0], 1)).collect();
        let none: Vec<_> = (0..9).map(|number| case(&[], number % 2)).collect();
        for cases in [&constant, &single, &none] {
            assert_eq!(train(cases).leaf_count(), 1);
        }
        assert_eq!(train(&single).classify(&[100.0, 5.0]), 1);
        assert_eq!(train(&none).classify(&[]), 0);
        assert_eq!(train(&[case(&[1.0], 2)]).shares(&[0.0]), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn weights_are_cases() {
        let mut repeated = regions(60, &mut Random::new(4));
        let mut weighted = repeated.clone();
        repeated.extend(repeated.clone()[..30].iter().cloned());
        weighted[..30].iter_mut().for_each(|case| case.weight = 2.0);
        let [one, other] = [train(&repeated), train(&weighted)];
        for case in regions(200, &mut Random::new(5)) {
            assert_eq!(one.classify(&case.features), other.classify(&case.features));
        }
    }

    #[test]
    fn neighbours_among_numbers_are_told_apart() {
        let (low, high) = (1.0, 1.0_f64.next_up());
        let cases: Vec<_> = (0..20).map(|number| if number % 2 == 0 { (low, 0) } else { (high, 1) }).collect();
        let cases: Vec<_> = cases.into_iter().map(|(value, class)| case(&[value], class)).collect();
        let tree = train(&cases);
        assert_eq!([tree.classify(&[low]), tree.classify(&[high])], [0, 1]);
    }

    #[test]
    fn bad_cases_are_refused() {
        let good = case(&[1.0], 0);
        let error = |case: Case| Tree::train(&[good.clone(), case], 3, Growth::default()).expect_err("it is refused");
        assert_eq!(error(case(&[f64::NAN], 0)), TrainError::Feature { case: 1 });
        assert_eq!(error(case(&[f64::INFINITY], 0)), TrainError::Feature { case: 1 });
        assert_eq!(error(case(&[], 0)), TrainError::FeatureCount { case: 1 });
        assert_eq!(error(case(&[1.0], 3)), TrainError::Class { case: 1 });
        assert_eq!(error(Case { weight: 0.0, ..good.clone() }), TrainError::Weight { case: 1 });
        assert_eq!(Tree::train(&[], 3, Growth::default()), Err(TrainError::NoCases));
    }

    #[test]
    fn errors_are_expected_as_c45_says() {
        // Quinlan (1993), section 4.2: U25%(0, 6) = 0.206, U25%(0, 1) = 0.750, U25%(1, 16) = 0.157.
        assert!((errors_added(6.0, 0.0, 0.25) / 6.0 - 0.206).abs() < 1e-3);
        assert!((errors_added(1.0, 0.0, 0.25) - 0.750).abs() < 1e-3);
        assert!(((1.0 + errors_added(16.0, 1.0, 0.25)) / 16.0 - 0.157).abs() < 2e-3);
    }
}
