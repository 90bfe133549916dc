//! Connections of `predict`, `state` and `ctl` to a running daemon.

use std::{error::Error as _, fs, future::Future, path::PathBuf};

use anyhow::Result;
use clap::Args;
use ostar_connectors::settings::Period;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use crate::{
    config::Config,
    error_text::one_line,
    proto::{GetStateRequest, State, inference_client::InferenceClient},
};

/// How to reach a daemon.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct ConnectionArgs {
    /// PEM file with the authority of the daemon's certificate. Switches TLS on.
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// File with the bearer token.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long to wait for a connection, and for an answer.
    #[arg(long, global = true, value_name = "PERIOD", default_value = "10s")]
    timeout: Period,
}

/// Which daemon to ask for predictions or its state.
#[derive(Debug, Clone, Args)]
pub(super) struct DaemonArgs {
    /// Address of the daemon: its grpc.listen.
    #[arg(long, value_name = "HOST:PORT", default_value_t = Config::default().grpc.listen.to_string())]
    address: String,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// A daemon could not be reached, or did not take the call. Ends the command with exit code 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unanswered(String);

/// A flag has a value that cannot be used. Ends the command with exit code 2, as flags do that clap refuses.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongFlag(pub(crate) String);

/// A daemon has got the order and could not carry it out. Ends the command with exit code 4.
#[derive(Debug, thiserror::Error)]
#[error("the daemon could not carry out the order: {0}")]
pub(crate) struct Refused(pub(super) String);

/// Adds the bearer token, if there is one, to each call.
#[derive(Debug, Clone)]
pub(super) struct Token(Option<MetadataValue<Ascii>>);

/// A channel whose calls carry the token.
pub(super) type Connection = InterceptedService<Channel, Token>;

// === impl ConnectionArgs ===

impl ConnectionArgs {
    /// Connects to `address`, host:port. `key` is the daemon's setting for that address, for the error.
    pub(super) async fn connect(&self, address: &str, key: &str) -> Result<Connection> {
        let token = Token::read(self.token_file.as_ref())?;
        let scheme = if self.ca.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"))
            .map_err(|_| WrongFlag(format!("--address is {address:?}, expected host:port")))?;
        let timeout = self.timeout.get();
        let mut endpoint = endpoint.connect_timeout(timeout).timeout(timeout);
        if let Some(path) = &self.ca {
            let pem = read("--ca", path)?;
            let authority = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem));
            endpoint = endpoint.tls_config(authority).map_err(|_| {
                WrongFlag(format!("--ca is {path:?}, expected certificates in PEM"))
            })?;
        }
        let channel = endpoint.connect().await.map_err(|error| {
            Unanswered(format!(
                "no daemon answers at --address {address}: {}; check that it is running with {key} at this address",
                one_line(&error.into())
            ))
        })?;
        Ok(InterceptedService::new(channel, token))
    }
}

// === impl DaemonArgs ===

impl DaemonArgs {
    pub(super) async fn connect(&self) -> Result<InferenceClient<Connection>> {
        let connection = self.connection.connect(&self.address, "grpc.listen");
        Ok(InferenceClient::new(connection.await?))
    }

    pub(super) async fn state(&self) -> Result<State> {
        let state = self.connect().await?.get_state(GetStateRequest {}).await;
        Ok(state.map_err(Unanswered::from)?.into_inner())
    }
}

// === impl Token ===

impl Token {
    fn read(path: Option<&PathBuf>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self(None));
        };
        let text = read("--token-file", path)?;
        let mut value: MetadataValue<Ascii> =
            // The daemon's file may hold several, of which the first is as good as the others.
            format!("Bearer {}", text.trim().lines().next().unwrap_or_default())
                .parse()
                .map_err(|_| {
                    WrongFlag(format!("--token-file is {path:?}, expected a line of ASCII"))
                })?;
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
            tonic::Code::Unauthenticated => "; set the token with --token-file",
            tonic::Code::ResourceExhausted => "; the daemon is overloaded, try again later",
            tonic::Code::Unimplemented => {
                "; check that --address is the right one of the daemon's listeners"
            }
            _ => "",
        };
        let code = status.code();
        // A status that the daemon sent has no source; one that the transport made has.
        if status.source().is_some() {
            return Self(format!(
                "the connection broke: {} ({code:?}); if the daemon uses TLS, set its authority with --ca",
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
    let text = fs::read_to_string(path).map_err(|problem| {
        WrongFlag(format!(
            "{flag} is {path:?}, expected a file that can be read: {problem}"
        ))
    });
    Ok(text?)
}

/// Runs a client command on this thread.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(work)
}
