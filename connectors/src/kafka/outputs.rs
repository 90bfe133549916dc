//! Predictions and dead letters: delivered at least once, each with where its event came from.

use std::time::Duration;

use prost::Message as _;
use rdkafka::{
    message::{Header, OwnedHeaders},
    producer::BaseRecord,
};

use super::{
    delivery::Delivery,
    error::KafkaError,
    letter_file::LetterFile,
    prediction_json,
    settings::{DeadLetterSettings, KafkaSettings, PredictionFormat, PredictionSettings},
};
use crate::{event::EventMeta, proto::Prediction};

/// Sends predictions and dead letters where the configuration says. One thread owns it.
pub struct Outputs {
    /// Topic that the events come from, for the headers.
    events: String,
    predictions: Option<(String, PredictionFormat)>,
    letters: Letters,
    max_bytes: usize,
    /// Present if anything goes to a topic.
    delivery: Option<Delivery>,
    buffer: Vec<u8>,
}

enum Letters {
    Nowhere,
    Topic(String),
    File(LetterFile),
}

/// An event that could not be used.
#[derive(Debug, Clone, Copy)]
pub struct DeadLetter<'a> {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset within the partition.
    pub offset: i64,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value, or the beginning of it.
    pub payload: &'a [u8],
    /// Bytes of the whole value.
    pub size: usize,
    /// Why, in a word that metrics count by.
    pub reason: &'a str,
    /// Why, in a sentence.
    pub detail: &'a str,
}

/// An output that failed.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The producer could not be made.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// librdkafka's queue has been full for a second; nothing was taken, call again.
    #[error("the queue of outgoing messages is full: does the broker answer?")]
    Full,
    /// Not all is delivered yet; nothing is given up, flush again.
    #[error("{waiting} outgoing messages are not delivered yet")]
    Timeout {
        /// Messages under way.
        waiting: u64,
    },
    /// Messages are lost: what was handed over since the last successful flush has to be handed over again.
    #[error("{lost} outgoing messages were not delivered: {reason}")]
    Lost {
        /// How many.
        lost: u64,
        /// Why the last of them was not.
        reason: String,
    },
    /// This message will never be taken.
    #[error("a message to topic {topic:?} was refused: {reason}")]
    Refused {
        /// Where it should have gone.
        topic: String,
        /// What librdkafka said.
        reason: String,
    },
    /// The file of dead letters cannot be written.
    #[error("dead_letters.file {path}: {problem}")]
    File {
        /// Its path.
        path: String,
        /// What the system said.
        problem: std::io::Error,
    },
}

// === impl Outputs ===

impl Outputs {
    /// Opens what the configuration asks for. Does not wait for a broker.
    pub fn open(
        kafka: &KafkaSettings,
        predictions: &PredictionSettings,
        dead_letters: &DeadLetterSettings,
    ) -> Result<Self, OutputError> {
        let letters = match (&dead_letters.topic, &dead_letters.file) {
            (Some(topic), _) => Letters::Topic(topic.clone()),
            (None, Some(path)) => Letters::File(LetterFile::open(path)?),
            (None, None) => Letters::Nowhere,
        };
        let to_topic = predictions.topic.is_some() || matches!(letters, Letters::Topic(_));
        let delivery = match to_topic {
            true => Some(Delivery::new(kafka)?),
            false => None,
        };
        let topic = predictions.topic.clone();
        Ok(Self {
            events: kafka.topic.clone(),
            predictions: topic.map(|topic| (topic, predictions.format)),
            letters,
            max_bytes: dead_letters.max_bytes,
            delivery,
            buffer: Vec::new(),
        })
    }

    /// Whether predictions go anywhere; if not, they need not be made up.
    pub fn takes_predictions(&self) -> bool {
        self.predictions.is_some()
    }

    /// Sends an event's prediction, with its id as key. Without a topic for them, nothing.
    pub fn predict(
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
        let headers = origin(&self.events, event.partition, event.offset);
        let record = BaseRecord::to(topic)
            .payload(&self.buffer[..])
            .headers(headers);
        delivery.send(match prediction.id.is_empty() {
            true => record,
            false => record.key(prediction.id.as_bytes()),
        })
    }

    /// Keeps an event that could not be used, its value cut to `dead_letters.max_bytes`.
    pub fn dead_letter(&mut self, letter: &DeadLetter<'_>) -> Result<(), OutputError> {
        let kept = &letter.payload[..letter.payload.len().min(self.max_bytes)];
        match (&mut self.letters, &mut self.delivery) {
            (Letters::File(file), _) => file.append(&self.events, letter, kept),
            (Letters::Topic(topic), Some(delivery)) => {
                let headers = origin(&self.events, letter.partition, letter.offset)
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

    /// `Ok`: everything handed over so far is delivered, or on disk. After [`OutputError::Timeout`] flush again;
    /// after [`OutputError::Lost`] hand over again what was handed over since the last `Ok`.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), OutputError> {
        if let Letters::File(file) = &mut self.letters {
            file.sync()?;
        }
        match &mut self.delivery {
            Some(delivery) => delivery.flush(timeout),
            None => Ok(()),
        }
    }
}

/// Headers that name the event: with them an output that came twice can be told.
fn origin(topic: &str, partition: i32, offset: i64) -> OwnedHeaders {
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
