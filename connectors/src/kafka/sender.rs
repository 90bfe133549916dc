//! Sends records to any topic, for `replay`.

use std::time::Duration;

use rdkafka::producer::BaseRecord;

use super::{delivery::Delivery, outputs::OutputError, settings::KafkaSettings};

/// A producer of the configured brokers.
pub struct Sender {
    delivery: Delivery,
}

impl Sender {
    /// Makes the producer. Does not wait for a broker.
    pub fn open(kafka: &KafkaSettings) -> Result<Self, OutputError> {
        Ok(Self {
            delivery: Delivery::new(kafka)?,
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
        let mut record = BaseRecord::to(topic).key(key.as_bytes()).payload(payload);
        record.timestamp = time_ms;
        self.delivery.send(record)
    }

    /// Waits until every queued record has arrived.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), OutputError> {
        self.delivery.flush(timeout)
    }
}
