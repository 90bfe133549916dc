//! Starts and stops everything that listens: gRPC, its control service, and HTTP.

mod listen;
mod parts;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Result;
use axum::Router;
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tracing::warn;

use self::{listen::Ports, parts::Parts};
use crate::{
    config::Config,
    grpc,
    health::Health,
    http,
    metrics::Listener,
    open_inference::{self, OpenInference},
    page::Page,
    serving::{Batcher, Services, Tokens, Workers, token},
    transport::{self, Connections, Endpoint, Protocol, Tls, Uploads},
};

/// The running servers, until [`Servers::stop`].
pub(crate) struct Servers {
    pub(crate) grpc_address: SocketAddr,
    pub(crate) control_address: Option<SocketAddr>,
    pub(crate) http_address: SocketAddr,
    /// The gRPC listeners, and what follows something for all listeners.
    grpc: Parts,
    /// The HTTP listener and the page.
    http: Parts,
    workers: Workers,
}

/// What every listener is started with.
struct Shared<'a> {
    settings: &'a Config,
    tls: Option<Arc<Tls>>,
    services: Arc<Services>,
    uploads: Arc<Uploads>,
    /// Most connections of each listener.
    most: usize,
    listeners: Vec<Arc<Connections>>,
}

/// Time that open HTTP requests get to end. They are short.
const HTTP_DRAIN: Duration = Duration::from_secs(1);

/// Starts all listeners. Errors name the key of the address that is taken or the file that is wrong.
pub(crate) async fn serve(services: Services, settings: &Config) -> Result<Servers> {
    let tls = Tls::load(&settings.tls)?;
    let tokens = Tokens::open(&settings.auth, token::LOOK_EVERY)?;
    serve_with_secrets(services, settings, tls, tokens).await
}

async fn serve_with_secrets(
    services: Services,
    settings: &Config,
    tls: Option<Arc<Tls>>,
    tokens: Arc<Tokens>,
) -> Result<Servers> {
    let ports = Ports::bind(settings)?;
    warn_of_open_listeners(settings, &services.health);
    let (grpc_address, http_address) = (ports.grpc.local_addr()?, ports.http.local_addr()?);
    let control_address = ports.control.as_ref().map(|port| port.local_addr());
    let control_address = control_address.transpose()?;

    let services = Arc::new(services);
    let batcher = Batcher::new(&services, &settings.requests);
    let workers = Workers::start(&batcher, &settings.requests)?;
    let (mut grpc, mut http) = (Parts::new(&services.health), Parts::new(&services.health));
    let open_inference = OpenInference::new(services.clone(), batcher.clone(), &settings.requests);
    let page = Page::new(services.clone(), settings.open_http().is_none());
    let router = http::router(
        services.clone(),
        open_inference::router(open_inference.clone()),
        page.clone(),
        &settings.http,
        &tokens,
    );
    let server = grpc::Server {
        services: services.clone(),
        batcher,
        open_inference,
        limits: &settings.requests,
        tokens: Arc::clone(&tokens),
        shows_ids: settings.open_grpc().is_none(),
        stopped: grpc.stopped(),
    };
    let (inference, control, follow_health) = server.routers().await?;
    let count = 2 + usize::from(ports.control.is_some());
    let mut shared = Shared {
        settings,
        tls,
        uploads: Uploads::new(&settings.requests, services.metrics.clone()),
        most: transport::usable_connections(settings.connections.max, count),
        listeners: Vec::new(),
        services,
    };

    let endpoint = shared.endpoint(Listener::Http, router, &http);
    http.start("HTTP listener", transport::serve(ports.http, endpoint));
    let follow_page = page.follow(http.stopped());
    http.start("live page", done(follow_page));
    let endpoint = shared.endpoint(Listener::Grpc, inference, &grpc);
    grpc.start("gRPC listener", transport::serve(ports.grpc, endpoint));
    if let Some(port) = ports.control {
        let endpoint = shared.endpoint(Listener::Control, control, &grpc);
        grpc.start("control listener", transport::serve(port, endpoint));
    }
    grpc.start("gRPC health service", done(follow_health));
    let limits = settings.connections.clone();
    let watch = transport::watch(shared.listeners, shared.uploads, limits, http.stopped());
    http.start("connection watchdog", done(watch));
    let Services {
        health, metrics, ..
    } = &*shared.services;
    let follow = tokens.follow(health.clone(), http.stopped());
    http.start("token files", done(follow));
    if let Some(tls) = shared.tls {
        let follow = tls.follow(
            transport::LOOK_EVERY,
            health.clone(),
            metrics.clone(),
            http.stopped(),
        );
        http.start("TLS files", done(follow));
    }
    Ok(Servers {
        grpc_address,
        control_address,
        http_address,
        grpc,
        http,
        workers,
    })
}

/// Once for the life of the process: listeners do not change.
fn warn_of_open_listeners(settings: &Config, health: &Health) {
    let open = settings.open_listeners();
    for listener in &open {
        warn!(key = listener.key, address = %listener.address, "a listener is open to whoever reaches it");
    }
    if !open.is_empty() {
        let reasons: Vec<_> = open.iter().map(ToString::to_string).collect();
        health.set_condition("listeners", reasons.join("; "));
    }
}

async fn done(part: impl Future<Output = ()>) -> Result<()> {
    part.await;
    Ok(())
}

// === impl Shared ===

impl Shared<'_> {
    fn endpoint(&mut self, listener: Listener, router: Router, parts: &Parts) -> Endpoint {
        let metrics = self.services.metrics.clone();
        let settings = &self.settings.connections;
        let connections = Connections::new(listener, self.most, settings, metrics);
        self.listeners.push(Arc::clone(&connections));
        Endpoint {
            protocol: match listener {
                Listener::Http => Protocol::Http,
                Listener::Grpc | Listener::Control => Protocol::Grpc,
            },
            router,
            tls: self.tls.clone(),
            connections,
            uploads: self.uploads.clone(),
            stopped: parts.stopped(),
        }
    }
}

// === impl Servers ===

impl Servers {
    /// Stops accepting, and waits until every accepted request is answered, but no longer than `drain`.
    pub(crate) async fn stop(mut self, drain: Duration) {
        let http_drain = HTTP_DRAIN.min(drain / 2);
        let deadline = Instant::now() + (drain - http_drain);
        self.grpc.stop();
        let drained = timeout_at(deadline, self.grpc.ended());
        if drained.await.is_err() {
            warn!(?drain, "drain deadline passed with requests still open");
        }
        let workers = self.workers;
        let finished = spawn_blocking(move || workers.finish());
        // HTTP stops last: /readyz says until the end why the process is not ready.
        self.http.stop();
        let deadline = Instant::now() + http_drain;
        let _ = timeout_at(deadline, self.http.ended()).await;
        let _ = timeout_at(deadline, finished).await;
    }
}
