//! Sends predictions and dead letters: each until it is delivered, or parked because it never will be.

use std::time::Duration;

use prost::Message as _;

use super::{
    error::KafkaError,
    line_file::LineFile,
    lines,
    message::{Destination, Message, Output},
    outbox::{Destinations, Outbox, Parking},
    settings::{
        DeadLetterSettings, KafkaSettings, OutputSettings, ParkedSettings, PredictionFormat,
        PredictionSettings,
    },
};
use crate::{
    event::{EventMeta, Offsets},
    proto::Prediction,
    samples::Sample,
};

/// Sends predictions and dead letters to topics or a file. One thread owns it.
pub struct Outputs {
    /// Topic of the events.
    event_topic: String,
    predictions: Option<PredictionFormat>,
    dead_letters: Option<Destination>,
    max_bytes: usize,
    outbox: Outbox,
}

/// A rejected event, borrowed from its chunk.
#[derive(Debug, Clone, Copy)]
pub struct DeadLetter<'a> {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// The record's key, or the beginning of it; `None` if it has none.
    pub key: Option<&'a [u8]>,
    /// Bytes of the record's key before it was cut.
    pub key_size: usize,
    /// The record's value, or the beginning of it.
    pub payload: &'a [u8],
    /// Bytes of the record's value before it was cut.
    pub size: usize,
    /// Name of the [`RejectReason`](crate::event::RejectReason), which metrics count by.
    pub reason: &'a str,
    /// What is wrong and what was expected, for people.
    pub detail: &'a str,
}

/// What became of the messages of one output since it was last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputCounts {
    /// Messages that the broker acknowledged, or that are in the file.
    pub delivered: u64,
    /// Attempts that the broker refused for now. The messages are sent again.
    pub refused: u64,
    /// Messages that were refused for good and parked.
    pub parked: u64,
}

/// Why an output was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The producer could not be made.
    #[error(transparent)]
    Kafka(#[from] KafkaError),
    /// There are too many messages under way. This one was not taken: call again.
    #[error("the queue of outgoing messages is full; is a broker running?")]
    Full,
    /// Some messages are neither delivered nor parked yet. Nothing is lost: flush again.
    #[error(
        "{waiting} outgoing messages are not delivered yet{}",
        refused.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default()
    )]
    Timeout {
        /// Messages that are neither delivered nor parked.
        waiting: usize,
        /// Why the last one was refused; `None` if none was.
        refused: Option<String>,
    },
    /// Messages of a [`Sender`](super::Sender) are lost.
    #[error("{lost} outgoing messages were not delivered: {reason}")]
    Lost {
        /// Messages whose delivery failed.
        lost: u64,
        /// Why the last of them failed.
        reason: String,
    },
    /// A message of a [`Sender`](super::Sender) was refused, for example because it is too large.
    #[error("a message to topic {topic:?} was refused: {reason}")]
    Refused {
        /// Topic that the message was for.
        topic: String,
        /// Message of librdkafka.
        reason: String,
    },
    /// A file of outputs cannot be opened.
    #[error("cannot write {key} {path}: {problem}")]
    File {
        /// Key of the configuration.
        key: &'static str,
        /// Its value.
        path: String,
        /// Error of the operating system.
        problem: std::io::Error,
    },
}

// === impl Outputs ===

impl Outputs {
    /// Opens the files and makes the producer that the configuration asks for. Does not wait for a broker.
    pub fn open(
        kafka: &KafkaSettings,
        predictions: &PredictionSettings,
        dead_letters: &DeadLetterSettings,
        parked: &ParkedSettings,
        outputs: &OutputSettings,
    ) -> Result<Self, OutputError> {
        Self::open_with_samples(kafka, predictions, dead_letters, parked, outputs, None)
    }

    /// [`Outputs::open`] of a scorer, which passes on samples to this topic.
    pub fn open_with_samples(
        kafka: &KafkaSettings,
        predictions: &PredictionSettings,
        dead_letters: &DeadLetterSettings,
        parked: &ParkedSettings,
        outputs: &OutputSettings,
        samples: Option<&str>,
    ) -> Result<Self, OutputError> {
        let letters = dead_letters.file.as_deref();
        let letters = letters.map(|path| LineFile::new(path, u64::MAX));
        if let Some(file) = &letters {
            file.create().map_err(|problem| OutputError::File {
                key: "dead_letters.file",
                path: file.path().display().to_string(),
                problem,
            })?;
        }
        let destinations = Destinations {
            event_topic: kafka.topic.clone(),
            predictions: predictions.topic.clone(),
            dead_letters: dead_letters.topic.clone(),
            samples: samples.map(str::to_owned),
            dead_letter_file: letters,
            parking: match (&parked.topic, &parked.file) {
                (Some(topic), _) => Parking::Topic(topic.clone()),
                (None, Some(path)) => Parking::File(LineFile::new(path, parked.max_bytes)),
                (None, None) => Parking::Nowhere,
            },
        };
        let sink = match (&dead_letters.topic, &dead_letters.file) {
            (Some(_), _) => Some(Destination::Topic),
            (None, Some(_)) => Some(Destination::File),
            (None, None) => None,
        };
        Ok(Self {
            event_topic: kafka.topic.clone(),
            predictions: predictions.topic.as_ref().map(|_| predictions.format),
            dead_letters: sink,
            max_bytes: dead_letters.max_bytes,
            outbox: Outbox::new(kafka, destinations, outputs)?,
        })
    }

    /// Whether predictions are sent at all; if not, the caller need not build them.
    pub fn takes_predictions(&self) -> bool {
        self.predictions.is_some()
    }

    /// Sends an event's prediction with the event's id as key. Does nothing without `predictions.topic`. After
    /// [`OutputError::Full`] call again.
    pub fn send_prediction(
        &mut self,
        event: &EventMeta,
        prediction: &Prediction,
    ) -> Result<(), OutputError> {
        let Some(format) = self.predictions else {
            return Ok(());
        };
        self.outbox.make_room()?;
        let payload = match format {
            PredictionFormat::Json => serde_json::to_vec(prediction)
                .expect("writing text and numbers to memory cannot fail"),
            PredictionFormat::Protobuf => prediction.encode_to_vec(),
        };
        let key = (!prediction.id.is_empty()).then(|| prediction.id.clone().into_bytes());
        self.outbox.send(Message {
            output: Output::Predictions,
            destination: Destination::Topic,
            partition: event.partition,
            offset: event.offset,
            key,
            payload,
            extra: Vec::new(),
            alone: false,
            refused_since: None,
        });
        Ok(())
    }

    /// Sends or writes a rejected event, its key and its payload each cut to `dead_letters.max_bytes`. Does nothing if
    /// neither a topic nor a file is configured. After [`OutputError::Full`] call again.
    pub fn send_dead_letter(&mut self, letter: &DeadLetter<'_>) -> Result<(), OutputError> {
        let Some(destination) = self.dead_letters else {
            return Ok(());
        };
        self.outbox.make_room()?;
        let cut = |bytes: &[u8]| bytes.len().min(self.max_bytes);
        let letter = DeadLetter {
            key: letter.key.map(|key| &key[..cut(key)]),
            payload: &letter.payload[..cut(letter.payload)],
            ..*letter
        };
        let (key, payload, extra) = match destination {
            Destination::File => (
                None,
                lines::dead_letter(&self.event_topic, &letter),
                Vec::new(),
            ),
            _ => (
                letter.key.map(<[u8]>::to_vec),
                letter.payload.to_vec(),
                letter_headers(&letter),
            ),
        };
        self.outbox.send(Message {
            output: Output::DeadLetters,
            destination,
            partition: letter.partition,
            offset: letter.offset,
            key,
            payload,
            extra,
            alone: false,
            refused_since: None,
        });
        Ok(())
    }

    /// Passes an event on to the learner. Samples of one partition of events stay in order, whatever other partitions do.
    /// After [`OutputError::Full`] call again.
    pub fn send_sample(&mut self, sample: &Sample) -> Result<(), OutputError> {
        self.outbox.make_room()?;
        self.outbox.send(Message {
            output: Output::Samples,
            destination: Destination::Topic,
            partition: sample.partition,
            offset: sample.offset,
            key: Some(sample.partition.to_string().into_bytes()),
            payload: sample.to_bytes(),
            extra: Vec::new(),
            alone: false,
            refused_since: None,
        });
        Ok(())
    }

    /// `Ok` if everything sent so far is delivered, on disk or parked. After an error flush again: nothing is lost, and
    /// nothing that was acknowledged is sent twice.
    pub fn flush(&mut self, timeout: Duration) -> Result<(), OutputError> {
        self.outbox.flush(timeout)
    }

    /// In each partition, the first event whose output is neither delivered nor parked.
    pub fn unsettled(&self) -> Offsets {
        self.outbox.unsettled()
    }

    /// Messages that are neither delivered nor parked.
    pub fn waiting(&self, output: Output) -> usize {
        self.outbox.waiting(output)
    }

    /// What became of an output's messages since the last call.
    pub fn take_counts(&mut self, output: Output) -> OutputCounts {
        self.outbox.take_counts(output)
    }

    /// Why the last message was parked, since the last call.
    pub fn take_parked_reason(&mut self) -> Option<String> {
        self.outbox.take_parked_reason()
    }
}

fn letter_headers(letter: &DeadLetter<'_>) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("ostar-reason", letter.reason.to_owned()),
        ("ostar-detail", letter.detail.to_owned()),
        ("ostar-size", letter.size.to_string()),
    ];
    if letter.key.is_some_and(|key| key.len() < letter.key_size) {
        headers.push(("ostar-key-size", letter.key_size.to_string()));
    }
    headers
}
