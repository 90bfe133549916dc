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
    event::{EventMeta, Offsets, Rejected},
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
    /// Opens the files and makes the producer that the configuration asks for. Does not wait for a broker. A scorer passes
    /// on samples to the topic `samples`.
    pub fn open(
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
        let (partition, offset) = (event.partition, event.offset);
        let message = Message::new(Output::Predictions, partition, offset, key, payload);
        self.outbox.send(message);
        Ok(())
    }

    /// Sends or writes a rejected event, its key and its payload each cut to `dead_letters.max_bytes`. Does nothing if
    /// neither a topic nor a file is configured. After [`OutputError::Full`] call again.
    pub fn send_dead_letter(&mut self, rejected: &Rejected) -> Result<(), OutputError> {
        let Some(destination) = self.dead_letters else {
            return Ok(());
        };
        self.outbox.make_room()?;
        let cut = |bytes: &[u8]| bytes[..bytes.len().min(self.max_bytes)].to_vec();
        let (key, payload) = (rejected.key.as_deref().map(cut), cut(&rejected.payload));
        let (key, payload, extra) = match destination {
            Destination::File => {
                let line = lines::dead_letter(&self.event_topic, rejected, key, &payload);
                (None, line, Vec::new())
            }
            _ => {
                let headers = letter_headers(rejected, key.as_deref());
                (key, payload, headers)
            }
        };
        let (partition, offset) = (rejected.partition, rejected.offset);
        self.outbox.send(Message {
            destination,
            extra,
            ..Message::new(Output::DeadLetters, partition, offset, key, payload)
        });
        Ok(())
    }

    /// Passes an event on to the learner. Samples of one partition of events stay in order, whatever other partitions do.
    /// After [`OutputError::Full`] call again.
    pub fn send_sample(&mut self, sample: &Sample) -> Result<(), OutputError> {
        self.outbox.make_room()?;
        let (partition, offset) = (sample.partition, sample.offset);
        let key = Some(partition.to_string().into_bytes());
        let payload = sample.to_bytes();
        let message = Message::new(Output::Samples, partition, offset, key, payload);
        self.outbox.send(message);
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

fn letter_headers(rejected: &Rejected, key: Option<&[u8]>) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("ostar-reason", rejected.reject.reason.as_str().to_owned()),
        ("ostar-detail", rejected.reject.detail.clone()),
        ("ostar-size", rejected.size.to_string()),
    ];
    if key.is_some_and(|key| key.len() < rejected.key_size) {
        headers.push(("ostar-key-size", rejected.key_size.to_string()));
    }
    headers
}
