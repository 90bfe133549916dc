//! Whether the process is live, started and ready for requests, and if not, why.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Health as `/livez`, `/readyz`, `/startupz` and grpc.health.v1 report it. One for the whole process.
#[derive(Debug, Default)]
pub(crate) struct Health {
    inner: Mutex<Inner>,
    /// Wakes [`Health::subscribe`]rs. Carries no value: they read what they need.
    changes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    started: bool,
    /// Why the process cannot go on. Once set, it stays.
    failure: Option<String>,
    /// Reasons not to be ready, by the part that set them.
    obstacles: BTreeMap<&'static str, String>,
    /// What is wrong although predictions are served, by the part that set it.
    conditions: BTreeMap<&'static str, String>,
}

/// Parts that may have a condition. Metrics have a series for each.
pub(crate) const CONDITIONS: [&str; 13] = [
    "checkpoints",
    "class_order",
    "damaged_checkpoints",
    "events",
    "kafka",
    "label_requests",
    "labels",
    "listeners",
    "outputs",
    "registry",
    "state",
    "tls",
    "tokens",
];

impl Health {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Called when the first snapshot is served.
    pub(crate) fn set_started(&self) {
        self.change(|inner| inner.started = true);
    }

    /// Tells that something is wrong although predictions are served, until the part calls [`Health::clear`]. The
    /// process stays ready: an outage of Kafka must not take the model from those who ask it.
    pub(crate) fn set_condition(&self, part: &'static str, reason: impl Into<String>) {
        debug_assert!(CONDITIONS.contains(&part), "{part} has no series");
        self.change(|inner| inner.conditions.insert(part, reason.into()));
    }

    /// What is wrong although predictions are served, by part.
    pub(crate) fn conditions(&self) -> BTreeMap<&'static str, String> {
        self.with(|inner| inner.conditions.clone())
    }

    /// Makes the process not ready for this reason. Only for what keeps it from predicting.
    pub(crate) fn obstruct(&self, part: &'static str, reason: impl Into<String>) {
        self.change(|inner| inner.obstacles.insert(part, reason.into()));
    }

    /// Takes back what the part told, if anything.
    pub(crate) fn clear(&self, part: &'static str) {
        let known = self.with(|inner| {
            inner.obstacles.contains_key(part) || inner.conditions.contains_key(part)
        });
        if known {
            self.change(|inner| {
                inner.obstacles.remove(part);
                inner.conditions.remove(part)
            });
        }
    }

    /// Makes the process unlive for good. The first reason is kept: later ones are consequences.
    pub(crate) fn fail(&self, reason: impl Into<String>) {
        self.change(|inner| {
            inner.failure.get_or_insert(reason.into());
        });
    }

    /// A receiver that sees every change from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub(crate) fn is_started(&self) -> bool {
        self.with(|inner| inner.started)
    }

    /// `Err` says what failed.
    pub(crate) fn liveness(&self) -> Result<(), String> {
        self.with(|inner| match &inner.failure {
            None => Ok(()),
            Some(failure) => Err(failure.clone()),
        })
    }

    /// `Err` lists every reason, one per line.
    pub(crate) fn readiness(&self) -> Result<(), String> {
        self.with(|inner| {
            let starting = (!inner.started).then(|| "starting: no model loaded yet".to_owned());
            let obstacles = inner.obstacles.iter();
            let obstacles = obstacles.map(|(part, reason)| format!("{part}: {reason}"));
            let reasons = starting.into_iter().chain(inner.failure.clone());
            let reasons: Vec<_> = reasons.chain(obstacles).collect();
            if reasons.is_empty() {
                Ok(())
            } else {
                Err(reasons.join("\n"))
            }
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) {
        self.with(change);
        self.changes.send_replace(());
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner) -> T) -> T {
        look(&mut self.inner.lock())
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
        health.set_condition("outputs", "unknown topic");
        assert_eq!(health.readiness(), Ok(()));
        assert_eq!(health.conditions()["outputs"], "unknown topic");
        health.clear("outputs");
        assert!(health.conditions().is_empty());
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
