//! `ostard run`: the life of the process, in every role.

mod following;
mod leading;
mod offsets;
mod orders;
mod process;
mod resume;
mod source;
mod standby;
mod waiting;

use std::{path::Path, sync::Arc, time::Instant};

use anyhow::{Context, Result};
use ostar_bundle::Bundle;
use ostar_connectors::{checkpoint::Checkpoint, kafka::Commits};
use tracing::info;

pub(crate) use self::process::Process;
use self::{
    offsets::Known,
    orders::Hands,
    resume::{Resumed, identity, resume},
    waiting::Stopped,
};
use crate::{
    config::{Config, Role},
    pipeline::{
        BlockLearner, Checkpoints, EventSource, Learning, Pipeline, PipelineSetup, Store,
        load_learner,
    },
    shutdown::Signals,
};

/// The life of a process: load, bind, resume, start, wait, drain. Calls `attend` once requests are answered. `Ok` means that
/// everything was finished before the shutdown deadline.
pub(crate) async fn run(
    config: Config,
    signals: &mut Signals,
    attend: impl FnOnce(&Process),
) -> Result<()> {
    // The bundle is loaded and the listeners are bound: requests are answered by the frozen model from here on.
    let mut process = match Process::load_and_bind(config, signals).await {
        Err(error) if error.is::<Stopped>() => return Ok(()),
        loaded => loaded?,
    };
    attend(&process);
    signals.stop_on_failure(&process.health);
    let life = async {
        // Others may learn here: the newest of what they publish is served until it is this process's turn. A scorer's turn
        // never comes; it only waits until there is something to serve.
        let held = process.hold(signals).await?;
        // The newest checkpoint is served before anything waits for Kafka.
        let (known, mut learning) = process.resume(held)?;
        process.health.set_started();
        let source = process.open(signals, known, &mut learning).await?;
        let mut pipeline = process.start(source, learning)?;
        let failure = loop {
            tokio::select! {
                () = signals.stop() => break None,
                failure = pipeline.failure() => break Some(failure),
                Some(request) = process.orders.recv() => {
                    process.carry_out(request, &mut Hands::Pipeline(&pipeline));
                }
            }
        };
        process.drain_pipeline(pipeline, failure).await
    };
    let outcome = match life.await {
        Err(error) if error.is::<Stopped>() => Ok(()),
        outcome => outcome,
    };
    // Requests that were accepted are answered, and nobody listens any more.
    let failed = process.health.liveness();
    process.stop_serving().await;
    match (failed, outcome) {
        // The same failure, by its type: the exit code depends on it.
        (Err(first), Err(error)) if first == format!("{error:#}") => Err(error),
        // The first failure is the reason; what the life ended with may be a consequence.
        (Err(first), _) => Err(anyhow::Error::msg(first)),
        (Ok(()), outcome) => outcome,
    }
}

/// The right to write what is learned: nobody else does.
struct Held {
    store: Store,
    newest: Option<Checkpoint>,
    epoch: u64,
}

/// Whether a start could resume: from this checkpoint, with these commits of the group.
pub(crate) fn check_resume(
    config: &Config,
    bundle: &Bundle,
    newest: Option<Checkpoint>,
    commits: &Commits,
) -> Result<()> {
    let resumed = resume(config, bundle, newest)?;
    let known = Known::new(config, bundle, resumed.manifest.as_ref());
    known.own(commits, &config.kafka)?;
    Ok(())
}

impl Process {
    /// Waits until nobody else learns. `None` if that is not this process's role: it has then read what is learned.
    async fn hold(&mut self, signals: &mut Signals) -> Result<Option<Held>> {
        match (
            self.config.role,
            self.config.checkpoint_folder().map(Path::to_owned),
        ) {
            (Role::Scorer, _) => {
                self.follow_learner(signals).await?;
                Ok(None)
            }
            (_, Some(folder)) => Ok(Some(self.hold_folder(folder, signals).await?)),
            (_, None) => Ok(Some(self.hold_topic(signals).await?)),
        }
    }

    /// The learner as the newest checkpoint has it, and where that ends.
    fn resume(&self, held: Option<Held>) -> Result<(Known, Option<Learning>)> {
        let (config, bundle) = (&self.config, &self.bundle);
        let Some(Held {
            store,
            newest,
            epoch,
        }) = held
        else {
            return Ok((Known::new(config, bundle, None), None));
        };
        let Resumed { state, manifest } = resume(config, bundle, newest)?;
        let known = Known::new(config, bundle, manifest.as_ref());
        let learner = load_learner(
            config.learner.device,
            bundle,
            config.learner_settings(&bundle.description().classes)?,
            state.as_deref(),
        )?;
        let publisher = self.publisher.clone();
        let learning = Learning {
            block_learner: BlockLearner::new(learner, &config.learner, epoch, manifest, publisher),
            checkpoints: Checkpoints::new(
                store,
                &config.checkpoints,
                identity(config, bundle, &known.writer),
                Arc::clone(&self.publisher.metrics),
                Arc::clone(&self.health),
            ),
        };
        Ok((known, Some(learning)))
    }

    /// Waits until what the process reads can be read.
    async fn open(
        &mut self,
        signals: &mut Signals,
        known: Known,
        learning: &mut Option<Learning>,
    ) -> Result<EventSource> {
        let mut hands = match learning {
            Some(learning) => Hands::Learner(&mut learning.block_learner),
            None => Hands::Nobody,
        };
        let patience = self.config.kafka.patience.get();
        let all = Arc::new((self.config.clone(), known));
        let open = move || Ok(source::open(&all.0, &all.1)?);
        self.reach(signals, &mut hands, patience, open).await
    }

    /// Starts the threads.
    fn start(&self, source: EventSource, mut learning: Option<Learning>) -> Result<Pipeline> {
        let epoch = learning.as_mut().map(|learning| {
            learning.begin(&source);
            learning.block_learner.version().epoch
        });
        let setup = PipelineSetup {
            config: &self.config,
            bundle: &self.bundle,
            share: Arc::clone(&self.share),
            publisher: self.publisher.clone(),
            health: Arc::clone(&self.health),
        };
        let pipeline = Pipeline::start(setup, source, learning)?;
        let topic = self.config.learned_topic();
        match epoch {
            Some(epoch) => {
                let device = self.config.learner.device;
                info!(epoch, topic, %device, "learning from the stream");
            }
            None => info!(
                topic,
                group = self.config.kafka.group(),
                "scoring the stream"
            ),
        }
        Ok(pipeline)
    }

    /// Ends the pipeline in order. If it has failed, that is the outcome.
    async fn drain_pipeline(
        &self,
        pipeline: Pipeline,
        failure: Option<anyhow::Error>,
    ) -> Result<()> {
        self.health.obstruct("shutdown", "stopping");
        // Requests are served until the pipeline has ended, and drained after it: its deadline leaves time for that.
        let deadline = Instant::now() + self.shutdown_deadline() - self.drain();
        let stopped = tokio::task::spawn_blocking(move || pipeline.stop(deadline)).await;
        match failure {
            Some(failure) => Err(failure),
            None => stopped.context("stopping the pipeline panicked")?,
        }
    }
}
