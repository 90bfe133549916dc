//! Keeps what is learned in the state topic, for scorers and for the next learner.

use std::time::{Duration, Instant};

use ostar_connectors::{
    checkpoint::Manifest,
    kafka::{
        Committer, Leadership,
        state::{Part, Publication, SnapshotEntry, StateError, StateWriter},
    },
};

use super::{block_learner::BlockLearner, sample_rate::SampleRate};
use crate::{clock::now_ms, config::CheckpointSettings};

/// The one writer of the state topic, until another learner fences it.
pub(crate) struct TopicStore {
    writer: StateWriter,
    /// Keeps the membership in the group of learners, which a standby waits for.
    leadership: Leadership,
    topic: String,
    /// Commits what was learned, for tools that show lag; `None` before the topic of events or samples is open.
    committer: Option<Committer>,
    /// `None` if events are learned, not samples.
    rate: Option<SampleRate>,
    snapshot_interval: Duration,
    heartbeat: Duration,
    /// Revision of the newest snapshot in the topic.
    published: Option<u64>,
    attempted: Instant,
    /// After a failure nothing is published before this moment.
    retry_at: Instant,
}

/// Why the state was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopicError {
    /// The topic does not take it, or not from this process.
    #[error(transparent)]
    State(#[from] StateError),
    /// The learner cannot write its snapshot.
    #[error("cannot save the snapshot: {0}")]
    Snapshot(#[from] ostar_engine::Error),
}

impl TopicStore {
    pub(crate) fn new(
        writer: StateWriter,
        leadership: Leadership,
        section: &CheckpointSettings,
        samples_per_second: Option<u32>,
    ) -> Self {
        let share = writer.manifest().sample_share;
        Self {
            leadership,
            topic: section.topic.clone().unwrap_or_default(),
            committer: None,
            rate: samples_per_second.map(|rate| SampleRate::new(rate, share)),
            snapshot_interval: section.snapshot_interval.get(),
            heartbeat: section.heartbeat.get(),
            published: None,
            attempted: Instant::now(),
            retry_at: Instant::now(),
            writer,
        }
    }

    /// Offsets of what was learned are committed with each checkpoint from now on.
    pub(crate) fn commit_with(&mut self, committer: Committer) {
        self.committer = Some(committer);
    }

    /// Writes a checkpoint and a snapshot in one transaction; returns where.
    pub(crate) fn write(
        &mut self,
        manifest: Manifest,
        state: &[u8],
        block_learner: &BlockLearner,
    ) -> Result<String, TopicError> {
        self.observe_rate(block_learner);
        self.publish(block_learner, Some((manifest.sealed(state), state)))?;
        let manifest = self.writer.manifest();
        Ok(format!(
            "checkpoint {}.{} to topic {}",
            manifest.epoch, manifest.sequence, self.topic
        ))
    }

    /// Publishes the newest snapshot if it is due, or tells that this learner lives; whether it did.
    pub(crate) fn publish_if_due(
        &mut self,
        block_learner: &BlockLearner,
    ) -> Result<bool, TopicError> {
        self.observe_rate(block_learner);
        let waited = self.attempted.elapsed();
        let is_new = self.published != Some(block_learner.revision());
        let is_due = is_new || self.is_in_doubt();
        let may_try = Instant::now() >= self.retry_at;
        if may_try && ((is_due && waited >= self.snapshot_interval) || waited >= self.heartbeat) {
            self.publish(block_learner, None)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Looks at how fast events come. Also where each block ends with a checkpoint.
    fn observe_rate(&mut self, block_learner: &BlockLearner) {
        if let Some(rate) = &mut self.rate {
            rate.observe(&block_learner.progress().sampled, block_learner.scored_ms());
        }
    }

    /// The group may have chosen another learner, or only have lost sight of this one while no broker answered. The next
    /// publication tells: a successor has fenced it.
    fn is_in_doubt(&self) -> bool {
        self.leadership.has_lost() && !self.leadership.leads()
    }

    fn publish(
        &mut self,
        block_learner: &BlockLearner,
        checkpoint: Option<(Manifest, &[u8])>,
    ) -> Result<(), TopicError> {
        self.attempted = Instant::now();
        let revision = block_learner.revision();
        let is_new = self.published != Some(revision);
        let learner = block_learner.learner();
        let bytes = is_new.then(|| learner.save_snapshot()).transpose()?;
        let version = block_learner.version();
        let entry = |part| SnapshotEntry {
            epoch: version.epoch,
            step: version.step,
            events: block_learner.progress().events,
            shares: block_learner.shares(),
            published_at_ms: now_ms(),
            part,
        };
        let offsets = checkpoint
            .as_ref()
            .map(|(manifest, _)| manifest.offsets.clone());
        let publication = Publication {
            snapshot: bytes
                .as_deref()
                .map(|bytes| (entry(Part::of(bytes)), bytes)),
            checkpoint,
            orders: Some(block_learner.orders()),
            sample_share: self.rate.as_ref().map(SampleRate::share),
            offsets: self.committer.as_ref().zip(offsets.as_ref()),
        };
        if let Err(error) = self.writer.publish(publication) {
            // A broker that does not answer is waited for: the learner has as much time to learn before it tries again.
            self.retry_at = Instant::now() + self.attempted.elapsed();
            return Err(error.into());
        }
        self.published = Some(revision);
        Ok(())
    }
}

// === impl TopicError ===

impl TopicError {
    /// Whether this process may not write any more.
    pub(crate) fn is_superseded(&self) -> bool {
        matches!(self, Self::State(StateError::Fenced { .. }))
    }

    /// Whether the same may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::State(error) if error.is_transient())
    }
}
