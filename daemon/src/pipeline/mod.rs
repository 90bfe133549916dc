//! The way of an event: read, decoded, scored, emitted, learned from.
//!
//! ```text
//!  ingest ──chunks──> emission ──scored──> learner
//!  polls, decodes     scores, writes       observes fixed blocks, steps,
//!                     outputs, commits     publishes, checkpoints
//!  labels             joins late labels with predictions, to measure only
//! ```
//!
//! Emission scores each event once with the frozen model, which nothing learned changes, for itself and the
//! learner. Three threads and two bounded channels; forward only. Stopping runs down the same way: ingest ends and
//! drops its sender, then the others finish what they hold.

mod blocks;
mod checkpoints;
mod emission;
mod ingest;
mod label_thread;
mod learner_thread;
mod learning;
mod scored;
mod scoring;

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use crossbeam_channel::{Sender, bounded};
use ostar_connectors::{
    event::{Decoder, InputRows, Offsets},
    kafka::{Committer, Outputs, Reader, RejectLimits},
    labels::LabelJoin,
};
use ostar_model::Bundle;
use tokio::sync::mpsc;
use tracing::{error, info};

pub(crate) use checkpoints::{Checkpoints, Identity};
pub(crate) use learning::{Learning, Outlets, Progress, load_learner};
pub(crate) use scored::FrozenScoring;
pub(crate) use scoring::Scoring;

use crate::{
    config::Config,
    control::Request,
    health::Health,
    pipeline::{
        emission::Emission,
        ingest::{Ingest, IngestOrders},
        learner_thread::LearnerThread,
    },
};

/// Chunks that may wait for emission or learner: enough to ride out a slow refresh, few enough to notice being
/// behind soon.
const WAITING_CHUNKS: usize = 16;

/// What a pipeline is made of.
pub(crate) struct Parts<'a> {
    pub(crate) config: &'a Config,
    pub(crate) bundle: &'a Bundle,
    pub(crate) reader: Reader,
    pub(crate) committer: Committer,
    pub(crate) learning: Learning,
    pub(crate) checkpoints: Option<Checkpoints>,
    /// Outputs of events before these offsets were flushed by an earlier run.
    pub(crate) emitted: Offsets,
    pub(crate) labels: Option<Arc<Mutex<LabelJoin>>>,
    pub(crate) outlets: Outlets,
    pub(crate) health: Arc<Health>,
}

/// The running threads.
pub(crate) struct Pipeline {
    ingest_orders: Arc<IngestOrders>,
    learner_orders: Sender<Request>,
    threads: Vec<(&'static str, thread::JoinHandle<()>)>,
    failures: mpsc::UnboundedReceiver<anyhow::Error>,
}

impl Pipeline {
    pub(crate) fn start(parts: Parts<'_>) -> Result<Self> {
        let Parts {
            config,
            bundle,
            reader,
            committer,
            learning,
            checkpoints,
            emitted,
            labels,
            outlets,
            health,
        } = parts;
        let description = bundle.description();
        let classes = bundle.classes();
        let empty = InputRows::new(&description.input, classes);
        let ingest_orders = Arc::new(IngestOrders::default());
        let frozen = FrozenScoring::new(learning.learner().model().clone());
        let (to_learner, learner_chunks) = bounded(WAITING_CHUNKS);
        // Orders are rare and made by people.
        let (learner_orders, orders) = bounded(4);
        let learner = LearnerThread {
            learning,
            checkpoints,
            chunks: learner_chunks,
            orders,
            when_behind: config.learner.when_behind,
            nice: config.learner.nice,
            ingest: Arc::clone(&ingest_orders),
        };
        let (to_emission, chunks) = bounded(WAITING_CHUNKS);
        let metrics = &outlets.metrics;
        let ingest = Ingest {
            reader,
            decoder: Decoder::new(&config.events, &description.input, classes)?,
            limits: RejectLimits::new(&config.dead_letters),
            dead_letter_bytes: config.dead_letters.max_bytes,
            patience: config.kafka.patience.get(),
            empty,
            chunks: to_emission,
            orders: Arc::clone(&ingest_orders),
            health: Arc::clone(&health),
            metrics: Arc::clone(metrics),
        };
        let current = Arc::clone(&outlets.current);
        let emission = Emission {
            frozen,
            scoring: Scoring::new(current, Arc::clone(metrics), labels.clone(), classes),
            outputs: Outputs::open(&config.kafka, &config.predictions, &config.dead_letters)?,
            committer,
            emitted,
            classes: description.classes.clone(),
            patience: config.kafka.patience.get(),
            health: Arc::clone(&health),
            metrics: Arc::clone(metrics),
            unflushed: Vec::new(),
            flushed: Offsets::new(),
            send_again: false,
            stuck_since: None,
            sent: Default::default(),
        };
        // One failure is enough to stop; the rest is for the log.
        let (failed, failures) = mpsc::unbounded_channel();
        let mut threads = Threads {
            health,
            failed,
            running: vec![],
        };
        threads.start("learner", move || learner.run())?;
        threads.start("emission", move || emission.run(&chunks, to_learner))?;
        if let Some(join) = labels {
            let labels = label_thread::LabelThread::open(config, bundle, join, metrics)?;
            let orders = Arc::clone(&ingest_orders);
            threads.start("labels", move || labels.run(&orders.stop))?;
        }
        threads.start("ingest", move || ingest.run())?;
        Ok(Self {
            ingest_orders,
            learner_orders,
            threads: threads.running,
            failures,
        })
    }

    /// Carries out what concerns the pipeline.
    pub(crate) fn order(&self, request: Request) {
        if request.order == crate::control::Order::Resume {
            self.ingest_orders.resume.store(true, Ordering::Relaxed);
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
            None => std::future::pending().await,
        }
    }

    /// Stops reading, lets the others finish, and waits for them until the deadline.
    pub(crate) fn stop(self, deadline: Instant) -> Result<()> {
        self.ingest_orders.stop.store(true, Ordering::Relaxed);
        drop(self.learner_orders);
        let mut failures = self.failures;
        for (name, thread) in self.threads {
            while !thread.is_finished() {
                if Instant::now() >= deadline {
                    return Err(anyhow!(
                        "{name} did not finish before the shutdown deadline"
                    ));
                }
                thread::sleep(Duration::from_millis(5));
            }
            info!(thread = name, "finished");
        }
        match failures.try_recv() {
            Ok(failure) => Err(failure),
            Err(_) => Ok(()),
        }
    }
}

/// Starts threads whose failure is told to everyone.
struct Threads {
    health: Arc<Health>,
    failed: mpsc::UnboundedSender<anyhow::Error>,
    running: Vec<(&'static str, thread::JoinHandle<()>)>,
}

impl Threads {
    fn start(
        &mut self,
        name: &'static str,
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (health, failed) = (Arc::clone(&self.health), self.failed.clone());
        let watched = move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
            let outcome = outcome.unwrap_or_else(|_| Err(anyhow!("panicked")));
            if let Err(failure) = outcome.with_context(|| format!("the {name} thread failed")) {
                error!(error = %format!("{failure:#}"), "a part of the pipeline died");
                health.fail(format!("{failure:#}"));
                let _ = failed.send(failure);
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(watched);
        let thread = thread.with_context(|| format!("cannot start the {name} thread"))?;
        self.running.push((name, thread));
        Ok(())
    }
}
