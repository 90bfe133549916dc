//! What the head of every request must be, before anybody looks at its path.

use axum::{
    extract::Request,
    http::{StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::host;
use crate::error_text::{bounded, refusal};

/// Refuses a request whose host is ambiguous, or whose body is compressed.
pub(super) async fn check(request: Request, next: Next) -> Response {
    if let Err(problem) = one_host(&request) {
        return refusal(StatusCode::BAD_REQUEST, &problem);
    }
    if let Some(coding) = compression(&request) {
        let problem = format!(
            "Content-Encoding is {coding:?}, expected none or \"identity\": compressed bodies are not supported"
        );
        let supported = [(header::ACCEPT_ENCODING, "identity")];
        let refused = refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, &problem);
        return (supported, refused).into_response();
    }
    next.run(request).await
}

/// A proxy in front might have looked at the other name, so that its rules do not hold for this request.
fn one_host(request: &Request) -> Result<(), String> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, further) = (hosts.next(), hosts.count());
    if further > 0 {
        return Err(format!(
            "the request has {} Host headers, expected one",
            further + 1
        ));
    }
    let host = match host.map(|host| host.to_str()) {
        // HTTP/1.0 knows none.
        None => return Ok(()),
        Some(Ok(host)) => host,
        Some(Err(_)) => return Err("the Host header is no name, expected ASCII".to_owned()),
    };
    // Only a request to a proxy names the host in its target, too.
    let Some(target) = request.uri().authority() else {
        return Ok(());
    };
    if target.host().eq_ignore_ascii_case(host::without_port(host)) {
        return Ok(());
    }
    Err(
        "the request's target and its Host header name different hosts, expected the same"
            .to_owned(),
    )
}

/// The coding of the body; `None` if there is none.
fn compression(request: &Request) -> Option<String> {
    let codings = request.headers().get_all(header::CONTENT_ENCODING).iter();
    let codings: Vec<_> = codings
        .map(|coding| String::from_utf8_lossy(coding.as_bytes()))
        .collect();
    let is_none = |coding: &str| coding.is_empty() || coding.eq_ignore_ascii_case("identity");
    let codings = codings.join(", ");
    let compressed = codings
        .split(',')
        .map(str::trim)
        .any(|coding| !is_none(coding));
    compressed.then(|| bounded(codings))
}
