//! What labels count. What they say is part of the state.

use ostar_connectors::labels::LabelCounts;
use ostar_method::learner::{JoinCounts, LabelRequest};

use super::families::metrics;

metrics! {
    struct LabelMetrics {
        labels = counters_from_zero("ostar_labels_total", "Late labels read, by outcome.",
            "outcome", ["joined", "duplicate", "expired", "rejected"]);
        requests = counters("ostar_label_requests_total", "Requests for labels that were delivered to labels.requests.topic, by reason.",
            &["reason"]);
        join = counters("ostar_label_evidence_total",
            "Labels and events by what became of them in the learner, since the start of the process.", &["outcome"]);
    }
}

impl LabelMetrics {
    /// Counts requests that were delivered.
    pub(crate) fn requested(&self, requests: &[LabelRequest]) {
        for request in requests {
            let reason = request.kind.name();
            self.requests.with_label_values(&[reason]).inc();
        }
    }

    /// Counts what labels did in a block. `before` are the counts of the block before, if any.
    pub(crate) fn observe_block(&self, now: &JoinCounts, before: &JoinCounts) {
        for (outcome, now, before) in [
            ("joined", now.joined, before.joined),
            ("duplicate", now.duplicates, before.duplicates),
            ("late", now.late, before.late),
            ("unknown", now.unknown, before.unknown),
            ("unlabelled", now.unlabelled, before.unlabelled),
            ("negative", now.negatives, before.negatives),
            ("without_id", now.without_id, before.without_id),
        ] {
            let counter = self.join.with_label_values(&[outcome]);
            counter.inc_by(now.saturating_sub(before));
        }
    }

    /// Counts a label that could not be decoded.
    pub(crate) fn rejected(&self) {
        self.labels.with_label_values(&["rejected"]).inc();
    }

    pub(crate) fn observe(&self, counts: &LabelCounts) {
        for (outcome, count) in [
            ("joined", counts.joined),
            ("duplicate", counts.duplicates),
            ("expired", counts.expired),
        ] {
            // Reports carry totals since the start of the process, and so does the counter: add the difference.
            let counter = self.labels.with_label_values(&[outcome]);
            counter.inc_by(count.saturating_sub(counter.get()));
        }
    }

    /// Labels that were joined with their predictions.
    pub(super) fn joined(&self) -> u64 {
        self.labels.with_label_values(&["joined"]).get()
    }
}
