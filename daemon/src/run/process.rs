//! The parts of the process that live from start to exit, whether it learns or stands by.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::{Context, Result};
use ostar_bundle::Bundle;
use ostar_connectors::{
    event::Decoder,
    labels::{LabelJoin, LabelReport},
};
use ostar_engine::Device;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task::spawn_blocking,
};
use tracing::{info, warn};

use crate::{
    config::{Config, RunConfig},
    control::{Controller, Request},
    current::{Current, ServingMode, Version},
    health::Health,
    metrics::Metrics,
    pipeline::{Publisher, load_learner},
    servers::{self, Servers},
    serving::Services,
    shutdown::Signals,
    status::Status,
};

/// Longest time that open requests get to be answered at the end; at most half of the shutdown deadline.
const DRAIN: Duration = Duration::from_secs(5);

/// Longest time for stopping after a part has failed.
const FAILED: Duration = Duration::from_millis(1_500);

/// A process that serves. What else it does is up to whoever holds it.
pub(crate) struct Process {
    /// With `kafka.group` filled in.
    pub(crate) config: Config,
    /// `bundle.path`.
    pub(super) bundle_folder: PathBuf,
    /// `checkpoints.folder`; `None` if what is learned is kept in a topic, or by others.
    pub(super) checkpoint_folder: Option<PathBuf>,
    pub(crate) bundle: Arc<Bundle>,
    pub(crate) health: Arc<Health>,
    pub(crate) publisher: Publisher,
    /// `None` if `labels.topic` is not set.
    pub(crate) labels: Option<Arc<Mutex<LabelJoin>>>,
    pub(crate) orders: mpsc::Receiver<Request>,
    pub(crate) servers: Servers,
}

impl Process {
    /// Loads the bundle and serves the frozen model until there is something newer. Whoever holds it says when it has
    /// started: a checkpoint may be there. `None` if it is told to stop before: nothing is held yet that would have to be
    /// given back.
    pub(crate) async fn start(config: RunConfig, signals: &mut Signals) -> Result<Option<Self>> {
        // A large model takes seconds, in which no signal would be noticed.
        let runtime = Handle::current();
        let starting = spawn_blocking(move || runtime.block_on(Self::load(config)));
        tokio::select! {
            () = signals.stop() => Ok(None),
            started = starting => Ok(Some(started.context("starting the process panicked")??)),
        }
    }

    async fn load(config: RunConfig) -> Result<Self> {
        let RunConfig {
            bundle_folder,
            checkpoint_folder,
            mut config,
        } = config;
        fail::fail_point!("loading");
        let bundle = Bundle::load(&bundle_folder)
            .with_context(|| format!("cannot load bundle.path = {bundle_folder:?}"))?;
        let bundle = Arc::new(bundle);
        let health = Health::new();
        let description = bundle.description();
        if config.kafka.group.is_none() {
            let group = config.kafka.default_group(&description.name);
            config.kafka.group = Some(group);
        }
        let metrics = Metrics::new(description, &config.metrics)?;
        // Only for its first snapshot: the learner that learns is made once the checkpoints are this process's.
        let learner = load_learner(
            Device::Cpu,
            &bundle,
            &config.learner.method,
            config.serving.objective,
            None,
            None,
        )?;
        let current = Current::new(learner.snapshot(), Version::default(), config.serving.mode);
        let (status, watched) = watch::channel(Status {
            device: config.learner.device,
            role: config.role,
            ..Status::default()
        });
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
        let servers = servers::serve(services, &config).await?;
        if let Some(address) = servers.control_address {
            info!(%address, "taking orders from `ostard ctl`");
        }
        let labels = config
            .labels
            .topic
            .is_some()
            .then(|| Arc::new(Mutex::new(label_join(&config, bundle.classes()))));
        Ok(Self {
            config,
            bundle_folder,
            checkpoint_folder,
            bundle,
            health,
            publisher: Publisher {
                current,
                metrics,
                status,
            },
            labels,
            orders,
            servers,
        })
    }

    /// Answers the requests that were accepted, and stops listening.
    pub(crate) async fn stop_serving(self) {
        let drain = self.drain();
        self.servers.stop(drain).await;
    }

    /// Longest time for stopping. A part that has failed may hold up the others for as long as they are waited for: the
    /// next process is of more use than an orderly end.
    pub(super) fn shutdown_deadline(&self) -> Duration {
        let deadline = self.config.shutdown.deadline.get();
        match self.health.liveness() {
            Ok(()) => deadline,
            Err(_) => deadline.min(FAILED),
        }
    }

    /// The part of the shutdown deadline that is kept for open requests.
    pub(super) fn drain(&self) -> Duration {
        DRAIN.min(self.shutdown_deadline() / 2)
    }

    /// What late labels have shown so far; `None` if none are read.
    pub(crate) fn label_report(&self) -> Option<LabelReport> {
        let join = self.labels.as_ref()?;
        Some(join.lock().unwrap_or_else(PoisonError::into_inner).report())
    }

    /// Changes the serving mode; gives the reply to the order.
    pub(super) fn set_mode(&self, mode: ServingMode) -> String {
        set_mode(&self.publisher, mode)
    }
}

/// Changes the serving mode; gives the reply to the order.
fn label_join(config: &Config, classes: usize) -> LabelJoin {
    let join = LabelJoin::new(&config.labels, classes);
    if join.capacity() < config.labels.cache {
        warn!(
            classes,
            predictions = join.capacity(),
            cache = config.labels.cache,
            "labels.cache_bytes has room for fewer predictions than labels.cache"
        );
    }
    join
}

pub(super) fn set_mode(publisher: &Publisher, mode: ServingMode) -> String {
    publisher.current.set_mode(mode);
    // The mode is not part of the status, but watchers of the state are told both: wake them.
    publisher.status.send_modify(|_| ());
    info!(mode = mode.name(), "serving mode changed");
    format!("serving mode is {}", mode.name())
}
