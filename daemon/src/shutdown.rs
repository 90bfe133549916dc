//! What stops the process: a signal, or the demo's end.

use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
};
use tracing::info;

/// SIGTERM, SIGINT, and a stop from within ([`Signals::agreed`]).
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    agreed: Arc<Notify>,
}

impl Signals {
    /// Replaces the signals' default action, which is to end the process at once.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            agreed: Arc::default(),
        })
    }

    /// Notify it to stop the process without a signal.
    pub(crate) fn agreed(&self) -> Arc<Notify> {
        Arc::clone(&self.agreed)
    }

    /// Resolves when the process is told to stop.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => info!(signal = "SIGTERM", "stopping"),
            _ = self.interrupt.recv() => info!(signal = "SIGINT", "stopping"),
            () = self.agreed.notified() => {}
        }
    }
}
