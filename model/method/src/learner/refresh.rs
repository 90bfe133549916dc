//! Between steps: measure how the alignment stands, decide whether it may be served, act on it.

use std::sync::Arc;

use ostar_engine::{
    Generator, Result, argmax,
    engine::{Head, Saved},
};

use super::{
    RefreshReport,
    adaptation::{Adaptation, GoodState},
    evidence::{AlignmentEvidence, RefreshSample, row_weights, spread},
    settings::LearnerSettings,
    tracked::TrackedProportions,
};
use crate::{
    deployed::HeldOut,
    diagnostics::{
        Action, ClusterAssignment, Displacement, GuardEvidence, MostPredicted, Movement,
        assign_clusters, class_means, judge, largest_slope, movement,
    },
    gate::{Gate, HeldOutShape, MappedShape},
    proportions::{LabelProportions, Probabilities},
};

/// Rows of the window at which the classifier's slope is measured.
const SLOPE_ROWS: usize = 16;

/// What is measured apart from distances.
struct Measures {
    movement: Movement,
    assignment: ClusterAssignment,
    most_predicted: MostPredicted,
    adapted_cross_entropy: f64,
    frozen_cross_entropy: f64,
    smallest_singular_value: f64,
    slope: f64,
}

impl Adaptation {
    pub(crate) fn refresh(
        &mut self,
        settings: &LearnerSettings,
        frozen: &TrackedProportions,
        gate: &Gate,
        generator: &mut Generator,
    ) -> Result<RefreshReport> {
        let on_window = gate.proportions().unwrap_or(&self.prior).clone();
        let sample = self.sample(&on_window, generator)?;
        let distance_before_map = self.distance(&sample.source.latents, &sample, &on_window)?;
        let label_shift_refuted = gate.state().verdict().refuted;
        let (evidence, translated) =
            self.align_classes(settings, &sample, label_shift_refuted, generator)?;
        self.transport.update(evidence.distance, sample.noise_floor);

        let measures = self.measure(frozen, &sample, &evidence)?;
        let saved = self.engine.save()?;
        let non_finite = self.engine.first_non_finite(&saved)?;
        let guard_evidence = GuardEvidence {
            non_finite: non_finite.as_deref(),
            distance_before_map,
            // Before the first step the map is the identity and cannot be blamed.
            distance_after_map: (self.steps > 0).then_some(evidence.distance),
            noise_floor: sample.noise_floor,
            label_shift_refuted,
            most_predicted: measures.most_predicted,
            own_clusters: measures.assignment.identity,
            classes: &measures.movement.classes,
            adapted_cross_entropy: measures.adapted_cross_entropy,
            frozen_cross_entropy: measures.frozen_cross_entropy,
            smallest_singular_value: measures.smallest_singular_value,
        };
        let decision = judge(&guard_evidence, &settings.guard);
        let action = self.refusals.after(&decision, &settings.guard);
        // Before the action, because a restore replaces the networks that the evidence is about.
        self.picture = Some(Arc::new(self.take_picture(&sample, &evidence)?));
        let proportions = evidence.proportions.clone();
        let distance_after_map = evidence.distance;
        match action {
            Action::Publish => self.publish(evidence, saved, &measures.movement, gate)?,
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
            noise_floor: sample.noise_floor,
            movement: measures.movement,
            assignment: measures.assignment,
            adapted_cross_entropy: measures.adapted_cross_entropy,
            frozen_cross_entropy: measures.frozen_cross_entropy,
            smallest_singular_value: measures.smallest_singular_value,
            slope: measures.slope,
            translated,
            decision,
            restored: action == Action::Restore,
        })
    }

    /// The evidence of this refresh, and whether classes were translated to get it.
    fn align_classes(
        &mut self,
        settings: &LearnerSettings,
        sample: &RefreshSample,
        label_shift_refuted: bool,
        generator: &mut Generator,
    ) -> Result<(AlignmentEvidence, bool)> {
        let evidence = self.gather_evidence(settings, sample)?;
        // Translations are the last resort: neither the shares nor the map so far explain the window.
        let unexplained = label_shift_refuted && evidence.distance > sample.noise_floor;
        let enough_rows = sample.has_enough_rows(self.source.width());
        if !(settings.class_translations && enough_rows && unexplained) {
            return Ok((evidence, false));
        }
        let translated = self.retranslate(settings, sample, generator)?;
        let is_translated = translated.is_some();
        Ok((translated.unwrap_or(evidence), is_translated))
    }

    fn measure(
        &mut self,
        frozen: &TrackedProportions,
        sample: &RefreshSample,
        evidence: &AlignmentEvidence,
    ) -> Result<Measures> {
        let (width, classes) = (self.source.width(), self.prior.classes());
        let (source, labels) = (&sample.source.latents, &sample.source.labels);
        let movement = movement(source, &evidence.mapped, labels, classes, width)?;
        let mapped_means = class_means(&evidence.mapped, labels, classes, width)?;
        let source_means = class_means(source, labels, classes, width)?;
        let assignment = assign_clusters(&sample.target, &mapped_means, &source_means, width)?;

        let held_out = self.source.held_out().clone();
        let frozen_held_out = self.score(Head::Source, &held_out.latents)?;
        let frozen_window = self.score(Head::Source, &sample.window)?;
        // Both classifiers have the training set's prior inside, and both are served corrected.
        let corrected = |rows: &Probabilities, proportions: &LabelProportions| {
            rows.corrected(&self.prior, proportions)
        };
        let weights = row_weights(&held_out.labels, &evidence.proportions);
        let cross_entropy_of = |rows: &Probabilities| {
            let corrected = corrected(rows, &evidence.proportions);
            cross_entropy(&corrected, &held_out.labels, &weights)
        };
        let known = "the window's rows were estimated when they came";
        let frozen_estimate = frozen.estimate.as_ref().expect(known);
        let most_predicted = {
            let adapted = corrected(&evidence.window, &evidence.proportions);
            let prior = corrected(&frozen_window, &frozen_estimate.proportions);
            most_predicted(&adapted, &prior)
        };
        let adapted_cross_entropy = cross_entropy_of(&evidence.held_out);
        let frozen_cross_entropy = cross_entropy_of(&frozen_held_out);

        let slope_rows = spread(&sample.window, width, SLOPE_ROWS);
        let slope = largest_slope(&slope_rows, width, |rows| {
            Ok(self.score(Head::Target, rows)?.to_f32())
        })?;
        let adapted = &evidence.estimator;
        Ok(Measures {
            movement,
            assignment,
            most_predicted,
            adapted_cross_entropy,
            frozen_cross_entropy,
            smallest_singular_value: adapted.confusion().smallest_singular_value(),
            slope,
        })
    }

    /// Makes the present state the one that is served.
    fn publish(
        &mut self,
        evidence: AlignmentEvidence,
        saved: Saved,
        movement: &Movement,
        gate: &Gate,
    ) -> Result<()> {
        self.good = GoodState::new(
            self.engine.as_ref(),
            saved,
            self.source.translations().to_vec(),
            self.steps,
        )?;
        if self.steps > 0 {
            self.good.largest_deformation = largest_deformation(movement);
            self.good.mapped_latents = evidence.mapped;
            self.restore_mapped_shape(gate)?;
        }
        self.held_out = evidence.held_out.to_f32();
        self.adapted.estimator = evidence.estimator;
        Ok(())
    }

    /// What the gate tests the served state by, from its held-out rows.
    pub(crate) fn restore_mapped_shape(&mut self, gate: &Gate) -> Result<()> {
        if self.good.mapped_latents.is_empty() {
            return Ok(());
        }
        let latents = self.good.mapped_latents.clone();
        let held_out = HeldOut {
            probabilities: self.score(Head::Source, &latents)?,
            latents,
            labels: self.source.held_out().labels.clone(),
        };
        let smallest_recall = smallest_recall(&held_out);
        self.good.mapped = Some(MappedShape {
            shape: HeldOutShape::new(gate.binning(), &held_out)?,
            smallest_recall,
            largest_deformation: self.good.largest_deformation,
        });
        Ok(())
    }

    /// Makes the state that is served the present one.
    pub(crate) fn restore(&mut self) -> Result<()> {
        self.engine.restore(&self.good.saved)?;
        self.source.translate(self.good.translations.clone());
        self.set_translated_source()
    }
}

/// The class that `adapted` predicts most often, and how often each of both does.
fn most_predicted(adapted: &Probabilities, prior: &Probabilities) -> MostPredicted {
    let predicted = |rows: &Probabilities| {
        let mut shares = vec![0.0; rows.classes()];
        let row_share = 1.0 / rows.count() as f64;
        rows.rows().for_each(|row| shares[argmax(row)] += row_share);
        shares
    };
    let (adapted, prior) = (predicted(adapted), predicted(prior));
    let class = argmax(&adapted);
    MostPredicted {
        class,
        adapted: adapted[class],
        prior: prior[class],
    }
}

/// Least share of a class's rows that is predicted as it.
pub(super) fn smallest_recall(held_out: &HeldOut) -> f64 {
    let classes = held_out.probabilities.classes();
    let (mut right, mut all) = (vec![0.0; classes], vec![0.0; classes]);
    for (row, label) in held_out.probabilities.rows().zip(&held_out.labels) {
        let class = *label as usize;
        all[class] += 1.0;
        right[class] += f64::from(argmax(row) == class);
    }
    // A class without rows gives NaN, which `min` ignores.
    let recalls = right.iter().zip(&all).map(|(right, all)| right / all);
    recalls.fold(1.0, f64::min)
}

fn largest_deformation(movement: &Movement) -> f64 {
    let ratio = |class: &Displacement| match class.separation {
        Some(room) if room > 0.0 => class.deformation / room,
        // Without room between classes no deformation is small enough.
        _ => f64::INFINITY,
    };
    movement
        .classes
        .iter()
        .flatten()
        .map(ratio)
        .fold(0.0, f64::max)
}

fn cross_entropy(probabilities: &Probabilities, labels: &[u32], weights: &[f64]) -> f64 {
    let rows = probabilities.rows().zip(labels).zip(weights);
    let loss = |((row, label), weight): ((&[f64], &u32), &f64)| {
        // A probability of 0 gives a large but finite loss, which the guard can compare.
        -weight * row[*label as usize].max(f64::MIN_POSITIVE).ln()
    };
    rows.map(loss).sum::<f64>() / weights.iter().sum::<f64>()
}
