//! Metrics of the outputs: predictions and dead letters.

use ostar_connectors::kafka::{self, Output};
use prometheus::{IntCounter, IntGauge};

use super::families::Families;

#[derive(Debug)]
pub(crate) struct OutputMetrics {
    predictions: OutputCounts,
    dead_letters: OutputCounts,
    samples: OutputCounts,
    commit_failures: IntCounter,
}

/// Counts of one output topic.
#[derive(Debug)]
pub(crate) struct OutputCounts {
    delivered: IntCounter,
    failed: IntCounter,
    parked: IntCounter,
    in_flight: IntGauge,
}

impl OutputMetrics {
    pub(super) fn new(families: &Families<'_>) -> Self {
        let records = families.counters(
            "ostar_output_records_total",
            "Predictions, dead letters and samples: delivered, parked because they were refused for good, or failed attempts that are repeated.",
            &["output", "outcome"],
        );
        let in_flight = families.gauges(
            "ostar_output_in_flight_records",
            "Predictions, dead letters and samples that are neither delivered nor parked yet.",
            &["output"],
        );
        let counts = |output: &str| OutputCounts {
            delivered: records.with_label_values(&[output, "delivered"]),
            failed: records.with_label_values(&[output, "failed"]),
            parked: records.with_label_values(&[output, "parked"]),
            in_flight: in_flight.with_label_values(&[output]),
        };
        Self {
            predictions: counts(Output::Predictions.as_str()),
            dead_letters: counts(Output::DeadLetters.as_str()),
            samples: counts(Output::Samples.as_str()),
            commit_failures: families.counter(
                "ostar_commit_failures_total",
                "Commits to the consumer group that failed. Their offsets are committed again.",
            ),
        }
    }
}

impl OutputMetrics {
    /// Of predictions, and of dead letters.
    pub(super) fn streams(&self) -> (&OutputCounts, &OutputCounts) {
        (&self.predictions, &self.dead_letters)
    }

    pub(crate) fn commit_failed(&self) {
        self.commit_failures.inc();
    }

    pub(crate) fn of(&self, output: Output) -> &OutputCounts {
        match output {
            Output::Predictions => &self.predictions,
            Output::DeadLetters => &self.dead_letters,
            Output::Samples => &self.samples,
        }
    }
}

impl OutputCounts {
    pub(crate) fn add(&self, counts: kafka::OutputCounts) {
        self.delivered.inc_by(counts.delivered);
        self.failed.inc_by(counts.refused);
        self.parked.inc_by(counts.parked);
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered.get()
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.get()
    }

    pub(crate) fn set_in_flight(&self, records: usize) {
        self.in_flight.set(records as i64);
    }
}
