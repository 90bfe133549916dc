//! Binds all ports before any server starts, so that a taken address fails the start as a whole.

use std::net::{SocketAddr, TcpListener};

use anyhow::Context;

use crate::config::Config;

/// Bound, but not served yet.
pub(super) struct Ports {
    pub(super) grpc: TcpListener,
    pub(super) control: Option<TcpListener>,
    pub(super) http: TcpListener,
}

impl Ports {
    pub(super) fn bind(settings: &Config) -> anyhow::Result<Self> {
        let control = settings.grpc.control_listen;
        let control = control.map(|address| bind("grpc.control_listen", address));
        Ok(Self {
            grpc: bind("grpc.listen", settings.grpc.listen)?,
            control: control.transpose()?,
            http: bind("http.listen", settings.http.listen)?,
        })
    }
}

fn bind(key: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).with_context(|| {
        format!("{key}: cannot listen on {address}; stop the program that listens there, or set {key} to a free address")
    })?;
    // Tokio requires it.
    listener
        .set_nonblocking(true)
        .with_context(|| format!("{key}: {address}"))?;
    Ok(listener)
}
