//! Feeds the learner with blocks and publishes what it learns.
//!
//! Knows nothing of threads and Kafka: `run`, `demo` and `backtest` all learn through [`BlockLearner`].

mod telling;

use std::{
    ops::{ControlFlow, Range},
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
};

use anyhow::{Context, Result};
use ostar_bundle::Bundle;
use ostar_connectors::{
    checkpoint::{Orders, Shares},
    event::{EventMeta, Offsets, Rewound},
};
use ostar_engine::Device;
use ostar_method::{
    diagnostics::Decision,
    gate::Objective,
    learner::{BlockEvent, JoinCounts, LabelUse, Learner, LearnerSettings},
};
use tracing::{info, warn};

pub(crate) use self::telling::{Publisher, recall, recall_shares};
use super::{
    blocks::{Block, BlockBuilder},
    decision_log::{log_decision, log_verdict},
    label_intake::LabelIntake,
    progress::Progress,
    scored::ScoredChunk,
};
use crate::{
    clock::now_ms,
    config::LearnerSection,
    current::{ServingMode, Version},
    status::Status,
};

/// Owns the learner. Cuts chunks into blocks, observes each, takes a fixed number of steps, and publishes.
pub(crate) struct BlockLearner {
    learner: Learner,
    blocks: BlockBuilder,
    /// Rows of the block that is being filled which the proportions have followed already.
    tracked: usize,
    steps_per_block: usize,
    epoch: u64,
    /// Where the checkpoint ended that this run started from: events before these offsets are not learned again.
    learned: Offsets,
    progress: Progress,
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
    /// Events of the chunk at hand that were learned before; kept for its memory.
    repeated: Vec<usize>,
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
    settings: &LearnerSettings,
    objective: Objective,
    labels: Option<LabelUse>,
    state: Option<&[u8]>,
) -> Result<Learner> {
    let deployed = bundle.deployed()?;
    let learner = match state {
        None => {
            let learner = Learner::on(device, &deployed, settings.clone());
            learner
                .with_context(|| format!("cannot start the learner on learner.device = {device}"))
        }
        Some(bytes) => Learner::load_on(device, &deployed, settings.clone(), bytes)
            .context("cannot restore the learner from the checkpoint"),
    };
    let mut learner = learner?;
    learner.serve_for(objective);
    learner.use_labels(labels);
    Ok(learner)
}

/// The version of a learner's state. Blocks count as well as steps: a stream that label shift explains takes no steps,
/// and later states must compare greater.
pub(crate) fn version(learner: &Learner, epoch: u64) -> Version {
    let step = learner.blocks() + learner.steps();
    Version { epoch, step }
}

// === impl BlockLearner ===

impl BlockLearner {
    pub(crate) fn new(
        learner: Learner,
        section: &LearnerSection,
        epoch: u64,
        progress: Progress,
        shares: Option<Shares>,
        publisher: Publisher,
    ) -> Self {
        let mut blocks = BlockBuilder::new(section.block, learner.uses_labels());
        blocks.resume_seen(progress.sampled.clone());
        let mut this = Self {
            blocks,
            tracked: 0,
            steps_per_block: section.steps_per_block,
            epoch,
            learned: progress.offsets.clone(),
            status: Status {
                device: learner.device(),
                events: progress.events,
                gate: learner.gate().clone(),
                shares_at_ms: shares.as_ref().map(|shares| shares.at_ms),
                block: shares.map(|shares| recall(shares, &learner)),
                wanted: learner.wanted_labels().into(),
                shares_by_labels: learner.shares_by_labels(),
                ..Status::default()
            },
            labels: None,
            requested: Arc::new(AtomicU64::new(progress.requested_block)),
            label_counts: learner.label_counts(),
            progress,
            publisher,
            learner,
            accuracies_at: None,
            scored_ms: 0,
            revision: 0,
            repeated: Vec::new(),
        };
        this.publish();
        this
    }

    pub(crate) fn learner(&self) -> &Learner {
        &self.learner
    }

    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
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

    /// Grows with each snapshot that is published.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Version of the newest snapshot.
    pub(crate) fn version(&self) -> Version {
        version(&self.learner, self.epoch)
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
    pub(crate) fn obey(&mut self, orders: &Orders) {
        if orders.paused {
            info!("alignment stays paused, as it was ordered before the restart");
            self.set_paused(true);
        }
        let current = &self.publisher.current;
        let configured = current.configured_mode();
        let ordered = orders.mode.as_deref().and_then(ServingMode::named);
        if let Some(mode) = ordered
            && orders.configured_mode.as_deref() == Some(configured.name())
        {
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
        if self.progress.label_offsets.is_none() && !intake.offsets().is_empty() {
            self.progress.label_offsets = Some(intake.offsets().clone());
        }
    }

    /// Where each partition is read from, if the learner does not know it yet, and which topic that is.
    pub(crate) fn begin(&mut self, offsets: &Offsets, topic_id: Option<&str>) {
        for (partition, began) in offsets {
            self.learned.entry(*partition).or_insert(*began);
            self.progress.offsets.entry(*partition).or_insert(*began);
        }
        // The id that the offsets belong to. If the topic was recreated, the reader says so before its first event.
        if self.progress.topic_id.is_none() {
            self.progress.topic_id = topic_id.map(str::to_owned);
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
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
        while self.observe_next(chunk, &mut number)? {
            let steps = self.take_steps(&pace)?;
            if steps.is_break() {
                return Ok(steps);
            }
            // Together with the state below, not before the steps: whoever compares the two must find the same shares.
            if let Some(block) = &self.status.block {
                self.publisher.metrics.learner.observe_block(block);
            }
            self.publish();
            if after_block(self).is_break() {
                return done;
            }
        }
        self.track_waiting()?;
        done
    }

    /// Learns from these offsets on, whatever had them before.
    fn rewind(&mut self, rewound: &Rewound) {
        self.blocks.rewind(&rewound.offsets);
        self.learned.extend(&rewound.offsets);
        self.progress.offsets.extend(&rewound.offsets);
        self.progress.topic_id.clone_from(&rewound.topic_id);
    }

    /// Observes the block that the chunk's events from `number` on complete; `false` if they complete none.
    fn observe_next(&mut self, chunk: &ScoredChunk, number: &mut usize) -> Result<bool> {
        let first = *number;
        let (learned, repeated) = (&self.learned, &mut self.repeated);
        let block = self.blocks.next_block(chunk, number, learned, repeated);
        count_inputs(&mut self.learner, chunk, first..*number, repeated);
        let Some(block) = block else {
            return Ok(false);
        };
        let Block {
            rows,
            events,
            next,
            newest_ms,
        } = block;
        self.learner.note_time(newest_ms);
        let labels = match &mut self.labels {
            Some(intake) => {
                let recorded = events.iter().map(|event| event.recorded_ms);
                self.progress.border_ms = recorded.fold(self.progress.border_ms, i64::max);
                intake.take(self.progress.border_ms)
            }
            None => Vec::new(),
        };
        let refused = "cannot observe a block of decoded events";
        let group = self.learner.group_rows();
        for first in (self.tracked..rows.len()).step_by(group) {
            let rows = rows.slice(first..(first + group).min(rows.len()));
            self.learner.track(rows).context(refused)?;
        }
        self.tracked = 0;
        let events: Vec<BlockEvent<'_>> = events.iter().map(block_event).collect();
        let block = self.learner.close_labelled_block(rows, &events, &labels);
        let block = block.context(refused)?;
        let events = rows.len();
        self.progress.events += events as u64;
        self.progress.offsets.extend(next);
        let (seen, scored_ms) = self.blocks.seen();
        if !seen.is_empty() {
            self.progress.sampled.clone_from(seen);
        }
        self.scored_ms = scored_ms;
        if let Some(intake) = &self.labels {
            self.progress.label_offsets = Some(intake.offsets().clone());
        }
        self.count_labels(&block);
        self.publisher.metrics.checkpoints.learned(events);
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
        Ok(true)
    }

    /// Lets the proportions follow events that have not completed a block: on a slow stream a block is long.
    fn track_waiting(&mut self) -> Result<()> {
        let group = self.learner.group_rows();
        let waiting = self.blocks.waiting();
        let before = self.tracked;
        while self.tracked + group <= waiting.len() {
            let rows = waiting.slice(self.tracked..self.tracked + group);
            let tracked = self.learner.track_ahead(rows);
            tracked.context("cannot follow the proportions of decoded events")?;
            self.tracked += group;
        }
        if self.tracked > before {
            self.revision += 1;
            let version = version(&self.learner, self.epoch);
            let snapshot = self.learner.snapshot();
            self.publisher.current.publish(snapshot, version);
        }
        Ok(())
    }

    fn take_steps(&mut self, pace: &impl Fn() -> Pace) -> Result<ControlFlow<()>> {
        if self.status.paused {
            return Ok(ControlFlow::Continue(()));
        }
        let always = self.publisher.current.mode().always_aligns();
        for _ in 0..self.learner.steps_due(self.steps_per_block, always) {
            match pace() {
                Pace::Step => self.step()?,
                Pace::Skip => {
                    self.status.skipped_steps += 1;
                    self.publisher.metrics.learner.skipped_steps(1);
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

/// Counts the inputs of a chunk's events `range`, as far as they are known, without those that are repeated.
fn count_inputs(
    learner: &mut Learner,
    chunk: &ScoredChunk,
    range: Range<usize>,
    repeated: &[usize],
) {
    let Some(sample) = &chunk.sample else {
        return;
    };
    let events = &sample.events;
    let first = events.partition_point(|event| *event < range.start);
    let end = events.partition_point(|event| *event < range.end);
    let mut rows = sample.rows.emptied();
    for (place, event) in events.iter().enumerate().take(end).skip(first) {
        if repeated.binary_search(event).is_err() {
            rows.append(&sample.rows, place..place + 1);
        }
    }
    if !rows.is_empty() {
        learner.count_inputs(rows.inputs(), rows.len());
    }
}

fn block_event(event: &EventMeta) -> BlockEvent<'_> {
    BlockEvent {
        id: event.id.as_deref(),
        time_ms: event.time_ms,
    }
}
