//! Feeds the learner with blocks and publishes what it learns.
//!
//! Knows nothing of threads and Kafka: `run`, `demo` and `backtest` all learn through [`BlockLearner`].

mod telling;
#[cfg(test)]
mod tests;

use std::{
    ops::{ControlFlow, Range},
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
};

use anyhow::{Context, Result};
use ostar_bundle::Bundle;
use ostar_connectors::{
    checkpoint::{Manifest, Orders, Position, Shares},
    event::{Offsets, Rewound},
};
use ostar_engine::Device;
use ostar_method::{
    diagnostics::{Decision, OrderCheck},
    learner::{BlockEvent, InputSample, JoinCounts, Learner, LearnerSettings, StepPlan},
};
use tracing::{info, warn};

pub(crate) use self::telling::Publisher;
use self::telling::recall;
use super::{
    blocks::Blocks,
    decision_log::{log_decision, log_verdict},
    label_intake::LabelIntake,
    scored::ScoredChunk,
};
use crate::{clock::now_ms, config::LearnerSection, current::Version, status::Status};

/// Owns the learner. Cuts chunks into blocks, takes the steps that each asks for, and publishes.
pub(crate) struct BlockLearner {
    learner: Learner,
    blocks: Blocks,
    steps_per_block: usize,
    epoch: u64,
    /// Where the checkpoint ended that this run started from: events before these offsets are not learned again.
    learned: Offsets,
    /// Without what others know: offsets of outputs, and requests that were delivered since the start.
    position: Position,
    /// Labels that have not taken effect; `None` if none are read.
    labels: Option<LabelIntake>,
    /// Requests for labels of blocks up to this one are delivered.
    requested: Arc<AtomicU64>,
    /// What became of labels up to the latest block; `None` before the first.
    label_counts: Option<JoinCounts>,
    publisher: Publisher,
    status: Status,
    /// When accuracies were last estimated.
    accuracies_at: Option<Instant>,
    /// When a scorer has read the newest sample; 0 if the events are no samples.
    scored_ms: i64,
    /// Snapshots published so far.
    revision: u64,
}

/// What becomes of a step that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Step,
    /// It is left out, to keep up or to end.
    Skip,
    /// The rest of the block is left out, too. The state is then that of half a block, and no checkpoint may have it.
    GiveUp,
}

/// A learner: a new one, or one restored from the state of a checkpoint, which may come from another device.
pub(crate) fn load_learner(
    device: Device,
    bundle: &Bundle,
    settings: LearnerSettings,
    state: Option<&[u8]>,
) -> Result<Learner> {
    let deployed = bundle.deployed()?;
    match state {
        None => Learner::on(device, &deployed, settings)
            .with_context(|| format!("cannot start the learner on learner.device = {device}")),
        Some(bytes) => Learner::load_on(device, &deployed, settings, bytes)
            .context("cannot restore the learner from the checkpoint"),
    }
}

// === impl BlockLearner ===

impl BlockLearner {
    pub(crate) fn new(
        learner: Learner,
        section: &LearnerSection,
        epoch: u64,
        resumed: Option<Manifest>,
        publisher: Publisher,
    ) -> Self {
        let (position, shares, orders) = match resumed {
            Some(manifest) => (manifest.position, manifest.shares, manifest.orders),
            None => Default::default(),
        };
        let seen = position.sampled.clone();
        let mut this = Self {
            blocks: Blocks::new(section.block, learner.uses_labels(), seen),
            steps_per_block: section.steps_per_block,
            epoch,
            learned: position.learned.clone(),
            status: Status {
                device: learner.device(),
                events: position.events,
                gate: learner.gate().clone(),
                shares_at_ms: shares.as_ref().map(|shares| shares.at_ms),
                block: shares.map(|shares| recall(shares, learner.gate(), learner.alarms())),
                wanted: learner.wanted_labels().into(),
                shares_by_labels: learner.shares_by_labels(),
                ..Status::default()
            },
            labels: None,
            requested: Arc::new(AtomicU64::new(position.requested_block)),
            label_counts: learner.label_counts(),
            position,
            publisher,
            learner,
            accuracies_at: None,
            scored_ms: 0,
            revision: 0,
        };
        this.publish();
        this.obey(&orders);
        this
    }

    pub(crate) fn learner(&self) -> &Learner {
        &self.learner
    }

    /// How far events and labels are learned, and whatever the start has found of the rest.
    pub(crate) fn position(&self) -> &Position {
        &self.position
    }

    /// Shares of the newest block, for the next start to show.
    pub(crate) fn shares(&self) -> Option<Shares> {
        let block = self.status.block.as_ref()?;
        Some(Shares {
            at_ms: self.status.shares_at_ms?,
            frozen: block.frozen.clone(),
            adapted: block.adapted.clone(),
            served: block.served.clone(),
        })
    }

    /// When a scorer has read the newest sample, in milliseconds since 1970; 0 if the events are no samples.
    pub(crate) fn scored_ms(&self) -> i64 {
        self.scored_ms
    }

    /// What labels say about the order of the classes, if they were looked at after the newest block.
    pub(crate) fn new_class_order(&self) -> Option<&OrderCheck> {
        let labels = self.status.block.as_ref()?.labels.as_ref()?;
        labels.class_order.as_ref()
    }

    /// Grows with each snapshot that is published.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Version of the newest snapshot. Blocks count as well as steps: a stream that label shift explains takes no steps,
    /// and later states must compare greater.
    pub(crate) fn version(&self) -> Version {
        Version {
            epoch: self.epoch,
            step: self.learner.blocks() + self.learner.steps(),
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.status.paused
    }

    /// Orders in force, for the next start.
    pub(crate) fn orders(&self) -> Orders {
        let current = &self.publisher.current;
        let (mode, configured) = (current.mode(), current.configured_mode());
        let is_ordered = mode != configured;
        Orders {
            paused: self.status.paused,
            mode: is_ordered.then(|| mode.name().to_owned()),
            configured_mode: is_ordered.then(|| configured.name().to_owned()),
        }
    }

    /// Carries out again what was ordered before a restart.
    fn obey(&mut self, orders: &Orders) {
        if orders.paused {
            info!("alignment stays paused, as it was ordered before the restart");
            self.set_paused(true);
        }
        let current = &self.publisher.current;
        let (mode, configured) = (current.mode_by(orders), current.configured_mode());
        if mode != configured {
            info!(
                mode = mode.name(),
                configured = configured.name(),
                "the serving mode stays what was ordered before the restart"
            );
            current.set_mode(mode);
        }
    }

    /// Labels come from here.
    pub(crate) fn set_labels(&mut self, labels: LabelIntake) {
        self.labels = Some(labels);
    }

    /// Requests for labels of blocks up to this one are delivered.
    pub(crate) fn requested(&self) -> &Arc<AtomicU64> {
        &self.requested
    }

    /// Takes in labels that were read. Where reading began is part of the state from then on: the group's commit may be
    /// ahead of what took effect.
    pub(crate) fn fill_labels(&mut self) {
        let Some(intake) = &mut self.labels else {
            return;
        };
        intake.fill();
        if self.position.labels.is_empty() {
            self.position.labels.clone_from(intake.offsets());
        }
    }

    /// Where each partition is read from, if the learner does not know it yet, and which topic that is.
    pub(crate) fn begin(&mut self, offsets: &Offsets, topic_id: Option<&str>) {
        for (partition, began) in offsets {
            self.learned.entry(*partition).or_insert(*began);
            self.position.learned.entry(*partition).or_insert(*began);
        }
        // The id that the offsets belong to. If the topic was recreated, the reader says so before its first event.
        if self.position.topic_id.is_none() {
            self.position.topic_id = topic_id.map(str::to_owned);
        }
    }

    /// While paused no steps are taken; the window and the proportions still follow the stream.
    pub(crate) fn set_paused(&mut self, paused: bool) {
        self.status.paused = paused;
        self.show();
    }

    /// Restores the last weights that the guard accepted.
    pub(crate) fn roll_back(&mut self) -> Result<()> {
        self.learner.roll_back().context("cannot roll back")?;
        self.publish();
        Ok(())
    }

    /// Learns from the blocks that a chunk's events complete, and calls `after_block` after each; a break leaves the rest
    /// of the chunk out. Asks for the `pace` before each step; a break is returned if it gave a block up.
    pub(crate) fn take(
        &mut self,
        chunk: &ScoredChunk,
        pace: impl Fn() -> Pace,
        mut after_block: impl FnMut(&Self) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let done = Ok(ControlFlow::Continue(()));
        if let Some(rewound) = &chunk.rewound {
            self.rewind(rewound);
            if after_block(self).is_break() {
                return done;
            }
        }
        let mut number = 0;
        let mut has_moved = false;
        while let Some(run) = self.blocks.next_run(chunk, &mut number, &self.learned) {
            has_moved |= self.follow(chunk, run)?;
            if !self.blocks.is_full() {
                continue;
            }
            has_moved = false;
            let finished = self.finish_block(&pace)?;
            if finished.is_break() {
                return Ok(finished);
            }
            if after_block(self).is_break() {
                return done;
            }
        }
        if has_moved {
            self.publish_snapshot();
        }
        done
    }

    /// [`BlockLearner::take`] for the last chunk of a stream that ends, as a file's does. All labels that are left take
    /// effect, and the events that are left are a block.
    pub(crate) fn take_last(&mut self, chunk: &ScoredChunk) -> Result<()> {
        self.position.label_border_ms = i64::MAX;
        let pace = || Pace::Step;
        let taken = self.take(chunk, pace, |_| ControlFlow::Continue(()))?;
        if taken.is_continue() && !self.blocks.is_empty() {
            let finished = self.finish_block(&pace)?;
            debug_assert!(finished.is_continue(), "no block is given up");
        }
        Ok(())
    }

    /// Closes the open block, takes the steps that are due, and publishes. A break says that the block was given up.
    fn finish_block(&mut self, pace: &impl Fn() -> Pace) -> Result<ControlFlow<()>> {
        let steps_due = self.close_block()?;
        let steps = self.take_steps(steps_due, pace)?;
        if steps.is_continue() {
            self.publish();
            // Behind the state: whoever sees that a block was counted finds its figures.
            self.count_labels();
            if let Some(block) = &self.status.block {
                self.publisher.metrics.learner.observe_block(block);
            }
        }
        Ok(steps)
    }

    /// Learns from these offsets on, whatever had them before.
    fn rewind(&mut self, rewound: &Rewound) {
        self.blocks.rewind(&rewound.offsets);
        self.learned.extend(&rewound.offsets);
        self.position.learned.extend(&rewound.offsets);
        self.position.topic_id.clone_from(&rewound.topic_id);
    }

    /// Gives the learner a run of the chunk's events, with those of their inputs that were drawn. Says whether shares moved.
    fn follow(&mut self, chunk: &ScoredChunk, run: Range<usize>) -> Result<bool> {
        let drawn = chunk.sample.as_ref();
        let drawn = drawn.map(|sample| sample.rows_in(run.clone()));
        let drawn = drawn.filter(|rows| !rows.is_empty());
        let sample = drawn.as_ref().map(|rows| InputSample {
            inputs: rows.inputs(),
            rows: rows.len(),
        });
        let followed = self.learner.follow(chunk.frozen.rows(run), sample);
        followed.context("cannot follow decoded events")
    }

    /// Gives the learner the end of the open block. Gives how many alignment steps are due.
    fn close_block(&mut self) -> Result<usize> {
        let (events, sent, next) = self.blocks.open();
        let labels = match &mut self.labels {
            Some(intake) => {
                let recorded = events.iter().map(|event| event.recorded_ms);
                let border_ms = &mut self.position.label_border_ms;
                *border_ms = recorded.fold(*border_ms, i64::max);
                intake.take(*border_ms)
            }
            None => Vec::new(),
        };
        self.learner.plan_steps(StepPlan {
            usual: if self.status.paused {
                0
            } else {
                self.steps_per_block
            },
            always: self.publisher.current.mode().always_aligns(),
        });
        let in_block = events.iter().zip(sent).map(|(event, sent)| BlockEvent {
            id: event.id.as_deref(),
            time_ms: event.time_ms,
            sent: *sent,
        });
        let in_block: Vec<BlockEvent<'_>> = in_block.collect();
        let block = self.learner.close(&in_block, &labels);
        let block = block.context("cannot learn from a block of decoded events")?;
        let steps_due = block.steps_due;
        let events = events.len();
        self.position.events += events as u64;
        self.position.learned.extend(next);
        let (seen, scored_ms) = self.blocks.seen();
        if !seen.is_empty() {
            self.position.sampled.clone_from(seen);
        }
        self.scored_ms = scored_ms;
        self.blocks.begin();
        if let Some(intake) = &self.labels {
            self.position.labels.clone_from(intake.offsets());
        }
        let unsaved = &self.publisher.metrics.checkpoints.unsaved;
        unsaved.add(events as i64);
        log_verdict(&self.status.gate, &block.verdict);
        self.log_alarms(&block);
        self.status.gate = self.learner.gate().clone();
        if let Some(labels) = &block.labels {
            self.status.shares_by_labels.clone_from(&labels.shares);
            self.status.wanted = self.learner.wanted_labels().into();
        }
        self.status.block = Some(block);
        self.estimate_accuracies()?;
        self.status.shares_at_ms = Some(now_ms());
        Ok(steps_due)
    }

    fn take_steps(&mut self, due: usize, pace: &impl Fn() -> Pace) -> Result<ControlFlow<()>> {
        for _ in 0..due {
            match pace() {
                Pace::Step => self.step()?,
                Pace::Skip => {
                    self.status.skipped_steps += 1;
                    self.publisher.metrics.learner.skipped_steps.inc();
                }
                Pace::GiveUp => return Ok(ControlFlow::Break(())),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn step(&mut self) -> Result<()> {
        let start = Instant::now();
        match self.learner.step() {
            Ok((step, refresh)) => {
                let metrics = &self.publisher.metrics.learner;
                metrics.observe_step(start.elapsed());
                self.status.step = Some(step);
                if let Some(refresh) = refresh {
                    metrics.observe_refresh(&refresh);
                    log_decision(self.status.refresh.as_ref(), &refresh);
                    self.status.refusals += u64::from(refresh.decision != Decision::Serve);
                    self.status.refresh = Some(refresh);
                    self.status.picture = self.learner.picture().cloned();
                }
                Ok(())
            }
            // The step left the parameters as they were, and the next one draws another batch.
            Err(error @ ostar_engine::Error::NonFiniteLoss { .. }) => {
                warn!(%error, "discarded a step with a non-finite loss");
                Ok(())
            }
            Err(error) => Err(error).context("cannot take an alignment step"),
        }
    }
}
