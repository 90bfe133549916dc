//! Metrics of the gate: what mode `auto` serves, and why.

use ostar_method::{
    Candidate,
    gate::{GateReason, ShapeTests, Verdict},
};
use prometheus::{IntGauge, IntGaugeVec};

use super::families::{Families, Measured};

#[derive(Debug)]
pub(crate) struct GateMetrics {
    candidate: IntGaugeVec,
    reason: IntGaugeVec,
    statistic: Measured,
    limit: Measured,
    refuted: IntGauge,
    adapted_ready: IntGauge,
    prior_strength: Measured,
}

impl GateMetrics {
    pub(super) fn new(families: &Families<'_>) -> Self {
        let metrics = Self {
            candidate: families.gauges(
                "ostar_gate_candidate",
                "1 for the candidate that mode auto serves, 0 for the others.",
                &["candidate"],
            ),
            reason: families.gauges(
                "ostar_gate_reason",
                "1 for the reason of the gate's decision, 0 for the others.",
                &["reason"],
            ),
            statistic: families.measured(
                "ostar_gate_statistic",
                "What the gate's test of label shift measured on the window.",
                &["test"],
            ),
            limit: families.measured(
                "ostar_gate_limit",
                "The largest ostar_gate_statistic that label shift explains.",
                &["test"],
            ),
            refuted: families.gauge(
                "ostar_label_shift_refuted",
                "1 while the gate's tests say that more than the shares moved, else 0.",
            ),
            adapted_ready: families.gauge(
                "ostar_gate_adapted_ready",
                "1 while the adapted model explains a stream that label shift does not, else 0.",
            ),
            prior_strength: families.measured(
                "ostar_gate_prior_strength",
                "How far prior correction goes: 1 to the estimated shares, less where labels prefer less.",
                &[],
            ),
        };
        metrics.prior_strength.set(&[], 1.0);
        for candidate in Candidate::ALL {
            metrics.candidate.with_label_values(&[candidate.name()]);
        }
        for reason in GateReason::LABELS {
            metrics.reason.with_label_values(&[reason]);
        }
        metrics
    }

    pub(crate) fn observe(&self, verdict: &Verdict) {
        for candidate in Candidate::ALL {
            let chosen = i64::from(candidate == verdict.candidate);
            let gauge = self.candidate.with_label_values(&[candidate.name()]);
            gauge.set(chosen);
        }
        for label in GateReason::LABELS {
            let holds = i64::from(label == verdict.reason.label());
            self.reason.with_label_values(&[label]).set(holds);
        }
        self.refuted.set(i64::from(verdict.refuted));
        let ready = i64::from(verdict.adapted_ready);
        self.adapted_ready.set(ready);
        self.prior_strength.set(&[], verdict.prior_strength);
        for (place, name) in ShapeTests::NAMES.into_iter().enumerate() {
            let test = verdict.prior.as_ref().map(|tests| tests.named()[place].1);
            self.statistic
                .set_known(&[name], test.map(|test| test.statistic));
            self.limit.set_known(&[name], test.map(|test| test.limit));
        }
    }
}
