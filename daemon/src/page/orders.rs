//! Orders from the page. Only served where a token guards them.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use tracing::info;

use super::Page;
use crate::{control::Order, current::ServingMode};

/// The body of a request; orders have the names of `ostard ctl`.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum OrderRequest {
    Pause,
    Resume,
    Checkpoint,
    Rollback,
    Mode { mode: ServingMode },
}

/// Carries an order out. Answers what was done, or 409 and why not.
pub(super) async fn order(
    State(page): State<Arc<Page>>,
    Json(request): Json<OrderRequest>,
) -> (StatusCode, String) {
    let order = match request {
        OrderRequest::Pause => Order::Pause,
        OrderRequest::Resume => Order::Resume,
        OrderRequest::Checkpoint => Order::Checkpoint,
        OrderRequest::Rollback => Order::Rollback,
        OrderRequest::Mode { mode } => Order::SetMode(mode),
    };
    info!(?order, "received an order from the page");
    match page.services.controller.give(order).await {
        Ok(done) => (StatusCode::OK, done),
        Err(refused) => (StatusCode::CONFLICT, refused),
    }
}
