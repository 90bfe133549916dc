//! Sends records to any topic, for `replay`, the demo and requests for labels.

use std::time::{Duration, Instant};

use rdkafka::producer::BaseRecord;

use super::{
    delivery::{Delivery, Unsent},
    outputs::OutputError,
    settings::KafkaSettings,
};

/// A producer of the configured brokers.
pub struct Sender {
    delivery: Delivery,
    lost: u64,
    last_reason: String,
    /// Records since the last poll.
    unpolled: usize,
}

/// Records between two polls for delivery reports.
const SENDS_BETWEEN_POLLS: usize = 256;
const POLL_SLICE: Duration = Duration::from_millis(50);

impl Sender {
    /// Makes the producer. Does not wait for a broker.
    pub fn open(kafka: &KafkaSettings) -> Result<Self, OutputError> {
        Ok(Self {
            delivery: Delivery::new(kafka)?,
            lost: 0,
            last_reason: String::new(),
            unpolled: 0,
        })
    }

    /// Queues a record, with the current time unless another is given. After [`OutputError::Full`] call again.
    pub fn send(
        &mut self,
        topic: &str,
        key: &str,
        payload: &[u8],
        time_ms: Option<i64>,
    ) -> Result<(), OutputError> {
        self.unpolled += 1;
        if self.unpolled >= SENDS_BETWEEN_POLLS {
            self.poll(Duration::ZERO)?;
        }
        let mut record = BaseRecord::to(topic).key(key.as_bytes()).payload(payload);
        record.timestamp = time_ms;
        self.delivery
            .send(record, 0)
            .map_err(|unsent| match unsent {
                Unsent::Full => OutputError::Full,
                Unsent::Refused(refusal) => OutputError::Refused {
                    topic: topic.to_owned(),
                    reason: refusal.reason,
                },
            })
    }

    /// [`Sender::send`], and waits while the queue is full: a slow broker costs time, but no core.
    pub fn hand_over(
        &mut self,
        topic: &str,
        key: &str,
        payload: &[u8],
        time_ms: Option<i64>,
    ) -> Result<(), OutputError> {
        loop {
            match self.send(topic, key, payload, time_ms) {
                Err(OutputError::Full) => self.poll(POLL_SLICE)?,
                outcome => return outcome,
            }
        }
    }

    /// Waits until every queued record has arrived.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), OutputError> {
        let deadline = Instant::now() + timeout;
        while self.delivery.waiting() > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let waiting = self.delivery.waiting();
                let refused = None;
                return Err(OutputError::Timeout { waiting, refused });
            }
            self.poll(left.min(POLL_SLICE))?;
        }
        match std::mem::take(&mut self.lost) {
            0 => Ok(()),
            lost => Err(OutputError::Lost {
                lost,
                reason: std::mem::take(&mut self.last_reason),
            }),
        }
    }

    fn poll(&mut self, timeout: Duration) -> Result<(), OutputError> {
        self.unpolled = 0;
        for report in self.delivery.poll(timeout)? {
            if let Err(refusal) = report.outcome {
                self.lost += 1;
                self.last_reason = refusal.reason;
            }
        }
        Ok(())
    }
}
