//! A producer that knows whether all it was given has arrived.

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

/// Sends and counts. One thread owns it and serves its delivery reports as it sends.
pub(super) struct Delivery {
    config: ClientConfig,
    producer: BaseProducer<Reports>,
    /// Since the last successful flush.
    sent: u64,
}

/// What became of the messages of one producer.
#[derive(Default)]
struct Reports {
    delivered: AtomicU64,
    failed: AtomicU64,
    last_failure: Mutex<Option<String>>,
}

/// Delivery reports are served once in so many messages.
const SENDS_BETWEEN_POLLS: u64 = 256;
/// A full queue is waited for so long before the caller hears of it, and may stop.
const FULL_WAIT: Duration = Duration::from_secs(1);
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

    /// Takes a message. Waits only if librdkafka's queue is full.
    pub(super) fn send(
        &mut self,
        mut record: BaseRecord<'_, [u8], [u8]>,
    ) -> Result<(), OutputError> {
        if self.sent.is_multiple_of(SENDS_BETWEEN_POLLS) {
            self.producer.poll(Duration::ZERO);
        }
        let deadline = Instant::now() + FULL_WAIT;
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
                    // The next flush tells, and starts anew: one place for what is lost.
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

    /// `Ok`: all that was sent since the last `Ok` or [`OutputError::Lost`] has arrived.
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

    /// Nothing is under way any more.
    fn settle(&mut self, failed: u64) -> Result<(), OutputError> {
        let reports = self.producer.context();
        let reason = reports.take_last_failure();
        reports.delivered.store(0, Ordering::Release);
        reports.failed.store(0, Ordering::Release);
        self.sent = 0;
        if failed == 0 {
            return Ok(());
        }
        // An idempotent producer that has lost a message may be unable to send another.
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
