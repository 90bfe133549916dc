//! Orders from the page, for those who have the token.

use std::sync::Arc;

use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use tracing::info;

use super::Page;
use crate::{control::Order, current::ServingMode};

/// What a button asks for, as `ostard ctl` names it.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Wanted {
    Pause,
    Resume,
    Checkpoint,
    Rollback,
    Mode { mode: ServingMode },
}

/// Carries an order out; tells what was done, or why it could not be.
pub(super) async fn order(
    State(page): State<Arc<Page>>,
    Json(wanted): Json<Wanted>,
) -> (StatusCode, String) {
    let order = match wanted {
        Wanted::Pause => Order::Pause,
        Wanted::Resume => Order::Resume,
        Wanted::Checkpoint => Order::Checkpoint,
        Wanted::Rollback => Order::Rollback,
        Wanted::Mode { mode } => Order::SetMode(mode),
    };
    info!(?order, "order from the page");
    match page.services.controller.give(order).await {
        Ok(done) => (StatusCode::OK, done),
        Err(refused) => (StatusCode::CONFLICT, refused),
    }
}
