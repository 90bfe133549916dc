//! HTTP: health, metrics, the live page, and the Open Inference Protocol over REST.

use std::{io, net::SocketAddr, net::TcpListener, sync::Arc};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use axum_server::{Handle, tls_rustls::RustlsAcceptor};
use serde_json::json;
use tracing::error;

use crate::{
    config::HttpSettings,
    metrics::Listener,
    page::{self, Page},
    serving::{Services, Tls, TokenFile},
};

/// The content type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All paths. The token guards everything but health, because kubelets have none, and the page's files.
pub(crate) fn router(
    services: Arc<Services>,
    open_inference: Router<Arc<Services>>,
    page: Arc<Page>,
    settings: &HttpSettings,
    token: Option<Arc<TokenFile>>,
) -> Router {
    let health = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/startupz", get(startupz));
    let page = page::routes(page, token.is_some());
    let metrics = Router::new().route("/metrics", get(metrics));
    let (open, guarded) = if settings.metrics_without_token {
        (health.merge(metrics), page.guarded)
    } else {
        (health, page.guarded.merge(metrics))
    };
    let status = Router::new().route("/status", get(status));
    let guarded = guarded.merge(status).merge(open_inference);
    let guarded = match token {
        None => guarded,
        Some(token) => {
            let state = (services.clone(), token);
            guarded.route_layer(middleware::from_fn_with_state(state, ask_for_token))
        }
    };
    open.merge(page.open).merge(guarded).with_state(services)
}

/// Serves until the handle shuts it down.
pub(crate) fn serve(
    port: TcpListener,
    router: Router,
    tls: Option<&Tls>,
    handle: Handle<SocketAddr>,
) -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let server = axum_server::from_tcp(port)?.handle(handle);
    let service = router.into_make_service();
    let acceptor = tls.map(|tls| RustlsAcceptor::new(tls.http.clone()));
    Ok(async move {
        let ended = match acceptor {
            None => server.serve(service).await,
            Some(acceptor) => server.acceptor(acceptor).serve(service).await,
        };
        if let Err(problem) = ended {
            error!(%problem, "HTTP server failed");
        }
    })
}

async fn livez(State(services): State<Arc<Services>>) -> Response {
    answer(services.health.liveness())
}

async fn readyz(State(services): State<Arc<Services>>) -> Response {
    let health = &services.health;
    match health.readiness() {
        // Whoever asks whether it is ready may want to know what is wrong nevertheless.
        Ok(()) => {
            let conditions = health.conditions();
            let lines = conditions
                .iter()
                .map(|(part, reason)| format!("{part}: {reason}\n"));
            ("ok\n".to_owned() + &lines.collect::<String>()).into_response()
        }
        Err(reason) => answer(Err(reason)),
    }
}

/// What is wrong although predictions are served, by part, and how far the learner is.
async fn status(State(services): State<Arc<Services>>) -> Response {
    let status = services.status.borrow().clone();
    let version = services.current.load().version;
    Json(json!({
        "ready": services.health.readiness().is_ok(),
        "not_ready_because": services.health.readiness().err(),
        "conditions": services.health.conditions(),
        "version": version.to_string(),
        "mode": services.current.mode().name(),
        "device": status.device,
        "events": status.events,
        "shares_at_ms": status.shares_at_ms,
        "paused": status.paused,
        "standby": status.standby,
    }))
    .into_response()
}

async fn startupz(State(services): State<Arc<Services>>) -> Response {
    let started = services.health.is_started();
    answer(if started {
        Ok(())
    } else {
        Err("starting: no model loaded yet".into())
    })
}

fn answer(health: Result<(), String>) -> Response {
    match health {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason + "\n").into_response(),
    }
}

async fn metrics(State(services): State<Arc<Services>>) -> Response {
    let Services {
        current,
        health,
        metrics,
        status,
        ..
    } = &*services;
    metrics.process.observe(current, health, &status.borrow());
    match metrics.render() {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Err(problem) => {
            error!(%problem, "cannot render metrics");
            (StatusCode::INTERNAL_SERVER_ERROR, problem.to_string()).into_response()
        }
    }
}

async fn ask_for_token(
    State((services, token)): State<(Arc<Services>, Arc<TokenFile>)>,
    request: Request,
    next: Next,
) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    if token.admits(shown.map(|value| value.as_bytes())) {
        return next.run(request).await;
    }
    services.metrics.serving.unauthenticated(Listener::Http);
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    // The Open Inference Protocol wants errors in this form; the other paths prescribe none.
    let problem = json!({ "error": "the bearer token is missing or wrong" });
    (StatusCode::UNAUTHORIZED, challenge, Json(problem)).into_response()
}
