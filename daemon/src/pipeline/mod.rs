//! The path of an event: read, decoded, scored, emitted, learned from.
//!
//! ```text
//!  ingest ──chunks──> emission ──scored──> learner
//!  polls, decodes     scores, writes       observes fixed blocks, steps,
//!                     outputs, commits     publishes, checkpoints
//!  labels             reads late labels ──> learner, at block borders
//! ```
//!
//! With the roles scorer and learner the same parts run in several processes: emission writes samples to a topic instead
//! of the channel, and the learner's first thread reads them.
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
mod request_thread;
mod sample_ingest;
mod sample_rate;
mod sampling;
mod scored;
mod scoring;
mod source_watch;
mod starting;
mod threads;
mod topic_store;

use std::{sync::Arc, time::Instant};

use anyhow::Result;
use crossbeam_channel::Sender;
use ostar_bundle::Bundle;
use ostar_connectors::kafka::{Committer, Reader};
use tokio::sync::mpsc;
use tracing::error;

pub(crate) use self::{
    block_learner::{BlockLearner, Pace, Publisher, load_learner},
    checkpoints::{Checkpoints, Store, show_damaged},
    commits::Emitted,
    label_intake::{FromLabels, LabelIntake},
    learner_thread::carry_out,
    sampling::SampleShare,
    scored::FrozenScoring,
    threads::Threads,
    topic_store::TopicStore,
};
use self::{
    flags::PipelineFlags,
    sampling::{SampleSink, Sampler},
    starting::Starting,
};
use crate::{
    config::{Config, Role},
    control::{Order, Request},
    error_text::one_line,
    health::Health,
};

/// Chunks that may wait for emission or for the learner: enough to ride out a slow refresh, few enough to notice soon
/// that the learner is behind.
const WAITING_CHUNKS: usize = 16;

/// What all parts of a pipeline are started with.
pub(crate) struct PipelineSetup<'a> {
    pub(crate) config: &'a Config,
    pub(crate) bundle: &'a Bundle,
    /// Share of the events that go to a learner elsewhere.
    pub(crate) share: Arc<SampleShare>,
    pub(crate) publisher: Publisher,
    pub(crate) health: Arc<Health>,
}

/// Where events or samples come from, and how far outputs are.
pub(crate) struct EventSource {
    pub(crate) reader: Reader,
    pub(crate) committer: Committer,
    /// Outputs of events before these offsets are delivered or parked.
    pub(crate) emitted: Arc<Emitted>,
}

/// What learns, and where it is kept.
pub(crate) struct Learning {
    pub(crate) block_learner: BlockLearner,
    pub(crate) checkpoints: Checkpoints,
}

/// The running threads, until [`Pipeline::stop`].
pub(crate) struct Pipeline {
    flags: Arc<PipelineFlags>,
    /// Dropped to tell the learner that no more orders come; `None` if another process learns.
    learner_orders: Option<Sender<Request>>,
    threads: Threads,
    failures: mpsc::UnboundedReceiver<anyhow::Error>,
}

impl Learning {
    /// Events or samples come from here. A first checkpoint claims the epoch and keeps where partitions began.
    pub(crate) fn begin(&mut self, source: &EventSource) {
        let reader = &source.reader;
        self.block_learner
            .begin(&reader.offsets(), reader.topic_id());
        self.checkpoints.begin(source);
        // A full disk must not stop serving.
        if let Err(error) = self.checkpoints.write(&self.block_learner) {
            error!(error = %one_line(&error), "cannot write a checkpoint");
        }
    }
}

impl Pipeline {
    /// Starts the parts of the path that the role runs in this process. Between them are channels, or topics. `learning` is
    /// `None` if what is read here is learned elsewhere.
    pub(crate) fn start(
        setup: PipelineSetup<'_>,
        source: EventSource,
        learning: Option<Learning>,
    ) -> Result<Self> {
        let (threads, failures) = Threads::new(Arc::clone(&setup.health));
        let flags = Arc::new(PipelineFlags::default());
        let mut starting = Starting {
            setup,
            flags: Arc::clone(&flags),
            threads,
        };
        // What reads is started last, so that whatever it reads is taken.
        let learner_orders = match learning {
            None => {
                let PipelineSetup { share, bundle, .. } = &starting.setup;
                let topic_id = source.reader.topic_id();
                let sampler = Sampler::new(Arc::clone(share), bundle, topic_id);
                starting.scorer(source, SampleSink::Topic(sampler))?;
                None
            }
            Some(learning) => {
                let (chunks, orders) = starting.learner(learning)?;
                match starting.setup.config.role {
                    Role::Learner => starting.samples(source.reader, chunks)?,
                    _ => starting.scorer(source, SampleSink::Memory(chunks))?,
                }
                Some(orders)
            }
        };
        Ok(Self {
            flags,
            learner_orders,
            threads: starting.threads,
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
        let Some(learner_orders) = &self.learner_orders else {
            let refused = "this process does not learn; give the order to the learner".to_owned();
            let _ = request.reply.send(Err(refused));
            return;
        };
        if let Err(refused) = learner_orders.try_send(request) {
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
        let waited = self.threads.wait(deadline);
        let mut failures = self.failures;
        match failures.try_recv() {
            // Whoever did not end in time may have waited for the one that failed.
            Ok(failure) => Err(failure),
            Err(_) => waited,
        }
    }
}
