//! Starts and stops everything that listens: gRPC, its control service, and HTTP.

mod listen;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum_server::Handle;
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{Instant, timeout_at},
};
use tracing::{info, warn};

use self::listen::Ports;
use crate::{
    config::ServeSettings,
    grpc, http,
    open_inference::{self, OpenInference},
    page::Page,
    serving::{Batcher, Services, Tls, TokenFile, Workers},
};

/// The running servers, until [`Servers::stop`].
pub(crate) struct Servers {
    pub(crate) grpc_address: SocketAddr,
    pub(crate) control_address: Option<SocketAddr>,
    pub(crate) http_address: SocketAddr,
    /// Sends true to end streams and stop accepting; dropping it does the same.
    stopping: watch::Sender<bool>,
    /// The gRPC servers, and the task that keeps their health service up to date.
    grpc: JoinSet<()>,
    http: JoinSet<()>,
    http_handle: Handle<SocketAddr>,
    workers: Workers,
}

/// Time that open HTTP requests get to end. They are short.
const HTTP_DRAIN: Duration = Duration::from_secs(1);

/// Starts all listeners. Errors name the key of the address that is taken or the file that is wrong.
pub(crate) async fn serve(services: Services, settings: &ServeSettings) -> anyhow::Result<Servers> {
    let tls = Tls::load(&settings.tls)?;
    let token = settings.auth.token_file.as_deref();
    let token = token.map(TokenFile::open).transpose()?.map(Arc::new);
    serve_with_token(services, settings, tls, token).await
}

async fn serve_with_token(
    services: Services,
    settings: &ServeSettings,
    tls: Option<Tls>,
    token: Option<Arc<TokenFile>>,
) -> anyhow::Result<Servers> {
    let ports = Ports::bind(settings)?;
    let (grpc_address, http_address) = (ports.grpc.local_addr()?, ports.http.local_addr()?);
    let control_address = ports.control.as_ref().map(|port| port.local_addr());
    let control_address = control_address.transpose()?;

    let services = Arc::new(services);
    let batcher = Batcher::new(&services, &settings.requests);
    let workers = Workers::start(&batcher, &settings.requests)?;
    let (stopping, stopped) = watch::channel(false);
    let http_handle = Handle::new();
    let mut http = JoinSet::new();
    let open_inference = OpenInference::new(services.clone(), batcher.clone(), &settings.requests);
    let rest = open_inference::router(open_inference.clone());
    let page = Page::new(services.clone());
    http.spawn(page.clone().follow(stopped.clone()));
    let router = http::router(services.clone(), rest, page, &settings.http, token.clone());
    http.spawn(http::serve(
        ports.http,
        router,
        tls.as_ref(),
        http_handle.clone(),
    )?);
    let grpc = grpc::Server {
        services,
        batcher,
        open_inference,
        limits: &settings.requests,
        tls: tls.map(|tls| tls.grpc),
        token,
        stopped,
    };
    let grpc = grpc.spawn(ports.grpc, ports.control).await?;
    info!(%grpc_address, ?control_address, %http_address, "listening");
    Ok(Servers {
        grpc_address,
        control_address,
        http_address,
        stopping,
        grpc,
        http,
        http_handle,
        workers,
    })
}

// === impl Servers ===

impl Servers {
    /// Stops accepting, and waits until every accepted request is answered, but no longer than `drain`.
    pub(crate) async fn stop(mut self, drain: Duration) {
        let http_drain = HTTP_DRAIN.min(drain / 2);
        let deadline = Instant::now() + (drain - http_drain);
        self.stopping.send_replace(true);
        let drained = timeout_at(deadline, async {
            while self.grpc.join_next().await.is_some() {}
        });
        if drained.await.is_err() {
            warn!(?drain, "drain deadline passed with requests still open");
        }
        let workers = self.workers;
        let finished = spawn_blocking(move || workers.finish());
        // HTTP stops last: /readyz says until the end why the process is not ready.
        self.http_handle.graceful_shutdown(Some(http_drain));
        while self.http.join_next().await.is_some() {}
        let _ = timeout_at(deadline + http_drain, finished).await;
    }
}
