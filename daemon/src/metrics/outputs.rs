//! Metrics of the outputs: predictions and dead letters.

use prometheus::{IntCounter, IntGauge};

use super::families::Families;

#[derive(Debug)]
pub(crate) struct OutputMetrics {
    pub(crate) predictions: OutputCounts,
    pub(crate) dead_letters: OutputCounts,
}

/// Counts of one output topic.
#[derive(Debug)]
pub(crate) struct OutputCounts {
    delivered: IntCounter,
    failed: IntCounter,
    in_flight: IntGauge,
}

impl OutputMetrics {
    pub(super) fn new(families: &Families<'_>) -> Self {
        let records = families.counters(
            "ostar_output_records_total",
            "Records sent to an output topic, by outcome.",
            &["output", "outcome"],
        );
        let in_flight = families.gauges(
            "ostar_output_in_flight_records",
            "Records that were sent but not confirmed yet.",
            &["output"],
        );
        let counts = |output: &str| OutputCounts {
            delivered: records.with_label_values(&[output, "delivered"]),
            failed: records.with_label_values(&[output, "failed"]),
            in_flight: in_flight.with_label_values(&[output]),
        };
        Self {
            predictions: counts("predictions"),
            dead_letters: counts("dead_letters"),
        }
    }
}

impl OutputCounts {
    pub(crate) fn delivered(&self, records: u64) {
        self.delivered.inc_by(records);
    }

    pub(crate) fn failed(&self, records: u64) {
        self.failed.inc_by(records);
    }

    pub(crate) fn set_in_flight(&self, records: usize) {
        self.in_flight.set(records as i64);
    }
}
