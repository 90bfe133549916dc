//! Prometheus metrics. A test compares them with `docs/METRICS.md`.
//!
//! Label values are bounded: classes come from the bundle, partitions from the topic, all others from the code.

mod alarms;
mod checkpoints;
mod families;
mod gate;
mod ingest;
mod inputs;
mod labels;
mod learner;
mod outputs;
mod process;
mod scoring;
mod serving;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ostar_model::bundle::Description;
use prometheus::{Registry, TextEncoder, proto::MetricFamily};

use self::families::Families;
pub(crate) use self::{
    checkpoints::CheckpointMetrics,
    ingest::IngestMetrics,
    labels::LabelMetrics,
    learner::LearnerMetrics,
    outputs::OutputMetrics,
    process::ProcessMetrics,
    scoring::{ScoringMetrics, ScoringPath},
    serving::{CutReason, Listener, Method, RefusalReason, RequestCut, ServingMetrics},
};

/// All metrics of the process, by subject.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
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
    pub(crate) fn new(description: &Description) -> Arc<Self> {
        let registry = Registry::new();
        let families = Families::new(&registry);
        let classes = &description.classes;
        let training = description.training_proportions.as_ref();
        Arc::new(Self {
            process: ProcessMetrics::new(&families, &description.name),
            ingest: IngestMetrics::new(&families),
            scoring: ScoringMetrics::new(&families, classes),
            outputs: OutputMetrics::new(&families),
            learner: LearnerMetrics::new(&families, classes, training),
            checkpoints: CheckpointMetrics::new(&families),
            labels: LabelMetrics::new(&families, classes),
            serving: ServingMetrics::new(&families),
            registry,
        })
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn render(&self) -> prometheus::Result<String> {
        TextEncoder::new().encode_to_string(&self.gather())
    }

    /// All metrics that have a value.
    pub(crate) fn gather(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }
}
