//! The protocol over REST: `/v2/...`.

mod body;
mod elements;
#[cfg(test)]
mod fuzz;

use std::sync::Arc;

use anyhow::Chain;
use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State, rejection::BytesRejection},
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use serde::Deserialize;
use serde_json::json;
use tonic::{Code, Status};

use self::body::Form;
#[cfg(test)]
pub(super) use self::fuzz::read;
use super::OpenInference;
use crate::{
    error_text::{bounded, refusal},
    serving::Services,
};

/// The protocol's paths, to be merged into the HTTP router.
pub(crate) fn router(open_inference: OpenInference) -> Router<Arc<Services>> {
    let limit = DefaultBodyLimit::max(open_inference.max_bytes);
    let mut router = Router::new()
        .route("/v2", get(server_metadata))
        .route("/v2/", get(server_metadata))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/v2/{*path}", any(nowhere));
    for path in [
        "/v2/models/{model}",
        "/v2/models/{model}/versions/{version}",
    ] {
        router = router
            .route(path, get(model_metadata))
            .route(&format!("{path}/ready"), get(model_ready))
            .route(&format!("{path}/infer"), post(infer));
    }
    router
        .method_not_allowed_fallback(wrong_method)
        .layer(limit)
        .with_state(open_inference)
}

/// The parameters of a path; `version` is empty if the path has none.
#[derive(Deserialize)]
struct Model {
    model: String,
    #[serde(default)]
    version: String,
}

/// An error as the protocol writes it: a status code and `{"error": ...}`.
struct Refused(StatusCode, String);

async fn server_metadata(State(server): State<OpenInference>) -> Response {
    Json(server.server_metadata()).into_response()
}

async fn live(State(server): State<OpenInference>) -> Response {
    let live = server.is_live();
    (health(live), Json(json!({ "live": live }))).into_response()
}

async fn ready(State(server): State<OpenInference>) -> Response {
    let ready = server.is_ready();
    (health(ready), Json(json!({ "ready": ready }))).into_response()
}

async fn model_ready(
    State(server): State<OpenInference>,
    Path(Model { model, version }): Path<Model>,
) -> Result<Response, Refused> {
    let ready = server.is_model_ready(&model, &version)?;
    let body = json!({ "name": model, "ready": ready });
    Ok((health(ready), Json(body)).into_response())
}

async fn model_metadata(
    State(server): State<OpenInference>,
    Path(Model { model, version }): Path<Model>,
) -> Result<Response, Refused> {
    let metadata = server.model_metadata(&model, &version)?;
    Ok(Json(metadata).into_response())
}

async fn infer(
    State(server): State<OpenInference>,
    Path(Model { model, version }): Path<Model>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Refused> {
    let body = body.map_err(unread)?;
    let (request, form) = match body::read(&headers, &body, model, version) {
        Ok((request, form)) => (Ok(request), form),
        Err(problem) => (Err(problem), Form::default()),
    };
    let inferred = server.infer(request).await?;
    Ok(form.respond(inferred)?)
}

/// The body is larger than requests.max_bytes, was cut, is no HTTP, or the connection broke off.
fn unread(rejection: BytesRejection) -> Refused {
    let status = Chain::new(&rejection).find_map(|cause| cause.downcast_ref::<Status>());
    let Some(status) = status else {
        return Refused(rejection.status(), rejection.body_text());
    };
    match status.code() {
        Code::DeadlineExceeded | Code::ResourceExhausted => Refused::from(status.clone()),
        // Of hyper: a wrong size of a chunk, or an early end.
        _ => {
            let problem = format!("the body cannot be read: {}", status.message());
            Refused(StatusCode::BAD_REQUEST, problem)
        }
    }
}

async fn nowhere(uri: Uri) -> Refused {
    let path = uri.path();
    Refused(StatusCode::NOT_FOUND, format!("there is nothing at {path}"))
}

async fn wrong_method(uri: Uri) -> Refused {
    let (path, expected) = (uri.path(), "GET, or POST for infer");
    let problem = format!("{path} does not take this method, expected {expected}");
    Refused(StatusCode::METHOD_NOT_ALLOWED, problem)
}

fn health(good: bool) -> StatusCode {
    if good {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

// === impl Refused ===

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        let code = match status.code() {
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::DeadlineExceeded => StatusCode::REQUEST_TIMEOUT,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(code, status.message().to_owned())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        refusal(self.0, &bounded(self.1))
    }
}
