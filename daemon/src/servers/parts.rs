//! Tasks without which the process is of no use.

use std::{future::Future, sync::Arc};

use anyhow::{Result, anyhow};
use tokio::{sync::watch, task::JoinSet};
use tracing::{debug, error};

use crate::health::Health;

/// Named tasks that stop together. If one fails, panics, or ends before it is told to, the process is no longer live,
/// which ends it.
pub(super) struct Parts {
    health: Arc<Health>,
    /// Sends true to stop; dropping it does the same.
    stopping: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Parts {
    pub(super) fn new(health: &Arc<Health>) -> Self {
        Self {
            health: Arc::clone(health),
            stopping: watch::Sender::new(false),
            tasks: JoinSet::new(),
        }
    }

    /// True or closed once the parts are to stop.
    pub(super) fn stopped(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    pub(super) fn start(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Result<()>> + Send + 'static,
    ) {
        let (health, stopped) = (Arc::clone(&self.health), self.stopped());
        self.tasks.spawn(async move {
            let ended = run(name, part).await;
            let stopping = *stopped.borrow() || stopped.has_changed().is_err();
            let failure = match ended {
                Ok(()) if stopping => return,
                Ok(()) => anyhow!("ended"),
                Err(failure) => failure,
            };
            error!(part = name, error = %format!("{failure:#}"), "a part of the server failed");
            health.fail(format!("the {name} failed: {failure:#}"));
        });
    }

    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Resolves when all have ended.
    pub(super) async fn ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// A task of its own, so that a panic is caught. Dropping the set aborts it.
async fn run(
    name: &'static str,
    part: impl Future<Output = Result<()>> + Send + 'static,
) -> Result<()> {
    let mut task = JoinSet::new();
    task.spawn(async move {
        debug!(part = name, "part started");
        fail::fail_point!(name);
        part.await
    });
    match task.join_next().await {
        Some(Ok(outcome)) => outcome,
        Some(Err(problem)) if problem.is_panic() => Err(anyhow!("panicked")),
        Some(Err(_)) | None => Ok(()),
    }
}
