//! `ostard backtest`: history from files through the daemon's own code, without a broker.
//!
//! Each event is scored with what was known before it, and learned from afterwards. Labels of the files reach the learner as
//! those of a topic do, at the borders of blocks.

mod alarms;
mod chart;
mod labels;
mod report;

use std::{ops::ControlFlow, path::PathBuf, sync::Arc};

use anyhow::{Result, bail};
use ostar_bundle::{Bundle, Description};
use ostar_connectors::{
    event::{Chunk, Decoder, EventMeta, InputRows},
    files::{FileEvent, FileEvents, FileSettings},
};
use ostar_method::{
    diagnostics::OrderCheck,
    learner::{ArrivedLabel, LabelUse, Measurement},
};
use tokio::sync::watch;

use self::{alarms::alarms, labels::FileLabels};

pub(crate) use report::Report;

use crate::{
    config::Config,
    current::Current,
    pipeline::{BlockLearner, FrozenScoring, Pace, Publisher, load_learner},
    proto::State,
    state::learned,
    status::Status,
};

/// The daemon's parts without its threads.
struct Replay {
    description: Description,
    current: Arc<Current>,
    decoder: Decoder,
    frozen: FrozenScoring,
    block_learner: BlockLearner,
    /// `None` if the files have none.
    labels: Option<FileLabels>,
    status: watch::Receiver<Status>,
    chunk: Chunk,
    /// Classes of the chunk's events; `None` where the file has none.
    classes: Vec<Option<u32>>,
    /// Time of the newest event so far.
    clock_ms: i64,
    block: usize,
    rejected: u64,
    /// The state after each block, with measures of this block.
    moments: Vec<State>,
    /// Measures of all labels so far; `None` without labels.
    measured: Option<Measurement>,
    /// What the labels say about the order of the classes. `None` before the first look.
    order: Option<OrderCheck>,
}

/// Replays files, in the order the events happened; `columns` says which of their columns is what. `progress` gets the number
/// of events so far.
pub(crate) fn run(
    config: &Config,
    bundle: &Bundle,
    data: &[PathBuf],
    columns: &FileSettings,
    mut progress: impl FnMut(u64),
) -> Result<Report> {
    let Description { input, classes, .. } = bundle.description();
    let open = |path: &PathBuf| FileEvents::open(path, columns, input, classes);
    let files: Vec<FileEvents> = data.iter().map(open).collect::<Result<_, _>>()?;
    let mut replay = Replay::new(config, bundle, &files)?;
    let mut events = 0;
    for event in files.into_iter().flatten() {
        replay.push(event?, events)?;
        events += 1;
        progress(events);
    }
    replay.finish()
}

// === impl Replay ===

impl Replay {
    fn new(config: &Config, bundle: &Bundle, files: &[FileEvents]) -> Result<Self> {
        let description = bundle.description();
        let classes = bundle.classes();
        let has_times = files.iter().all(FileEvents::has_times);
        let is_labelled = files.iter().any(FileEvents::has_labels);
        let labels = is_labelled.then(|| FileLabels::new(&config.labels, has_times));
        let mut settings = config.unlabelled_learner();
        if is_labelled {
            // Labels of a file come whether or not anybody asks.
            let asked = config.label_use(&description.classes)?;
            settings.labels = Some(LabelUse {
                requested: false,
                ..asked
            });
        }
        let learner = load_learner(config.learner.device, bundle, settings, None)?;
        let publisher = Publisher::new(&learner, config, description, Status::default())?;
        let (current, status) = (Arc::clone(&publisher.current), publisher.status.subscribe());
        let section = &config.learner;
        let mut block_learner = BlockLearner::new(learner, section, 1, None, publisher);
        let labels = labels.map(|(labels, intake)| {
            block_learner.set_labels(intake);
            labels
        });
        let model = block_learner.learner().model().clone();
        Ok(Self {
            description: description.clone(),
            decoder: Decoder::new(&config.events, &description.input, classes)?,
            frozen: FrozenScoring::new(model, bundle.inputs().is_some()),
            current,
            block_learner,
            labels,
            status,
            chunk: Chunk::new(InputRows::new(&description.input, classes)),
            classes: Vec::new(),
            clock_ms: 0,
            block: section.block,
            rejected: 0,
            moments: Vec::new(),
            measured: None,
            order: None,
        })
    }

    fn push(&mut self, event: FileEvent, number: u64) -> Result<()> {
        // The last block takes all labels that are left: it is the last one when nothing follows.
        if self.chunk.len() == self.block {
            self.take_chunk(false)?;
        }
        let pushed = self.decoder.push_row(&event.input, &mut self.chunk.rows);
        if pushed.is_err() {
            self.rejected += 1;
            return Ok(());
        }
        // Any unique id joins a label with its event.
        let id = event.id.unwrap_or_else(|| format!("row {number}"));
        let time_ms = event.time_ms.unwrap_or(self.clock_ms);
        self.clock_ms = self.clock_ms.max(time_ms);
        if let (Some(labels), Some(class)) = (&mut self.labels, event.label) {
            labels.add(ArrivedLabel {
                id: id.as_str().into(),
                class,
                time_ms: event.label_time_ms.unwrap_or(time_ms),
            });
        }
        self.classes.push(event.label);
        self.chunk.events.push(EventMeta {
            id: Some(id.into()),
            time_ms,
            recorded_ms: time_ms,
            partition: 0,
            offset: number as i64,
        });
        Ok(())
    }

    fn take_chunk(&mut self, is_last: bool) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let next = Chunk::new(self.chunk.rows.cleared());
        let chunk = self
            .frozen
            .score(std::mem::replace(&mut self.chunk, next))?;
        if let Some(labels) = &mut self.labels {
            labels.give_until(if is_last { i64::MAX } else { self.clock_ms });
        }
        if is_last {
            self.block_learner.take_last(&chunk)?;
        } else {
            let taken =
                self.block_learner
                    .take(&chunk, || Pace::Step, |_| ControlFlow::Continue(()))?;
            debug_assert!(taken.is_continue(), "no block is given up");
        }
        if let Some(check) = self.block_learner.new_class_order() {
            self.order = Some(check.clone());
        }
        let time_ms = chunk.events.last().map_or(0, |event| event.time_ms);
        let mut status = self.status.borrow_and_update().clone();
        let labels = status
            .block
            .as_mut()
            .and_then(|block| block.labels.as_mut());
        if let Some(labels) = labels {
            self.measured.clone_from(&labels.measured.total);
            labels.measured.window.clone_from(&labels.measured.block);
        }
        let mut state = learned(&self.description, &self.current, &status);
        // What is true of the block's own events, whenever their labels take effect.
        let truth = shares(&self.classes, chunk.frozen.classes());
        for (number, class) in state.classes.iter_mut().enumerate() {
            class.among_labels = truth.as_ref().map(|shares| shares[number]);
        }
        self.moments.push(State {
            // When the backtest ran is no part of its report, and a list of ids would be long.
            time_ms,
            shares_age_ms: Some(0),
            wanted_labels: Vec::new(),
            ..state
        });
        self.classes.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Report> {
        self.take_chunk(true)?;
        if let Some(check) = self.block_learner.learner().check_class_order()? {
            self.order = Some(check);
        }
        if self.moments.is_empty() {
            bail!(
                "--data has no usable event: {} rows were rejected; check that the columns fit the bundle",
                self.rejected
            );
        }
        Ok(Report {
            alarms: alarms(&self.moments),
            description: self.description,
            moments: self.moments,
            measured: self.measured,
            rejected: self.rejected,
            order: self.order,
        })
    }
}

/// Shares of the classes among the events that have one; `None` if none has.
fn shares(labels: &[Option<u32>], classes: usize) -> Option<Vec<f64>> {
    let mut shares = vec![0.0; classes];
    let known: Vec<u32> = labels.iter().flatten().copied().collect();
    for class in &known {
        shares[*class as usize] += 1.0 / known.len() as f64;
    }
    (!known.is_empty()).then_some(shares)
}
