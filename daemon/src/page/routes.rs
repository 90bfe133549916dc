//! Where the page is.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response, Sse},
    routing::{get, post},
};

use super::{Page, assets, orders};

/// Paths that are open, and those that ask for the token if there is one.
pub(crate) struct Routes<S> {
    /// The page without a number in it: a browser cannot show a token before it has a form to type it in.
    pub(crate) open: Router<S>,
    pub(crate) guarded: Router<S>,
}

/// Without a token nobody gives orders: any site could make a browser send them.
pub(crate) fn routes<S>(page: Arc<Page>, has_token: bool) -> Routes<S>
where
    S: Clone + Send + Sync + 'static,
{
    let open = Router::new()
        .route("/", get(assets::index))
        .route("/page/{name}", get(assets::asset));
    let mut guarded = Router::new().route("/page/events", get(events));
    if page.services.config.http.orders && has_token {
        guarded = guarded.route("/page/orders", post(orders::order));
    }
    Routes {
        open,
        guarded: guarded.with_state(page),
    }
}

async fn events(State(page): State<Arc<Page>>) -> Response {
    match page.view() {
        Ok(viewer) => Sse::new(viewer).into_response(),
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason.to_string()).into_response(),
    }
}
