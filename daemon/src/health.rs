//! Whether the process lives, has started, and may be sent requests; and if not, why.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::watch;

/// What `/livez`, `/readyz`, `/startupz` and grpc.health.v1 tell. One for the whole process.
#[derive(Debug, Default)]
pub(crate) struct Health {
    inner: Mutex<Inner>,
    /// Wakes those who wait for a change.
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    started: bool,
    /// A part died that the process cannot go on without.
    failure: Option<String>,
    /// Reasons not to be ready, by the part that has them.
    obstacles: BTreeMap<&'static str, String>,
}

impl Health {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// A first snapshot is there to serve.
    pub(crate) fn set_started(&self) {
        self.change(|inner| inner.started = true);
    }

    /// Not ready from now on, for this part's reason, until [`Health::clear`].
    pub(crate) fn obstruct(&self, part: &'static str, reason: impl Into<String>) {
        self.change(|inner| inner.obstacles.insert(part, reason.into()));
    }

    /// The part has no reason any more.
    pub(crate) fn clear(&self, part: &'static str) {
        self.change(|inner| inner.obstacles.remove(part));
    }

    /// A part died; the first reason stays.
    pub(crate) fn fail(&self, reason: impl Into<String>) {
        self.change(|inner| {
            inner.failure.get_or_insert(reason.into());
        });
    }

    /// Is told of every change from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(crate) fn is_started(&self) -> bool {
        self.with(|inner| inner.started)
    }

    /// `Err` names what died.
    pub(crate) fn liveness(&self) -> Result<(), String> {
        self.with(|inner| match &inner.failure {
            None => Ok(()),
            Some(failure) => Err(failure.clone()),
        })
    }

    /// `Err` lists every reason, one a line.
    pub(crate) fn readiness(&self) -> Result<(), String> {
        self.with(|inner| {
            let starting = (!inner.started).then(|| "starting: no model loaded yet".to_owned());
            let obstacles = inner.obstacles.iter();
            let obstacles = obstacles.map(|(part, reason)| format!("{part}: {reason}"));
            let reasons = starting.into_iter().chain(inner.failure.clone());
            let reasons: Vec<_> = reasons.chain(obstacles).collect();
            match reasons.is_empty() {
                true => Ok(()),
                false => Err(reasons.join("\n")),
            }
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) {
        self.with(change);
        self.changes.send_replace(());
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        // A panic elsewhere must not take the health endpoints along.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        look(&mut inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_lists_every_reason_and_liveness_only_failures() {
        let health = Health::new();
        assert!(health.readiness().unwrap_err().starts_with("starting"));
        health.set_started();
        assert_eq!(health.readiness(), Ok(()));
        health.obstruct("kafka", "no broker for 30s");
        health.obstruct("events", "too many bad ones");
        let reasons = health.readiness().unwrap_err();
        assert_eq!(
            reasons,
            "events: too many bad ones\nkafka: no broker for 30s"
        );
        assert_eq!(health.liveness(), Ok(()));
        health.clear("kafka");
        health.clear("events");
        assert_eq!(health.readiness(), Ok(()));
        health.fail("learner: panicked");
        health.fail("ingest: stopped");
        assert_eq!(health.liveness(), Err("learner: panicked".into()));
    }
}
