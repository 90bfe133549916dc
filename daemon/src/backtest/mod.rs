//! `ostard backtest`: history from files through the daemon's own code, without a broker.
//!
//! Each block is scored with the state that would have been served at the time, and learned from afterwards.

mod alarms;
mod chart;
mod report;

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, Result, bail};
use ostar_bundle::{Bundle, Description};
use ostar_connectors::{
    event::{Chunk, Decoder, EventMeta, InputRows},
    files::{FileEvents, FileSettings},
    labels::{LabelJoin, LabelReport, LabelSettings, Measurement, OrderRows},
};
use ostar_method::diagnostics::OrderCheck;
use tokio::sync::watch;

pub(crate) use report::Report;

use crate::{
    config::{BundleConfig, Config},
    current::{Current, Version},
    metrics::Metrics,
    pipeline::{BlockLearner, FrozenScoring, Pace, Progress, Publisher, Scoring, load_learner},
    proto::State,
    state::learned,
    status::Status,
};

/// The files to replay.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// In the order the events happened.
    pub(crate) data: Vec<PathBuf>,
    /// Which column is what.
    pub(crate) files: FileSettings,
}

/// The daemon's parts without its threads.
struct Replay {
    description: Description,
    current: Arc<Current>,
    decoder: Decoder,
    frozen: FrozenScoring,
    scoring: Scoring,
    block_learner: BlockLearner,
    labels: Arc<Mutex<LabelJoin>>,
    status: watch::Receiver<Status>,
    chunk: Chunk,
    /// Labels of the chunk's events; `None` where the file has none.
    classes: Vec<Option<u32>>,
    block: usize,
    rejected: u64,
    /// The state after each block, with measures of this block.
    moments: Vec<State>,
    /// Measures of all blocks so far; `None` without labels.
    measured: Option<Measurement>,
    /// What the first labels say about the order of the classes. `None` before the first look.
    order: Option<OrderCheck>,
}

/// Replays the files. `progress` gets the number of events so far.
pub(crate) fn run(
    config: &BundleConfig,
    options: &Options,
    mut progress: impl FnMut(u64),
) -> Result<Report> {
    let BundleConfig {
        bundle_folder,
        config,
    } = config;
    let bundle = Bundle::load(bundle_folder)
        .with_context(|| format!("cannot load bundle.path = {bundle_folder:?}"))?;
    let mut replay = Replay::new(config, &bundle)?;
    let description = bundle.description();
    let mut events = 0;
    for path in &options.data {
        let file = FileEvents::open(
            path,
            &options.files,
            &description.input,
            &description.classes,
        )?;
        for event in file {
            let event = event?;
            replay.push(event.id, event.time_ms, event.label, &event.input, events)?;
            events += 1;
            progress(events);
        }
    }
    replay.finish()
}

// === impl Replay ===

impl Replay {
    fn new(config: &Config, bundle: &Bundle) -> Result<Self> {
        let description = bundle.description();
        let classes = bundle.classes();
        let learner = load_learner(
            config.learner.device,
            bundle,
            &config.learner.method,
            config.serving.objective,
            None,
            None,
        )?;
        let current = Current::new(learner.snapshot(), Version::default(), config.serving.mode);
        let (sender, status) = watch::channel(Status::default());
        let publisher = Publisher {
            current: Arc::clone(&current),
            metrics: Metrics::new(description, &config.metrics)?,
            status: sender,
        };
        let empty = InputRows::new(&description.input, classes);
        let block = config.learner.block;
        let labels = LabelSettings {
            window: block,
            ..config.labels.clone()
        };
        let labels = Arc::new(Mutex::new(LabelJoin::new(&labels, classes)));
        let metrics = Arc::clone(&publisher.metrics);
        let block_learner = BlockLearner::new(
            learner,
            &config.learner,
            1,
            Progress::default(),
            None,
            publisher,
        );
        Ok(Self {
            description: description.clone(),
            decoder: Decoder::new(&config.events, &description.input, classes)?,
            frozen: FrozenScoring::new(
                block_learner.learner().model().clone(),
                bundle.inputs().is_some(),
            ),
            scoring: Scoring::new(
                Arc::clone(&current),
                metrics,
                Some(Arc::clone(&labels)),
                classes,
            ),
            current,
            block_learner,
            labels,
            status,
            chunk: Chunk::new(empty),
            classes: Vec::new(),
            block,
            rejected: 0,
            moments: Vec::new(),
            measured: None,
            order: None,
        })
    }

    fn push(
        &mut self,
        id: Option<String>,
        time_ms: Option<i64>,
        label: Option<u32>,
        row: &ostar_connectors::event::Row,
        number: u64,
    ) -> Result<()> {
        if self.decoder.push_row(row, &mut self.chunk.rows).is_err() {
            self.rejected += 1;
            return Ok(());
        }
        // Labels are joined within the block, so any unique id works.
        let id = id.unwrap_or_else(|| format!("row {number}"));
        self.chunk.events.push(EventMeta {
            id: Some(id.into()),
            time_ms: time_ms.unwrap_or(0),
            recorded_ms: 0,
            partition: 0,
            offset: number as i64,
        });
        self.classes.push(label);
        if self.chunk.len() == self.block {
            self.take_chunk()?;
        }
        Ok(())
    }

    fn take_chunk(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let next = Chunk::new(self.chunk.rows.cleared());
        let chunk = self
            .frozen
            .score(std::mem::replace(&mut self.chunk, next))?;
        self.scoring.score(&chunk)?;
        let report = self.join_labels(&chunk.events);
        self.check_order(LabelJoin::order_rows)?;
        let taken =
            self.block_learner
                .take(&chunk, || Pace::Step, |_| ControlFlow::Continue(()))?;
        debug_assert!(taken.is_continue(), "no block is given up");
        let time_ms = chunk.events.last().map_or(0, |event| event.time_ms);
        let mut status = self.status.borrow_and_update().clone();
        status.measured = report.window.map(Arc::new);
        self.measured = report.total;
        let state = learned(&self.description, &self.current, &status);
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

    fn join_labels(&self, events: &[EventMeta]) -> LabelReport {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        for (event, class) in events.iter().zip(&self.classes) {
            if let (Some(id), Some(class)) = (&event.id, class) {
                labels.add_label(id, *class);
            }
        }
        labels.report()
    }

    /// Looks at the rows that `due` gives, if any, until they confirm the order of all classes.
    fn check_order(&mut self, due: fn(&mut LabelJoin) -> Option<OrderRows>) -> Result<()> {
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rows) = due(&mut labels) {
            let check = rows.check()?;
            if check.is_confirmed() {
                labels.order_is_known();
            }
            self.order = Some(check);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Report> {
        self.take_chunk()?;
        self.check_order(LabelJoin::last_order_rows)?;
        if self.moments.is_empty() {
            bail!(
                "--data has no usable event: {} rows were rejected; check that the columns fit the bundle",
                self.rejected
            );
        }
        Ok(Report::new(
            self.description,
            self.moments,
            self.measured,
            self.rejected,
            self.order,
        ))
    }
}
