//! The `Host` header: a web site whose name is made to point at this machine must not read the page through a browser.

use std::net::IpAddr;

use axum::{
    extract::{Request, State},
    http::{StatusCode, header},
    middleware::Next,
    response::Response,
};

use crate::{
    config::{HttpSettings, is_loopback},
    error_text::refusal,
};

/// Names under which the listener may be called.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    /// `None` for any.
    names: Option<Vec<String>>,
}

impl Hosts {
    /// Those of `http.hosts`. Without any, a listener on the loopback takes its own names only: a browser on this machine
    /// reaches it under any name that resolves to it.
    pub(super) fn new(settings: &HttpSettings) -> Self {
        let names = settings.hosts.iter();
        let names: Vec<String> = names.map(|name| name.to_ascii_lowercase()).collect();
        let open = names.is_empty() && !is_loopback(settings.listen);
        Self {
            names: (!open).then_some(names),
        }
    }

    /// Nobody can make an address point here, or a name without a dot, such as `localhost`.
    fn admit(&self, host: Option<&str>) -> bool {
        let Some(names) = &self.names else {
            return true;
        };
        // HTTP/1.0 knows no host, and no browser speaks it.
        let Some(host) = host else { return true };
        let name = without_port(host).to_ascii_lowercase();
        let address = name.trim_start_matches('[').trim_end_matches(']');
        address.parse::<IpAddr>().is_ok() || !name.contains('.') || names.contains(&name)
    }
}

pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Refuses requests with another host.
pub(super) async fn check(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    let host = host.map(|host| host.to_str().unwrap_or_default());
    if hosts.admit(host) {
        return next.run(request).await;
    }
    let problem = "the request's Host is not one of http.hosts";
    refusal(StatusCode::MISDIRECTED_REQUEST, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(listen: &str, names: &[&str]) -> Hosts {
        Hosts::new(&HttpSettings {
            listen: listen.parse().unwrap(),
            hosts: names.iter().map(|name| (*name).to_owned()).collect(),
            ..HttpSettings::default()
        })
    }

    #[test]
    fn only_own_names_and_addresses_are_taken() {
        let own = [
            "localhost",
            "localhost:8080",
            "ostard",
            "127.0.0.1:8080",
            "[::1]:8080",
            "10.0.0.7",
        ];
        for hosts in [
            hosts("127.0.0.1:8080", &[]),
            hosts("0.0.0.0:8080", &["ostard.example.com"]),
        ] {
            for host in own {
                assert!(hosts.admit(Some(host)), "{host}");
            }
            for host in [
                "evil.example",
                "evil.example:8080",
                "localhost.evil.example",
            ] {
                assert!(!hosts.admit(Some(host)), "{host}");
            }
        }
        let named = hosts("0.0.0.0:8080", &["ostard.example.com"]);
        assert!(named.admit(Some("Ostard.Example.com:443")));
        let open = hosts("0.0.0.0:8080", &[]);
        assert!(open.admit(Some("ostard.monitoring.svc")));
    }
}
