//! Opens the topic of events, and waits for it while no broker answers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use ostar_connectors::{
    event::Offsets,
    kafka::{Committer, Connection, KafkaError, KafkaSettings, Reader},
};
use tokio::sync::mpsc;
use tracing::warn;

use super::offsets::Known;
use crate::{control::Request, health::Health, shutdown::Signals};

/// How long one attempt to reach the broker takes.
pub(super) const ATTEMPT: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const RETRY: Duration = Duration::from_secs(1);

/// The topic of events, opened at the first offset that is not both learned and emitted.
pub(super) struct OpenTopic {
    pub(super) reader: Reader,
    pub(super) committer: Committer,
    /// For every partition: outputs of events before these offsets are delivered or parked.
    pub(super) emitted: Offsets,
}

/// Opens something at the broker, again and again while none answers; `None` if the process is told to stop before. Orders
/// are carried out meanwhile.
pub(super) async fn wait_for<T: Send + 'static>(
    open: impl Fn() -> Result<T, KafkaError> + Clone + Send + 'static,
    patience: Duration,
    health: &Health,
    signals: &mut Signals,
    orders: &mut mpsc::Receiver<Request>,
    mut carry_out: impl FnMut(Request),
) -> Result<Option<T>> {
    let started = Instant::now();
    loop {
        let opening = tokio::task::spawn_blocking(open.clone());
        tokio::pin!(opening);
        let opened = loop {
            tokio::select! {
                () = signals.stop() => return Ok(None),
                opened = &mut opening => break opened.context("opening the reader panicked")?,
                Some(request) = orders.recv() => carry_out(request),
            }
        };
        match opened {
            Ok(topic) => {
                health.clear("kafka");
                return Ok(Some(topic));
            }
            Err(error) if error.is_transient() => {
                if started.elapsed() >= patience {
                    health.set_condition("kafka", error.to_string());
                }
                warn!(%error, "cannot reach the topic yet, trying again");
                tokio::select! {
                    () = signals.stop() => return Ok(None),
                    () = tokio::time::sleep(RETRY) => {}
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Opens the topic of samples behind what was learned. Without a checkpoint, at its beginning.
pub(super) fn open_samples(
    settings: &KafkaSettings,
    known: &Known,
) -> Result<(Reader, Committer), KafkaError> {
    let connection = Connection::open(settings, ATTEMPT)?;
    let committer = connection.committer(None);
    let connection = connection.expecting(known.topic_id.clone());
    Ok((connection.read_from(&known.learned, ATTEMPT)?, committer))
}

impl OpenTopic {
    pub(super) fn open(settings: &KafkaSettings, known: &Known) -> Result<Self, KafkaError> {
        let connection = Connection::open(settings, ATTEMPT)?;
        let committer = connection.committer(Some(&known.writer));
        let own = known.own(&connection.committed(ATTEMPT)?, settings)?;
        let mut emitted = known.emitted(&own);
        let connection = connection.expecting(known.topic_id.clone());
        let reader = connection.read_from(&known.first(&emitted, settings.start), ATTEMPT)?;
        for (partition, began) in reader.offsets() {
            emitted.entry(partition).or_insert(began);
        }
        // Lag tools see every partition from the first moment, and the broker keeps what it had long enough.
        committer.commit_and_wait(&emitted)?;
        Ok(Self {
            reader,
            committer,
            emitted,
        })
    }
}
