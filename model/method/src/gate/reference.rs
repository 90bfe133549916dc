//! Whether reference rows are what they are said to be: rows of the training period, scored by this very model.

use super::bins::ScoreBins;
use crate::{
    deployed::{HeldOut, ReferenceRows},
    proportions::{LabelProportions, Probabilities},
};

/// Deviations of chi squared that chance alone exceeds once in 10,000 references.
const MOST_APART: f64 = 3.72;
/// Bins that chance would give fewer rows of the smaller sample are taken together.
const FEWEST_IN_BIN: f64 = 5.0;

/// How reference rows differ from held-out rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReferenceDifference {
    /// Deviations by which chi squared of the scores' bins is beyond what chance makes of it.
    pub deviations: f64,
    /// The class whose mean probability differs most.
    pub class: usize,
    /// Its mean probability on held-out rows.
    pub held_out: f64,
    /// The same on reference rows.
    pub reference: f64,
}

/// A share of rows in each bin, and the mean probabilities.
struct Sample {
    bins: Vec<f64>,
    means: Vec<f64>,
    /// As many rows of equal weight would be worth as much.
    rows: f64,
}

/// Compares the scores of reference rows with those of held-out rows; `None` unless they differ beyond chance (p < 1e-4). Labelled
/// rows are often drawn in other shares than the training period had, so rows that look like the held-out rows at training's
/// shares are taken as well.
pub fn reference_differs(
    held_out: &HeldOut,
    training: &LabelProportions,
    reference: &ReferenceRows,
) -> Option<ReferenceDifference> {
    let classes = held_out.probabilities.classes();
    let bins = ScoreBins::new(&held_out.probabilities, &held_out.labels);
    let mut counts = vec![0.0; classes];
    ostar_engine::weights::class_counts(held_out.labels.iter().copied(), &mut counts);
    let rows: f64 = counts.iter().sum();
    let found = Sample::new(&reference.probabilities, &bins, |_| 1.0);
    let as_in_training = |row: usize| {
        let class = held_out.labels[row] as usize;
        training.as_ref()[class] * rows / counts[class]
    };
    let expected = [
        Sample::new(&held_out.probabilities, &bins, |_| 1.0),
        Sample::new(&held_out.probabilities, &bins, as_in_training),
    ];
    let nearest = expected
        .iter()
        .map(|sample| (sample.apart(&found), sample))
        .min_by(|a, b| a.0.total_cmp(&b.0));
    let (deviations, expected) = nearest.filter(|(apart, _)| *apart > MOST_APART)?;
    let moved = |class: &usize| (expected.means[*class] - found.means[*class]).abs();
    let class = (0..classes).max_by(|a, b| moved(a).total_cmp(&moved(b)))?;
    Some(ReferenceDifference {
        deviations,
        class,
        held_out: expected.means[class],
        reference: found.means[class],
    })
}

// === impl Sample ===

impl Sample {
    fn new(rows: &Probabilities, bins: &ScoreBins, weight: impl Fn(usize) -> f64) -> Self {
        let mut sample = Self {
            bins: vec![0.0; bins.count()],
            means: vec![0.0; rows.classes()],
            rows: 0.0,
        };
        let (mut total, mut squares) = (0.0, 0.0);
        for (number, row) in rows.rows().enumerate() {
            let weight = weight(number);
            total += weight;
            squares += weight * weight;
            sample.bins[bins.bin(row)] += weight;
            (sample.means.iter_mut().zip(row)).for_each(|(mean, p)| *mean += weight * p);
        }
        let shares = sample.bins.iter_mut().chain(&mut sample.means);
        shares.for_each(|sum| *sum /= total);
        sample.rows = total * total / squares;
        sample
    }

    /// How many deviations chi squared of the two is beyond what chance makes of it (by Wilson and Hilferty); below any number
    /// where there are too few rows to tell.
    fn apart(&self, other: &Self) -> f64 {
        let rows = self.rows + other.rows;
        let smaller = self.rows.min(other.rows);
        let (mut square, mut compared, mut rare) = (0.0, 0.0, [0.0; 2]);
        let mut compare = |left: f64, right: f64| {
            let pooled = (self.rows * left + other.rows * right) / rows;
            let is_enough = pooled * smaller >= FEWEST_IN_BIN;
            if is_enough {
                let spread = pooled * (1.0 / self.rows + 1.0 / other.rows);
                square += (left - right).powi(2) / spread;
                compared += 1.0;
            }
            is_enough
        };
        for (left, right) in self.bins.iter().zip(&other.bins) {
            if !compare(*left, *right) {
                rare = [rare[0] + left, rare[1] + right];
            }
        }
        compare(rare[0], rare[1]);
        let freedom: f64 = compared - 1.0;
        if freedom < 1.0 {
            return f64::NEG_INFINITY;
        }
        let spread = 2.0 / (9.0 * freedom);
        ((square / freedom).cbrt() - (1.0 - spread)) / spread.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use ostar_engine::{Generator, Rows};

    use super::*;

    /// How a model's scores of rows are drawn.
    #[derive(Clone, Copy)]
    struct World<'a> {
        shares: &'a [f64],
        /// The model's logits are so many times what they should be.
        confidence: f64,
    }

    impl World<'_> {
        /// Probabilities and labels of a model that knows the classes' means, three apart.
        fn draw(self, rows: usize, generator: &mut Generator) -> (Probabilities, Vec<u32>) {
            let classes = self.shares.len();
            let (mut values, mut labels) = (Vec::new(), Vec::new());
            for _ in 0..rows {
                let mut left = generator.uniform();
                let drawn = self.shares.iter().position(|share| {
                    left -= share;
                    left < 0.0
                });
                let label = drawn.unwrap_or(classes - 1);
                let logits: Vec<f64> = (0..classes)
                    .map(|class| {
                        let own = if class == label { 2.0 } else { 0.0 };
                        self.confidence * (own + generator.normal())
                    })
                    .collect();
                let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
                values.extend(logits.iter().map(|logit| (logit.exp() / sum) as f32));
                labels.push(label as u32);
            }
            let rows = Rows::new(&values[..], classes).unwrap();
            (Probabilities::new("test", rows).unwrap(), labels)
        }
    }

    const TWO: World<'static> = World {
        shares: &[0.8, 0.2],
        confidence: 1.0,
    };
    const THREE: World<'static> = World {
        shares: &[0.5, 0.3, 0.2],
        confidence: 1.0,
    };

    fn differs(
        [held_out, reference]: [World<'_>; 2],
        rows: [usize; 2],
        training: &[f64],
        seed: u64,
    ) -> Option<ReferenceDifference> {
        let mut generator = Generator::new(seed);
        let (probabilities, labels) = held_out.draw(rows[0], &mut generator);
        let held_out = HeldOut {
            latents: Vec::new(),
            probabilities,
            labels,
        };
        let reference = ReferenceRows {
            latents: Vec::new(),
            probabilities: reference.draw(rows[1], &mut generator).0,
        };
        let training = LabelProportions::new(training.to_vec()).unwrap();
        reference_differs(&held_out, &training, &reference)
    }

    #[test]
    fn rows_of_the_training_period_do_not_differ() {
        for seed in 0..50 {
            for world in [TWO, THREE] {
                for rows in [[60, 500], [300, 20_000], [3_000, 2_000]] {
                    let found = differs([world; 2], rows, world.shares, seed);
                    assert_eq!(found, None, "{seed} {rows:?} of {:?}", world.shares);
                }
            }
        }
    }

    #[test]
    fn another_model_and_other_shares_differ_and_the_class_is_named() {
        for world in [TWO, THREE] {
            let other_model = World {
                confidence: 1.5,
                ..world
            };
            let mut shares = world.shares.to_vec();
            shares[0] -= 0.15;
            shares[1] += 0.15;
            let other_month = World {
                shares: &shares,
                ..world
            };
            for seed in 0..10 {
                let rows = [1_000, 5_000];
                assert!(differs([world, other_model], rows, world.shares, seed).is_some());
                let found = differs([world, other_month], rows, world.shares, seed);
                let found = found.expect("other shares look different");
                assert!(found.class < 2, "{found:?}");
                let moved = found.reference - found.held_out;
                assert_eq!(moved > 0.0, found.class == 1, "{found:?}");
            }
        }
    }

    #[test]
    fn labelled_rows_that_were_drawn_class_by_class_are_compared_at_the_shares_of_training() {
        let balanced = World {
            shares: &[0.5, 0.5],
            ..TWO
        };
        for seed in 0..20 {
            let rows = [1_000, 5_000];
            assert_eq!(differs([balanced, TWO], rows, TWO.shares, seed), None);
            // Resampled training: rows as they come look like the held-out rows, not like training.
            assert_eq!(differs([TWO, TWO], rows, balanced.shares, seed), None);
            let other_month = World {
                shares: &[0.65, 0.35],
                ..TWO
            };
            // Between the two: it takes some more rows.
            let rows = [3_000, 5_000];
            assert!(differs([balanced, other_month], rows, TWO.shares, seed).is_some());
        }
    }

    #[test]
    fn scores_without_bins_tell_nothing_and_stay_finite() {
        let constant = |rows: usize| {
            let values = [0.5_f32, 0.5].repeat(rows);
            Probabilities::new("test", Rows::new(&values[..], 2).unwrap()).unwrap()
        };
        let held_out = HeldOut {
            latents: Vec::new(),
            probabilities: constant(40),
            labels: [0, 1].repeat(20),
        };
        let reference = ReferenceRows {
            latents: Vec::new(),
            probabilities: constant(500),
        };
        let training = LabelProportions::uniform(2);
        assert_eq!(reference_differs(&held_out, &training, &reference), None);
    }
}
