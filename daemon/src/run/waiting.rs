//! Waits for something: until there is, orders are carried out, and a stop ends the wait.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, Result};
use ostar_connectors::kafka::{KafkaError, state::StateError};
use tracing::warn;

use super::{Process, orders::Hands};
use crate::shutdown::Signals;

/// Ends a wait, because the process is to stop. That is no failure.
#[derive(Debug, thiserror::Error)]
#[error("stopped while it waited")]
pub(super) struct Stopped;

/// Pause between two attempts to reach a broker.
pub(super) const RETRY: Duration = Duration::from_secs(1);

impl Process {
    /// Looks every so often, until there is something.
    pub(super) async fn wait_until<T>(
        &mut self,
        signals: &mut Signals,
        every: Duration,
        mut look: impl FnMut(&Self) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            if let Some(found) = look(self)? {
                return Ok(found);
            }
            self.pause(signals, &mut Hands::Nobody, every).await?;
        }
    }

    /// Opens something at the broker, again and again while none answers. For as long as `patience`, that is nothing to
    /// complain about.
    pub(super) async fn reach<T: Send + 'static>(
        &mut self,
        signals: &mut Signals,
        hands: &mut Hands<'_>,
        patience: Duration,
        open: impl Fn() -> Result<T> + Clone + Send + 'static,
    ) -> Result<T> {
        let started = Instant::now();
        loop {
            match self.attempt(signals, hands, open.clone()).await {
                Err(error) if is_transient(&error) => {
                    if started.elapsed() >= patience {
                        self.health.set_condition("kafka", error.to_string());
                    }
                    warn!(%error, "cannot reach the topic yet, trying again");
                }
                outcome => return outcome,
            }
            self.pause(signals, hands, RETRY).await?;
        }
    }

    /// Opens something at the broker, on a thread that may wait for it.
    pub(super) async fn attempt<T: Send + 'static>(
        &mut self,
        signals: &mut Signals,
        hands: &mut Hands<'_>,
        open: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let opening = tokio::task::spawn_blocking(open);
        let opened = self.wait_for(signals, hands, opening).await?;
        let opened = opened.context("a thread that opens a topic panicked")??;
        self.health.clear("kafka");
        Ok(opened)
    }

    /// Waits this long.
    pub(super) async fn pause(
        &mut self,
        signals: &mut Signals,
        hands: &mut Hands<'_>,
        time: Duration,
    ) -> Result<()> {
        self.wait_for(signals, hands, tokio::time::sleep(time))
            .await
    }

    async fn wait_for<T>(
        &mut self,
        signals: &mut Signals,
        hands: &mut Hands<'_>,
        something: impl Future<Output = T>,
    ) -> Result<T> {
        let mut something = pin!(something);
        loop {
            tokio::select! {
                () = signals.stop() => return Err(Stopped.into()),
                found = &mut something => return Ok(found),
                Some(request) = self.orders.recv() => self.carry_out(request, hands),
            }
        }
    }
}

/// Whether the same attempt may succeed later.
pub(super) fn is_transient(error: &Error) -> bool {
    let of_kafka = error.downcast_ref().is_some_and(KafkaError::is_transient);
    of_kafka || error.downcast_ref().is_some_and(StateError::is_transient)
}
