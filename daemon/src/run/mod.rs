//! `ostard run`: serves, waits for the checkpoint lock, learns, and stops in order.

mod following;
mod leading;
mod offsets;
mod process;
mod resume;
mod scorer;
mod standby;
mod topic;

use std::{
    sync::Arc,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};
use ostar_bundle::Bundle;
use ostar_connectors::{
    checkpoint::{Checkpoint, CheckpointStore, Newest, WriterLock, digest},
    kafka::{Commits, Committer, KafkaSettings, Reader, Start, Writer},
};
use tracing::{error, info};

pub(crate) use self::process::Process;
use self::{
    offsets::Known,
    process::set_mode,
    resume::resume,
    topic::{OpenTopic, open_samples, wait_for},
};
use crate::{
    config::{Config, Role, RunConfig},
    control::{Order, Request},
    error_text::one_line,
    pipeline::{
        BlockLearner, Checkpoints, Emitted, EventSource, Identity, Learning, Parts, Pipeline,
        PipelineSetup, Store, carry_out_before_reading, load_learner, show_damaged,
    },
    shutdown::Signals,
};

/// Runs until a signal; `Ok` means that everything was finished before the shutdown deadline.
pub(crate) async fn run(config: RunConfig, signals: &mut Signals) -> Result<()> {
    let Some(mut process) = Process::start(config, signals).await? else {
        return Ok(());
    };
    signals.stop_on_failure(&process.health);
    let outcome = process.live(signals).await;
    let failed = process.health.liveness();
    process.stop_serving().await;
    match (failed, outcome) {
        // The same failure, by its type: the exit code depends on it.
        (Err(first), Err(error)) if first == format!("{error:#}") => Err(error),
        // The first failure is the reason; what `live` tells may be a consequence.
        (Err(first), _) => Err(anyhow::Error::msg(first)),
        (Ok(()), outcome) => outcome,
    }
}

/// What a process that learns has got hold of: nobody else writes there.
struct Held {
    store: Store,
    newest: Option<Checkpoint>,
    epoch: u64,
}

/// Whether a start could resume: from this checkpoint, with these commits of the group.
pub(crate) fn check_resume(
    config: &RunConfig,
    bundle: &Bundle,
    newest: Option<Checkpoint>,
    commits: &Commits,
) -> Result<()> {
    let resumed = resume(&config.config, &config.bundle_folder, bundle, newest)?;
    let known = Known {
        learned: resumed.progress.offsets,
        topic_id: resumed.progress.topic_id,
        writer: writer(resumed.earlier.as_ref(), &place(&config.config), bundle),
        earlier: resumed.earlier,
    };
    known.own(commits, &config.config.kafka)?;
    Ok(())
}

/// What a learner reads.
enum Source {
    Events(OpenTopic),
    Samples {
        reader: Reader,
        committer: Committer,
    },
}

/// How a learner reads samples: from their beginning, and with a group of its own that tools can watch.
fn learner_settings(config: &Config) -> KafkaSettings {
    KafkaSettings {
        topic: config.learned_topic().to_owned(),
        group: Some(format!("{}-samples", config.kafka.group())),
        start: Start::Earliest,
        start_time_ms: None,
        ..config.kafka.clone()
    }
}

/// Where what is learned is kept.
fn place(config: &Config) -> String {
    let folder = config.checkpoints.folder.as_ref();
    match (folder, &config.checkpoints.topic) {
        (Some(folder), _) if config.keeps_folder() => folder.display().to_string(),
        (_, topic) => format!("topic {}", topic.as_deref().unwrap_or_default()),
    }
}

/// Who this daemon is in commits to the group: whoever wrote the checkpoints of the folder, or somebody new.
fn writer(earlier: Option<&resume::Earlier>, place: &str, bundle: &Bundle) -> Writer {
    let known = earlier.map(|earlier| earlier.writer.clone());
    let id = known.unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let moment = (now.unwrap_or_default().as_nanos(), std::process::id());
        digest(format!("{moment:?} {place}").as_bytes())
    });
    Writer {
        id,
        bundle: bundle.description().name.clone(),
    }
}

impl Process {
    /// Does what its role is until a signal.
    pub(crate) async fn live(&mut self, signals: &mut Signals) -> Result<()> {
        match self.config.role {
            Role::Scorer => self.score(signals).await,
            Role::All | Role::Learner => self.learn(signals).await,
        }
    }

    /// Stands by until nobody else learns here, then learns until a signal.
    async fn learn(&mut self, signals: &mut Signals) -> Result<()> {
        let held = match self.checkpoint_folder.clone() {
            Some(folder) => {
                let store = CheckpointStore::open(folder, self.config.checkpoints.keep)?;
                let lock = standby::wait_for_lock(self, &store, signals).await?;
                lock.map(|lock| self.hold_folder(store, lock)).transpose()?
            }
            None => leading::wait_to_lead(self, signals).await?,
        };
        let Some(held) = held else {
            return Ok(());
        };
        let Some(mut pipeline) = self.start_pipeline(held, signals).await? else {
            return Ok(());
        };
        let failure = loop {
            tokio::select! {
                () = signals.stop() => break None,
                failure = pipeline.failure() => break Some(failure),
                Some(request) = self.orders.recv() => self.dispatch(request, &pipeline),
            }
        };
        self.stop_pipeline(pipeline, failure).await
    }

    /// Ends the pipeline in order. If it has failed, that is the outcome.
    async fn stop_pipeline(
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

    /// The folder is this process's.
    fn hold_folder(&self, store: CheckpointStore, lock: WriterLock) -> Result<Held> {
        let Newest {
            checkpoint: newest,
            damaged,
        } = store.resume(&lock)?;
        let found = damaged.first().map(|first| {
            let instead = match &newest {
                Some(newest) => format!("resumed from {}", newest.path.display()),
                None => "no intact one is left: learning from nothing".to_owned(),
            };
            let others = match damaged.len() {
                1 => String::new(),
                all => format!(" (and {} more)", all - 1),
            };
            format!("{first}{others}; {instead}")
        });
        if let Some(found) = &found {
            error!(found, "started without damaged checkpoints");
        }
        show_damaged(&store, found, &self.health, &self.publisher.metrics);
        let last_epoch = newest.as_ref().map_or(0, |newest| newest.manifest.epoch);
        let epoch = self.claim_epoch(&store, &lock, last_epoch);
        Ok(Held {
            store: Store::Folder { store, lock },
            newest,
            epoch,
        })
    }

    /// Resumes from the newest checkpoint and starts the threads; `None` if the process is told to stop before the topic
    /// can be read.
    async fn start_pipeline(
        &mut self,
        held: Held,
        signals: &mut Signals,
    ) -> Result<Option<Pipeline>> {
        let (mut block_learner, known) = self.resume_learner(held.newest, held.epoch)?;
        self.health.set_started();
        let opened = self.open_source(&known, &mut block_learner, signals);
        let Some(source) = opened.await? else {
            return Ok(None);
        };
        let pipeline = Pipeline::start(PipelineSetup {
            config: &self.config,
            bundle: &self.bundle,
            parts: self.parts(held.store, source, &known, block_learner),
            publisher: self.publisher.clone(),
            health: Arc::clone(&self.health),
        })?;
        info!(
            epoch = held.epoch,
            topic = self.config.learned_topic(),
            device = %self.config.learner.device,
            "learning from the stream"
        );
        Ok(Some(pipeline))
    }

    /// The learner as the newest checkpoint has it. It is served and shown before anything waits for Kafka.
    fn resume_learner(
        &self,
        newest: Option<Checkpoint>,
        epoch: u64,
    ) -> Result<(BlockLearner, Known)> {
        let config = &self.config;
        let resumed = resume(config, &self.bundle_folder, &self.bundle, newest)?;
        let learner = load_learner(
            config.learner.device,
            &self.bundle,
            config.learner_settings(&self.bundle.description().classes)?,
            resumed.state.as_deref(),
        )?;
        let known = Known {
            learned: resumed.progress.offsets.clone(),
            topic_id: resumed.progress.topic_id.clone(),
            writer: writer(resumed.earlier.as_ref(), &place(config), &self.bundle),
            earlier: resumed.earlier,
        };
        let mut block_learner = BlockLearner::new(
            learner,
            &config.learner,
            epoch,
            resumed.progress,
            resumed.shares,
            self.publisher.clone(),
        );
        block_learner.obey(&resumed.orders);
        Ok((block_learner, known))
    }

    /// Waits until what the learner reads can be read, and carries out orders meanwhile. `None` if the process is told to
    /// stop.
    async fn open_source(
        &mut self,
        known: &Known,
        block_learner: &mut BlockLearner,
        signals: &mut Signals,
    ) -> Result<Option<Source>> {
        let publisher = &self.publisher;
        let carry_out = |request: Request| match request.order {
            Order::SetMode(mode) => drop(request.reply.send(Ok(set_mode(publisher, mode)))),
            _ => carry_out_before_reading(request, block_learner),
        };
        let patience = self.config.kafka.patience.get();
        let (health, orders, known) = (&self.health, &mut self.orders, known.clone());
        if self.config.role == Role::Learner {
            let settings = learner_settings(&self.config);
            let open = move || open_samples(&settings, &known);
            let opened = wait_for(open, patience, health, signals, orders, carry_out).await?;
            return Ok(opened.map(|(reader, committer)| Source::Samples { reader, committer }));
        }
        let settings = self.config.kafka.clone();
        let open = move || OpenTopic::open(&settings, &known);
        let opened = wait_for(open, patience, health, signals, orders, carry_out).await?;
        Ok(opened.map(Source::Events))
    }

    /// What the pipeline runs. A first checkpoint claims the epoch and keeps where partitions began.
    fn parts(
        &self,
        mut store: Store,
        source: Source,
        known: &Known,
        mut block_learner: BlockLearner,
    ) -> Parts {
        let (reader, emitted) = match &source {
            Source::Events(topic) => (&topic.reader, topic.emitted.clone()),
            Source::Samples { reader, .. } => (reader, Default::default()),
        };
        block_learner.begin(&reader.offsets(), reader.topic_id());
        let emitted = Emitted::new(emitted);
        if let (Store::Topic(store), Source::Samples { committer, .. }) = (&mut store, &source) {
            store.commit_with(committer.clone());
        }
        let digest = self.config.learner.digest();
        let topic = self.config.learned_topic();
        let mut checkpoints = Checkpoints::new(
            store,
            &self.config.checkpoints,
            Identity::new(&self.bundle, digest, topic, &known.writer.id),
            Arc::clone(&emitted),
            Arc::clone(&self.publisher.metrics),
            Arc::clone(&self.health),
        );
        // A full disk must not stop serving.
        if let Err(error) = checkpoints.write(&block_learner) {
            error!(error = %one_line(&error), "cannot write a checkpoint");
        }
        let learning = Box::new(Learning {
            block_learner,
            checkpoints,
        });
        match source {
            Source::Events(topic) => Parts::All {
                events: EventSource {
                    reader: topic.reader,
                    committer: topic.committer,
                    emitted,
                },
                learning,
            },
            Source::Samples { reader, .. } => Parts::Learner {
                samples: reader,
                learning,
            },
        }
    }

    /// The epoch of this process. If the folder cannot be written, checkpoints will fail, too: that is told at once.
    fn claim_epoch(&self, store: &CheckpointStore, lock: &WriterLock, last: u64) -> u64 {
        store.claim_epoch(lock, last).unwrap_or_else(|error| {
            error!(%error, "cannot write to the checkpoint folder");
            self.publisher.metrics.checkpoints.failed();
            let reason = format!("{error}; a restart learns again what no checkpoint holds");
            self.health.set_condition("checkpoints", reason);
            last + 1
        })
    }

    fn dispatch(&self, request: Request, pipeline: &Pipeline) {
        match request.order {
            Order::SetMode(mode) => {
                // Whoever gave the order may have gone.
                let _ = request.reply.send(Ok(self.set_mode(mode)));
                // An order survives a crash. Nobody waits for this checkpoint.
                let (reply, _) = tokio::sync::oneshot::channel();
                let order = Order::Checkpoint;
                pipeline.order(Request { order, reply });
            }
            _ => pipeline.order(request),
        }
    }
}
