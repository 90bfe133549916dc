//! What a refresh measures: the networks' output on held-out rows, on the window and on a sample of the source.

use ostar_engine::{Generator, Result, engine::Head, weights::class_counts};

use super::{
    adaptation::{Adaptation, estimator},
    settings::{AlignmentProportions, LearnerSettings},
    source::Part,
};
use crate::{
    diagnostics::effective_rows,
    proportions::{
        Interval, LabelProportions, Probabilities, ProportionEstimate, ProportionEstimator,
    },
};

/// Smallest proportion of a class in alignment: a class at exactly 0 would never come back.
const SMALLEST_PROPORTION: f64 = 1e-3;
/// Most rows on either side of a sliced distance.
const SAMPLE_ROWS: usize = 1000;
/// Random halves of the window behind the noise floor.
const NOISE_FLOOR_REPEATS: usize = 20;
/// The noise floor is this quantile of the halves' distances.
const NOISE_FLOOR_QUANTILE: f64 = 0.95;

/// Furthest that p_N of a class may move in one refresh, beyond half of its interval. The map is
/// fitted to p_N, and p_N is estimated through the map: without a bound it runs away to one class.
const LARGEST_MOVE: f64 = 0.1;

/// Rows that every distance of one refresh is measured on.
pub(crate) struct RefreshSample {
    /// Held-out rows, neither translated nor mapped: on rows that the map was trained on distances are too small.
    pub(crate) source: Part,
    /// All rows of the window.
    pub(crate) window: Vec<f32>,
    /// At most [`SAMPLE_ROWS`] rows of the window.
    pub(crate) target: Vec<f32>,
    /// As many others: what is fitted to them can be judged by `target`.
    pub(crate) aside: Vec<f32>,
    /// What sampling alone makes of a distance between `source`, reweighted, and `target`.
    pub(crate) noise_floor: f64,
}

// === impl RefreshSample ===

impl RefreshSample {
    /// Whether there are enough target rows for a distance below the noise floor to mean something. With few
    /// rows the floor is so high that nearly every distance is below it.
    pub(crate) fn has_enough_rows(&self, width: usize) -> bool {
        self.target.len() >= SAMPLE_ROWS * width
    }
}

/// What translations, map and target classifier make of the sample.
pub(crate) struct AlignmentEvidence {
    /// Predictions of f_N on mapped held-out rows.
    pub(crate) held_out: Probabilities,
    /// The window's predictions by f_N, not corrected.
    pub(crate) window: Probabilities,
    pub(crate) estimator: ProportionEstimator,
    /// What the alignment uses as p_N from now on.
    pub(crate) proportions: LabelProportions,
    /// The held-out rows, translated and mapped.
    pub(crate) mapped: Vec<f32>,
    /// Sliced distance of `mapped` to the target.
    pub(crate) distance: f64,
}

impl Adaptation {
    /// `proportions` are those that the source will be reweighted to, roughly.
    pub(crate) fn sample(
        &self,
        proportions: &LabelProportions,
        generator: &mut Generator,
    ) -> Result<RefreshSample> {
        let width = self.source.width();
        let source = self.source.held_out().clone();
        let window = self.window_latents()?;
        let half = (self.window.len() / 2).clamp(1, SAMPLE_ROWS);
        // A weighted sample is as noisy as a smaller one.
        let source_rows = effective_rows(&row_weights(&source.labels, proportions));
        let noise_floor = self.directions.noise_floor(
            &window,
            (source_rows as usize).max(1),
            half,
            NOISE_FLOOR_REPEATS,
            NOISE_FLOOR_QUANTILE,
            generator,
        )?;
        let rows = window.len() / width;
        let others = &window[width.min((rows - 1) * width)..];
        Ok(RefreshSample {
            source,
            target: spread(&window, width, half),
            aside: spread(others, width, half),
            window,
            noise_floor,
        })
    }

    pub(crate) fn gather_evidence(
        &mut self,
        settings: &LearnerSettings,
        sample: &RefreshSample,
    ) -> Result<AlignmentEvidence> {
        let translated = self.source.translated(&sample.source);
        let mapped = self.transport(&translated)?;
        let held_out = self.score(Head::Target, &mapped)?;
        let estimator = estimator(settings, &self.source, &held_out.to_f32(), &self.prior)?;
        let window = self.score(Head::Target, &sample.window)?;
        let estimate = estimator.estimate(&window)?;
        let proportions = match settings.alignment_proportions {
            AlignmentProportions::Estimated => {
                next_proportions(self.alignment_proportions.as_ref(), &estimate)
            }
            AlignmentProportions::Uniform => LabelProportions::uniform(held_out.classes()),
        };
        let distance = self.distance(&mapped, sample, &proportions)?;
        Ok(AlignmentEvidence {
            held_out,
            window,
            estimator,
            proportions,
            mapped,
            distance,
        })
    }

    /// Sliced distance of the target to the held-out rows, moved to `latents` and reweighted.
    pub(crate) fn distance(
        &self,
        latents: &[f32],
        sample: &RefreshSample,
        proportions: &LabelProportions,
    ) -> Result<f64> {
        let weights = row_weights(&sample.source.labels, proportions);
        self.directions
            .distance(latents, Some(&weights), &sample.target, None)
    }
}

/// p_N after a refresh: the estimate, kept near the last p_N (see [`LARGEST_MOVE`]), or the last p_N if the
/// estimate is not known.
fn next_proportions(
    last: Option<&LabelProportions>,
    estimate: &ProportionEstimate,
) -> LabelProportions {
    let Some(last) = last else {
        return estimate.proportions.floored(SMALLEST_PROPORTION);
    };
    if !estimate.known {
        return last.clone();
    }
    let bounded = |(class, interval): (usize, &Interval)| {
        let reach = LARGEST_MOVE + 0.5 * (interval.high - interval.low);
        let (low, high) = (last[class] - reach, last[class] + reach);
        estimate.proportions[class]
            .clamp(low, high)
            .max(SMALLEST_PROPORTION)
    };
    let intervals = estimate.intervals.iter().enumerate();
    LabelProportions::rescaled(intervals.map(bounded).collect())
}

/// omega of every row, as if they were one batch.
pub(crate) fn row_weights(labels: &[u32], proportions: &LabelProportions) -> Vec<f64> {
    let mut counts = vec![0.0; proportions.classes()];
    class_counts(labels.iter().copied(), &mut counts);
    let weight = |label: &u32| proportions[*label as usize] / counts[*label as usize];
    labels.iter().map(weight).collect()
}

/// At most `count` rows, evenly spread.
pub(crate) fn spread<T: Copy>(values: &[T], width: usize, count: usize) -> Vec<T> {
    let rows = values.len() / width;
    let picked = rows.min(count);
    let row = |number: usize| {
        let first = number * rows / picked * width;
        values[first..first + width].iter().copied()
    };
    (0..picked).flat_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(second: f64, known: bool) -> ProportionEstimate {
        let around = |share: f64| Interval {
            low: share - 0.01,
            high: share + 0.01,
        };
        ProportionEstimate {
            proportions: LabelProportions::new(vec![1.0 - second, second]).unwrap(),
            intervals: vec![around(1.0 - second), around(second)],
            effective_rows: 5_000.0,
            known,
        }
    }

    #[test]
    fn an_estimate_that_runs_away_moves_the_alignment_a_little_at_a_time() {
        let first = next_proportions(None, &estimate(0.2, true));
        assert!((first[1] - 0.2).abs() < 1e-9, "{first:?}");
        let mut last = first;
        for refresh in 0..3 {
            let next = next_proportions(Some(&last), &estimate(0.99, true));
            let moved = next[1] - last[1];
            assert!((0.05..0.12).contains(&moved), "refresh {refresh}: {moved}");
            last = next;
        }
        let unknown = next_proportions(Some(&last), &estimate(0.99, false));
        assert_eq!(unknown, last, "what is not known moves nothing");
    }
}
