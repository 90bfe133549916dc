//! Metrics of late labels: measured accuracy of the candidates.

use std::sync::Arc;

use ostar_method::{
    gate::LabelEvidence,
    learner::{JoinCounts, LabelBlock, LabelRequest, Measurement, Predictor, SentClasses, SharesByLabels},
};
use prometheus::{IntCounterVec, IntGauge};

use super::{
    classes::ClassLabels,
    families::{Families, Measured},
};

#[derive(Debug)]
pub(crate) struct LabelMetrics {
    classes: Arc<ClassLabels>,
    outcomes: IntCounterVec,
    sent: IntCounterVec,
    accuracy: Measured,
    balanced_accuracy: Measured,
    log_loss: Measured,
    area_under_curve: Measured,
    calibration_ratio: Measured,
    true_proportion: Measured,
    requests: IntCounterVec,
    waiting: IntGauge,
    waiting_sample: IntGauge,
    probability: Measured,
    wealth: Measured,
    share: Measured,
    share_low: Measured,
    share_high: Measured,
    share_labels: IntGauge,
}

impl LabelMetrics {
    pub(super) fn new(families: &Families<'_>, classes: &Arc<ClassLabels>) -> Self {
        let figure = |name, help| families.measured(name, help, &["candidate"]);
        let by_class = |name, help| families.measured(name, help, &["class"]);
        Self {
            classes: Arc::clone(classes),
            outcomes: families.counters(
                "ostar_labels_total",
                "Labels and events by what became of them, since the start of the process.",
                &["outcome"],
            ),
            sent: families.counters(
                "ostar_sent_classes_total",
                "Events by whether callers were sent the class that the learner's own candidate predicts.",
                &["outcome"],
            ),
            accuracy: figure(
                "ostar_measured_accuracy",
                "Share of the newest labelled events that the candidate predicted correctly.",
            ),
            balanced_accuracy: figure(
                "ostar_measured_balanced_accuracy",
                "Mean over classes of the share predicted correctly.",
            ),
            log_loss: figure(
                "ostar_measured_log_loss",
                "Mean negative log probability of the true class.",
            ),
            area_under_curve: figure("ostar_measured_auc", "Area under the ROC curve."),
            calibration_ratio: families.measured(
                "ostar_measured_calibration_ratio",
                "Predicted over observed count of the class; 1 is calibrated.",
                &["class", "candidate"],
            ),
            true_proportion: families.measured(
                "ostar_true_proportion",
                "Share of the class among the newest labels.",
                &["class"],
            ),
            requests: families.counters(
                "ostar_label_requests_total",
                "Requests for labels that were delivered to labels.requests.topic, by reason.",
                &["reason"],
            ),
            waiting: families.gauge(
                "ostar_label_waiting_events",
                "Events whose predictions wait for a label in the learner.",
            ),
            waiting_sample: families.gauge(
                "ostar_label_waiting_one_of",
                "Of so many events one waits for a label: above 1 if labels.cache has no room for all.",
            ),
            probability: families.measured(
                "ostar_label_preference_probability",
                "Chance that the challenger is right more often than the incumbent where they differ, by labels.",
                &["challenger", "incumbent"],
            ),
            wealth: families.measured(
                "ostar_label_preference_wealth",
                "What 1 has become that was bet on the challenger, label by label; 20 is proof.",
                &["challenger", "incumbent"],
            ),
            share: by_class(
                "ostar_proportion_by_labels",
                "Share of the class by labels of randomly drawn events, whatever has changed.",
            ),
            share_low: by_class(
                "ostar_proportion_by_labels_low",
                "Lower end of the 95 % interval of the share by labels.",
            ),
            share_high: by_class(
                "ostar_proportion_by_labels_high",
                "Upper end of the 95 % interval of the share by labels.",
            ),
            share_labels: families.gauge(
                "ostar_proportion_by_labels_labels",
                "Labels of randomly drawn events that the shares by labels rest on.",
            ),
        }
    }

    /// Counts requests that were delivered.
    pub(crate) fn requested(&self, requests: &[LabelRequest]) {
        for request in requests {
            let reason = request.kind.name();
            self.requests.with_label_values(&[reason]).inc();
        }
    }

    /// Shows what labels did in a block, and what they say. `before` are the counts of the block before, if any.
    pub(crate) fn observe_block(
        &self,
        labels: &LabelBlock,
        evidence: &LabelEvidence,
        before: &JoinCounts,
    ) {
        let now = &labels.counts;
        for (outcome, now, before) in [
            ("joined", now.joined, before.joined),
            ("duplicate", now.duplicates, before.duplicates),
            ("late", now.late, before.late),
            ("unknown", now.unknown, before.unknown),
            ("unlabelled", now.unlabelled, before.unlabelled),
            ("negative", now.negatives, before.negatives),
            ("without_id", now.without_id, before.without_id),
        ] {
            let counter = self.outcomes.with_label_values(&[outcome]);
            counter.inc_by(now.saturating_sub(before));
        }
        let SentClasses {
            compared,
            otherwise,
        } = labels.sent;
        for (outcome, events) in [("same", compared - otherwise), ("different", otherwise)] {
            self.sent.with_label_values(&[outcome]).inc_by(events);
        }
        if let Some(figures) = &labels.measured.window {
            self.observe_figures(figures);
        }
        self.waiting.set(labels.waiting as i64);
        self.waiting_sample.set(labels.sampled as i64);
        for duel in &evidence.duels {
            let pair = [duel.challenger.name(), duel.incumbent.name()];
            self.probability.set(&pair, duel.probability);
            self.wealth.set(&pair, duel.challenger_wealth);
        }
    }

    /// Shows class shares by labels, or removes them while there are too few.
    pub(crate) fn show_shares(&self, shares: Option<&SharesByLabels>) {
        let labels = shares.map_or(0, |shares| shares.labels);
        self.share_labels.set(labels as i64);
        // Those of many classes have no sum: each is tuned by itself, and held at 0.
        for (class, number) in self.classes.each(0..) {
            let of_class = shares.map(|shares| &shares.classes[number]);
            self.share
                .set_known(&[class], of_class.map(|found| found.share));
            let interval = of_class.map(|found| found.interval);
            self.share_low
                .set_known(&[class], interval.map(|interval| interval.low));
            self.share_high
                .set_known(&[class], interval.map(|interval| interval.high));
        }
    }

    /// Counts a label that could not be decoded.
    pub(crate) fn rejected(&self) {
        self.outcomes.with_label_values(&["rejected"]).inc();
    }

    fn observe_figures(&self, figures: &Measurement) {
        for (class, proportion) in self.classes.summed(&figures.proportions) {
            self.true_proportion.set(&[class], proportion);
        }
        for (candidate, measures) in Predictor::ALL.iter().zip(&figures.by_predictor) {
            let candidate = candidate.name();
            self.accuracy.set(&[candidate], measures.accuracy);
            self.balanced_accuracy
                .set(&[candidate], measures.balanced_accuracy);
            self.log_loss.set(&[candidate], measures.log_loss);
            self.area_under_curve.set_known(&[candidate], measures.auc);
            for (class, ratio) in self.classes.each(&measures.calibration_ratio) {
                self.calibration_ratio
                    .set_known(&[class, candidate], *ratio);
            }
        }
    }
}
