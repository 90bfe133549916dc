//! Sends predictions and dead letters, at least once, with headers that name their event.

use std::time::Duration;

use prost::Message as _;
use rdkafka::{
    message::{Header, OwnedHeaders},
    producer::BaseRecord,
};

use super::{
    dead_letter_file::DeadLetterFile,
    delivery::Delivery,
    error::KafkaError,
    prediction_json,
    settings::{DeadLetterSettings, KafkaSettings, PredictionFormat, PredictionSettings},
};
use crate::{event::EventMeta, proto::Prediction};

/// Sends predictions and dead letters to topics or a file. One thread owns it.
pub struct Outputs {
    /// Topic of the events, for the headers.
    event_topic: String,
    predictions: Option<(String, PredictionFormat)>,
    dead_letters: DeadLetterSink,
    max_bytes: usize,
    /// `None` if nothing goes to a topic; then no producer is made.
    delivery: Option<Delivery>,
    buffer: Vec<u8>,
}

enum DeadLetterSink {
    Nowhere,
    Topic(String),
    File(DeadLetterFile),
}

/// A rejected event, borrowed from its chunk.
#[derive(Debug, Clone, Copy)]
pub struct DeadLetter<'a> {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// The record's key; `None` if it has none.
    pub key: Option<&'a [u8]>,
    /// The record's value, or the beginning of it.
    pub payload: &'a [u8],
    /// Bytes of the record's value before it was cut.
    pub size: usize,
    /// Name of the [`RejectReason`](crate::event::RejectReason), which metrics count by.
    pub reason: &'a str,
    /// What is wrong and what was expected, for people.
    pub detail: &'a str,
}

/// Why an output was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The producer could not be made.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// librdkafka's queue has been full for a second. The message was not queued: call again.
    #[error("the queue of outgoing messages is full; is a broker running?")]
    Full,
    /// Some messages are still under way. Nothing is lost: flush again.
    #[error("{waiting} outgoing messages are not delivered yet")]
    Timeout {
        /// Messages without a delivery report.
        waiting: u64,
    },
    /// Messages are lost: everything sent since the last successful flush has to be sent again.
    #[error("{lost} outgoing messages were not delivered: {reason}")]
    Lost {
        /// Messages whose delivery failed.
        lost: u64,
        /// Why the last of them failed.
        reason: String,
    },
    /// librdkafka will never take this message, for example because it is too large.
    #[error("a message to topic {topic:?} was refused: {reason}")]
    Refused {
        /// Topic that the message was for.
        topic: String,
        /// Message of librdkafka.
        reason: String,
    },
    /// The file of dead letters cannot be opened or written.
    #[error("cannot write dead_letters.file {path}: {problem}")]
    File {
        /// Value of `dead_letters.file`.
        path: String,
        /// Error of the operating system.
        problem: std::io::Error,
    },
}

// === impl Outputs ===

impl Outputs {
    /// Opens the file or makes the producer that the configuration asks for. Does not wait for a broker.
    pub fn open(
        kafka: &KafkaSettings,
        predictions: &PredictionSettings,
        dead_letters: &DeadLetterSettings,
    ) -> Result<Self, OutputError> {
        let sink = match (&dead_letters.topic, &dead_letters.file) {
            (Some(topic), _) => DeadLetterSink::Topic(topic.clone()),
            (None, Some(path)) => DeadLetterSink::File(DeadLetterFile::open(path)?),
            (None, None) => DeadLetterSink::Nowhere,
        };
        let to_topic = predictions.topic.is_some() || matches!(sink, DeadLetterSink::Topic(_));
        let delivery = if to_topic {
            Some(Delivery::new(kafka)?)
        } else {
            None
        };
        let topic = predictions.topic.clone();
        Ok(Self {
            event_topic: kafka.topic.clone(),
            predictions: topic.map(|topic| (topic, predictions.format)),
            dead_letters: sink,
            max_bytes: dead_letters.max_bytes,
            delivery,
            buffer: Vec::new(),
        })
    }

    /// Whether predictions are sent at all; if not, the caller need not build them.
    pub fn takes_predictions(&self) -> bool {
        self.predictions.is_some()
    }

    /// Sends an event's prediction with the event's id as key. Does nothing without `predictions.topic`.
    pub fn send_prediction(
        &mut self,
        event: &EventMeta,
        prediction: &Prediction,
    ) -> Result<(), OutputError> {
        let (Some((topic, format)), Some(delivery)) = (&self.predictions, &mut self.delivery)
        else {
            return Ok(());
        };
        self.buffer.clear();
        match format {
            PredictionFormat::Json => prediction_json::write(prediction, &mut self.buffer),
            PredictionFormat::Protobuf => self.buffer.extend(prediction.encode_to_vec()),
        }
        let headers = origin_headers(&self.event_topic, event.partition, event.offset);
        let record = BaseRecord::to(topic)
            .payload(&self.buffer[..])
            .headers(headers);
        delivery.send(if prediction.id.is_empty() {
            record
        } else {
            record.key(prediction.id.as_bytes())
        })
    }

    /// Sends or writes a rejected event, its payload cut to `dead_letters.max_bytes`. Does nothing if neither a topic
    /// nor a file is configured.
    pub fn send_dead_letter(&mut self, letter: &DeadLetter<'_>) -> Result<(), OutputError> {
        let kept = &letter.payload[..letter.payload.len().min(self.max_bytes)];
        match (&mut self.dead_letters, &mut self.delivery) {
            (DeadLetterSink::File(file), _) => file.append(&self.event_topic, letter, kept),
            (DeadLetterSink::Topic(topic), Some(delivery)) => {
                let headers = origin_headers(&self.event_topic, letter.partition, letter.offset)
                    .insert(header("ostar-reason", letter.reason))
                    .insert(header("ostar-detail", letter.detail))
                    .insert(header("ostar-size", &letter.size.to_string()));
                let record = BaseRecord::to(topic).payload(kept).headers(headers);
                delivery.send(match letter.key {
                    Some(key) => record.key(key),
                    None => record,
                })
            }
            _ => Ok(()),
        }
    }

    /// `Ok` if everything sent so far is delivered or on disk. After [`OutputError::Timeout`] flush again; after
    /// [`OutputError::Lost`] send everything again that was sent since the last `Ok`.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), OutputError> {
        if let DeadLetterSink::File(file) = &mut self.dead_letters {
            file.sync()?;
        }
        match &mut self.delivery {
            Some(delivery) => delivery.flush(timeout),
            None => Ok(()),
        }
    }
}

/// Headers that name the event, so that consumers can recognise an output that is delivered twice.
fn origin_headers(topic: &str, partition: i32, offset: i64) -> OwnedHeaders {
    OwnedHeaders::new()
        .insert(header("ostar-topic", topic))
        .insert(header("ostar-partition", &partition.to_string()))
        .insert(header("ostar-offset", &offset.to_string()))
}

fn header<'a>(key: &'a str, value: &'a str) -> Header<'a, &'a str> {
    Header {
        key,
        value: Some(value),
    }
}
