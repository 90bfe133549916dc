//! Settings of the listeners: addresses, TLS and the token.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, ensure};
use ostar_bundle::{SMALL_FILE, read_text_file};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// Names under which callers may reach the listener, beside its addresses and names without a dot; other values of `Host` are
    /// refused, so that no web site can read the page through a browser. If empty, a listener on the loopback takes no
    /// other name, and any other listener takes all.
    pub(crate) hosts: Vec<String>,
    /// Whether `/metrics` is open although tokens guard it.
    pub(crate) metrics_without_token: bool,
    /// Whether the live page can send the orders of `ostard ctl`. Requires `auth.token_file` or
    /// `auth.control_token_file`.
    pub(crate) orders: bool,
}

/// TLS of all listeners, from PEM files, which are read again when they change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct TlsSettings {
    /// The certificate, followed by the intermediate certificates. Requires `key`.
    pub(crate) certificate: Option<PathBuf>,
    /// Private key of the certificate.
    pub(crate) key: Option<PathBuf>,
    /// Authorities of client certificates. If set, gRPC clients must show a certificate.
    pub(crate) client_ca: Option<PathBuf>,
    /// Whether HTTP clients must show a certificate of `client_ca`, too. Kubelets and most Prometheus servers have none.
    pub(crate) http_client_certificates: bool,
}

/// Who may call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(default)]
pub(crate) struct AuthSettings {
    /// File with the bearer tokens that are good for everything, one on each line. Callers must send one of them. All
    /// token files are read again when they change.
    pub(crate) token_file: Option<PathBuf>,
    /// File with tokens for predictions, the state and the live page.
    pub(crate) predict_token_file: Option<PathBuf>,
    /// File with tokens for `/metrics` and `/state`.
    pub(crate) metrics_token_file: Option<PathBuf>,
    /// File with tokens for orders, which are good for everything else, too.
    pub(crate) control_token_file: Option<PathBuf>,
}

impl AuthSettings {
    /// Every token file, by its key: for all roles, for predictions, for metrics, for orders.
    pub(crate) fn files(&self) -> [(&'static str, Option<&Path>); 4] {
        [
            ("auth.token_file", self.token_file.as_deref()),
            (
                "auth.predict_token_file",
                self.predict_token_file.as_deref(),
            ),
            (
                "auth.metrics_token_file",
                self.metrics_token_file.as_deref(),
            ),
            (
                "auth.control_token_file",
                self.control_token_file.as_deref(),
            ),
        ]
    }

    /// One token on each line. Several are valid at once, so that callers can change from one to the next.
    pub(crate) fn read_tokens(path: &Path) -> Result<Vec<String>> {
        let text = read_text_file(path, SMALL_FILE);
        let text =
            text.with_context(|| format!("cannot read the token from {}", path.display()))?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let tokens: Vec<String> = lines.map(str::to_owned).collect();
        ensure!(
            !tokens.is_empty(),
            "{} is empty, expected a token",
            path.display()
        );
        Ok(tokens)
    }
}
