//! The gRPC listeners: services of `daemon/proto`, health and reflection.

mod admission;
mod control;
mod health;
mod inference;
mod mode;
mod state;

use std::{net::TcpListener, sync::Arc, time::Duration};

use tokio::{net, sync::watch, task::JoinSet};
use tonic::{
    Request, Status,
    service::{Interceptor, Routes, interceptor::InterceptedService},
    transport::{
        Server as Transport, ServerTlsConfig,
        server::{Router, TcpIncoming},
    },
};
use tonic_health::{
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tracing::error;

use self::{admission::Admission, control::ControlService, inference::InferenceService};
use crate::{
    config::RequestSettings,
    metrics::Listener,
    open_inference::{self, GrpcInferenceServiceServer, OpenInference},
    proto::{control_server::ControlServer, inference_server::InferenceServer},
    serving::{Batcher, Services, TokenFile},
};

/// Compiled descriptors of `daemon/proto` and `event.proto`, for reflection.
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Full names of the services that only one of the listeners has.
const INFERENCE: &str = "ostar.v1.Inference";
const CONTROL: &str = "ostar.v1.Control";

/// Interval of HTTP/2 pings. Without them, watches of clients that vanished would stay for ever.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// What the listeners are started with.
pub(crate) struct Server<'a> {
    pub(crate) services: Arc<Services>,
    pub(crate) batcher: Batcher,
    pub(crate) open_inference: OpenInference,
    pub(crate) limits: &'a RequestSettings,
    pub(crate) tls: Option<ServerTlsConfig>,
    pub(crate) token: Option<Arc<TokenFile>>,
    /// True or closed once the daemon stops.
    pub(crate) stopped: watch::Receiver<bool>,
}

/// Refuses requests whose token is missing or wrong.
#[derive(Clone)]
struct TokenCheck {
    token: Option<Arc<TokenFile>>,
    services: Arc<Services>,
    listener: Listener,
}

// === impl Server ===

impl Server<'_> {
    /// Starts the servers. They run until `stopped`, and then until every accepted request is answered.
    pub(crate) async fn spawn(
        self,
        grpc: TcpListener,
        control: Option<TcpListener>,
    ) -> anyhow::Result<JoinSet<()>> {
        let mut tasks = JoinSet::new();
        let reporter = HealthReporter::new();
        health::report(&self.services.health, &reporter).await;
        let follow = health::follow(
            self.services.health.clone(),
            reporter.clone(),
            self.stopped.clone(),
        );
        tasks.spawn(follow);
        let routes = self.inference_routes(&reporter)?;
        tasks.spawn(serve(self.transport(routes)?, grpc, self.stopped.clone())?);
        if let Some(port) = control {
            let routes = self.control_routes(&reporter)?;
            tasks.spawn(serve(self.transport(routes)?, port, self.stopped.clone())?);
        }
        Ok(tasks)
    }

    fn transport(&self, routes: Routes) -> anyhow::Result<Router> {
        let mut transport = Transport::builder().http2_keepalive_interval(Some(KEEP_ALIVE));
        if let Some(tls) = &self.tls {
            transport = transport.tls_config(tls.clone())?;
        }
        Ok(transport.add_routes(routes))
    }

    fn inference_routes(&self, reporter: &HealthReporter) -> anyhow::Result<Routes> {
        let inference = InferenceService {
            services: self.services.clone(),
            batcher: self.batcher.clone(),
            max_rows: self.limits.max_rows,
            stopped: self.stopped.clone(),
        };
        let inference =
            InferenceServer::new(inference).max_decoding_message_size(self.limits.max_bytes);
        let open_inference = GrpcInferenceServiceServer::new(self.open_inference.clone())
            .max_decoding_message_size(self.limits.max_bytes);
        let ask = self.ask(Listener::Grpc);
        let admission = Admission::new(self.limits.queue_bytes, self.services.metrics.clone());
        let routes = Routes::new(InterceptedService::new(
            admission.before(inference),
            ask.clone(),
        ))
        .add_service(InterceptedService::new(
            admission.before(open_inference),
            ask.clone(),
        ));
        with_common(routes, reporter, &[INFERENCE, open_inference::SERVICE], ask)
    }

    fn control_routes(&self, reporter: &HealthReporter) -> anyhow::Result<Routes> {
        let control = ControlServer::new(ControlService {
            services: self.services.clone(),
        });
        let ask = self.ask(Listener::Control);
        let routes = Routes::new(InterceptedService::new(control, ask.clone()));
        with_common(routes, reporter, &[CONTROL], ask)
    }

    fn ask(&self, listener: Listener) -> TokenCheck {
        TokenCheck {
            token: self.token.clone(),
            services: self.services.clone(),
            listener,
        }
    }
}

/// Adds health, which needs no token, and reflection, in version 1 and in v1alpha, which most clients still use.
fn with_common(
    routes: Routes,
    reporter: &HealthReporter,
    names: &[&str],
    ask: TokenCheck,
) -> anyhow::Result<Routes> {
    let reflection = |itself: &str| {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .with_service_name("grpc.health.v1.Health")
            .with_service_name(itself);
        names
            .iter()
            .fold(builder, |builder, name| builder.with_service_name(*name))
    };
    let newer = reflection("grpc.reflection.v1.ServerReflection").build_v1()?;
    let older = reflection("grpc.reflection.v1alpha.ServerReflection").build_v1alpha()?;
    let health = HealthService::from_health_reporter(reporter.clone());
    Ok(routes
        .add_service(HealthServer::new(health))
        .add_service(InterceptedService::new(newer, ask.clone()))
        .add_service(InterceptedService::new(older, ask)))
}

fn serve(
    router: Router,
    port: TcpListener,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<impl Future<Output = ()> + Send + 'static> {
    let incoming = TcpIncoming::from(net::TcpListener::from_std(port)?).with_nodelay(Some(true));
    Ok(async move {
        let signal = async move { wait(&mut stopped).await };
        if let Err(problem) = router.serve_with_incoming_shutdown(incoming, signal).await {
            error!(%problem, "gRPC server failed");
        }
    })
}

/// Resolves when the daemon stops.
async fn wait(stopped: &mut watch::Receiver<bool>) {
    // Fails if the sender is gone, which also means that the daemon stops.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

// === impl TokenCheck ===

impl Interceptor for TokenCheck {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        let Some(token) = &self.token else {
            return Ok(request);
        };
        let shown = request.metadata().get("authorization");
        if token.admits(shown.map(|value| value.as_encoded_bytes())) {
            return Ok(request);
        }
        let metrics = &self.services.metrics.serving;
        metrics.unauthenticated(self.listener);
        Err(Status::unauthenticated(
            "the bearer token is missing or wrong",
        ))
    }
}
