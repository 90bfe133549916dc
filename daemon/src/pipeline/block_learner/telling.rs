//! Tells readers what was learned: snapshots, metrics, the status and the log.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ostar_connectors::checkpoint::Shares;
use ostar_method::{
    alarms::{AlarmReport, FieldAlarm},
    gate::GateState,
    learner::{BlockReport, Learner},
};
use tokio::sync::watch;
use tracing::warn;

use super::{BlockLearner, version};
use crate::{current::Current, metrics::Metrics, status::Status};

/// How often accuracies are estimated.
const ACCURACY_INTERVAL: Duration = Duration::from_secs(1);

/// Carries what is learned to its readers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Publisher {
    pub(crate) current: Arc<Current>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) status: watch::Sender<Status>,
}

impl BlockLearner {
    pub(super) fn log_alarms(&self, block: &BlockReport) {
        let classes = self.publisher.metrics.classes.names();
        for alarm in &block.alarms.raised {
            let told = alarm.in_words(classes);
            warn!(alarm = alarm.kind.name(), %told, since_block = alarm.since_block, "raised an alarm");
        }
        for alarm in &block.alarms.broken {
            let FieldAlarm {
                field,
                told,
                since_block,
                ..
            } = alarm;
            warn!(field, told, since_block, "a field of the input broke");
        }
    }

    pub(super) fn count_labels(&mut self, block: &BlockReport) {
        let Some(labels) = &block.labels else {
            return;
        };
        let before = self.label_counts.replace(labels.counts);
        // Counters begin with this process, the learner's counts with its first start.
        let before = before.unwrap_or(labels.counts);
        let metrics = &self.publisher.metrics.labels;
        metrics.observe_block(&labels.counts, &before);
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
        self.revision += 1;
        let version = version(&self.learner, self.epoch);
        self.publisher
            .current
            .publish(self.learner.snapshot(), version);
        self.show();
    }

    pub(super) fn show(&self) {
        self.publisher.status.send_modify(|status| {
            *status = Status {
                // What others report.
                act: status.act,
                role: status.role,
                measured: status.measured.take(),
                version: version(&self.learner, self.epoch),
                events: self.progress.events,
                steps: self.learner.steps(),
                ..self.status.clone()
            };
        });
    }
}

/// The report of the newest block before a restart.
pub(crate) fn recall(shares: Shares, learner: &Learner) -> BlockReport {
    recall_shares(shares, learner.gate(), learner.alarms())
}

/// The report of the newest block of another process.
pub(crate) fn recall_shares(shares: Shares, gate: &GateState, alarms: AlarmReport) -> BlockReport {
    BlockReport {
        rows: 0,
        frozen: shares.frozen,
        adapted: shares.adapted,
        served: shares.served,
        verdict: gate.verdict().clone(),
        labels: None,
        alarms,
    }
}
