//! HTTP: health, metrics, the live page, and the Open Inference Protocol over REST.

mod head;
mod host;

use std::sync::Arc;

use axum::{
    Extension, Json, Router,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::sync::Semaphore;
use tracing::error;

use crate::{
    config::HttpSettings,
    error_text::refusal,
    metrics::Listener,
    page::{self, Page},
    serving::{Role, Services, Tokens},
    state::describe,
};

/// The content type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Scrapes that are answered at a time. A text takes milliseconds: whoever asks for thousands of them must not keep the
/// threads busy that answer requests for predictions.
const SCRAPES: usize = 1;

/// All paths. Tokens guard everything but health, because kubelets have none, and the page's files.
pub(crate) fn router(
    services: Arc<Services>,
    open_inference: Router<Arc<Services>>,
    page: Arc<Page>,
    settings: &HttpSettings,
    tokens: &Arc<Tokens>,
) -> Router {
    let health = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/startupz", get(startupz))
        .layer(Extension(Arc::clone(tokens)));
    let guard = |routes: Router<Arc<Services>>, role| {
        if !tokens.guards(role) {
            return routes;
        }
        let state = (services.clone(), Arc::clone(tokens), role);
        routes.route_layer(middleware::from_fn_with_state(state, ask_for_token))
    };
    let page = page::routes(page, tokens.guards(Role::Control));
    let scrapes = Extension(Arc::new(Semaphore::new(SCRAPES)));
    let metrics = Router::new().route("/metrics", get(metrics).layer(scrapes));
    let metrics = if settings.metrics_without_token {
        metrics
    } else {
        guard(metrics, Role::Metrics)
    };
    let state = Router::new().route("/state", get(state));
    let orders = page.orders.map(|orders| guard(orders, Role::Control));
    let orders = orders.unwrap_or_default();
    let hosts = host::Hosts::new(settings);
    let named = page
        .open
        .merge(guard(page.guarded.merge(open_inference), Role::Predict))
        .merge(orders)
        .merge(guard(state, Role::Metrics))
        .merge(metrics)
        .layer(middleware::from_fn_with_state(hosts, host::check));
    health
        .merge(named)
        .layer(middleware::from_fn(head::check))
        .with_state(services)
}

async fn livez(
    State(services): State<Arc<Services>>,
    Extension(tokens): Extension<Arc<Tokens>>,
    headers: HeaderMap,
) -> Response {
    let live = services.health.liveness();
    answer(live.map_err(|reason| shown(reason, &tokens, &headers)))
}

async fn readyz(
    State(services): State<Arc<Services>>,
    Extension(tokens): Extension<Arc<Tokens>>,
    headers: HeaderMap,
) -> Response {
    if let Err(reasons) = services.health.readiness() {
        return answer(Err(shown(reasons, &tokens, &headers)));
    }
    // Whoever asks whether it is ready may want to know what is wrong nevertheless.
    let mut text = "ok\n".to_owned();
    for (part, reason) in services.health.conditions() {
        text += &shown(format!("{part}: {reason}"), &tokens, &headers);
        text.push('\n');
    }
    text.into_response()
}

/// Reasons, one on each line. They hold addresses and paths, and health needs no token: strangers see only which parts have one.
fn shown(reasons: String, tokens: &Tokens, headers: &HeaderMap) -> String {
    let token = headers.get(header::AUTHORIZATION);
    if tokens.trusts(token.map(|value| value.as_bytes())) {
        return reasons;
    }
    let parts = reasons.lines().map(|line| {
        let part = line.split(':').next().unwrap_or_default();
        format!("{part}: send a token to see why")
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// The state, as gRPC gives it. Its token is that of scrapers, so that it does not list ids of events.
async fn state(State(services): State<Arc<Services>>) -> Response {
    Json(describe(&services, &services.status.borrow(), false)).into_response()
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

async fn metrics(
    State(services): State<Arc<Services>>,
    Extension(scrapes): Extension<Arc<Semaphore>>,
) -> Response {
    let turn = scrapes.acquire_owned().await;
    let rendered = tokio::task::spawn_blocking(move || {
        // Held until the text is there, even if the client has gone.
        let _turn = turn;
        let state = describe(&services, &services.status.borrow(), false);
        services.metrics.render(&state)
    });
    let problem = match rendered.await {
        Ok(Ok(text)) => return ([(header::CONTENT_TYPE, METRICS_TYPE)], text).into_response(),
        Ok(Err(problem)) => problem.to_string(),
        Err(problem) => problem.to_string(),
    };
    error!(%problem, "cannot render metrics");
    (StatusCode::INTERNAL_SERVER_ERROR, problem).into_response()
}

async fn ask_for_token(
    State((services, tokens, role)): State<(Arc<Services>, Arc<Tokens>, Role)>,
    request: Request,
    next: Next,
) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    if tokens.admit(role, shown.map(|value| value.as_bytes())) {
        return next.run(request).await;
    }
    services.metrics.serving.unauthenticated(Listener::Http);
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    let problem = "the bearer token is missing or wrong";
    (challenge, refusal(StatusCode::UNAUTHORIZED, problem)).into_response()
}
