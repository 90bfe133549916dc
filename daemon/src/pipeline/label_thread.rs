//! The labels thread: reads late labels and passes them on to the learner.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use crossbeam_channel::{SendTimeoutError, Sender};
use ostar_connectors::{
    event::{Offsets, TimeLimit},
    kafka::{KafkaSettings, LabelReader, Polled},
    labels::LabelDecoder,
};
use ostar_method::learner::ArrivedLabel;
use tracing::{debug, info, warn};

use super::{
    PipelineSetup, block_learner::Publisher, flags::PipelineFlags, label_intake::FromLabels,
};
use crate::{clock::now_ms, health::Health};

/// How long one attempt to open the topic takes, so that stopping is noticed.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Pause between two attempts.
const RETRY: Duration = Duration::from_secs(1);
/// How long a poll waits, so that stopping is noticed.
const POLL: Duration = Duration::from_millis(50);
/// How long there must have been nothing to read before it is told that everything was read. A record takes a moment
/// from its time to the reader.
const QUIET: Duration = Duration::from_millis(500);

/// Reads the topic of labels, as soon as there is one. Learning and serving do not wait for it.
pub(crate) struct LabelThread {
    /// `None` while the topic cannot be read.
    reader: Option<LabelReader>,
    kafka: KafkaSettings,
    topic: String,
    /// Offsets of the checkpoint; empty without one.
    resume: Offsets,
    to_learner: Sender<FromLabels>,
    decoder: LabelDecoder,
    times: TimeLimit,
    health: Arc<Health>,
    publisher: Publisher,
}

impl LabelThread {
    /// Tries to open the topic at once, because labels count from then on. The thread goes on trying.
    pub(crate) fn new(
        setup: &PipelineSetup<'_>,
        resume: Offsets,
        to_learner: Sender<FromLabels>,
    ) -> Result<Self> {
        let config = setup.config;
        let classes = &setup.bundle.description().classes;
        let topic = config.labels.topic.clone().unwrap_or_default();
        let reader = match LabelReader::open(&config.kafka, &topic, &resume, ATTEMPT) {
            Ok(reader) => Some(reader),
            Err(error) if error.is_transient() => None,
            Err(error) => return Err(error).context("cannot read labels.topic"),
        };
        Ok(Self {
            reader,
            kafka: config.kafka.clone(),
            topic,
            resume,
            to_learner,
            decoder: LabelDecoder::new(&config.labels, classes),
            times: TimeLimit::new(&config.events),
            health: Arc::clone(&setup.health),
            publisher: setup.publisher.clone(),
        })
    }

    pub(crate) fn run(mut self, flags: &PipelineFlags) -> Result<()> {
        let reader = match self.reader.take() {
            Some(reader) => Some(reader),
            None => self.open(flags)?,
        };
        let Some(mut reader) = reader else {
            return Ok(());
        };
        self.tell(FromLabels::Opened(reader.offsets()), flags);
        let mut quiet_since = Instant::now();
        while !flags.is_stopping() {
            match reader.poll(POLL) {
                Ok(Polled::Idle) => {}
                Ok(polled) => {
                    quiet_since = Instant::now();
                    self.take(polled, flags);
                }
                Err(error) if error.is_transient() => {
                    // A commit failed. The next one includes its offsets.
                    warn!(%error, "cannot commit offsets of labels");
                    thread::sleep(POLL);
                }
                Err(error) => return Err(error).context("cannot read labels.topic"),
            }
            if quiet_since.elapsed() >= QUIET && reader.is_at_end() {
                let until_ms = now_ms() as i64 - QUIET.as_millis() as i64;
                self.tell(FromLabels::CaughtUp(until_ms), flags);
            }
        }
        if let Err(error) = reader.close() {
            warn!(%error, "cannot commit offsets of labels; the next start reads the last ones again");
        }
        Ok(())
    }

    /// Waits for the topic; `None` if the process stops before.
    fn open(&self, flags: &PipelineFlags) -> Result<Option<LabelReader>> {
        let mut told = false;
        loop {
            match LabelReader::open(&self.kafka, &self.topic, &self.resume, ATTEMPT) {
                Ok(reader) => {
                    if told {
                        self.health.clear("labels");
                        info!(topic = self.topic, "the topic of labels is there");
                    }
                    return Ok(Some(reader));
                }
                Err(error) if error.is_transient() => {
                    if !told {
                        told = true;
                        warn!(%error, "cannot read labels yet, trying again");
                    }
                    self.health.set_condition("labels", error.to_string());
                }
                Err(error) => return Err(error).context("cannot read labels.topic"),
            }
            let retry = Instant::now() + RETRY;
            while Instant::now() < retry {
                if flags.is_stopping() {
                    return Ok(None);
                }
                thread::sleep(POLL);
            }
        }
    }

    fn take(&self, polled: Polled<'_>, flags: &PipelineFlags) {
        match polled {
            Polled::Record(record) => {
                let (partition, offset) = (record.partition, record.offset);
                let Some(payload) = record.payload() else {
                    self.publisher.metrics.ingest.tombstone("labels");
                    return self.tell(FromLabels::Skipped { partition, offset }, flags);
                };
                // A time stamp of the year 2100 would hold back all labels behind it.
                let in_time = self.times.check(None, record.timestamp_ms);
                let message = match in_time.and_then(|()| self.decoder.decode(payload)) {
                    Ok(label) => FromLabels::Label {
                        partition,
                        offset,
                        label: ArrivedLabel {
                            id: label.id,
                            class: label.class,
                            time_ms: record.timestamp_ms.unwrap_or(0),
                        },
                    },
                    Err(reject) => {
                        debug!(%reject, "rejected a label");
                        self.publisher.metrics.labels.rejected();
                        FromLabels::Skipped { partition, offset }
                    }
                };
                self.tell(message, flags);
            }
            // Ingest gets the same notices of the broker, and acts on them.
            Polled::Notice(notice) => debug!(?notice, "notice from the labels topic"),
            Polled::Idle => {}
        }
    }

    /// Waits while the learner has no room: labels that are far ahead of events.
    fn tell(&self, message: FromLabels, flags: &PipelineFlags) {
        let mut message = message;
        while let Err(SendTimeoutError::Timeout(unsent)) =
            self.to_learner.send_timeout(message, POLL)
        {
            if flags.is_stopping() {
                return;
            }
            message = unsent;
        }
    }
}
