//! The path of an event: read, decoded, scored, emitted, learned from.
//!
//! ```text
//!  ingest ──chunks──> emission ──scored──> learner
//!  polls, decodes     scores, writes       observes fixed blocks, steps,
//!                     outputs, commits     publishes, checkpoints
//!  labels             measures with late labels ──> learner, at block borders
//! ```
//!
//! Emission scores each event once with the frozen model, which never changes, for itself and for the learner. The
//! channels are bounded and go forward only. Stopping follows the same path: ingest ends and drops its sender, then the
//! others finish what they hold.

mod block_learner;
mod blocks;
mod checkpoints;
mod commits;
mod decision_log;
mod emission;
mod flags;
mod ingest;
mod label_intake;
mod label_thread;
mod learner_thread;
mod progress;
mod request_thread;
mod scored;
mod scoring;
mod threads;

use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Instant,
};

use anyhow::Result;
use crossbeam_channel::{Sender, bounded};
use ostar_connectors::{
    event::{Chunk, Decoder, InputRows},
    kafka::{Committer, Outputs, Reader, RejectLimits},
    labels::LabelJoin,
};
use ostar_model::Bundle;
use tokio::sync::mpsc;

pub(crate) use self::{
    block_learner::{BlockLearner, Publisher, load_learner, recall},
    checkpoints::{Checkpoints, Identity},
    commits::Emitted,
    learner_thread::carry_out_before_reading,
    progress::Progress,
    scored::FrozenScoring,
    scoring::Scoring,
};
use self::{
    commits::Commits,
    emission::Emission,
    flags::PipelineFlags,
    ingest::{Decoding, Ingest},
    label_intake::LabelIntake,
    label_thread::LabelThread,
    learner_thread::LearnerThread,
    request_thread::RequestThread,
    threads::Threads,
};
use crate::{
    config::{Config, WhenBehind},
    control::{Order, Request},
    health::Health,
};

/// Chunks that may wait for emission or for the learner: enough to ride out a slow refresh, few enough to notice soon
/// that the learner is behind.
const WAITING_CHUNKS: usize = 16;
/// Orders that may wait for the learner. They are rare and given by people.
const WAITING_ORDERS: usize = 4;

/// Labels that may wait between two blocks before the learner takes them over.
const WAITING_LABELS: usize = 4_096;

/// Name of the file of parked outputs in `checkpoints.folder`.
const PARKED_FILE: &str = "parked.jsonl";

/// What a pipeline is started with.
pub(crate) struct PipelineSetup<'a> {
    pub(crate) config: &'a Config,
    /// `checkpoints.folder`, for outputs that are parked in a file.
    pub(crate) checkpoint_folder: &'a Path,
    pub(crate) bundle: &'a Bundle,
    pub(crate) reader: Reader,
    pub(crate) committer: Committer,
    pub(crate) block_learner: BlockLearner,
    pub(crate) checkpoints: Checkpoints,
    /// How far outputs are. Those of events before these offsets are delivered or parked.
    pub(crate) emitted: Arc<Emitted>,
    /// `None` if `labels.topic` is not set.
    pub(crate) labels: Option<Arc<Mutex<LabelJoin>>>,
    pub(crate) publisher: Publisher,
    pub(crate) health: Arc<Health>,
}

/// The running threads, until [`Pipeline::stop`].
pub(crate) struct Pipeline {
    flags: Arc<PipelineFlags>,
    /// Dropped to tell the learner that no more orders come.
    learner_orders: Sender<Request>,
    threads: Threads,
    failures: mpsc::UnboundedReceiver<anyhow::Error>,
}

impl Pipeline {
    pub(crate) fn start(setup: PipelineSetup<'_>) -> Result<Self> {
        let PipelineSetup {
            config,
            checkpoint_folder,
            bundle,
            reader,
            committer,
            mut block_learner,
            checkpoints,
            emitted,
            labels,
            publisher,
            health,
        } = setup;
        let description = bundle.description();
        let classes = bundle.classes();
        let metrics = &publisher.metrics;
        let flags = Arc::new(PipelineFlags::default());
        let frozen = FrozenScoring::new(
            block_learner.learner().model().clone(),
            bundle.inputs().is_some(),
        );
        let labels_read = match &labels {
            Some(join) => {
                let (sender, messages) = bounded(WAITING_LABELS);
                let resume = block_learner.progress().label_offsets.clone();
                let resume = resume.unwrap_or_default();
                let waits = config.learner.when_behind == WhenBehind::Wait;
                let intake = LabelIntake::new(messages, &config.labels, resume.clone(), waits);
                block_learner.set_labels(intake);
                let join = Arc::clone(join);
                Some(LabelThread::new(
                    config, bundle, join, resume, sender, &health, metrics,
                )?)
            }
            None => None,
        };
        let requests = RequestThread::new(
            config,
            &description.classes,
            publisher.status.subscribe(),
            Arc::clone(block_learner.requested()),
            &health,
            metrics,
        )?;
        let (to_learner, learner_chunks) = bounded(WAITING_CHUNKS);
        let (learner_orders, orders) = bounded(WAITING_ORDERS);
        let learner = LearnerThread {
            block_learner,
            checkpoints,
            chunks: learner_chunks,
            orders,
            when_behind: config.learner.when_behind,
            nice: config.learner.nice,
            flags: Arc::clone(&flags),
        };
        let (to_emission, chunks) = bounded(WAITING_CHUNKS);
        let ingest = Ingest {
            reader,
            decoding: Decoding {
                decoder: Decoder::new(&config.events, &description.input, classes)?,
                limits: RejectLimits::new(&config.dead_letters),
                dead_letter_bytes: config.dead_letters.max_bytes,
                emitted: emitted.get(),
                metrics: Arc::clone(metrics),
            },
            patience: config.kafka.patience.get(),
            chunk: Chunk::new(InputRows::new(&description.input, classes)),
            opened: None,
            broker_lost: None,
            lag_measured: Instant::now(),
            errors_told: Default::default(),
            chunks: to_emission,
            flags: Arc::clone(&flags),
            health: Arc::clone(&health),
            metrics: Arc::clone(metrics),
        };
        let current = Arc::clone(&publisher.current);
        let emission = Emission {
            frozen,
            scoring: Scoring::new(current, Arc::clone(metrics), labels.clone(), classes),
            outputs: open_outputs(config, checkpoint_folder)?,
            flags: Arc::clone(&flags),
            emitted: emitted.get(),
            commits: Commits::start(
                move |offsets| committer.commit_and_wait(offsets),
                emitted,
                Arc::clone(metrics),
            )?,
            classes: description.classes.clone(),
            patience: config.kafka.patience.get(),
            health: Arc::clone(&health),
            metrics: Arc::clone(metrics),
            progress: Default::default(),
        };
        let (mut threads, failures) = Threads::new(Arc::clone(&health));
        threads.start("learner", move || learner.run())?;
        threads.start("emission", move || emission.run(&chunks, to_learner))?;
        if let Some(labels) = labels_read {
            let flags = Arc::clone(&flags);
            threads.start("labels", move || labels.run(&flags))?;
        }
        if let Some(requests) = requests {
            let flags = Arc::clone(&flags);
            threads.start("label requests", move || requests.run(&flags))?;
        }
        // Last, so that whatever it reads is taken.
        threads.start("ingest", move || ingest.run())?;
        Ok(Self {
            flags,
            learner_orders,
            threads,
            failures,
        })
    }

    /// Carries out an order that concerns reading or learning.
    pub(crate) fn order(&self, request: Request) {
        if request.order == Order::ReadOn {
            let outcome = if self.flags.is_reading_stopped() {
                self.flags.resume_reading();
                Ok("reading goes on; too many further bad events stop it again".to_owned())
            } else {
                Err("reading is not stopped".to_owned())
            };
            // Whoever gave the order may have gone.
            let _ = request.reply.send(outcome);
            return;
        }
        if let Err(refused) = self.learner_orders.try_send(request) {
            let reply = refused.into_inner().reply;
            let _ = reply.send(Err(
                "the learner is busy with other orders, try again".to_owned()
            ));
        }
    }

    /// Resolves when a thread has failed.
    pub(crate) async fn failure(&mut self) -> anyhow::Error {
        match self.failures.recv().await {
            Some(failure) => failure,
            // Not while `threads` holds a sender.
            None => std::future::pending().await,
        }
    }

    /// Stops reading, lets the others finish, and waits for them until the deadline.
    pub(crate) fn stop(self, deadline: Instant) -> Result<()> {
        self.flags.stop(deadline);
        drop(self.learner_orders);
        self.threads.wait(deadline)?;
        let mut failures = self.failures;
        match failures.try_recv() {
            Ok(failure) => Err(failure),
            Err(_) => Ok(()),
        }
    }
}

/// Opens the outputs. What is refused for good goes to a file next to the checkpoints, unless another place is set.
fn open_outputs(config: &Config, checkpoint_folder: &Path) -> Result<Outputs> {
    let mut parked = config.parked.clone();
    if parked.topic.is_none() && parked.file.is_none() {
        parked.file = Some(checkpoint_folder.join(PARKED_FILE));
    }
    Ok(Outputs::open(
        &config.kafka,
        &config.predictions,
        &config.dead_letters,
        &parked,
        &config.outputs,
    )?)
}
