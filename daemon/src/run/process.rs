//! The parts of the process that live from start to exit, whether it learns or stands by.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use ostar_bundle::Bundle;
use ostar_connectors::event::Decoder;
use ostar_engine::Device;
use tokio::{runtime::Handle, sync::mpsc, task::spawn_blocking};
use tracing::info;

use super::{following::Following, waiting::Stopped};
use crate::{
    config::Config,
    control::{Controller, Request},
    health::Health,
    pipeline::{Publisher, SampleShare, load_learner},
    servers::{self, Servers},
    serving::Services,
    shutdown::Signals,
    state::objective,
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
    pub(crate) bundle: Bundle,
    pub(crate) health: Arc<Health>,
    pub(crate) publisher: Publisher,
    pub(super) orders: mpsc::Receiver<Request>,
    /// Serves what another process learns; `None` if none does, or it is kept in a folder.
    pub(super) following: Option<Following>,
    /// Share of the events that a scorer passes on.
    pub(super) share: Arc<SampleShare>,
    pub(crate) servers: Servers,
}

impl Process {
    /// Loads the bundle, binds the listeners, and serves the frozen model until there is something newer. Whoever holds the
    /// process says when it has started: a checkpoint may be there. [`Stopped`] if a signal comes before: nothing is held yet
    /// that would have to be given back.
    pub(super) async fn load_and_bind(config: Config, signals: &mut Signals) -> Result<Self> {
        // A large model takes seconds, in which no signal would be noticed.
        let runtime = Handle::current();
        let starting = spawn_blocking(move || runtime.block_on(Self::load(config)));
        tokio::select! {
            () = signals.stop() => Err(Stopped.into()),
            started = starting => started.context("starting the process panicked")?,
        }
    }

    async fn load(mut config: Config) -> Result<Self> {
        fail::fail_point!("loading");
        let bundle = config.load_bundle()?;
        let name = &bundle.description().name;
        config.choose_group(&bundle);
        info!(
            version = env!("CARGO_PKG_VERSION"),
            role = config.role.name(),
            topic = config.learned_topic(),
            group = config.kafka.group(),
            bundle = name,
            digest = bundle.digest(),
            state = config.state_place(),
            mode = config.serving.mode.name(),
            objective = objective(config.serving.objective),
            labels = config.labels.topic,
            "starting"
        );
        let publisher = publisher(&config, &bundle)?;
        let (controller, orders) = Controller::new();
        let health = Health::new();
        let servers = bind(&config, &bundle, &publisher, &health, controller).await?;
        Ok(Self {
            config,
            bundle,
            health,
            publisher,
            orders,
            following: None,
            share: SampleShare::new(),
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
}

/// Serves the frozen model. Only for its snapshot: the learner that learns is made once the checkpoints are this process's.
fn publisher(config: &Config, bundle: &Bundle) -> Result<Publisher> {
    let learner = load_learner(Device::Cpu, bundle, config.unlabelled_learner(), None)?;
    let status = Status {
        device: config.learner.device,
        role: config.role,
        ..Status::default()
    };
    Publisher::new(&learner, config, bundle.description(), status)
}

async fn bind(
    config: &Config,
    bundle: &Bundle,
    publisher: &Publisher,
    health: &Arc<Health>,
    controller: Controller,
) -> Result<Servers> {
    let description = bundle.description();
    let services = Services {
        current: Arc::clone(&publisher.current),
        health: Arc::clone(health),
        metrics: Arc::clone(&publisher.metrics),
        status: publisher.status.subscribe(),
        controller,
        description: description.clone(),
        decoder: Decoder::new(&config.events, &description.input, bundle.classes())?,
        config: config.clone(),
    };
    let servers = servers::serve(services, config).await?;
    info!(
        grpc_address = %servers.grpc_address,
        control_address = ?servers.control_address,
        http_address = %servers.http_address,
        "listening"
    );
    Ok(servers)
}
