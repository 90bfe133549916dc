//! Settings of the listeners: addresses, TLS and the token.

use std::{net::SocketAddr, path::PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::RequestSettings;

/// The gRPC listeners.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct GrpcSettings {
    /// Address of the prediction services, `ostar.v1.Inference` and the Open Inference Protocol.
    pub(crate) listen: SocketAddr,
    /// Address of `ostar.v1.Control`, which `ostard ctl` sends orders to. Off if not set.
    pub(crate) control_listen: Option<SocketAddr>,
}

/// The HTTP listener.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct HttpSettings {
    /// Address of the live page, `/metrics`, the health endpoints and the Open Inference Protocol over REST.
    pub(crate) listen: SocketAddr,
    /// Whether `/metrics` is open although `auth.token_file` is set.
    pub(crate) metrics_without_token: bool,
    /// Whether the live page can send the orders of `ostard ctl`. Requires `auth.token_file`.
    pub(crate) orders: bool,
}

/// TLS of all listeners, from PEM files.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct TlsSettings {
    /// The certificate, followed by the intermediate certificates. Requires `key`.
    pub(crate) certificate: Option<PathBuf>,
    /// Private key of the certificate.
    pub(crate) key: Option<PathBuf>,
    /// Authorities of client certificates. If set, gRPC clients must show a certificate; HTTP clients need none, because
    /// kubelets and most Prometheus servers have none.
    pub(crate) client_ca: Option<PathBuf>,
}

/// Who may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct AuthSettings {
    /// File with the bearer token that callers must send. Read again when it changes.
    pub(crate) token_file: Option<PathBuf>,
}

/// The sections that serving uses.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServeSettings {
    pub(crate) requests: RequestSettings,
    pub(crate) grpc: GrpcSettings,
    pub(crate) http: HttpSettings,
    pub(crate) tls: TlsSettings,
    pub(crate) auth: AuthSettings,
}
