//! Between iterations: proportions, transport weight, diagnostics, guard.

use super::{
    RefreshReport,
    adaptation::{Adaptation, GoodState, estimator},
    settings::{AlignmentProportions, LearnerSettings},
};
use crate::{
    Generator, NamedTensors, Result,
    diagnostics::{
        Action, GuardEvidence, assign_clusters, class_means, judge, largest_slope, movement,
    },
    engine::Head,
    proportions::{LabelProportions, Probabilities, ProportionEstimator, Published},
    tensors::Scalars,
    weights::class_counts,
};

/// Least share of a class in alignment: a class at exactly 0 would never come back.
const PROPORTION_FLOOR: f64 = 1e-3;
/// Most rows on either side of a sliced distance, and of the window's sample elsewhere.
const SAMPLE_ROWS: usize = 1000;
/// Random halves of the window behind the floor of the sliced distance.
const FLOOR_REPEATS: usize = 20;
/// The floor is this quantile of the halves' distances.
const FLOOR_QUANTILE: f64 = 0.95;
/// Rows of the window at which the classifier's slope is measured.
const SLOPE_ROWS: usize = 16;

impl Adaptation {
    pub(crate) fn refresh(
        &mut self,
        settings: &LearnerSettings,
        frozen: &ProportionEstimator,
        frozen_published: &Published,
        training_proportions: &LabelProportions,
        generator: &mut Generator,
    ) -> Result<RefreshReport> {
        let (width, classes) = (self.source.width(), training_proportions.classes());
        let held_out = self.source.held_out().clone();
        let mapped = self.transport(&held_out.latents)?;
        let adapted_held_out = self.score(Head::Target, &mapped)?;
        self.held_out = adapted_held_out
            .as_slice()
            .iter()
            .map(|v| *v as f32)
            .collect();
        self.held_out_prior = self.classifier_prior.clone();
        self.adapted.estimator =
            estimator(settings, &self.source, &self.held_out, &self.held_out_prior)?;
        let window = self.target.clone();
        let on_window = self.score(Head::Target, &window)?;
        let adapted_published = self.adapted.estimator.estimate(&on_window)?;
        let proportions = match settings.alignment_proportions {
            AlignmentProportions::Estimated => {
                adapted_published.proportions.floored(PROPORTION_FLOOR)
            }
            AlignmentProportions::Uniform => LabelProportions::uniform(classes),
        };

        let train = self.source.train().clone();
        let sample = spread(&train.latents, width, SAMPLE_ROWS);
        let labels = spread(&train.labels, 1, SAMPLE_ROWS);
        let mapped_sample = self.transport(&sample)?;
        let weights = row_weights(&labels, &proportions);
        let half = (self.window.len() / 2).clamp(1, SAMPLE_ROWS);
        let target = spread(&window, width, half);
        let directions = &self.directions;
        let distance_before_map = directions.distance(&sample, Some(&weights), &target, None)?;
        let distance = directions.distance(&mapped_sample, Some(&weights), &target, None)?;
        let distance_floor = directions.floor(
            &window,
            half,
            half,
            FLOOR_REPEATS,
            FLOOR_QUANTILE,
            generator,
        )?;
        self.transport.update(distance, distance_floor);

        let movement = movement(&sample, &mapped_sample, &labels, classes, width)?;
        let mapped_means = class_means(&mapped_sample, &labels, classes, width)?;
        let source_means = class_means(&sample, &labels, classes, width)?;
        let assignment = assign_clusters(&target, &mapped_means, &source_means, width)?;
        let frozen_held_out = self.score(Head::Source, &held_out.latents)?;
        let weights = row_weights(&held_out.labels, &proportions);
        let frozen_corrected = frozen_held_out.corrected(training_proportions, &proportions);
        let adapted_cross_entropy = cross_entropy(&adapted_held_out, &held_out.labels, &weights);
        let frozen_cross_entropy = cross_entropy(&frozen_corrected, &held_out.labels, &weights);
        let smallest_singular_value = self.adapted.estimator.confusion().smallest_singular_value();
        let slope_rows = spread(&window, width, SLOPE_ROWS);
        let slope = largest_slope(&slope_rows, width, |rows| {
            let probabilities = self.score(Head::Target, rows)?;
            Ok(probabilities.as_slice().iter().map(|v| *v as f32).collect())
        })?;
        let prior_held_out =
            frozen_held_out.corrected(training_proportions, &frozen_published.proportions);
        let source_accuracy = frozen.accuracy(&frozen_held_out, frozen_published)?;
        let prior_accuracy = frozen.accuracy(&prior_held_out, frozen_published)?;
        let adapted_accuracy = self
            .adapted
            .estimator
            .accuracy(&adapted_held_out, &adapted_published)?;

        let tensors = self.engine.export()?;
        let non_finite = first_non_finite(&tensors);
        let decision = judge(
            &GuardEvidence {
                non_finite: non_finite.as_deref(),
                classes: &movement.classes,
                adapted_cross_entropy,
                frozen_cross_entropy,
                smallest_singular_value,
            },
            &settings.guard,
        );
        let action = self.refusals.after(&decision, &settings.guard);
        match action {
            Action::Publish => {
                let prior = self.classifier_prior.clone();
                let architecture = self.engine.architecture();
                self.good = GoodState::new(architecture, tensors, prior, self.iterations)?;
            }
            Action::Keep => {}
            Action::Restore => {
                self.engine.import(&self.good.tensors)?;
                self.classifier_prior = self.good.prior.clone();
            }
        }
        self.alignment_proportions = Some(proportions.clone());
        Ok(RefreshReport {
            iterations: self.iterations,
            alignment_proportions: proportions,
            transport_weight: self.transport.weight(),
            distance_before_map,
            distance,
            distance_floor,
            movement,
            assignment,
            adapted_cross_entropy,
            frozen_cross_entropy,
            smallest_singular_value,
            slope,
            source_accuracy,
            prior_accuracy,
            adapted_accuracy,
            decision,
            restored: action == Action::Restore,
        })
    }
}

/// omega of every row, as if they were one batch.
fn row_weights(labels: &[u32], proportions: &LabelProportions) -> Vec<f64> {
    let mut counts = vec![0.0; proportions.classes()];
    class_counts(labels.iter().copied(), &mut counts);
    let weight = |label: &u32| proportions[*label as usize] / counts[*label as usize];
    labels.iter().map(weight).collect()
}

fn cross_entropy(probabilities: &Probabilities, labels: &[u32], weights: &[f64]) -> f64 {
    let rows = probabilities.rows().zip(labels).zip(weights);
    let loss = |((row, label), weight): ((&[f64], &u32), &f64)| {
        -weight * row[*label as usize].max(f64::MIN_POSITIVE).ln()
    };
    rows.map(loss).sum::<f64>() / weights.iter().sum::<f64>()
}

fn first_non_finite(tensors: &NamedTensors) -> Option<String> {
    let finite = |values: Scalars<'_>| match values {
        Scalars::F32(values) => values.iter().all(|v| v.is_finite()),
        Scalars::F64(values) => values.iter().all(|v| v.is_finite()),
    };
    let mut names = tensors.iter();
    let offending = names.find(|(_, tensor)| !finite(tensor.values.as_scalars()));
    offending.map(|(name, _)| name.clone())
}

/// At most `count` rows, evenly spread.
fn spread<T: Copy>(values: &[T], width: usize, count: usize) -> Vec<T> {
    let rows = values.len() / width;
    let picked = rows.min(count);
    let row = |number: usize| {
        let first = number * rows / picked * width;
        values[first..first + width].iter().copied()
    };
    (0..picked).flat_map(row).collect()
}
