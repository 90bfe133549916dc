//! When the learner's state is written, and with what.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ostar_connectors::checkpoint::{CheckpointStore, Manifest, WriterLock};
use ostar_model::Bundle;
use tracing::info;

use super::learning::{Learning, version};
use crate::{config::CheckpointSettings, metrics::Metrics};

/// Writes the state every so many events, not more often than an interval.
pub(crate) struct Checkpoints {
    store: CheckpointStore,
    /// Held as long as this process may write.
    lock: WriterLock,
    every_events: u64,
    min_interval: Duration,
    last_events: u64,
    last_time: Instant,
    /// What does not change between manifests.
    identity: Identity,
    metrics: Arc<Metrics>,
}

/// What a checkpoint belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub(crate) bundle_name: String,
    pub(crate) bundle_digest: String,
    pub(crate) settings_digest: String,
    pub(crate) classes: Vec<String>,
    pub(crate) topic: String,
}

// === impl Identity ===

impl Identity {
    pub(crate) fn new(bundle: &Bundle, settings_digest: String, topic: &str) -> Self {
        let description = bundle.description();
        Self {
            bundle_name: description.name.clone(),
            bundle_digest: bundle.digest().to_owned(),
            settings_digest,
            classes: description.classes.clone(),
            topic: topic.to_owned(),
        }
    }
}

// === impl Checkpoints ===

impl Checkpoints {
    pub(crate) fn new(
        store: CheckpointStore,
        lock: WriterLock,
        section: &CheckpointSettings,
        identity: Identity,
        metrics: Arc<Metrics>,
    ) -> Self {
        metrics.checkpoints.set_every_events(section.every_events);
        Self {
            store,
            lock,
            every_events: section.every_events,
            min_interval: section.min_interval.get(),
            last_events: 0,
            last_time: Instant::now(),
            identity,
            metrics,
        }
    }

    pub(crate) fn write_if_due(&mut self, learning: &Learning) -> Result<()> {
        let events = learning.progress().events - self.last_events.min(learning.progress().events);
        if events >= self.every_events && self.last_time.elapsed() >= self.min_interval {
            self.write(learning)?;
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, learning: &Learning) -> Result<PathBuf> {
        let start = Instant::now();
        // Also after a failure: a full disk is not helped by trying again with every block.
        self.last_events = learning.progress().events;
        self.last_time = start;
        let written = self.try_write(learning);
        match &written {
            Ok((folder, bytes)) => {
                let checkpoints = &self.metrics.checkpoints;
                checkpoints.written(start.elapsed(), *bytes as u64);
                info!(folder = %folder.display(), bytes, events = self.last_events, "wrote a checkpoint");
            }
            Err(_) => self.metrics.checkpoints.failed(),
        }
        written.map(|(folder, _)| folder)
    }

    fn try_write(&self, learning: &Learning) -> Result<(PathBuf, usize)> {
        let learner = learning.learner();
        let state = learner.save().context("cannot save the learner's state")?;
        let progress = learning.progress();
        let manifest = Manifest {
            epoch: learning.epoch(),
            step: version(learner, 0).step,
            blocks: learner.blocks(),
            events: progress.events,
            bundle_name: self.identity.bundle_name.clone(),
            bundle_digest: self.identity.bundle_digest.clone(),
            settings_digest: self.identity.settings_digest.clone(),
            classes: self.identity.classes.clone(),
            proportions: learner.proportions().clone(),
            topic: self.identity.topic.clone(),
            offsets: progress.offsets.clone(),
            // Set by the store.
            format_version: 0,
            created_at_ms: 0,
            state_digest: String::new(),
        };
        let folder = self.store.write(&self.lock, &manifest, &state)?;
        Ok((folder, state.len()))
    }
}
