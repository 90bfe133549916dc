//! Opens the topic of events, and waits for it while no broker answers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ostar_connectors::{
    event::Offsets,
    kafka::{Committer, Connection, KafkaError, KafkaSettings, Reader},
};
use tracing::warn;

use super::resume::first_offsets;
use crate::{health::Health, shutdown::Signals};

/// How long one attempt to reach the broker takes.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const RETRY: Duration = Duration::from_secs(1);

/// The topic of events, opened at the first offset that is not both learned and emitted.
pub(super) struct OpenTopic {
    pub(super) reader: Reader,
    pub(super) committer: Committer,
    /// What the group has committed: outputs of events before these offsets were flushed by an earlier run.
    pub(super) emitted: Offsets,
}

impl OpenTopic {
    /// Opens the topic, again and again while no broker answers; `None` if the process is told to stop before.
    pub(super) async fn wait(
        settings: &KafkaSettings,
        learned: &Offsets,
        health: &Health,
        signals: &mut Signals,
    ) -> Result<Option<Self>> {
        let started = Instant::now();
        loop {
            let (kafka, learned) = (settings.clone(), learned.clone());
            let opening = tokio::task::spawn_blocking(move || Self::open(&kafka, &learned));
            let opened = tokio::select! {
                () = signals.stop() => return Ok(None),
                opened = opening => opened.context("opening the reader panicked")?,
            };
            match opened {
                Ok(topic) => {
                    health.clear("kafka");
                    return Ok(Some(topic));
                }
                Err(error) if error.is_transient() => {
                    warn!(%error, "cannot reach the topic yet, trying again");
                    if started.elapsed() >= settings.patience.get() {
                        health.set_condition("kafka", error.to_string());
                    }
                    tokio::select! {
                        () = signals.stop() => return Ok(None),
                        () = tokio::time::sleep(RETRY) => {}
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn open(settings: &KafkaSettings, learned: &Offsets) -> Result<Self, KafkaError> {
        let connection = Connection::open(settings, ATTEMPT)?;
        let committer = connection.committer();
        let emitted = connection.committed(ATTEMPT)?;
        let first = first_offsets(learned, &emitted, settings.start);
        let reader = connection.read_from(&first, ATTEMPT)?;
        if emitted.is_empty() {
            // With this commit the group tells where outputs begin, even if the process dies before its first flush.
            committer.commit_and_wait(&reader.offsets())?;
        }
        Ok(Self {
            reader,
            committer,
            emitted,
        })
    }
}
