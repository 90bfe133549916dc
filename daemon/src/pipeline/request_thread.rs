//! The thread that asks for labels: writes the ids that the learner has drawn to `labels.requests.topic`.
//!
//! What was asked for and has no label is part of the learner's state. The thread follows it, so that nothing is lost while
//! the topic cannot be written, or across a restart. After a crash the newest requests are written twice.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use ostar_connectors::kafka::{OutputError, Sender};
use ostar_method::{Candidate, learner::LabelRequest};
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use super::{PipelineSetup, flags::PipelineFlags};
use crate::{health::Health, metrics::Metrics, status::Status};

/// How often new requests are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long one attempt waits for the broker, so that stopping is noticed.
const ATTEMPT: Duration = Duration::from_secs(1);

pub(crate) struct RequestThread {
    sender: Sender,
    topic: String,
    classes: Vec<String>,
    status: watch::Receiver<Status>,
    /// Requests of blocks up to this one are delivered. Part of the checkpoint.
    delivered: Arc<AtomicU64>,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
}

impl RequestThread {
    /// `None` if `labels.requests.topic` is not set.
    pub(super) fn new(
        setup: &PipelineSetup<'_>,
        delivered: &Arc<AtomicU64>,
    ) -> Result<Option<Self>> {
        let Some(topic) = setup.config.labels.requests.topic.clone() else {
            return Ok(None);
        };
        let sender =
            Sender::open(&setup.config.kafka).context("cannot write labels.requests.topic")?;
        Ok(Some(Self {
            sender,
            topic,
            classes: setup.bundle.description().classes.clone(),
            status: setup.publisher.status.subscribe(),
            delivered: Arc::clone(delivered),
            health: Arc::clone(&setup.health),
            metrics: Arc::clone(&setup.publisher.metrics),
        }))
    }

    pub(crate) fn run(mut self, flags: &PipelineFlags) -> Result<()> {
        let mut told = false;
        while !flags.is_stopping() {
            let wanted = Arc::clone(&self.status.borrow().wanted);
            let delivered = self.delivered.load(Ordering::Relaxed);
            let first = wanted.partition_point(|request| request.block <= delivered);
            let new = &wanted[first..];
            match self.send(new) {
                Ok(()) => {
                    if let Some(newest) = new.last() {
                        self.delivered.store(newest.block, Ordering::Relaxed);
                        self.metrics.labels.requested(new);
                    }
                    if std::mem::take(&mut told) {
                        self.health.clear("label_requests");
                        info!("requests for labels are delivered again");
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        warn!(%error, "cannot write requests for labels, trying again");
                    }
                    self.health
                        .set_condition("label_requests", error.to_string());
                }
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Writes requests and waits for the broker; on an error all are written again.
    fn send(&mut self, requests: &[LabelRequest]) -> Result<(), OutputError> {
        for request in requests {
            let record = describe(request, &self.classes).to_string();
            self.sender
                .send(&self.topic, &request.id, record.as_bytes(), None)?;
        }
        if requests.is_empty() {
            return Ok(());
        }
        self.sender.flush(ATTEMPT)
    }
}

/// A request as its topic has it.
fn describe(request: &LabelRequest, classes: &[String]) -> Value {
    let named = |candidate: Candidate| {
        let class = request.predicted[candidate as usize] as usize;
        classes.get(class).map_or("", String::as_str)
    };
    json!({
        "id": request.id,
        "reason": request.kind.name(),
        "block": request.block,
        "time_ms": request.time_ms,
        "predictions": {
            "frozen": named(Candidate::Frozen),
            "prior": named(Candidate::Prior),
            "adapted": named(Candidate::Adapted),
        },
    })
}
