//! A producer that counts deliveries, so that a flush can say whether everything arrived.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError as RdKafkaError, RDKafkaErrorCode},
    message::DeliveryResult,
    producer::{BaseProducer, BaseRecord, Producer, ProducerContext},
};

use super::{
    client::{self, log_line},
    error::{KafkaError, describe},
    outputs::OutputError,
    settings::KafkaSettings,
};

/// Sends messages and counts their deliveries. One thread owns it and polls for delivery reports as it sends.
pub(super) struct Delivery {
    config: ClientConfig,
    producer: BaseProducer<Reports>,
    /// Messages since the counters were last reset, by `settle`.
    sent: u64,
}

/// Delivery reports of one producer, counted. librdkafka calls it on the thread that polls.
#[derive(Default)]
struct Reports {
    delivered: AtomicU64,
    failed: AtomicU64,
    last_failure: Mutex<Option<String>>,
}

/// Messages between two polls for delivery reports.
const SENDS_BETWEEN_POLLS: u64 = 256;
/// How long a send waits for room in a full queue before it returns, so that the caller can check for a shutdown.
const QUEUE_FULL_WAIT: Duration = Duration::from_secs(1);
const POLL_SLICE: Duration = Duration::from_millis(50);

// === impl Delivery ===

impl Delivery {
    pub(super) fn new(settings: &KafkaSettings) -> Result<Self, KafkaError> {
        let config = client::producer_config(settings)?;
        let producer = client::create(&config, Reports::default())?;
        Ok(Self {
            config,
            producer,
            sent: 0,
        })
    }

    /// Queues a message. Waits only if librdkafka's queue is full.
    pub(super) fn send(
        &mut self,
        mut record: BaseRecord<'_, [u8], [u8]>,
    ) -> Result<(), OutputError> {
        if self.sent.is_multiple_of(SENDS_BETWEEN_POLLS) {
            self.producer.poll(Duration::ZERO);
        }
        let deadline = Instant::now() + QUEUE_FULL_WAIT;
        loop {
            let (error, refused) = match self.producer.send(record) {
                Ok(()) => {
                    self.sent += 1;
                    return Ok(());
                }
                Err(refusal) => refusal,
            };
            match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::QueueFull) if Instant::now() < deadline => {
                    self.producer.poll(POLL_SLICE);
                    record = refused;
                }
                Some(RDKafkaErrorCode::QueueFull) => return Err(OutputError::Full),
                Some(RDKafkaErrorCode::Fatal) => {
                    // Counted as lost. The next flush reports it and makes a new producer, as for any other loss.
                    self.sent += 1;
                    self.producer.context().fail(&error);
                    return Ok(());
                }
                _ => {
                    return Err(OutputError::Refused {
                        topic: refused.topic.to_owned(),
                        reason: describe(&error),
                    });
                }
            }
        }
    }

    /// `Ok` if everything sent since the last `Ok` or [`OutputError::Lost`] has arrived.
    pub(super) fn flush(&mut self, timeout: Duration) -> Result<(), OutputError> {
        let deadline = Instant::now() + timeout;
        loop {
            let reports = self.producer.context();
            let failed = reports.failed.load(Ordering::Acquire);
            let waiting = self.sent - failed - reports.delivered.load(Ordering::Acquire);
            if waiting == 0 {
                return self.settle(failed);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(OutputError::Timeout { waiting });
            }
            self.producer.poll(left.min(POLL_SLICE));
        }
    }

    /// Resets the counters once no message is under way, and replaces a producer that has failed for good.
    fn settle(&mut self, failed: u64) -> Result<(), OutputError> {
        let reports = self.producer.context();
        let reason = reports.take_last_failure();
        reports.delivered.store(0, Ordering::Release);
        reports.failed.store(0, Ordering::Release);
        self.sent = 0;
        if failed == 0 {
            return Ok(());
        }
        // After a fatal error an idempotent producer sends nothing any more.
        if self.producer.client().fatal_error().is_some() {
            self.producer = client::create(&self.config, Reports::default())?;
        }
        Err(OutputError::Lost {
            lost: failed,
            reason: reason.unwrap_or_default(),
        })
    }
}

// === impl Reports ===

impl Reports {
    fn fail(&self, error: &RdKafkaError) {
        let mut last = self
            .last_failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(describe(error));
        self.failed.fetch_add(1, Ordering::AcqRel);
    }

    fn take_last_failure(&self) -> Option<String> {
        let last = self.last_failure.lock();
        last.unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for Reports {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        log_line(level, facility, message);
    }

    fn error(&self, error: RdKafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", error = %describe(&error), reason);
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => drop(self.delivered.fetch_add(1, Ordering::AcqRel)),
            Err((error, _)) => self.fail(error),
        }
    }
}
