//! Keeps what is learned in the state topic, for scorers and for the next learner.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ostar_connectors::{
    checkpoint::Manifest,
    kafka::{
        Committer, Leadership,
        state::{Publication, StateWriter},
    },
};

use super::{EventSource, block_learner::BlockLearner, sample_rate::SampleRate};
use crate::config::CheckpointSettings;

/// The one writer of the state topic, until another learner fences it.
pub(crate) struct TopicStore {
    writer: StateWriter,
    /// Keeps the membership in the group of learners, which a standby waits for.
    leadership: Leadership,
    topic: String,
    /// Commits what was learned, for tools that show lag; `None` if events are learned, and before samples are read.
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

    /// Samples that were learned are committed with each checkpoint from now on. Events were committed when they were
    /// emitted.
    pub(crate) fn begin(&mut self, source: &EventSource) {
        if self.rate.is_some() {
            self.committer = Some(source.committer.clone());
        }
    }

    /// Whether the newest snapshot is to be published, or that this learner lives.
    pub(crate) fn is_due(&mut self, block_learner: &BlockLearner) -> bool {
        self.observe_rate(block_learner);
        let waited = self.attempted.elapsed();
        let is_new = self.published != Some(block_learner.revision());
        let is_due = is_new || self.is_in_doubt();
        let may_try = Instant::now() >= self.retry_at;
        may_try && ((is_due && waited >= self.snapshot_interval) || waited >= self.heartbeat)
    }

    /// Looks at how fast events come. Also where each block ends with a checkpoint.
    fn observe_rate(&mut self, block_learner: &BlockLearner) {
        if let Some(rate) = &mut self.rate {
            rate.observe(&block_learner.position().sampled, block_learner.scored_ms());
        }
    }

    /// The group may have chosen another learner, or only have lost sight of this one while no broker answered. The next
    /// publication tells: a successor has fenced it.
    fn is_in_doubt(&self) -> bool {
        self.leadership.has_lost() && !self.leadership.leads()
    }

    /// Publishes the newest snapshot, unless the topic has it, in one transaction with a checkpoint, if there is one.
    /// Returns where.
    pub(crate) fn publish(
        &mut self,
        block_learner: &BlockLearner,
        manifest: Manifest,
        checkpoint: Option<&[u8]>,
    ) -> Result<String> {
        self.observe_rate(block_learner);
        self.attempted = Instant::now();
        let revision = block_learner.revision();
        let is_new = self.published != Some(revision);
        let learner = block_learner.learner();
        let snapshot = is_new.then(|| learner.save_snapshot()).transpose();
        let snapshot = snapshot.context("cannot save the snapshot")?;
        let published = self.writer.publish(Publication {
            manifest: Some(manifest),
            snapshot: snapshot.as_deref(),
            checkpoint,
            sample_share: self.rate.as_ref().map(SampleRate::share),
            committer: self.committer.as_ref(),
        });
        if let Err(error) = published {
            // A broker that does not answer is waited for: the learner has as much time to learn before it tries again.
            self.retry_at = Instant::now() + self.attempted.elapsed();
            return Err(error.into());
        }
        self.published = Some(revision);
        let manifest = self.writer.manifest();
        Ok(format!(
            "checkpoint {}.{} to topic {}",
            manifest.epoch, manifest.sequence, self.topic
        ))
    }
}
