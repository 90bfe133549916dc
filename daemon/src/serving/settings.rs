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
    /// Bytes of unanswered requests; while there are more, new ones are refused before they are read.
    pub(crate) queue_bytes: usize,
    /// How long a request may wait to be scored before it is refused.
    pub(crate) max_wait: Period,
    /// Inputs that are scored at once.
    pub(crate) max_batch_rows: usize,
    /// Threads that score.
    pub(crate) threads: usize,
    /// Size of a request at most.
    pub(crate) max_message_bytes: usize,
}

/// HTTP: the page, health and metrics.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HttpSettings {
    /// Address of the page, `/metrics`, `/livez`, `/readyz` and `/startupz`.
    pub(crate) listen: SocketAddr,
    /// Whether `/metrics` is open when a token is asked for elsewhere.
    pub(crate) metrics_without_token: bool,
    /// Whether the page takes orders, as `ostard ctl` gives them; needs `auth.token_file`.
    pub(crate) orders: bool,
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
            queue_bytes: 2 << 20,
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
            orders: false,
        }
    }
}

impl GrpcSettings {
    pub(crate) fn validate(&self, problems: &mut Vec<String>) {
        for (key, value) in [
            ("max_rows", self.max_rows),
            ("max_batch_rows", self.max_batch_rows),
            ("queue_bytes", self.queue_bytes),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_told_with_its_key() {
        let mut problems = Vec::new();
        GrpcSettings::default().validate(&mut problems);
        assert!(problems.is_empty());
        let settings = GrpcSettings {
            threads: 0,
            queue_rows: 10,
            max_wait: Period::from_millis(0),
            ..GrpcSettings::default()
        };
        settings.validate(&mut problems);
        assert_eq!(
            problems,
            [
                "grpc.threads is 0, expected at least 1",
                "grpc.queue_rows is 10, expected at least grpc.max_rows = 1024, or the largest requests never fit",
                "grpc.max_wait is 0s, expected at least 1ms",
            ]
        );
    }
}
