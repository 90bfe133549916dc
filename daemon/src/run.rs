//! `ostard run`: the life of the process, from configuration to a clean end.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use ostar_connectors::{
    checkpoint::{Checkpoint, CheckpointStore, WriterLock},
    event::{Decoder, Offsets},
    kafka::{Committer, Connection, KafkaError, KafkaSettings, Reader, Start},
    labels::{LabelJoin, LabelReport},
};
use ostar_model::Bundle;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

use crate::{
    config::{Config, OnBundleChange},
    control::{Controller, Order, Request},
    current::{Current, Version},
    health::Health,
    metrics::Metrics,
    pipeline::{Checkpoints, Identity, Learning, Outlets, Parts, Pipeline, Progress, load_learner},
    serving::{self, Running, Services},
    shutdown::Signals,
    standby,
    status::Status,
};

/// Parts that live from the first moment to the last, whoever writes the checkpoints.
pub(crate) struct Process {
    pub(crate) config: Config,
    pub(crate) bundle: Bundle,
    pub(crate) health: Arc<Health>,
    pub(crate) outlets: Outlets,
    pub(crate) labels: Option<Arc<Mutex<LabelJoin>>>,
    pub(crate) orders: mpsc::Receiver<Request>,
    pub(crate) serving: Running,
}

/// How long open requests may take to be answered at the end; at most half of the deadline.
const DRAIN: Duration = Duration::from_secs(5);

/// Runs until a signal; `Ok` means that everything was finished in time.
pub(crate) async fn run(config: Config, signals: &mut Signals) -> Result<()> {
    let mut process = Process::start(config).await?;
    let outcome = process.live(signals).await;
    process.stop_serving().await;
    outcome
}

// === impl Process ===

impl Process {
    /// Loads the bundle and serves the frozen model, or the newest checkpoint.
    pub(crate) async fn start(config: Config) -> Result<Self> {
        let folder = config.bundle.path.as_deref().unwrap_or(Path::new(""));
        let bundle = Bundle::load(folder)
            .with_context(|| format!("cannot load bundle.path = {:?}", folder.display()))?;
        let health = Health::new();
        let description = bundle.description();
        let metrics = Metrics::new(description);
        let learner = load_learner(&bundle, &config.learner.method, None)?;
        let current = Current::new(learner.snapshot(), Version::default(), config.serving.mode);
        let (status, watched) = watch::channel(Status::default());
        let (controller, orders) = Controller::new();
        let decoder = Decoder::new(&config.events, &description.input, bundle.classes())?;
        let read_input = move |input: &_, rows: &mut _| {
            decoder
                .push_input(input, rows)
                .map_err(|reject| reject.to_string())
        };
        let services = Services {
            current: Arc::clone(&current),
            health: Arc::clone(&health),
            metrics: Arc::clone(&metrics),
            status: watched,
            controller,
            description: description.clone(),
            read_input: Box::new(read_input),
            config: config.clone(),
        };
        let serving = serving::serve(services, &config.serve_settings()).await?;
        if let Some(address) = serving.control_address {
            info!(%address, "taking orders from `ostard ctl`");
        }
        health.set_started();
        let labels = config
            .labels
            .topic
            .is_some()
            .then(|| Arc::new(Mutex::new(LabelJoin::new(&config.labels, bundle.classes()))));
        Ok(Self {
            config,
            bundle,
            health,
            outlets: Outlets {
                current,
                metrics,
                status,
            },
            labels,
            orders,
            serving,
        })
    }

    /// Stands by until the checkpoint folder is free, then learns until a signal.
    pub(crate) async fn live(&mut self, signals: &mut Signals) -> Result<()> {
        let (store, lock) = match &self.config.checkpoints.folder {
            None => {
                warn!("checkpoints.folder is not set: what is learned is lost at the end");
                (None, None)
            }
            Some(folder) => {
                let store = CheckpointStore::open(folder, self.config.checkpoints.keep)?;
                let Some(lock) = standby::wait_for_lock(self, &store, signals).await? else {
                    return Ok(());
                };
                (Some(store), Some(lock))
            }
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
        // Requests are served until the pipeline has ended, and drained after it.
        let deadline = Instant::now() + self.config.shutdown.deadline.get() - self.drain();
        let stopped = tokio::task::spawn_blocking(move || pipeline.stop(deadline)).await;
        match failure {
            Some(failure) => Err(failure),
            None => stopped.context("the pipeline's end panicked")?,
        }
    }

    /// Answers what was accepted, and stops listening.
    pub(crate) async fn stop_serving(self) {
        let drain = self.drain();
        self.serving.stop(drain).await;
    }

    fn drain(&self) -> Duration {
        DRAIN.min(self.config.shutdown.deadline.get() / 2)
    }

    /// What late labels have shown so far.
    pub(crate) fn label_report(&self) -> Option<LabelReport> {
        let join = self.labels.as_ref()?;
        Some(join.lock().unwrap_or_else(PoisonError::into_inner).report())
    }

    async fn start_pipeline(
        &self,
        store: Option<CheckpointStore>,
        lock: Option<WriterLock>,
        signals: &mut Signals,
    ) -> Result<Option<Pipeline>> {
        let newest = match &store {
            None => None,
            Some(store) => store.newest()?,
        };
        let epoch = newest
            .as_ref()
            .map_or(1, |newest| newest.manifest.epoch + 1);
        let (state, learned) = self.resume_from(newest)?;
        let learner = load_learner(&self.bundle, &self.config.learner.method, state.as_deref())?;
        let Some(opened) = self.open_reader(&learned.offsets, signals).await? else {
            return Ok(None);
        };
        let learning = Learning::new(
            learner,
            &self.config.learner,
            epoch,
            learned,
            self.outlets.clone(),
        );
        let checkpoints = store.zip(lock).map(|(store, lock)| {
            let identity = Identity::new(
                &self.bundle,
                self.config.learner.digest(),
                &self.config.kafka.topic,
            );
            let metrics = Arc::clone(&self.outlets.metrics);
            Checkpoints::new(store, lock, &self.config.checkpoints, identity, metrics)
        });
        let pipeline = Pipeline::start(Parts {
            config: &self.config,
            bundle: &self.bundle,
            reader: opened.reader,
            committer: opened.committer,
            emitted: opened.emitted,
            learning,
            checkpoints,
            labels: self.labels.clone(),
            outlets: self.outlets.clone(),
            health: Arc::clone(&self.health),
        })?;
        info!(epoch, topic = %self.config.kafka.topic, "learning from the stream");
        Ok(Some(pipeline))
    }

    /// What the newest checkpoint means for this bundle.
    fn resume_from(&self, newest: Option<Checkpoint>) -> Result<(Option<Vec<u8>>, Progress)> {
        let Some(Checkpoint {
            manifest,
            state,
            path,
        }) = newest
        else {
            return Ok((None, Progress::default()));
        };
        if manifest.topic != self.config.kafka.topic {
            bail!(
                "checkpoint {} has learned from topic {:?}, kafka.topic is {:?}; set another \
                 checkpoints.folder, or go back to the topic",
                path.display(),
                manifest.topic,
                self.config.kafka.topic
            );
        }
        if manifest.bundle_digest == self.bundle.digest() {
            if manifest.settings_digest != self.config.learner.digest() {
                warn!("learner settings changed since the checkpoint was written");
            }
            info!(checkpoint = %path.display(), events = manifest.events, "going on from a checkpoint");
            let progress = Progress {
                events: manifest.events,
                offsets: manifest.offsets,
            };
            return Ok((Some(state), progress));
        }
        match self.config.checkpoints.on_bundle_change {
            OnBundleChange::Refuse => bail!(
                "checkpoint {} belongs to bundle {:?} (digest {}), bundle.path = {:?} is {:?} (digest \
                 {}); set checkpoints.on_bundle_change to \"start_anew\" to learn from here with the new \
                 bundle, to \"keep_window\" to fill its window from the events before, or go back to the \
                 old bundle",
                path.display(),
                manifest.bundle_name,
                manifest.bundle_digest,
                self.config
                    .bundle
                    .path
                    .as_deref()
                    .unwrap_or(Path::new(""))
                    .display(),
                self.bundle.description().name,
                self.bundle.digest(),
            ),
            OnBundleChange::StartAnew => {
                warn!("the bundle changed: starting anew where the checkpoint ends");
                let offsets = manifest.offsets;
                Ok((None, Progress { events: 0, offsets }))
            }
            OnBundleChange::KeepWindow => {
                warn!(
                    "the bundle changed: filling its window from the events before the checkpoint"
                );
                let offsets = rewound(&manifest.offsets, self.config.learner.method.window);
                Ok((None, Progress { events: 0, offsets }))
            }
        }
    }

    /// Waits for the broker and the topic, then reads from the lower of what was learned and what was emitted.
    async fn open_reader(
        &self,
        learned: &Offsets,
        signals: &mut Signals,
    ) -> Result<Option<Opened>> {
        let unreachable = Instant::now();
        loop {
            let (settings, learned) = (self.config.kafka.clone(), learned.clone());
            let opening = tokio::task::spawn_blocking(move || Opened::new(&settings, &learned));
            let opened = tokio::select! {
                () = signals.stop() => return Ok(None),
                opened = opening => opened.context("opening the reader panicked")?,
            };
            match opened {
                Ok(opened) => {
                    self.health.clear("kafka");
                    return Ok(Some(opened));
                }
                Err(error) if error.is_transient() => {
                    warn!(%error, "cannot reach the topic yet, trying again");
                    if unreachable.elapsed() >= self.config.kafka.patience.get() {
                        self.health.obstruct("kafka", error.to_string());
                    }
                    tokio::select! {
                        () = signals.stop() => return Ok(None),
                        () = tokio::time::sleep(RETRY) => {}
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn dispatch(&self, request: Request, pipeline: &Pipeline) {
        match request.order {
            Order::SetMode(mode) => {
                self.outlets.current.set_mode(mode);
                // Watchers of the state see the mode, too.
                self.outlets.status.send_modify(|_| ());
                info!(?mode, "serving mode changed");
                let _ = request
                    .reply
                    .send(Ok(format!("serving mode is {mode:?}").to_lowercase()));
            }
            _ => pipeline.order(request),
        }
    }
}

/// A reader that reads, and what the group knows.
struct Opened {
    reader: Reader,
    committer: Committer,
    /// Outputs of events before these offsets are flushed.
    emitted: Offsets,
}

/// How long one attempt to reach the broker takes.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Between two attempts.
const RETRY: Duration = Duration::from_secs(1);

// === impl Opened ===

impl Opened {
    fn new(settings: &KafkaSettings, learned: &Offsets) -> Result<Self, KafkaError> {
        let connection = Connection::open(settings, ATTEMPT)?;
        let committer = connection.committer();
        let emitted = connection.committed(ATTEMPT)?;
        let resume = resume_at(learned, &emitted, settings.start);
        let reader = connection.read_from(&resume, ATTEMPT)?;
        if emitted.is_empty() {
            // From now on the group tells where outputs begin, also if the first flush never comes.
            committer.commit_and_wait(&reader.offsets())?;
        }
        Ok(Self {
            reader,
            committer,
            emitted,
        })
    }
}

/// Where to read from so that nothing is left unlearned or unemitted.
fn resume_at(learned: &Offsets, emitted: &Offsets, start: Start) -> Offsets {
    if learned.is_empty() {
        // A new learner takes all there is; what was emitted before is not emitted again.
        return match start {
            Start::Earliest => Offsets::new(),
            Start::Latest | Start::Timestamp => emitted.clone(),
        };
    }
    let both = |(partition, learned): (&i32, &i64)| {
        // Without a commit the partition is new, and read from its beginning.
        let emitted = emitted.get(partition)?;
        Some((*partition, *learned.min(emitted)))
    };
    learned.iter().filter_map(both).collect()
}

/// Offsets so far back that a window of events lies after them, spread evenly over the partitions.
fn rewound(offsets: &Offsets, window: usize) -> Offsets {
    let each = window.div_ceil(offsets.len().max(1)) as i64;
    let back = |(partition, offset): (&i32, &i64)| (*partition, (offset - each).max(0));
    offsets.iter().map(back).collect()
}
