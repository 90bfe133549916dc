//! What ends the process: a signal, or an end that was agreed on beforehand.

use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::Notify,
};
use tracing::info;

/// SIGTERM, SIGINT, and [`Signals::agreed`].
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    agreed: Arc<Notify>,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            agreed: Arc::default(),
        })
    }

    /// Notified by whoever else may end the process.
    pub(crate) fn agreed(&self) -> Arc<Notify> {
        Arc::clone(&self.agreed)
    }

    /// Resolves when it is time to stop.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => info!("SIGTERM: stopping"),
            _ = self.interrupt.recv() => info!("SIGINT: stopping"),
            () = self.agreed.notified() => {}
        }
    }
}
