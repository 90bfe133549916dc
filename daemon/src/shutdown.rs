//! What stops the process: a signal, the demo's end, or a part that has failed.

use std::{future::pending, sync::Arc};

use anyhow::{Context, Result};
use nix::sys::signal::{SigSet, Signal as Number};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::{Notify, watch},
};
use tracing::info;

use crate::health::Health;

/// SIGTERM, SIGINT, and a stop from within ([`Signals::agreed`]).
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    agreed: Arc<Notify>,
    /// Health and its changes, once there is one.
    health: Option<(Arc<Health>, watch::Receiver<()>)>,
}

impl Signals {
    /// Replaces the signals' default action, which is to end the process at once. Must be called within a runtime, and
    /// before anything that takes time.
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        let signals = Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            agreed: Arc::default(),
            health: None,
        };
        // Whoever starts the process may block them until here, so that none arrives before somebody listens.
        let both = SigSet::from_iter([Number::SIGTERM, Number::SIGINT]);
        both.thread_unblock().context("cannot unblock signals")?;
        Ok(signals)
    }

    /// Notify it to stop the process without a signal.
    pub(crate) fn agreed(&self) -> Arc<Notify> {
        Arc::clone(&self.agreed)
    }

    /// From now on, the process also stops when a part of it has failed.
    pub(crate) fn stop_on_failure(&mut self, health: &Arc<Health>) {
        self.health = Some((Arc::clone(health), health.subscribe()));
    }

    /// Resolves when the process is told to stop, or a part of it has failed.
    pub(crate) async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => info!(signal = "SIGTERM", "stopping"),
            _ = self.interrupt.recv() => info!(signal = "SIGINT", "stopping"),
            () = self.agreed.notified() => {}
            () = failed(&mut self.health) => info!("stopping, because a part has failed"),
        }
    }
}

async fn failed(health: &mut Option<(Arc<Health>, watch::Receiver<()>)>) {
    let Some((health, changes)) = health else {
        return pending().await;
    };
    while health.liveness().is_ok() {
        // Not while `health` is held.
        if changes.changed().await.is_err() {
            return pending().await;
        }
    }
}
