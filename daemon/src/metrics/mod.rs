//! Prometheus metrics. A test compares them with `docs/METRICS.md`.
//!
//! Label values are bounded: classes by the setting `metrics.max_classes`, partitions by the topic, fields by the alarms,
//! all others by the code.

mod alarms;
mod checkpoints;
mod classes;
mod families;
mod gate;
mod ingest;
mod inputs;
mod labels;
mod learner;
mod losses;
mod outputs;
mod process;
mod scoring;
mod serving;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ostar_bundle::Description;
use prometheus::{Registry, TextEncoder, proto::MetricFamily};

use self::families::Families;
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
use crate::config::{MetricsSettings, Problems};

/// All metrics of the process, by subject.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
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
        let families = Families::new(&registry);
        let classes = Arc::new(ClassLabels::new(description, settings)?);
        let training = description.training_proportions.as_ref();
        Ok(Arc::new(Self {
            process: ProcessMetrics::new(&families, &description.name),
            ingest: IngestMetrics::new(&families),
            scoring: ScoringMetrics::new(&families, &classes),
            outputs: OutputMetrics::new(&families),
            learner: LearnerMetrics::new(&families, &classes, training),
            checkpoints: CheckpointMetrics::new(&families),
            labels: LabelMetrics::new(&families, &classes),
            serving: ServingMetrics::new(&families),
            classes,
            registry,
        }))
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
