//! What labels count. What they say is part of the state.

use ostar_method::learner::{JoinCounts, LabelRequest, SentClasses};

use super::families::metrics;

metrics! {
    struct LabelMetrics {
        labels = counters_from_zero("ostar_labels_total",
            "Labels and events by what became of them, since the start of the process.",
            "outcome", ["joined", "duplicate", "late", "unknown", "unlabelled", "negative", "without_id", "rejected"]);
        sent = counters_from_zero("ostar_sent_classes_total",
            "Events by whether callers were sent the class that the learner's own candidate predicts.",
            "outcome", ["same", "different"]);
        requests = counters("ostar_label_requests_total",
            "Requests for labels that were delivered to labels.requests.topic, by reason.", &["reason"]);
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

    /// Counts what labels did in a block, and what callers were sent. `before` are the counts of the block before, if any.
    pub(crate) fn observe_block(&self, now: &JoinCounts, before: &JoinCounts, sent: SentClasses) {
        for (outcome, now, before) in [
            ("joined", now.joined, before.joined),
            ("duplicate", now.duplicates, before.duplicates),
            ("late", now.late, before.late),
            ("unknown", now.unknown, before.unknown),
            ("unlabelled", now.unlabelled, before.unlabelled),
            ("negative", now.negatives, before.negatives),
            ("without_id", now.without_id, before.without_id),
        ] {
            let counter = self.labels.with_label_values(&[outcome]);
            counter.inc_by(now.saturating_sub(before));
        }
        let same = sent.compared - sent.otherwise;
        for (outcome, events) in [("same", same), ("different", sent.otherwise)] {
            self.sent.with_label_values(&[outcome]).inc_by(events);
        }
    }

    /// Counts a label that could not be decoded.
    pub(crate) fn rejected(&self) {
        self.labels.with_label_values(&["rejected"]).inc();
    }
}
