//! The gRPC listeners: services of `daemon/proto`, health and reflection.

mod control;
mod errors;
mod health;
mod inference;

use std::sync::Arc;

use axum::{Router, middleware::map_response};
use tokio::sync::watch;
use tonic::{
    Request, Status,
    service::{Interceptor, Routes, interceptor::InterceptedService},
};
use tonic_health::{
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use self::{control::ControlService, inference::InferenceService};
use crate::{
    config::RequestSettings,
    metrics::Listener,
    open_inference::{self, GrpcInferenceServiceServer, OpenInference},
    proto::{control_server::ControlServer, inference_server::InferenceServer},
    serving::{Batcher, Role, Services, Tokens},
};

/// Compiled descriptors of `daemon/proto` and `event.proto`, for reflection.
const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Full names of the services that only one of the listeners has.
const INFERENCE: &str = "ostar.v1.Inference";
const CONTROL: &str = "ostar.v1.Control";

/// What the listeners are started with.
pub(crate) struct Server<'a> {
    pub(crate) services: Arc<Services>,
    pub(crate) batcher: Batcher,
    pub(crate) open_inference: OpenInference,
    pub(crate) limits: &'a RequestSettings,
    pub(crate) tokens: Arc<Tokens>,
    /// Whether callers of `grpc.listen` may see ids of events: not if it is open to anybody.
    pub(crate) shows_ids: bool,
    /// True or closed once the daemon stops.
    pub(crate) stopped: watch::Receiver<bool>,
}

// === impl Server ===

impl Server<'_> {
    /// The services of both listeners, and a task that keeps their health service up to date until `stopped`.
    pub(crate) async fn routers(
        &self,
    ) -> anyhow::Result<(Router, Router, impl Future<Output = ()> + Send + 'static)> {
        let reporter = HealthReporter::new();
        health::report(&self.services.health, &reporter).await;
        let router = |routes: Routes| {
            let router = routes.into_axum_router();
            router.layer(map_response(errors::correct_answer))
        };
        let inference = router(self.inference_routes(&reporter)?);
        let control = router(self.control_routes(&reporter)?);
        let health = Arc::clone(&self.services.health);
        let follow = health::follow(health, reporter, self.stopped.clone());
        Ok((inference, control, follow))
    }

    fn inference_routes(&self, reporter: &HealthReporter) -> anyhow::Result<Routes> {
        let inference = InferenceService {
            services: self.services.clone(),
            batcher: self.batcher.clone(),
            max_rows: self.limits.max_rows,
            shows_ids: self.shows_ids,
            stopped: self.stopped.clone(),
        };
        let inference =
            InferenceServer::new(inference).max_decoding_message_size(self.limits.max_bytes);
        let open_inference = GrpcInferenceServiceServer::new(self.open_inference.clone())
            .max_decoding_message_size(self.limits.max_bytes);
        let ask = self.ask(Listener::Grpc);
        let routes = Routes::new(InterceptedService::new(inference, ask.clone()))
            .add_service(InterceptedService::new(open_inference, ask.clone()));
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

    /// Refuses requests whose token is missing or wrong.
    fn ask(&self, listener: Listener) -> impl Interceptor + Clone + Send + Sync + 'static {
        let (tokens, services) = (Arc::clone(&self.tokens), Arc::clone(&self.services));
        let role = match listener {
            Listener::Control => Role::Control,
            Listener::Grpc | Listener::Http => Role::Predict,
        };
        move |request: Request<()>| {
            let shown = request.metadata().get("authorization");
            let shown = shown.map(|value| value.as_encoded_bytes());
            if tokens.admit(role, shown) {
                return Ok(request);
            }
            services.metrics.serving.unauthenticated(listener);
            let problem = "the bearer token is missing or wrong";
            Err(Status::unauthenticated(problem))
        }
    }
}

/// Adds health, which needs no token, and reflection, in version 1 and in v1alpha, which most clients still use.
fn with_common(
    routes: Routes,
    reporter: &HealthReporter,
    names: &[&str],
    ask: impl Interceptor + Clone + Send + Sync + 'static,
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

/// Resolves when the daemon stops.
async fn wait(stopped: &mut watch::Receiver<bool>) {
    // Fails if the sender is gone, which also means that the daemon stops.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}
