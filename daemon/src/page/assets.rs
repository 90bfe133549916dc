//! The files of the page, compiled into the program: no other host is contacted.

use axum::{
    extract::Path,
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Name, content type and content.
type Asset = (&'static str, &'static str, &'static str);

macro_rules! asset {
    ($kind:expr, $name:literal, $file:literal) => {
        ($name, $kind, include_str!(concat!("../../page/", $file)))
    };
}

const INDEX: Asset = asset!(HTML, "", "index.html");

/// Served below `/page/`. uPlot draws the charts; `make page-library` fetches it.
const ASSETS: [Asset; 10] = [
    asset!(STYLE, "page.css", "page.css"),
    asset!(SCRIPT, "page.js", "page.js"),
    asset!(SCRIPT, "feed.js", "feed.js"),
    asset!(SCRIPT, "charts.js", "charts.js"),
    asset!(SCRIPT, "tables.js", "tables.js"),
    asset!(SCRIPT, "map.js", "map.js"),
    asset!(SCRIPT, "orders.js", "orders.js"),
    asset!(SCRIPT, "uplot.js", "uplot/uPlot.iife.min.js"),
    asset!(STYLE, "uplot.css", "uplot/uPlot.min.css"),
    asset!(TEXT, "uplot.txt", "uplot/LICENSE"),
];

/// Allows scripts, styles and connections of this daemon only, and no other site to frame the page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) async fn index() -> Response {
    answer(&INDEX)
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|asset| asset.0 == name) {
        Some(asset) => answer(asset),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn answer((_, kind, content): &Asset) -> Response {
    let headers: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, kind),
        // Another version of the daemon has another page at the same path.
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, *content).into_response()
}
