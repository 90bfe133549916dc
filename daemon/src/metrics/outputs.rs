//! Metrics of the outputs: predictions, dead letters and samples.

use ostar_connectors::kafka::{Output, OutputCounts};

use super::families::metrics;

metrics! {
    struct OutputMetrics {
        records = counters("ostar_output_records_total",
            "Predictions, dead letters and samples: delivered, parked because they were refused for good, or failed attempts that are repeated.",
            &["output", "outcome"]);
        in_flight = gauges("ostar_output_in_flight_records",
            "Predictions, dead letters and samples that are neither delivered nor parked yet.", &["output"]);
        commit_failures = counter("ostar_commit_failures_total",
            "Commits to the consumer group that failed. Their offsets are committed again.");
    }
}

impl OutputMetrics {
    /// All series, from the start: Prometheus' `increase` does not see the first increment of one that begins at 1.
    pub(super) fn with_all_series(self) -> Self {
        for output in Output::ALL {
            self.add(output, OutputCounts::default());
            self.set_in_flight(output, 0);
        }
        self
    }

    pub(crate) fn add(&self, output: Output, counts: OutputCounts) {
        for (outcome, count) in [
            ("delivered", counts.delivered),
            ("failed", counts.refused),
            ("parked", counts.parked),
        ] {
            let labels = [output.as_str(), outcome];
            self.records.with_label_values(&labels).inc_by(count);
        }
    }

    pub(crate) fn set_in_flight(&self, output: Output, records: usize) {
        let gauge = self.in_flight.with_label_values(&[output.as_str()]);
        gauge.set(records as i64);
    }

    pub(super) fn count(&self, output: Output, outcome: &str) -> u64 {
        let labels = [output.as_str(), outcome];
        self.records.with_label_values(&labels).get()
    }
}
