//! Prometheus metrics. A test compares them with `docs/METRICS.md`.
//!
//! Counters and histograms, and gauges of what no message of the state holds, are declared by part, and counted where
//! things happen. All other gauges are figures of the state, see [`crate::facts`].
//!
//! Label values are bounded: classes by the setting `metrics.max_classes`, partitions by the topic, fields by the alarms,
//! all others by the code.

mod checkpoints;
mod classes;
mod families;
mod ingest;
mod labels;
mod learner;
mod outputs;
mod process;
mod scoring;
mod serving;
mod stated;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ostar_bundle::Description;
use ostar_connectors::kafka::Output;
use prometheus::{IntCounter, Registry, TextEncoder, proto::MetricFamily};

use self::families::{Families, sum};
pub(crate) use self::{
    checkpoints::CheckpointMetrics,
    classes::ClassLabels,
    ingest::IngestMetrics,
    labels::LabelMetrics,
    learner::LearnerMetrics,
    outputs::OutputMetrics,
    process::ProcessMetrics,
    scoring::{ScoringMetrics, ScoringPath},
    serving::{CutReason, Listener, Method, RefusalReason, RequestCut, ServingMetrics},
};
use crate::{
    config::{MetricsSettings, Problems},
    proto::{State, StreamState},
};

/// All metrics of the process, by subject.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    non_finite: IntCounter,
    pub(crate) classes: Arc<ClassLabels>,
    pub(crate) process: ProcessMetrics,
    pub(crate) ingest: IngestMetrics,
    pub(crate) scoring: ScoringMetrics,
    pub(crate) outputs: OutputMetrics,
    pub(crate) learner: LearnerMetrics,
    pub(crate) checkpoints: CheckpointMetrics,
    pub(crate) labels: LabelMetrics,
    pub(crate) serving: ServingMetrics,
}

impl Metrics {
    /// Fails if the settings name a class that the bundle does not have.
    pub(crate) fn new(
        description: &Description,
        settings: &MetricsSettings,
    ) -> Result<Arc<Self>, Problems> {
        let registry = Registry::new();
        let families = Families(&registry);
        let classes = Arc::new(ClassLabels::new(description, settings)?);
        Ok(Arc::new(Self {
            non_finite: families.counter(
                "ostar_non_finite_values_total",
                "Measured values that were NaN or infinite, and therefore left out of the other metrics.",
            ),
            process: ProcessMetrics::started(&families, &description.name),
            ingest: IngestMetrics::new(&families),
            scoring: ScoringMetrics::new(&families, &classes),
            outputs: OutputMetrics::new(&families).with_all_series(),
            learner: LearnerMetrics::new(&families),
            checkpoints: CheckpointMetrics::new(&families),
            labels: LabelMetrics::new(&families),
            serving: ServingMetrics::new(&families),
            classes,
            registry,
        }))
    }

    /// All metrics in Prometheus' text format, with the figures of this state.
    pub(crate) fn render(&self, state: &State) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.gather(state))
    }

    /// What was counted, without a state.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> String {
        self.render(&State::default()).unwrap()
    }

    /// All metrics that have a value.
    fn gather(&self, state: &State) -> Vec<MetricFamily> {
        // First, because it counts what is not finite.
        let mut families = stated::families(state, &self.classes, &self.non_finite);
        families.extend(self.registry.gather());
        families.sort_by(|left, right| left.name().cmp(right.name()));
        families
    }

    /// Kafka, requests and checkpoints. A counter is where its count is kept; the state reads it here.
    pub(crate) fn stream(&self) -> StreamState {
        let mut stream = self.ingest.stream();
        let (predictions, letters) = (Output::Predictions, Output::DeadLetters);
        stream.predictions = self.outputs.count(predictions, "delivered");
        stream.dead_letters = self.outputs.count(letters, "delivered");
        stream.failed =
            self.outputs.count(predictions, "failed") + self.outputs.count(letters, "failed");
        stream.steps = self.learner.steps.get();
        stream.requests = sum(&self.serving.requests);
        stream.refused_requests = sum(&self.serving.refusals);
        stream.labels = self.labels.labels.with_label_values(&["joined"]).get();
        stream.checkpoint_ms = self.checkpoints.last_ms();
        stream.checkpoint_failures = self.checkpoints.failures.get();
        stream
    }
}
