//! Between steps: proportions, translations, transport weight, diagnostics, guard.

use std::sync::Arc;

use super::{
    RefreshReport,
    adaptation::{Adaptation, GoodState},
    settings::LearnerSettings,
    view::{Sample, View, row_weights, spread},
};
use crate::{
    Generator, NamedTensors, Result,
    diagnostics::{
        Action, GuardEvidence, assign_clusters, class_means, judge, largest_slope, movement,
    },
    engine::Head,
    proportions::{LabelProportions, Probabilities, ProportionEstimate, ProportionEstimator},
    tensors::Scalars,
};

/// Rows of the window at which the classifier's slope is measured.
const SLOPE_ROWS: usize = 16;

impl Adaptation {
    pub(crate) fn refresh(
        &mut self,
        settings: &LearnerSettings,
        frozen: &ProportionEstimator,
        frozen_estimate: &ProportionEstimate,
        training_proportions: &LabelProportions,
        generator: &mut Generator,
    ) -> Result<RefreshReport> {
        let (width, classes) = (self.source.width(), training_proportions.classes());
        let sample = self.sample(generator)?;
        let distance_before_map = self.distance_before_map(frozen, &sample)?;
        let mut view = self.view(settings, &sample)?;
        let refuted = |distance| settings.guard.refutes_label_shift(distance, sample.floor);
        self.label_shift_refuted = refuted(distance_before_map);
        let mut translated = false;
        if settings.class_translations
            && sample.is_telling(width)
            && self.label_shift_refuted
            && refuted(view.distance)
        {
            let nearer = self.retranslate(settings, &sample, generator)?;
            translated = nearer.is_some();
            view = nearer.unwrap_or(view);
        }
        self.transport.update(view.distance, sample.floor);

        let (source, labels) = (&sample.source.latents, &sample.source.labels);
        let movement = movement(source, &view.mapped, labels, classes, width)?;
        let mapped_means = class_means(&view.mapped, labels, classes, width)?;
        let source_means = class_means(source, labels, classes, width)?;
        let assignment = assign_clusters(&sample.target, &mapped_means, &source_means, width)?;
        let held_out = self.source.held_out().clone();
        let frozen_held_out = self.score(Head::Source, &held_out.latents)?;
        // Both have the training set's prior inside, and both are served corrected.
        let weights = row_weights(&held_out.labels, &view.proportions);
        let served_cross_entropy = |rows: &Probabilities| {
            let corrected = rows.corrected(training_proportions, &view.proportions);
            cross_entropy(&corrected, &held_out.labels, &weights)
        };
        let adapted_cross_entropy = served_cross_entropy(&view.held_out);
        let frozen_cross_entropy = served_cross_entropy(&frozen_held_out);
        let smallest_singular_value = view.estimator.confusion().smallest_singular_value();
        let slope_rows = spread(&self.target, width, SLOPE_ROWS);
        let slope = largest_slope(&slope_rows, width, |rows| {
            Ok(self.score(Head::Target, rows)?.to_f32())
        })?;
        let served = |rows: &Probabilities, estimate: &ProportionEstimate| {
            rows.corrected(training_proportions, &estimate.proportions)
        };
        let prior_held_out = served(&frozen_held_out, frozen_estimate);
        let adapted_held_out = served(&view.held_out, &view.estimate);
        let frozen_accuracy = frozen.accuracy(&frozen_held_out, frozen_estimate)?;
        let prior_accuracy = frozen.accuracy(&prior_held_out, frozen_estimate)?;
        let adapted_accuracy = view.estimator.accuracy(&adapted_held_out, &view.estimate)?;

        let tensors = self.engine.export()?;
        let non_finite = first_non_finite(&tensors);
        let decision = judge(
            &GuardEvidence {
                non_finite: non_finite.as_deref(),
                distance_before_map,
                noise_floor: sample.floor,
                own_clusters: assignment.identity,
                classes: &movement.classes,
                adapted_cross_entropy,
                frozen_cross_entropy,
                smallest_singular_value,
            },
            &settings.guard,
        );
        let action = self.refusals.after(&decision, &settings.guard);
        self.picture = Some(Arc::new(self.take_picture(&sample, &view)?));
        let (proportions, distance_after_map) = (view.proportions.clone(), view.distance);
        match action {
            Action::Publish => self.publish(view, tensors)?,
            Action::Keep => {}
            Action::Restore => self.restore()?,
        }
        self.alignment_proportions = Some(proportions.clone());
        Ok(RefreshReport {
            steps: self.steps,
            alignment_proportions: proportions,
            transport_weight: self.transport.weight(),
            distance_before_map,
            distance_after_map,
            noise_floor: sample.floor,
            movement,
            assignment,
            adapted_cross_entropy,
            frozen_cross_entropy,
            smallest_singular_value,
            slope,
            frozen_accuracy,
            prior_accuracy,
            adapted_accuracy,
            translated,
            decision,
            restored: action == Action::Restore,
        })
    }

    /// What is left of the distance when the source is reweighted as the frozen classifier says.
    fn distance_before_map(
        &mut self,
        frozen: &ProportionEstimator,
        sample: &Sample,
    ) -> Result<f64> {
        let on_window = self.score_window(Head::Source)?;
        let proportions = frozen.estimate(&on_window)?.proportions;
        self.distance(&sample.source.latents, sample, &proportions)
    }

    /// Makes the present state the one that is served.
    fn publish(&mut self, view: View, tensors: NamedTensors) -> Result<()> {
        self.good = GoodState::new(
            self.engine.architecture(),
            tensors,
            self.source.translations().to_vec(),
            self.steps,
        )?;
        self.held_out = view.held_out.to_f32();
        self.adapted.estimator = view.estimator;
        Ok(())
    }

    /// Makes the state that is served the present one.
    pub(crate) fn restore(&mut self) -> Result<()> {
        self.engine.import(&self.good.tensors)?;
        self.source.translate(self.good.translations.clone());
        self.set_translated_source()
    }
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
