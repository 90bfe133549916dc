//! `ostard run`: serves, waits for the checkpoint lock, learns, and stops in order.

mod process;
mod resume;
mod standby;
mod topic;

use std::{sync::Arc, time::Instant};

use anyhow::{Context, Result};
use ostar_connectors::checkpoint::{CheckpointStore, WriterLock};
use tracing::info;

pub(crate) use self::process::Process;
use self::{resume::resume, topic::OpenTopic};
use crate::{
    config::RunConfig,
    control::{Order, Request},
    pipeline::{BlockLearner, Checkpoints, Identity, Pipeline, PipelineSetup, load_learner},
    shutdown::Signals,
};

/// Runs until a signal; `Ok` means that everything was finished before the shutdown deadline.
pub(crate) async fn run(config: RunConfig, signals: &mut Signals) -> Result<()> {
    let mut process = Process::start(config).await?;
    let outcome = process.live(signals).await;
    process.stop_serving().await;
    outcome
}

impl Process {
    /// Stands by until the checkpoint folder is free, then learns until a signal.
    pub(crate) async fn live(&mut self, signals: &mut Signals) -> Result<()> {
        let store = CheckpointStore::open(&self.checkpoint_folder, self.config.checkpoints.keep)?;
        let Some(lock) = standby::wait_for_lock(self, &store, signals).await? else {
            return Ok(());
        };
        let Some(mut pipeline) = self.start_pipeline(store, lock, signals).await? else {
            return Ok(());
        };
        let failure = loop {
            tokio::select! {
                () = signals.stop() => break None,
                failure = pipeline.failure() => break Some(failure),
                Some(request) = self.orders.recv() => self.dispatch(request, &pipeline),
            }
        };
        self.health.obstruct("shutdown", "stopping");
        // Requests are served until the pipeline has ended, and drained after it: its deadline leaves time for that.
        let deadline = Instant::now() + self.config.shutdown.deadline.get() - self.drain();
        let stopped = tokio::task::spawn_blocking(move || pipeline.stop(deadline)).await;
        match failure {
            Some(failure) => Err(failure),
            None => stopped.context("stopping the pipeline panicked")?,
        }
    }

    /// Resumes from the newest checkpoint and starts the threads; `None` if the process is told to stop before the topic
    /// can be read.
    async fn start_pipeline(
        &self,
        store: CheckpointStore,
        lock: WriterLock,
        signals: &mut Signals,
    ) -> Result<Option<Pipeline>> {
        let config = &self.config;
        let newest = store.newest()?;
        let epoch = newest
            .as_ref()
            .map_or(1, |newest| newest.manifest.epoch + 1);
        let resumed = resume(config, &self.bundle_folder, &self.bundle, newest)?;
        let learner = load_learner(
            &self.bundle,
            &config.learner.method,
            resumed.state.as_deref(),
        )?;
        let learned = &resumed.progress.offsets;
        let topic = OpenTopic::wait(&config.kafka, learned, &self.health, signals).await?;
        let Some(topic) = topic else {
            return Ok(None);
        };
        let block_learner = BlockLearner::new(
            learner,
            &config.learner,
            epoch,
            resumed.progress,
            self.publisher.clone(),
        );
        let settings_digest = config.learner.digest();
        let identity = Identity::new(&self.bundle, settings_digest, &config.kafka.topic);
        let metrics = Arc::clone(&self.publisher.metrics);
        let checkpoints = Checkpoints::new(store, lock, &config.checkpoints, identity, metrics);
        let pipeline = Pipeline::start(PipelineSetup {
            config,
            checkpoint_folder: &self.checkpoint_folder,
            bundle: &self.bundle,
            reader: topic.reader,
            committer: topic.committer,
            emitted: topic.emitted,
            block_learner,
            checkpoints,
            labels: self.labels.clone(),
            publisher: self.publisher.clone(),
            health: Arc::clone(&self.health),
        })?;
        info!(epoch, topic = %config.kafka.topic, "learning from the stream");
        Ok(Some(pipeline))
    }

    fn dispatch(&self, request: Request, pipeline: &Pipeline) {
        match request.order {
            Order::SetMode(mode) => {
                // Whoever gave the order may have gone.
                let _ = request.reply.send(Ok(self.set_mode(mode)));
            }
            _ => pipeline.order(request),
        }
    }
}
