//! Trees that vote, each grown with more weight on what the ones before got wrong: AdaBoost for several classes, as in SAMME
//! (Zhu and others, 2009).

use crate::tree::{Case, Growth, TrainError, Tree, check, heaviest};

#[derive(Clone, Debug, PartialEq)]
pub struct Boosted {
    classes: usize,
    /// Each with the weight of its vote.
    trees: Vec<(f64, Tree)>,
}

impl Boosted {
    /// At most so many trees, and at least one: one is a tree without boosting.
    pub fn train(cases: &[Case], classes: usize, trials: usize, growth: Growth) -> Result<Boosted, TrainError> {
        check(cases, classes)?;
        let mut weighted = cases.to_vec();
        let total: f64 = cases.iter().map(|case| case.weight).sum();
        let others = classes.max(2) as f64 - 1.0;
        let mut trees = Vec::new();
        for _ in 0..trials.max(1) {
            let tree = Tree::train(&weighted, classes, growth)?;
            let is_wrong: Vec<_> = weighted.iter().map(|case| tree.classify(&case.features) != case.class).collect();
            let wrong = weighted.iter().zip(&is_wrong).filter(|(_, is_wrong)| **is_wrong);
            let error = wrong.map(|(case, _)| case.weight).sum::<f64>() / total;
            // No better than a guess.
            let is_useless = error >= others / (others + 1.0);
            if is_useless && !trees.is_empty() {
                break;
            }
            // A tree without errors is believed as one with few.
            let vote = ((1.0 - error) / error.max(1e-3)).ln() + others.ln();
            trees.push((vote.max(1e-3), tree));
            if is_useless || error == 0.0 {
                break;
            }
            reweigh(&mut weighted, &is_wrong, vote.exp(), total);
        }
        Ok(Boosted { classes, trees })
    }

    /// How much speaks for each class. Sums up to 1. A tree votes for all classes of the training cases that are like this one,
    /// by their shares: its confidence counts, as in C5.0.
    pub fn votes(&self, features: &[f64]) -> Vec<f64> {
        let mut votes = vec![0.0; self.classes];
        let total: f64 = self.trees.iter().map(|(vote, _)| vote).sum();
        for (vote, tree) in &self.trees {
            votes.iter_mut().zip(tree.shares(features)).for_each(|(sum, share)| *sum += vote / total * share);
        }
        votes
    }

    /// The lowest of those that most speaks for.
    pub fn classify(&self, features: &[f64]) -> usize {
        heaviest(&self.votes(features))
    }

    pub fn tree_count(&self) -> usize {
        self.trees.len()
    }
}

/// What was wrong weighs more, and all of it as much as before.
fn reweigh(cases: &mut [Case], is_wrong: &[bool], factor: f64, total: f64) {
    for (case, _) in cases.iter_mut().zip(is_wrong).filter(|(_, is_wrong)| **is_wrong) {
        case.weight *= factor;
    }
    let sum: f64 = cases.iter().map(|case| case.weight).sum();
    // Not so light that it is nothing.
    cases.iter_mut().for_each(|case| case.weight = (case.weight * total / sum).max(1e-6));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Beyond a diagonal, which trees can only approach, with some noise.
    fn diagonal(count: usize, noise: u64, random: &mut Random) -> Vec<Case> {
        let mut one = || {
            let features = vec![random.share(), random.share()];
            let class = ((features[0] + features[1]) * 1.5) as usize;
            let class = if random.below(100) < noise { random.below(3) as usize } else { class };
            Case { features, class: class.min(2), weight: 1.0 }
        };
        (0..count).map(|_| one()).collect()
    }

    fn errors(boosted: &Boosted, cases: &[Case]) -> usize {
        cases.iter().filter(|case| boosted.classify(&case.features) != case.class).count()
    }

    fn train(cases: &[Case], trials: usize) -> Boosted {
        Boosted::train(cases, 3, trials, Growth::default()).expect("cases are good")
    }

    #[test]
    fn many_trees_are_no_worse_than_one_on_what_they_learnt_and_better_on_the_rest() {
        for (seed, noise) in [(1, 0), (2, 0), (3, 10), (4, 20)] {
            let mut random = Random::new(seed);
            let cases = diagonal(200, noise, &mut random);
            let [one, ten] = [1, 10].map(|trials| train(&cases, trials));
            assert!(ten.tree_count() > 1);
            assert!(errors(&ten, &cases) <= errors(&one, &cases), "seed {seed}");
            let others = diagonal(1000, 0, &mut random);
            let [alone, together] = [&one, &ten].map(|boosted| errors(boosted, &others));
            assert!(together <= alone + 20, "seed {seed}: {together} errors of ten trees, {alone} of one");
        }
    }

    #[test]
    fn one_trial_is_one_tree() {
        let cases = diagonal(150, 10, &mut Random::new(5));
        let tree = Tree::train(&cases, 3, Growth::default()).expect("cases are good");
        let one = train(&cases, 1);
        for case in diagonal(300, 0, &mut Random::new(6)) {
            assert_eq!(one.classify(&case.features), tree.classify(&case.features));
        }
    }

    #[test]
    fn votes_are_shares() {
        let cases = diagonal(150, 10, &mut Random::new(7));
        let boosted = train(&cases, 10);
        for case in &cases {
            let votes = boosted.votes(&case.features);
            assert!((votes.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{votes:?}");
        }
    }

    #[test]
    fn a_single_class_and_useless_features_are_learnt_too() {
        let case = |class: usize| Case { features: vec![1.0], class, weight: 1.0 };
        let single = train(&[case(2), case(2)], 10);
        assert_eq!((single.classify(&[7.0]), single.tree_count()), (2, 1));
        let even = train(&[case(0), case(1), case(2)], 10);
        assert_eq!(even.classify(&[7.0]), 0);
        let one_class = Boosted::train(&[case(0)], 1, 10, Growth::default()).expect("the case is good");
        assert_eq!(one_class.votes(&[1.0]), [1.0]);
        let bad = Case { features: vec![f64::NAN], class: 0, weight: 1.0 };
        assert_eq!(Boosted::train(&[bad], 1, 10, Growth::default()), Err(TrainError::Feature { case: 0 }));
    }
}
