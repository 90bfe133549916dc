//! Orders from the page. Only served where a token guards them.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use tracing::info;

use super::Page;
use crate::control::Order;

/// Carries an order out. Answers what was done, or 409 and why not.
pub(super) async fn order(
    State(page): State<Arc<Page>>,
    Json(order): Json<Order>,
) -> (StatusCode, String) {
    info!(?order, "received an order from the page");
    match page.services.controller.give(order).await {
        Ok(done) => (StatusCode::OK, done),
        Err(refused) => (StatusCode::CONFLICT, refused),
    }
}
