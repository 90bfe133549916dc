//! Settings of the listeners, their encryption and their token.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use ostar_connectors::settings::Period;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// gRPC: where it listens and how much it takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GrpcSettings {
    /// Address of `ostar.v1.Inference`.
    pub(crate) listen: SocketAddr,
    /// Address of `ostar.v1.Control`; off unless it is given.
    pub(crate) control_listen: Option<SocketAddr>,
    /// Inputs of one request at most.
    pub(crate) max_rows: usize,
    /// Inputs that may wait to be scored; requests beyond them are refused.
    pub(crate) queue_rows: usize,
    /// How long a request may wait to be scored before it is refused.
    pub(crate) max_wait: Period,
    /// Inputs that are scored at once.
    pub(crate) max_batch_rows: usize,
    /// Threads that score.
    pub(crate) threads: usize,
    /// Size of a request at most.
    pub(crate) max_message_bytes: usize,
}

/// HTTP: health and metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HttpSettings {
    /// Address of `/metrics`, `/livez`, `/readyz` and `/startupz`.
    pub(crate) listen: SocketAddr,
    /// Whether `/metrics` is open when a token is asked for elsewhere.
    pub(crate) metrics_without_token: bool,
}

/// TLS of all listeners, from PEM files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TlsSettings {
    /// The certificate, followed by those that lead to its authority.
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key.
    pub(crate) key: Option<PathBuf>,
    /// Authorities of client certificates, which gRPC clients then need. (HTTP asks for none: kubelets and
    /// most Prometheus servers have none.)
    pub(crate) client_ca: Option<PathBuf>,
}

/// Who may ask.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AuthSettings {
    /// A file that holds the bearer token. It is read again while the daemon runs, so it can be changed.
    pub(crate) token_file: Option<PathBuf>,
}

/// All that serving needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServeSettings {
    pub(crate) grpc: GrpcSettings,
    pub(crate) http: HttpSettings,
    pub(crate) tls: TlsSettings,
    pub(crate) auth: AuthSettings,
}

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

impl Default for GrpcSettings {
    fn default() -> Self {
        Self {
            listen: local(50051),
            control_listen: None,
            max_rows: 1024,
            queue_rows: 8192,
            max_wait: Period::from_millis(50),
            max_batch_rows: 1024,
            threads: 1,
            max_message_bytes: 4 << 20,
        }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: local(8080),
            metrics_without_token: false,
        }
    }
}

impl GrpcSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<String>) {
        for (key, value) in [
            ("max_rows", self.max_rows),
            ("max_batch_rows", self.max_batch_rows),
            ("threads", self.threads),
            ("max_message_bytes", self.max_message_bytes),
        ] {
            if value == 0 {
                problems.push(format!("grpc.{key} is 0, expected at least 1"));
            }
        }
        if self.queue_rows < self.max_rows {
            problems.push(format!(
                "grpc.queue_rows is {}, expected at least grpc.max_rows = {}, or the largest requests never fit",
                self.queue_rows, self.max_rows
            ));
        }
        if self.max_wait.get().is_zero() {
            problems.push("grpc.max_wait is 0s, expected at least 1ms".into());
        }
    }
}

impl TlsSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<String>) {
        match (&self.certificate, &self.key) {
            (Some(_), None) => problems.push("tls.key is missing, tls.certificate needs it".into()),
            (None, Some(_)) => problems.push("tls.certificate is missing, tls.key needs it".into()),
            (None, None) if self.client_ca.is_some() => problems
                .push("tls.certificate and tls.key are missing, tls.client_ca needs them".into()),
            (None, None) | (Some(_), Some(_)) => (),
        }
    }
}

impl ServeSettings {
    /// All problems, those between sections included.
    pub(crate) fn validate(&self, problems: &mut Vec<String>) {
        self.grpc.validate(problems);
        self.tls.validate(problems);
        let listeners = [
            ("grpc.listen", Some(self.grpc.listen)),
            ("grpc.control_listen", self.grpc.control_listen),
            ("http.listen", Some(self.http.listen)),
        ];
        for (number, (key, address)) in listeners.iter().enumerate() {
            let Some(address) = address.filter(|address| address.port() != 0) else {
                continue;
            };
            let twin = listeners[..number]
                .iter()
                .find(|(_, other)| *other == Some(address));
            if let Some((other, _)) = twin {
                problems.push(format!(
                    "{key} is {address}, which {other} is too, expected another port"
                ));
            }
        }
        let open = self.auth.token_file.is_none() && self.tls.client_ca.is_none();
        let control = self.grpc.control_listen;
        if let Some(address) = control.filter(|address| open && !address.ip().is_loopback()) {
            problems.push(format!(
                "grpc.control_listen is {address}, where others can reach it, but nothing asks who they are; set \
                 auth.token_file or tls.client_ca, or listen on 127.0.0.1"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(change: impl FnOnce(&mut ServeSettings)) -> Vec<String> {
        let mut settings = ServeSettings::default();
        change(&mut settings);
        let mut problems = Vec::new();
        settings.validate(&mut problems);
        problems
    }

    #[test]
    fn the_defaults_are_fine() {
        assert!(problems(|_| ()).is_empty());
    }

    #[test]
    fn every_problem_is_told_with_its_key() {
        let found = problems(|settings| {
            settings.grpc.max_rows = 0;
            settings.grpc.max_wait = Period::from_millis(0);
            settings.grpc.control_listen = Some("0.0.0.0:8080".parse().unwrap());
            settings.http.listen = "0.0.0.0:8080".parse().unwrap();
            settings.tls.key = Some("key.pem".into());
        });
        assert_eq!(
            found,
            [
                "grpc.max_rows is 0, expected at least 1",
                "grpc.max_wait is 0s, expected at least 1ms",
                "tls.certificate is missing, tls.key needs it",
                "http.listen is 0.0.0.0:8080, which grpc.control_listen is too, expected another port",
                "grpc.control_listen is 0.0.0.0:8080, where others can reach it, but nothing asks who they are; set \
                 auth.token_file or tls.client_ca, or listen on 127.0.0.1",
            ]
        );
    }

    #[test]
    fn a_queue_smaller_than_a_request_is_a_problem() {
        let found = problems(|settings| settings.grpc.queue_rows = 10);
        assert!(
            found[0].starts_with("grpc.queue_rows is 10, expected at least grpc.max_rows = 1024")
        );
    }
}
