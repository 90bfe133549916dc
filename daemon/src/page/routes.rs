//! The paths of the page.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::StatusCode,
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
    routing::{get, post},
};

use tokio_stream::StreamExt as _;

use super::{Page, assets, orders};

/// Paths that need no token, and those that do if there is one.
pub(crate) struct Routes<S> {
    /// The page's files, without any data: a browser needs them to ask for the token.
    pub(crate) open: Router<S>,
    pub(crate) guarded: Router<S>,
    /// `None` if orders are off.
    pub(crate) orders: Option<Router<S>>,
}

/// Orders are served only where a token guards them. Without one, any web site could make a browser send them.
pub(crate) fn routes<S>(page: Arc<Page>, guarded_orders: bool) -> Routes<S>
where
    S: Clone + Send + Sync + 'static,
{
    let open = Router::new()
        .route("/", get(assets::index))
        .route("/page/{name}", get(assets::asset));
    let guarded = Router::new().route("/page/events", get(events));
    let takes_orders = page.services.config.http.orders && guarded_orders;
    let orders = takes_orders.then(|| Router::new().route("/page/orders", post(orders::order)));
    Routes {
        open,
        guarded: guarded.with_state(Arc::clone(&page)),
        orders: orders.map(|orders| orders.with_state(page)),
    }
}

async fn events(State(page): State<Arc<Page>>) -> Response {
    match page.view() {
        Ok(viewer) => {
            let event = |(name, text)| Event::default().event(name).data::<Arc<str>>(text);
            Sse::new(viewer.map(event).map(Ok::<_, Infallible>)).into_response()
        }
        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason.to_string()).into_response(),
    }
}
