//! Settings of the listeners, their encryption and their token.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RequestSettings;

/// Where gRPC listens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct GrpcSettings {
    /// Address of `ostar.v1.Inference`.
    pub(crate) listen: SocketAddr,
    /// Address of `ostar.v1.Control`; off unless it is given.
    pub(crate) control_listen: Option<SocketAddr>,
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
    pub(crate) requests: RequestSettings,
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
