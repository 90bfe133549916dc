//! Metrics of the learner and the guard.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ostar_method::{
    Candidate,
    alarms::AlarmReport,
    diagnostics::{Decision, Reason},
    learner::{BlockReport, EstimatedAccuracies, RefreshReport, StepReport},
    proportions::{EstimatedAccuracy, ProportionEstimate},
};
use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge};

use super::{
    alarms::AlarmMetrics,
    classes::ClassLabels,
    families::{Buckets, Families, Measured},
    gate::GateMetrics,
    inputs::InputMetrics,
    losses::Losses,
};

#[derive(Debug)]
pub(crate) struct LearnerMetrics {
    classes: Arc<ClassLabels>,
    /// Shares in training, in the bundle's order.
    training: Vec<f64>,
    blocks: IntCounter,
    events: IntCounter,
    steps: IntCounter,
    skipped_steps: IntCounter,
    step_duration: Histogram,
    proportion: WithInterval,
    effective_rows: Measured,
    proportions_known: IntGauge,
    served_proportion: Measured,
    moved_from_training: Measured,
    shares_at: Measured,
    pub(crate) gate: GateMetrics,
    alarms: AlarmMetrics,
    inputs: InputMetrics,
    losses: Losses,
    transport_weight: Measured,
    sliced_distance: Measured,
    movement: Measured,
    movement_ratio: Measured,
    largest_ratio: Measured,
    smallest_singular_value: Measured,
    cross_entropy: Measured,
    slope: Measured,
    accuracy: WithInterval,
    agrees: Measured,
    refusals: IntCounterVec,
    restores: IntCounter,
    assignment: Measured,
}

/// Three gauges: a value and the ends of its 95 % interval.
#[derive(Debug)]
struct WithInterval {
    value: Measured,
    low: Measured,
    high: Measured,
}

// === impl LearnerMetrics ===

impl LearnerMetrics {
    pub(super) fn new(
        families: &Families<'_>,
        classes: &Arc<ClassLabels>,
        training: &[f64],
    ) -> Self {
        let measured = |name, help| families.measured(name, help, &[]);
        let metrics = Self {
            classes: Arc::clone(classes),
            training: training.to_vec(),
            blocks: families.counter("ostar_blocks_total", "Blocks of events learned from."),
            events: families.counter("ostar_learned_events_total", "Events learned from."),
            steps: families.counter("ostar_steps_total", "Alignment steps taken."),
            skipped_steps: families.counter(
                "ostar_steps_skipped_total",
                "Alignment steps skipped because the learner was behind.",
            ),
            step_duration: families.histogram(
                "ostar_step_duration_seconds",
                "Time of an alignment step.",
                Buckets::Seconds,
            ),
            proportion: WithInterval::proportion(families),
            effective_rows: families.measured(
                "ostar_label_proportion_effective_rows",
                "Number of independent events that the shares are as precise as.",
                &["candidate"],
            ),
            served_proportion: families.measured(
                "ostar_served_proportion",
                "Share of the class in the stream; absent while it cannot be told.",
                &["class"],
            ),
            proportions_known: families.gauge(
                "ostar_proportions_known",
                "1 if the served shares can be told, 0 before the first block and while they cannot.",
            ),
            moved_from_training: measured(
                "ostar_distance_from_training",
                "Half the sum of the differences between the shares in the stream and in training, over all classes; absent while the shares cannot be told.",
            ),
            shares_at: families.measured(
                "ostar_label_proportion_timestamp_seconds",
                "When the shares were estimated, in seconds since 1970. After a restart, those of the checkpoint are shown.",
                &[],
            ),
            gate: GateMetrics::new(families),
            alarms: AlarmMetrics::new(families),
            inputs: InputMetrics::new(families),
            losses: Losses::new(families),
            transport_weight: measured(
                "ostar_transport_weight",
                "Weight of the transport cost (lambda_OT).",
            ),
            sliced_distance: families.measured(
                "ostar_sliced_distance",
                "Sliced Wasserstein distance between source and stream before and after the map, and its noise floor.",
                &["stage"],
            ),
            movement: families.measured(
                "ostar_class_movement",
                "Mean squared distance by which the map moves the class.",
                &["class"],
            ),
            movement_ratio: families.measured(
                "ostar_class_movement_ratio",
                "ostar_class_movement over the squared distance to the nearest other class; the guard refuses large values.",
                &["class"],
            ),
            largest_ratio: measured(
                "ostar_largest_class_movement_ratio",
                "The largest ostar_class_movement_ratio of all classes; GetState names the class.",
            ),
            smallest_singular_value: measured(
                "ostar_confusion_smallest_singular_value",
                "Smallest singular value of the adapted model's confusion matrix; near 0 the shares cannot be estimated.",
            ),
            cross_entropy: families.measured(
                "ostar_held_out_cross_entropy",
                "Cross-entropy on held-out source rows; for the adapted model the rows are mapped.",
                &["candidate"],
            ),
            slope: measured(
                "ostar_classifier_slope",
                "Largest input gradient of the adapted model on the window.",
            ),
            accuracy: WithInterval::accuracy(families),
            agrees: measured(
                "ostar_guard_agrees",
                "1 if the guard accepted the newest state, 0 if it refused it.",
            ),
            refusals: families.counters_from_zero(
                "ostar_guard_refusals_total",
                "States that the guard refused, by reason.",
                "reason",
                Reason::LABELS,
            ),
            restores: families.counter(
                "ostar_restores_total",
                "Times the last good weights were restored.",
            ),
            assignment: measured(
                "ostar_clusters_keep_classes",
                "1 if every cluster of the window is nearest to the class it is predicted as, else 0.",
            ),
        };
        for (class, proportion) in classes.summed(training) {
            let labels = [class, "training"];
            metrics.proportion.value.set(&labels, proportion);
        }
        metrics
    }

    pub(crate) fn observe_block(&self, block: &BlockReport) {
        self.blocks.inc();
        self.events.inc_by(block.rows as u64);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        self.show_shares(block, now.map_or(0, |now| now.as_millis() as u64));
        self.gate.observe(&block.verdict);
        self.show_alarms(&block.alarms);
    }

    /// Shows alarms, which may be from before a restart.
    pub(crate) fn show_alarms(&self, alarms: &AlarmReport) {
        self.alarms.observe(alarms, self.classes.names());
        self.inputs.observe(&alarms.inputs, alarms.broken.len());
    }

    /// Shows the shares of a block, which may be from before a restart.
    pub(crate) fn show_shares(&self, block: &BlockReport, at_ms: u64) {
        self.shares_at.set(&[], at_ms as f64 / 1_000.0);
        self.observe_estimate(Candidate::Frozen.name(), &block.frozen);
        if let Some(adapted) = &block.adapted {
            self.observe_estimate(Candidate::Adapted.name(), adapted);
        }
        self.observe_estimate("served", &block.served);
        self.proportions_known.set(i64::from(block.served.known));
        let served = block.served.proportions.as_ref();
        let known = |value: f64| block.served.known.then_some(value);
        for (class, proportion) in self.classes.summed(served) {
            self.served_proportion
                .set_known(&[class], known(proportion));
        }
        // Of the sums of the rest it would be too small: what moves among them cancels.
        let differences = served.iter().zip(&self.training);
        let differences = differences.map(|(now, before)| (now - before).abs());
        self.moved_from_training
            .set_known(&[], known(differences.sum::<f64>() / 2.0));
    }

    pub(crate) fn observe_step(&self, step: &StepReport, duration: Duration) {
        self.steps.inc();
        self.step_duration.observe(duration.as_secs_f64());
        self.losses.observe(step);
        self.transport_weight.set(&[], step.transport_weight);
    }

    pub(crate) fn skipped_steps(&self, steps: u64) {
        self.skipped_steps.inc_by(steps);
    }

    pub(crate) fn observe_refresh(&self, refresh: &RefreshReport) {
        self.transport_weight.set(&[], refresh.transport_weight);
        for (stage, distance) in [
            ("before_map", refresh.distance_before_map),
            ("after_map", refresh.distance_after_map),
            ("noise_floor", refresh.noise_floor),
        ] {
            self.sliced_distance.set(&[stage], distance);
        }
        for (class, moved) in self.classes.each(&refresh.movement.classes) {
            self.movement
                .set_known(&[class], moved.map(|moved| moved.cost));
            let ratio = moved.and_then(|moved| moved.ratio);
            self.movement_ratio.set_known(&[class], ratio);
        }
        let largest = refresh.movement.largest().map(|(_, ratio)| ratio);
        self.largest_ratio.set_known(&[], largest);
        self.smallest_singular_value
            .set(&[], refresh.smallest_singular_value);
        self.cross_entropy
            .set(&[Candidate::Frozen.name()], refresh.frozen_cross_entropy);
        self.cross_entropy
            .set(&[Candidate::Adapted.name()], refresh.adapted_cross_entropy);
        self.slope.set(&[], refresh.slope);
        self.assignment
            .set(&[], f64::from(refresh.assignment.identity));
        self.agrees
            .set(&[], f64::from(refresh.decision == Decision::Serve));
        if let Decision::Refuse(reason) = &refresh.decision {
            self.refusals.with_label_values(&[reason.label()]).inc();
        }
        if refresh.restored {
            self.restores.inc();
        }
    }

    fn observe_estimate(&self, candidate: &str, estimate: &ProportionEstimate) {
        self.effective_rows
            .set(&[candidate], estimate.effective_rows);
        let shares = &self.proportion;
        for (class, share) in self.classes.summed(estimate.proportions.as_ref()) {
            shares.value.set(&[class, candidate], share);
        }
        for (class, interval) in self.classes.each(&estimate.intervals) {
            let labels = [class, candidate];
            shares.low.set(&labels, interval.low);
            shares.high.set(&labels, interval.high);
        }
    }

    pub(crate) fn observe_accuracies(&self, accuracies: &EstimatedAccuracies) {
        for candidate in Candidate::ALL {
            let labels = [candidate.name()];
            match accuracies.of(candidate) {
                Some(EstimatedAccuracy { value, interval }) => {
                    self.accuracy
                        .set(&labels, value, interval.low, interval.high);
                }
                None => self.accuracy.clear(&labels),
            }
        }
    }
}

// === impl WithInterval ===

impl WithInterval {
    fn proportion(families: &Families<'_>) -> Self {
        let texts = [
            (
                "ostar_label_proportion",
                "Share of the class in the stream, or in training.",
            ),
            (
                "ostar_label_proportion_low",
                "Lower end of the share's 95 % interval.",
            ),
            (
                "ostar_label_proportion_high",
                "Upper end of the share's 95 % interval.",
            ),
        ];
        Self::new(families, &["class", "candidate"], texts)
    }

    fn accuracy(families: &Families<'_>) -> Self {
        let texts = [
            (
                "ostar_estimated_accuracy",
                "Accuracy on the stream, estimated without labels; right if only the shares moved.",
            ),
            (
                "ostar_estimated_accuracy_low",
                "Lower end of the estimated accuracy's 95 % interval.",
            ),
            (
                "ostar_estimated_accuracy_high",
                "Upper end of the estimated accuracy's 95 % interval.",
            ),
        ];
        Self::new(families, &["candidate"], texts)
    }

    /// `texts` are name and help of the value, the lower and the upper end.
    fn new(families: &Families<'_>, labels: &[&str], texts: [(&str, &str); 3]) -> Self {
        let [value, low, high] = texts.map(|(name, help)| families.measured(name, help, labels));
        Self { value, low, high }
    }

    fn clear(&self, labels: &[&str]) {
        for figure in [&self.value, &self.low, &self.high] {
            figure.set_known(labels, None);
        }
    }

    fn set(&self, labels: &[&str], value: f64, low: f64, high: f64) {
        self.value.set(labels, value);
        self.low.set(labels, low);
        self.high.set(labels, high);
    }
}
