//! A producer that reports the fate of every single message.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError as RdKafkaError, RDKafkaErrorCode},
    message::DeliveryResult,
    producer::{BaseProducer, BaseRecord, Producer, ProducerContext, PurgeConfig},
};

use super::{
    client::{self, log_line},
    error::{KafkaError, describe},
    settings::KafkaSettings,
};

/// Sends messages and collects their delivery reports. One thread owns it and polls.
pub(super) struct Delivery {
    config: ClientConfig,
    producer: BaseProducer<Reports>,
    /// Messages without a report.
    waiting: usize,
}

/// What became of the message that was sent with this ticket.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) ticket: usize,
    pub(super) outcome: Result<(), Refusal>,
}

/// Why a message was not delivered.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    pub(super) kind: RefusalKind,
    pub(super) reason: String,
}

/// What to do with a refused message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusalKind {
    /// It may be taken later: a topic that is gone, a client that failed.
    ForNow,
    /// It will never be taken: the daemon may not write there, or the message alone is too large for the client.
    ForGood,
    /// The broker refused the message's whole batch, perhaps because of another one. Alone it may be taken.
    Batch,
    /// The same, because the batch is too large.
    TooLarge,
}

/// Why a message could not be queued.
#[derive(Debug)]
pub(super) enum Unsent {
    /// librdkafka's queue has been full for a second.
    Full,
    Refused(Refusal),
}

/// Delivery reports of one producer. librdkafka adds to them on the thread that polls.
#[derive(Default)]
struct Reports {
    arrived: Mutex<Vec<Report>>,
}

/// How long a send waits for room in a full queue before it returns, so that the caller can check for a shutdown.
const QUEUE_FULL_WAIT: Duration = Duration::from_secs(1);
const POLL_SLICE: Duration = Duration::from_millis(50);
/// A report is noticed after this time at the latest.
const REPORT_SLICE: Duration = Duration::from_millis(1);

// === impl Delivery ===

impl Delivery {
    pub(super) fn new(settings: &KafkaSettings) -> Result<Self, KafkaError> {
        let config = client::producer_config(settings)?;
        let producer = client::create(&config, Reports::default())?;
        Ok(Self {
            config,
            producer,
            waiting: 0,
        })
    }

    /// Queues a message; its report will carry the ticket. Waits only if librdkafka's queue is full.
    pub(super) fn send(
        &mut self,
        record: BaseRecord<'_, [u8], [u8]>,
        ticket: usize,
    ) -> Result<(), Unsent> {
        let mut record = BaseRecord {
            topic: record.topic,
            partition: record.partition,
            payload: record.payload,
            key: record.key,
            timestamp: record.timestamp,
            headers: record.headers,
            delivery_opaque: ticket,
        };
        let deadline = Instant::now() + QUEUE_FULL_WAIT;
        loop {
            let (error, refused) = match self.producer.send(record) {
                Ok(()) => {
                    self.waiting += 1;
                    return Ok(());
                }
                Err(refusal) => refusal,
            };
            match error.rdkafka_error_code() {
                Some(RDKafkaErrorCode::QueueFull) if Instant::now() < deadline => {
                    self.producer.poll(POLL_SLICE);
                    record = refused;
                }
                Some(RDKafkaErrorCode::QueueFull) => return Err(Unsent::Full),
                code => {
                    // The client itself refuses this very message: there is no batch yet.
                    let kind = match RefusalKind::of(code) {
                        RefusalKind::Batch | RefusalKind::TooLarge => RefusalKind::ForGood,
                        kind => kind,
                    };
                    let reason = describe(&error);
                    return Err(Unsent::Refused(Refusal { kind, reason }));
                }
            }
        }
    }

    /// Waits for reports, at most this long, and returns as soon as there are some, with all that have arrived.
    pub(super) fn poll(&mut self, timeout: Duration) -> Result<Vec<Report>, KafkaError> {
        let deadline = Instant::now() + timeout;
        let mut arrived = Vec::new();
        loop {
            // The client's own poll waits until its time is over, whatever arrives. Without time it takes one event.
            let left = deadline.saturating_duration_since(Instant::now());
            let wait = if arrived.is_empty() {
                left
            } else {
                Duration::ZERO
            };
            self.producer.poll(wait.min(REPORT_SLICE));
            let more = self.producer.context().take();
            if more.is_empty() && (!arrived.is_empty() || left.is_zero()) {
                break;
            }
            arrived.extend(more);
        }
        self.waiting -= arrived.len();
        // After a fatal error an idempotent producer sends nothing any more.
        if self.waiting == 0 && self.producer.client().fatal_error().is_some() {
            self.producer = client::create(&self.config, Reports::default())?;
        }
        Ok(arrived)
    }

    /// Messages without a report.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes all messages back that are not delivered yet. Those that are on their way to the broker may still arrive.
    pub(super) fn take_back(&self) {
        self.producer
            .purge(PurgeConfig::default().queue().inflight());
    }
}

// === impl RefusalKind ===

impl RefusalKind {
    fn of(code: Option<RDKafkaErrorCode>) -> Self {
        use RDKafkaErrorCode as Code;
        match code {
            Some(Code::MessageSizeTooLarge) => Self::TooLarge,
            Some(Code::InvalidMessageSize | Code::InvalidRecord | Code::InvalidDifferentRecord) => {
                Self::Batch
            }
            Some(
                Code::TopicAuthorizationFailed
                | Code::InvalidTopic
                | Code::PolicyViolation
                | Code::InvalidTimestamp,
            ) => Self::ForGood,
            _ => Self::ForNow,
        }
    }
}

// === impl Reports ===

impl Reports {
    fn take(&self) -> Vec<Report> {
        let arrived = self.arrived.lock();
        std::mem::take(&mut *arrived.unwrap_or_else(PoisonError::into_inner))
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
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: usize) {
        let outcome = match result {
            Ok(_) => Ok(()),
            Err((error, _)) => Err(Refusal {
                kind: RefusalKind::of(error.rdkafka_error_code()),
                reason: describe(error),
            }),
        };
        let arrived = self.arrived.lock();
        let mut arrived = arrived.unwrap_or_else(PoisonError::into_inner);
        arrived.push(Report { ticket, outcome });
    }
}
