//! Tells readers what was learned: snapshots, metrics, the status and the log.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ostar_bundle::Description;
use ostar_connectors::checkpoint::{Manifest, Shares};
use ostar_method::{
    alarms::AlarmReport,
    gate::GateState,
    learner::{BlockReport, Learner, LoadedSnapshot},
};
use tokio::sync::watch;
use tracing::{info, warn};

use super::BlockLearner;
use crate::{
    config::Config,
    current::{Current, ServingMode, Version},
    metrics::Metrics,
    status::Status,
};

/// How often accuracies are estimated.
const ACCURACY_INTERVAL: Duration = Duration::from_secs(1);

/// Carries what is learned to its readers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Publisher {
    pub(crate) current: Arc<Current>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) status: watch::Sender<Status>,
}

impl Publisher {
    /// Serves what this learner has learned, and shows this status.
    pub(crate) fn new(
        learner: &Learner,
        config: &Config,
        description: &Description,
        status: Status,
    ) -> Result<Self> {
        Ok(Self {
            current: Current::new(learner.snapshot(), Version::default(), config.serving.mode),
            metrics: Metrics::new(description, &config.metrics)?,
            status: watch::Sender::new(status),
        })
    }

    /// Changes the serving mode; gives the reply to the order.
    pub(crate) fn set_mode(&self, mode: ServingMode) -> String {
        self.current.set_mode(mode);
        // The mode is not part of the status, but watchers of the state see both: wake them.
        self.status.send_modify(|_| ());
        info!(mode = mode.name(), "serving mode changed");
        format!("serving mode is {}", mode.name())
    }

    pub(crate) fn set_standby(&self, standby: bool) {
        self.status.send_modify(|status| status.standby = standby);
    }

    /// Serves and shows what another process has learned.
    pub(crate) fn follow(
        &self,
        manifest: &Manifest,
        read: LoadedSnapshot,
        steps: u64,
        alarms: AlarmReport,
    ) {
        let LoadedSnapshot { snapshot, gate } = read;
        self.current.publish(snapshot, manifest.version);
        let shares = manifest.shares.as_ref();
        let block = shares.map(|shares| recall(shares.clone(), &gate, alarms));
        self.status.send_modify(|status| {
            status.version = manifest.version;
            status.events = manifest.position.events;
            status.steps = steps;
            status.gate = gate;
            status.shares_at_ms = shares.map(|shares| shares.at_ms);
            status.block = block;
        });
    }
}

impl BlockLearner {
    pub(super) fn log_alarms(&self, block: &BlockReport) {
        let classes = &self.publisher.metrics.classes.names;
        for alarm in &block.alarms.raised {
            let told = alarm.in_words(classes);
            warn!(alarm = alarm.kind.name(), %told, since_block = alarm.since_block, "raised an alarm");
        }
        for alarm in &block.alarms.broken {
            let (field, told) = (&alarm.field, &alarm.told);
            warn!(
                field,
                told,
                since_block = alarm.since_block,
                "a field of the input broke"
            );
        }
    }

    pub(super) fn count_labels(&mut self) {
        let block = self.status.block.as_ref();
        let Some(labels) = block.and_then(|block| block.labels.as_ref()) else {
            return;
        };
        let before = self.label_counts.replace(labels.counts);
        // Counters begin with this process, the learner's counts with its first start.
        let before = before.unwrap_or(labels.counts);
        let metrics = &self.publisher.metrics.labels;
        metrics.observe_block(&labels.counts, &before, labels.sent);
    }

    /// Not after every block: it costs about as much as one.
    pub(super) fn estimate_accuracies(&mut self) -> Result<()> {
        let known = self.status.gate.verdict().proportions_known;
        let was_known = self.status.accuracies.prior.is_some();
        let recent = |at: Instant| at.elapsed() < ACCURACY_INTERVAL;
        if known == was_known && self.accuracies_at.is_some_and(recent) {
            return Ok(());
        }
        self.accuracies_at = Some(Instant::now());
        let accuracies = self.learner.estimated_accuracies();
        self.status.accuracies = accuracies.context("cannot estimate accuracies")?;
        Ok(())
    }

    /// Hands a new snapshot to readers, then the reports that belong to it.
    pub(super) fn publish(&mut self) {
        self.publish_snapshot();
        self.show();
    }

    /// Hands a new snapshot to readers, for which no report has changed.
    pub(super) fn publish_snapshot(&mut self) {
        self.revision += 1;
        let snapshot = self.learner.snapshot();
        self.publisher.current.publish(snapshot, self.version());
    }

    pub(super) fn show(&self) {
        self.publisher.status.send_modify(|status| {
            *status = Status {
                // What others report.
                act: status.act,
                role: status.role,
                version: self.version(),
                events: self.position.events,
                steps: self.learner.steps(),
                ..self.status.clone()
            };
        });
    }
}

/// The report of the newest block before a restart, or of another process.
pub(super) fn recall(shares: Shares, gate: &GateState, alarms: AlarmReport) -> BlockReport {
    BlockReport {
        rows: 0,
        frozen: shares.frozen,
        adapted: shares.adapted,
        served: shares.served,
        verdict: gate.verdict().clone(),
        labels: None,
        alarms,
        steps_due: 0,
    }
}
