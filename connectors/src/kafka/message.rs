//! An outgoing message, kept until it is delivered or parked.

use std::time::Instant;

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

/// The outputs of an event. Metrics count by them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// The prediction of a decoded event.
    Predictions,
    /// A rejected event.
    DeadLetters,
    /// An event that a scorer passes on to the learner.
    Samples,
}

/// Where a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    /// `predictions.topic`, `dead_letters.topic` or `samples.topic`.
    Topic,
    /// `dead_letters.file`; the payload is a line.
    File,
    /// `parked.topic`; the payload is a line.
    ParkedTopic,
    /// `parked.file`; the payload is a line.
    ParkedFile,
}

/// One output of one event.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) output: Output,
    pub(super) destination: Destination,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) key: Option<Vec<u8>>,
    pub(super) payload: Vec<u8>,
    /// Headers after those that name the event.
    pub(super) extra: Vec<(&'static str, String)>,
    /// It was sent with nothing else under way: a refusal is about this message, not about its batch.
    pub(super) alone: bool,
    /// When it was refused first; `None` if it never was.
    pub(super) refused_since: Option<Instant>,
}

// === impl Output ===

impl Output {
    /// All outputs.
    pub const ALL: [Self; 3] = [Self::Predictions, Self::DeadLetters, Self::Samples];

    /// The section of the configuration that is about it, and its name in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Predictions => "predictions",
            Self::DeadLetters => "dead_letters",
            Self::Samples => "samples",
        }
    }
}

// === impl Message ===

impl Message {
    /// A message to the output's topic that was not sent yet.
    pub(super) fn new(
        output: Output,
        partition: i32,
        offset: i64,
        key: Option<Vec<u8>>,
        payload: Vec<u8>,
    ) -> Self {
        Self {
            output,
            destination: Destination::Topic,
            partition,
            offset,
            key,
            payload,
            extra: Vec::new(),
            alone: false,
            refused_since: None,
        }
    }

    /// Bytes that it keeps in memory, about.
    pub(super) fn size(&self) -> usize {
        let key = self.key.as_ref().map_or(0, Vec::len);
        // librdkafka holds a copy of its own.
        2 * (key + self.payload.len()) + size_of::<Self>()
    }

    /// The record for librdkafka, with headers that name the event, so that a reader can drop what comes twice.
    pub(super) fn record<'a>(
        &'a self,
        topic: &'a str,
        event_topic: &str,
    ) -> BaseRecord<'a, [u8], [u8]> {
        let partition = self.partition.to_string();
        let offset = self.offset.to_string();
        let mut headers = OwnedHeaders::new()
            .insert(header("ostar-topic", event_topic))
            .insert(header("ostar-partition", &partition))
            .insert(header("ostar-offset", &offset));
        for (key, value) in &self.extra {
            headers = headers.insert(header(key, value));
        }
        let record = BaseRecord::to(topic)
            .payload(&self.payload[..])
            .headers(headers);
        match &self.key {
            Some(key) => record.key(&key[..]),
            None => record,
        }
    }
}

fn header<'a>(key: &'a str, value: &'a str) -> Header<'a, &'a str> {
    Header {
        key,
        value: Some(value),
    }
}
