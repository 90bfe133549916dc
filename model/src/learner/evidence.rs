//! What a refresh measures: the networks' output on held-out rows, on the window and on a sample of the source.

use super::{
    adaptation::{Adaptation, estimator},
    settings::{AlignmentProportions, LearnerSettings},
    source::Part,
};
use crate::{
    Generator, Result,
    engine::Head,
    proportions::{LabelProportions, Probabilities, ProportionEstimate, ProportionEstimator},
    weights::class_counts,
};

/// Smallest proportion of a class in alignment: a class at exactly 0 would never come back.
const SMALLEST_PROPORTION: f64 = 1e-3;
/// Most rows on either side of a sliced distance.
const SAMPLE_ROWS: usize = 1000;
/// Random halves of the window behind the noise floor.
const NOISE_FLOOR_REPEATS: usize = 20;
/// The noise floor is this quantile of the halves' distances.
const NOISE_FLOOR_QUANTILE: f64 = 0.95;

/// Rows that every distance of one refresh is measured on.
pub(crate) struct RefreshSample {
    /// Training rows, neither translated nor mapped.
    pub(crate) source: Part,
    /// All rows of the window.
    pub(crate) window: Vec<f32>,
    /// At most [`SAMPLE_ROWS`] rows of the window.
    pub(crate) target: Vec<f32>,
    /// What sampling alone makes of a distance to `target`.
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
    pub(crate) estimator: ProportionEstimator,
    /// The window's proportions by that estimator.
    pub(crate) estimate: ProportionEstimate,
    /// p_N.
    pub(crate) proportions: LabelProportions,
    /// The source sample, translated and mapped.
    pub(crate) mapped: Vec<f32>,
    /// Sliced distance of `mapped` to the target.
    pub(crate) distance: f64,
}

impl Adaptation {
    pub(crate) fn sample(&self, generator: &mut Generator) -> Result<RefreshSample> {
        let width = self.source.width();
        let train = self.source.train();
        let window = self.window_latents()?;
        let half = (self.window.len() / 2).clamp(1, SAMPLE_ROWS);
        let noise_floor = self.directions.noise_floor(
            &window,
            half,
            half,
            NOISE_FLOOR_REPEATS,
            NOISE_FLOOR_QUANTILE,
            generator,
        )?;
        Ok(RefreshSample {
            source: Part {
                latents: spread(&train.latents, width, SAMPLE_ROWS),
                labels: spread(&train.labels, 1, SAMPLE_ROWS),
            },
            target: spread(&window, width, half),
            window,
            noise_floor,
        })
    }

    pub(crate) fn gather_evidence(
        &mut self,
        settings: &LearnerSettings,
        sample: &RefreshSample,
    ) -> Result<AlignmentEvidence> {
        let held_out = self.source.translated(self.source.held_out());
        let held_out = self.transport(&held_out)?;
        let held_out = self.score(Head::Target, &held_out)?;
        let estimator = estimator(settings, &self.source, &held_out.to_f32(), &self.prior)?;
        let estimate = estimator.estimate(&self.score(Head::Target, &sample.window)?)?;
        let proportions = match settings.alignment_proportions {
            AlignmentProportions::Estimated => estimate.proportions.floored(SMALLEST_PROPORTION),
            AlignmentProportions::Uniform => LabelProportions::uniform(held_out.classes()),
        };
        let mapped = self.source.translated(&sample.source);
        let mapped = self.transport(&mapped)?;
        let distance = self.distance(&mapped, sample, &proportions)?;
        Ok(AlignmentEvidence {
            held_out,
            estimator,
            estimate,
            proportions,
            mapped,
            distance,
        })
    }

    /// Sliced distance of the target to the source sample, moved to `latents` and reweighted.
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
