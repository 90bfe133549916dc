//! Everything that listens: gRPC, its control service, and HTTP.

mod batcher;
#[cfg(test)]
pub(crate) mod fixture;
mod listen;
mod queue;
#[cfg(test)]
mod tests;
mod tls;
mod token;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum_server::Handle;
use ostar_connectors::{event::InputRows, proto::Input};
use ostar_model::bundle::Description;
use tokio::{
    sync::watch,
    task::{JoinSet, spawn_blocking},
    time::{Instant, timeout_at},
};
use tonic::Status;
use tracing::{info, warn};

use self::listen::Ports;
pub(crate) use self::{
    batcher::{Answer, Batcher, Refusal, Workers},
    tls::Tls,
    token::TokenFile,
};
use crate::{
    config::{Config, ServeSettings},
    control::Controller,
    current::Current,
    grpc,
    health::Health,
    http,
    metrics::Metrics,
    open_inference::{self, OpenInference},
    page::Page,
    status,
};

/// Checks an input of a request and appends it to the rows, or says what is wrong with it.
pub(crate) type ReadInput = dyn Fn(&Input, &mut InputRows) -> Result<(), String> + Send + Sync;

/// The parts of the daemon that requests reach.
pub(crate) struct Services {
    pub(crate) current: Arc<Current>,
    pub(crate) health: Arc<Health>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) status: watch::Receiver<status::Status>,
    pub(crate) controller: Controller,
    /// Of the bundle.
    pub(crate) description: Description,
    pub(crate) read_input: Box<ReadInput>,
    /// What is in effect, for the page to show.
    pub(crate) config: Config,
}

/// Servers that run, until [`Running::stop`].
pub(crate) struct Running {
    pub(crate) grpc_address: SocketAddr,
    pub(crate) control_address: Option<SocketAddr>,
    pub(crate) http_address: SocketAddr,
    /// Ends streams and stops accepting; dropping it does the same.
    stopping: watch::Sender<bool>,
    /// The gRPC servers, and what keeps their health service up to date.
    grpc: JoinSet<()>,
    http: JoinSet<()>,
    http_handle: Handle<SocketAddr>,
    workers: Workers,
}

/// HTTP requests take no time; connections that are kept alive end at once.
const HTTP_DRAIN: Duration = Duration::from_secs(1);

/// Listens as the settings say. An address that is taken or a file that is wrong is an error with its key.
pub(crate) async fn serve(services: Services, settings: &ServeSettings) -> anyhow::Result<Running> {
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
) -> anyhow::Result<Running> {
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
    Ok(Running {
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

// === impl Services ===

impl Services {
    /// Checks the inputs of a request; `name` is what the client calls them.
    pub(crate) fn read_rows(
        &self,
        name: &str,
        inputs: &[Input],
        max_rows: usize,
    ) -> Result<InputRows, Status> {
        let count = inputs.len();
        if count == 0 {
            let problem = format!("{name}: is empty, expected at least one");
            return Err(Status::invalid_argument(problem));
        }
        if count > max_rows {
            let problem =
                format!("{name}: has {count}, expected at most {max_rows} (requests.max_rows)");
            return Err(Status::invalid_argument(problem));
        }
        let mut rows = self.no_rows();
        for (number, input) in inputs.iter().enumerate() {
            let problem =
                |problem| Status::invalid_argument(format!("{name}[{number}]: {problem}"));
            (self.read_input)(input, &mut rows).map_err(problem)?;
        }
        Ok(rows)
    }

    /// Rows of the bundle's kind, none yet.
    pub(crate) fn no_rows(&self) -> InputRows {
        InputRows::new(&self.description.input, self.classes())
    }

    pub(crate) fn classes(&self) -> usize {
        self.description.classes.len()
    }
}

// === impl Running ===

impl Running {
    /// Stops accepting, answers every request that was accepted, and ends; after `drain` also without.
    pub(crate) async fn stop(mut self, drain: Duration) {
        let http_drain = HTTP_DRAIN.min(drain / 2);
        let deadline = Instant::now() + (drain - http_drain);
        self.stopping.send_replace(true);
        let drained = timeout_at(deadline, async {
            while self.grpc.join_next().await.is_some() {}
        });
        if drained.await.is_err() {
            warn!(?drain, "requests were still open at the drain deadline");
        }
        let workers = self.workers;
        let finished = spawn_blocking(move || workers.finish());
        // HTTP goes last, so that /readyz tells to the end why it is not ready.
        self.http_handle.graceful_shutdown(Some(http_drain));
        while self.http.join_next().await.is_some() {}
        let _ = timeout_at(deadline + http_drain, finished).await;
    }
}
