//! The proportions that predictions are corrected to.

use super::tracked::TrackedProportions;
use crate::{
    gate::Objective,
    proportions::{Interval, LabelProportions, ProportionEstimate},
};

/// A class at exactly 0 would overrule rows that the model is sure of.
fn smallest(classes: usize) -> f64 {
    if classes == 2 {
        0.01
    } else {
        (0.1 / classes as f64).min(1e-3)
    }
}

/// Most that a class may become rarer than in training where probabilities are used.
const RAREST: f64 = 0.1;

/// What the whole correction corrects to.
///
/// For classes that is the estimate: it errs to both sides, and a class changes in few rows. A probability is wrong by as much as
/// the shares are, so that probabilities are corrected only as far as the stream contradicts training: to the share of the
/// interval that is nearest to it. A model that hardly knows clicks says little of their share, and is left as it is.
pub(super) fn whole(
    frozen: &TrackedProportions,
    training: &LabelProportions,
    objective: Objective,
) -> LabelProportions {
    match objective {
        Objective::Class => floored(frozen.proportions.as_ref().unwrap_or(training), training),
        Objective::Probability => match &frozen.estimate {
            Some(estimate) => nearest(estimate, training),
            None => training.clone(),
        },
    }
}

/// Bounded from below, but never above the share that the class had in training: clicks or frauds would become more
/// frequent than they ever were.
pub(super) fn floored(
    proportions: &LabelProportions,
    training: &LabelProportions,
) -> LabelProportions {
    let smallest = smallest(proportions.classes());
    proportions.floored_by_class(|class| smallest.min(above_zero(training[class], smallest)))
}

/// The shares that are nearest to training and that the estimate's intervals hold.
fn nearest(estimate: &ProportionEstimate, training: &LabelProportions) -> LabelProportions {
    let smallest = smallest(training.classes());
    let share = |(class, interval): (usize, &Interval)| {
        let share = training[class].clamp(interval.low, interval.high);
        let least = RAREST * above_zero(training[class], smallest);
        share.max(smallest.min(least))
    };
    let intervals = estimate.intervals.iter().enumerate();
    LabelProportions::rescaled(intervals.map(share).collect())
}

/// A class that training did not have has no share to compare with.
fn above_zero(share: f64, otherwise: f64) -> f64 {
    if share > 0.0 { share } else { otherwise }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(of: &[f64]) -> LabelProportions {
        LabelProportions::new(of.to_vec()).unwrap()
    }

    fn estimate(share: f64, low: f64, high: f64) -> ProportionEstimate {
        ProportionEstimate {
            proportions: shares(&[1.0 - share, share]),
            intervals: vec![
                Interval {
                    low: 1.0 - high,
                    high: 1.0 - low,
                },
                Interval { low, high },
            ],
            effective_rows: 500.0,
            known: true,
        }
    }

    #[test]
    fn a_rare_class_is_never_made_more_frequent_by_a_bound() {
        let clicks = shares(&[0.995, 0.005]);
        let gone = floored(&shares(&[1.0, 0.0]), &clicks);
        assert!((gone[1] - 0.005).abs() < 1e-4, "{gone:?}");
        let common = floored(&shares(&[1.0, 0.0]), &shares(&[0.5, 0.5]));
        assert!((common[1] - 0.01).abs() < 1e-3, "{common:?}");
        // Frauds of a class that training did not have.
        let new = floored(&shares(&[1.0, 0.0]), &shares(&[1.0, 0.0]));
        assert!(new[1] > 0.005, "{new:?}");
    }

    #[test]
    fn probabilities_are_corrected_only_as_far_as_the_stream_contradicts_training() {
        let clicks = shares(&[0.995, 0.005]);
        let share = |estimate: &ProportionEstimate| nearest(estimate, &clicks)[1];
        // The interval holds training's share, whatever the estimate is.
        assert_eq!(share(&estimate(0.03, 0.0, 0.2)), 0.005);
        assert_eq!(share(&estimate(0.0, 0.0, 0.02)), 0.005);
        assert!((share(&estimate(0.03, 0.02, 0.04)) - 0.02).abs() < 1e-12);
        assert!((share(&estimate(0.001, 0.0, 0.002)) - 0.002).abs() < 1e-12);
        // At most ten times as rare.
        assert!((share(&estimate(0.0, 0.0, 1e-6)) - 0.0005).abs() < 1e-5);
    }
}
