//! Connections of `predict`, `state` and `ctl` to a running daemon.

use std::{error::Error as _, fs, future::Future, path::PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use ostar_connectors::settings::Period;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use crate::{current::ServingMode, proto};

/// How to reach a daemon.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionArgs {
    /// PEM file of the authority of the daemon's certificate; switches TLS on.
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File of the bearer token.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long to wait for a connection, and for an answer.
    #[arg(long, global = true, value_name = "PERIOD", default_value = "10s")]
    timeout: Period,
}

/// A daemon that could not be reached, or refused.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unanswered(String);

/// Sends the token along.
#[derive(Debug, Clone)]
pub(super) struct Token(Option<MetadataValue<Ascii>>);

/// A connection that sends the token along.
pub(super) type Connection = InterceptedService<Channel, Token>;

// === impl ConnectionArgs ===

impl ConnectionArgs {
    /// Connects to `address`, host:port. `key` is the setting that the daemon listens by.
    pub(super) async fn connect(&self, address: &str, key: &str) -> Result<Connection> {
        let token = Token::read(self.token_file.as_ref())?;
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .with_context(|| format!("--address is {address:?}, expected host:port"))?;
        let timeout = self.timeout.get();
        let mut endpoint = endpoint.connect_timeout(timeout).timeout(timeout);
        if let Some(path) = &self.ca {
            let pem = read("--ca", path)?;
            let authority = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
            endpoint = endpoint
                .tls_config(authority)
                .with_context(|| format!("--ca is {path:?}, expected certificates in PEM"))?;
        }
        let channel = endpoint.connect().await.map_err(|error| {
            Unanswered(format!(
                "no daemon answers at --address {address}: {:#}; is it running, with {key} at this address?",
                anyhow::Error::from(error)
            ))
        })?;
        Ok(InterceptedService::new(channel, token))
    }
}

// === impl Token ===

impl Token {
    fn read(path: Option<&PathBuf>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self(None));
        };
        let text = read("--token-file", path)?;
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", text.trim())
            .parse()
            .with_context(|| format!("--token-file is {path:?}, expected one line of ASCII"))?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request
                .metadata_mut()
                .insert("authorization", token.clone());
        }
        Ok(request)
    }
}

impl From<Status> for Unanswered {
    fn from(status: Status) -> Self {
        let fix = match status.code() {
            tonic::Code::Unauthenticated => "; give the token by --token-file",
            tonic::Code::ResourceExhausted => "; the daemon is overloaded, try again later",
            tonic::Code::Unimplemented => "; is --address the right one of the daemon's listeners?",
            _ => "",
        };
        let code = status.code();
        // What the daemon says itself has no cause on this side.
        if status.source().is_some() {
            return Self(format!(
                "the connection broke: {} ({code:?}); if the daemon has TLS, give its authority by --ca",
                status.message()
            ));
        }
        Self(format!(
            "the daemon refused: {} ({code:?}){fix}",
            status.message()
        ))
    }
}

fn read(flag: &str, path: &PathBuf) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("{flag} is {path:?}, expected a file"))
}

/// The mode, as requests carry it.
pub(super) fn requested(mode: ServingMode) -> proto::Mode {
    match mode {
        ServingMode::Frozen => proto::Mode::Frozen,
        ServingMode::Prior => proto::Mode::Prior,
        ServingMode::Adapted => proto::Mode::Adapted,
        ServingMode::Shadow => proto::Mode::Shadow,
    }
}

/// The mode of an answer, as flags and configuration call it.
pub(super) fn mode_name(mode: proto::Mode) -> String {
    let name = mode.as_str_name().trim_start_matches("MODE_");
    name.to_lowercase()
}

/// Runs a command to its end.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(work)
}
