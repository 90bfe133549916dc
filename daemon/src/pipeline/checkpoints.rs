//! Decides when a checkpoint is due, and writes it.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use ostar_connectors::{
    checkpoint::{CheckpointStore, CheckpointWriter, Identity, Manifest, Position, StoreError},
    event::Offsets,
    kafka::state::StateError,
};
use tracing::{error, info, warn};

use super::{EventSource, block_learner::BlockLearner, commits::Emitted, topic_store::TopicStore};
use crate::{config::CheckpointSettings, error_text::one_line, health::Health, metrics::Metrics};

/// Bounds of the time between two attempts while the folder cannot be written.
const SHORTEST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// Writes a checkpoint every `checkpoints.every_events` events, at most once per `checkpoints.min_interval`.
pub(crate) struct Checkpoints {
    store: Store,
    every_events: u64,
    min_interval: Duration,
    /// Where the newest checkpoint of this run ends.
    last: Position,
    last_time: Instant,
    /// The latest attempt failed: it is repeated even if nothing more is learned.
    has_failed: bool,
    identity: Identity,
    emitted: Arc<Emitted>,
    /// No block of this run is in a checkpoint yet.
    is_first: bool,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

/// Where checkpoints are written to.
pub(crate) enum Store {
    /// Held for the life of the process: whoever has it is the only writer.
    Folder(CheckpointWriter),
    Topic(Box<TopicStore>),
}

// === impl Checkpoints ===

impl Checkpoints {
    pub(crate) fn new(
        store: Store,
        section: &CheckpointSettings,
        identity: Identity,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
    ) -> Self {
        metrics.checkpoints.set_every_events(section.every_events);
        Self {
            store,
            every_events: section.every_events,
            min_interval: section.min_interval.get(),
            last: Position::default(),
            last_time: Instant::now(),
            has_failed: false,
            identity,
            emitted: Emitted::new(Offsets::new()),
            is_first: true,
            metrics,
            health,
        }
    }

    /// How far outputs of this source are is part of every checkpoint from now on.
    pub(crate) fn begin(&mut self, source: &EventSource) {
        self.emitted = Arc::clone(&source.emitted);
        if let Store::Topic(store) = &mut self.store {
            store.begin(source);
        }
    }

    /// Writes a checkpoint if one is due. A full disk must not stop learning or serving, because the last checkpoint is
    /// still there: the only error is that a newer writer has the folder.
    pub(crate) fn write_if_due(&mut self, block_learner: &BlockLearner) -> Result<()> {
        let position = block_learner.position();
        let unsaved = position.events.saturating_sub(self.last.events);
        let is_due = if self.has_failed {
            self.last_time.elapsed() >= self.min_interval.clamp(SHORTEST_RETRY, LONGEST_RETRY)
        } else {
            unsaved >= self.every_events && self.last_time.elapsed() >= self.min_interval
        };
        // A process that lives shorter than `min_interval` must get on, too. The offsets of a topic that was recreated
        // mean nothing to the next start. And without a word about labels it would trust the group's commit.
        let is_rewound = position.topic_id != self.last.topic_id;
        let begins_labels = !position.labels.is_empty() && self.last.labels.is_empty();
        let is_urgent =
            !self.has_failed && (is_rewound || begins_labels || (self.is_first && unsaved > 0));
        if is_due || is_urgent {
            self.is_first = false;
            if let Err(error) = self.write(block_learner) {
                error!(error = %one_line(&error), "cannot write a checkpoint");
                if is_superseded(&error) {
                    return Err(error);
                }
            }
            return Ok(());
        }
        self.publish_if_due(block_learner)
    }

    /// Publishes the newest snapshot to those who follow the topic. Like a checkpoint, it may fail for now.
    fn publish_if_due(&mut self, block_learner: &BlockLearner) -> Result<()> {
        let is_due = match &mut self.store {
            Store::Topic(store) => store.is_due(block_learner),
            Store::Folder(_) => false,
        };
        if !is_due {
            return Ok(());
        }
        match self.try_publish(block_learner) {
            Ok(()) => {
                if !self.has_failed {
                    self.health.clear("checkpoints");
                }
                Ok(())
            }
            Err(error) if is_transient(&error) => {
                warn!(%error, "cannot publish a snapshot");
                self.metrics.checkpoints.failures.inc();
                let reason = format!("{error}; others serve what was published before");
                self.health.set_condition("checkpoints", reason);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The last checkpoint of the process. If the topic does not take it now, the next start learns from the one before.
    pub(crate) fn write_last(&mut self, block_learner: &BlockLearner) -> Result<()> {
        match self.write(block_learner) {
            Ok(_) => Ok(()),
            Err(error) if is_transient(&error) => {
                warn!(error = %one_line(&error), "cannot write the last checkpoint; the next start learns the end again");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a checkpoint; returns where.
    pub(crate) fn write(&mut self, block_learner: &BlockLearner) -> Result<String> {
        let start = Instant::now();
        self.last_time = start;
        let written = self.try_write(block_learner);
        self.has_failed = written.is_err();
        match &written {
            Ok((place, bytes)) => {
                self.last.clone_from(block_learner.position());
                let checkpoints = &self.metrics.checkpoints;
                checkpoints.written(start.elapsed(), *bytes as u64);
                self.health.clear("checkpoints");
                if let Store::Folder(writer) = &self.store {
                    show_damaged(writer.store(), None, &self.health, &self.metrics);
                }
                info!(
                    folder = place,
                    bytes,
                    events = self.last.events,
                    "wrote a checkpoint"
                );
            }
            Err(error) => {
                self.metrics.checkpoints.failures.inc();
                let reason = format!(
                    "{}; a restart learns again what no checkpoint holds",
                    one_line(error)
                );
                self.health.set_condition("checkpoints", reason);
            }
        }
        written.map(|(place, _)| place)
    }

    fn try_write(&mut self, block_learner: &BlockLearner) -> Result<(String, usize)> {
        // A disk that answers with EIO.
        fail::fail_point!("checkpoint", |_| Err(
            std::io::Error::from_raw_os_error(5).into()
        ));
        let state = block_learner.learner().save();
        let state = state.context("cannot save the learner's state")?;
        let manifest = self.manifest(block_learner);
        let place = match &mut self.store {
            Store::Folder(writer) => {
                let folder = writer.write(&manifest, &state)?;
                folder.display().to_string()
            }
            Store::Topic(store) => store.publish(block_learner, manifest, Some(&state))?,
        };
        Ok((place, state.len()))
    }

    fn try_publish(&mut self, block_learner: &BlockLearner) -> Result<()> {
        let manifest = self.manifest(block_learner);
        if let Store::Topic(store) = &mut self.store {
            store.publish(block_learner, manifest, None)?;
        }
        Ok(())
    }

    /// What is saved, and where it ends.
    fn manifest(&self, block_learner: &BlockLearner) -> Manifest {
        let learner = block_learner.learner();
        // A checkpoint may be written within a block, and two of one state must be equal.
        let proportions = learner.proportions_at_border().clone();
        let version = block_learner.version();
        Manifest {
            blocks: learner.blocks(),
            position: Position {
                emitted: self.emitted.get(),
                requested_block: block_learner.requested().load(Ordering::Relaxed),
                ..block_learner.position().clone()
            },
            shares: block_learner.shares(),
            orders: block_learner.orders(),
            ..Manifest::new(version, self.identity.clone(), proportions)
        }
    }
}

/// Shows how many damaged checkpoints the folder keeps, and what a start has just `found`. The condition ends with the
/// first checkpoint after somebody has moved them away.
pub(crate) fn show_damaged(
    store: &CheckpointStore,
    found: Option<String>,
    health: &Health,
    metrics: &Metrics,
) {
    const CONDITION: &str = "damaged_checkpoints";
    // A folder that cannot be listed cannot be written, either, which is told.
    let kept = store.damaged().unwrap_or_default();
    metrics.checkpoints.damaged.set(kept.len() as i64);
    let is_told = found.is_none() && health.conditions().contains_key(CONDITION);
    if kept.is_empty() && found.is_none() {
        health.clear(CONDITION);
    } else if !is_told {
        let found = found.unwrap_or_else(|| "damaged checkpoints were found earlier".to_owned());
        let folder = store.folder().display();
        let kept = match &kept[..] {
            [] => "they could not be moved aside, the log says why".to_owned(),
            kept => format!("moved aside: {}", kept.join(", ")),
        };
        let reason = format!(
            "{found}; {kept}; move them out of {folder} or remove them to end this condition"
        );
        health.set_condition(CONDITION, reason);
    }
}

/// Whether another process writes now, or nothing can ever be written to the topic.
fn is_superseded(error: &anyhow::Error) -> bool {
    let of_folder = error.downcast_ref::<StoreError>();
    let of_topic = error.downcast_ref::<StateError>();
    matches!(of_folder, Some(StoreError::Superseded { .. }))
        || of_topic.is_some_and(|error| !error.is_transient())
}

fn is_transient(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(StateError::is_transient)
}
