//! How the alignment stands: what its networks make of held-out rows, window and a sample of the source.

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

/// Least share of a class in alignment: a class at exactly 0 would never come back.
const PROPORTION_FLOOR: f64 = 1e-3;
/// Most rows on either side of a sliced distance.
const SAMPLE_ROWS: usize = 1000;
/// Random halves of the window behind the floor of the sliced distance.
const FLOOR_REPEATS: usize = 20;
/// The floor is this quantile of the halves' distances.
const FLOOR_QUANTILE: f64 = 0.95;

/// Rows on which distances are measured, the same for all that a refresh compares.
pub(crate) struct Sample {
    /// Rows to train on, where they are without translation and map.
    pub(crate) source: Part,
    /// Rows of the window.
    pub(crate) target: Vec<f32>,
    /// What sampling alone makes of a distance to them.
    pub(crate) floor: f64,
}

// === impl Sample ===

impl Sample {
    /// Whether there are so many target rows that a distance at the floor says something: among few rows
    /// nearly anything is.
    pub(crate) fn is_telling(&self, width: usize) -> bool {
        self.target.len() >= SAMPLE_ROWS * width
    }
}

/// What translations, map and target classifier come to.
pub(crate) struct View {
    /// Predictions on mapped held-out rows.
    pub(crate) held_out: Probabilities,
    pub(crate) estimator: ProportionEstimator,
    /// The window's proportions by that estimator.
    pub(crate) estimate: ProportionEstimate,
    /// p_N.
    pub(crate) proportions: LabelProportions,
    /// The source sample, translated and mapped.
    pub(crate) mapped: Vec<f32>,
    /// Its sliced distance to the target.
    pub(crate) distance: f64,
}

impl Adaptation {
    pub(crate) fn sample(&self, generator: &mut Generator) -> Result<Sample> {
        let width = self.source.width();
        let train = self.source.train();
        let half = (self.window.len() / 2).clamp(1, SAMPLE_ROWS);
        let (repeats, quantile) = (FLOOR_REPEATS, FLOOR_QUANTILE);
        let directions = &self.directions;
        let floor = directions.floor(&self.target, half, half, repeats, quantile, generator)?;
        Ok(Sample {
            source: Part {
                latents: spread(&train.latents, width, SAMPLE_ROWS),
                labels: spread(&train.labels, 1, SAMPLE_ROWS),
            },
            target: spread(&self.target, width, half),
            floor,
        })
    }

    pub(crate) fn view(&mut self, settings: &LearnerSettings, sample: &Sample) -> Result<View> {
        let held_out = self.source.translated(self.source.held_out());
        let held_out = self.transport(&held_out)?;
        let held_out = self.score(Head::Target, &held_out)?;
        let estimator = estimator(settings, &self.source, &held_out.to_f32(), &self.prior)?;
        let estimate = estimator.estimate(&self.score_window(Head::Target)?)?;
        let proportions = match settings.alignment_proportions {
            AlignmentProportions::Estimated => estimate.proportions.floored(PROPORTION_FLOOR),
            AlignmentProportions::Uniform => LabelProportions::uniform(held_out.classes()),
        };
        let mapped = self.source.translated(&sample.source);
        let mapped = self.transport(&mapped)?;
        let distance = self.distance(&mapped, sample, &proportions)?;
        Ok(View {
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
        sample: &Sample,
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
