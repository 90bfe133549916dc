//! The learner's side of the stream: fixed blocks in, snapshots and reports out.
//!
//! Nothing here knows threads or Kafka: `run`, `demo` and `backtest` all learn through this type.

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use anyhow::{Context, Result};
use ostar_connectors::event::Offsets;
use ostar_model::{
    Bundle,
    diagnostics::Decision,
    learner::{Learner, LearnerSettings, RefreshReport},
};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{
    blocks::{Block, BlockBuilder},
    scored::ScoredChunk,
};
use crate::{
    config::LearnerSection,
    current::{Current, Version},
    metrics::Metrics,
    status::Status,
};

/// Where learning goes on: nothing yet, or what a checkpoint holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Events learned from.
    pub(crate) events: u64,
    /// Where reading goes on.
    pub(crate) offsets: Offsets,
}

/// Owns the learner and drives it, block by block.
pub(crate) struct Learning {
    learner: Learner,
    blocks: BlockBuilder,
    steps_per_block: usize,
    epoch: u64,
    /// What was learned before this start; events before these offsets are not learned again.
    learned: Offsets,
    progress: Progress,
    outlets: Outlets,
    status: Status,
}

/// Where the learner's outcome goes.
#[derive(Clone)]
pub(crate) struct Outlets {
    pub(crate) current: Arc<Current>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) status: watch::Sender<Status>,
}

/// A learner as it was at its start: new, or from a checkpoint's bytes.
pub(crate) fn load_learner(
    bundle: &Bundle,
    settings: &LearnerSettings,
    state: Option<&[u8]>,
) -> Result<Learner> {
    match state {
        None => Learner::new(bundle, settings.clone()).context("cannot start the learner"),
        Some(bytes) => Learner::load(bundle, settings.clone(), bytes)
            .context("cannot restore the learner from the checkpoint"),
    }
}

/// What a learner's state is called: its steps, or the blocks of a black box, which takes none.
pub(crate) fn version(learner: &Learner, epoch: u64) -> Version {
    let step = match learner.steps() {
        0 => learner.blocks(),
        steps => steps,
    };
    Version { epoch, step }
}

// === impl Learning ===

impl Learning {
    pub(crate) fn new(
        learner: Learner,
        section: &LearnerSection,
        epoch: u64,
        progress: Progress,
        outlets: Outlets,
    ) -> Self {
        let learning = Self {
            blocks: BlockBuilder::new(section.block),
            steps_per_block: section.steps_per_block,
            epoch,
            learned: progress.offsets.clone(),
            status: Status {
                events: progress.events,
                ..Status::default()
            },
            progress,
            outlets,
            learner,
        };
        learning.publish();
        learning
    }

    pub(crate) fn learner(&self) -> &Learner {
        &self.learner
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Stops or goes on taking steps; the window and the proportions follow the stream all the same.
    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.status.paused = paused;
        self.show();
    }

    /// Goes back to the weights that the guard last agreed to.
    pub(crate) fn roll_back(&mut self) -> Result<()> {
        self.learner.roll_back().context("cannot roll back")?;
        self.publish();
        Ok(())
    }

    /// Learns from a chunk's events as far as they complete blocks; calls `after_block` after each, and goes on with
    /// the next unless it says to stop. `behind` tells whether steps have to be left out to keep up.
    pub(crate) fn take(
        &mut self,
        chunk: &ScoredChunk,
        behind: impl Fn() -> bool,
        mut after_block: impl FnMut(&Self) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut number = 0;
        while self.observe_next(chunk, &mut number)? {
            self.take_steps(&behind)?;
            self.publish();
            if after_block(self).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the chunk's events from `number` on complete a block, which is then observed.
    fn observe_next(&mut self, chunk: &ScoredChunk, number: &mut usize) -> Result<bool> {
        let block = self.blocks.next_block(chunk, number, &self.learned);
        let Some(Block { rows, next }) = block else {
            return Ok(false);
        };
        let block = self.learner.observe_scored(rows);
        let block = block.context("the learner refused a block of decoded events")?;
        let events = rows.len();
        self.progress.events += events as u64;
        self.progress.offsets.extend(next);
        self.outlets.metrics.learner.observe_block(&block);
        self.outlets.metrics.checkpoints.learned(events);
        self.status.block = Some(block);
        Ok(true)
    }

    fn take_steps(&mut self, behind: &impl Fn() -> bool) -> Result<()> {
        if self.learner.is_ready() && !self.status.paused {
            for _ in 0..self.steps_per_block {
                match behind() {
                    false => self.step()?,
                    true => {
                        self.status.skipped_steps += 1;
                        self.outlets.metrics.learner.skipped_steps(1);
                    }
                }
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let start = Instant::now();
        match self.learner.step() {
            Ok((step, refresh)) => {
                let metrics = &self.outlets.metrics.learner;
                metrics.observe_step(&step, start.elapsed());
                if let Some(refresh) = refresh {
                    metrics.observe_refresh(&refresh);
                    log_decision(self.status.refresh.as_ref(), &refresh);
                    self.status.refresh = Some(refresh);
                    self.status.picture = self.learner.picture().cloned();
                }
                Ok(())
            }
            // The parameters are as they were before; the next batch may do better.
            Err(error @ ostar_model::Error::NonFiniteLoss { .. }) => {
                warn!(%error, "left out a step");
                Ok(())
            }
            Err(error) => Err(error).context("cannot take an alignment step"),
        }
    }

    fn publish(&self) {
        let version = version(&self.learner, self.epoch);
        self.outlets
            .current
            .publish(self.learner.snapshot(), version);
        self.show();
    }

    fn show(&self) {
        self.outlets.status.send_replace(Status {
            version: version(&self.learner, self.epoch),
            events: self.progress.events,
            steps: self.learner.steps(),
            ..self.status.clone()
        });
    }
}

/// Logs a change of the guard's mind, not every repetition of it.
fn log_decision(before: Option<&RefreshReport>, now: &RefreshReport) {
    if now.restored {
        warn!(steps = now.steps, decision = ?now.decision, "restored the last good weights");
    }
    if before.is_some_and(|before| before.decision == now.decision) {
        return;
    }
    match &now.decision {
        Decision::Serve => info!(
            steps = now.steps,
            "the guard lets the adapted state be served"
        ),
        Decision::Refuse(reason) => warn!(
            steps = now.steps,
            %reason,
            "the guard refuses the adapted state; the last good one is served"
        ),
    }
}
