//! A record as the broker sent it, borrowed from librdkafka.

use rdkafka::{Message, message::BorrowedMessage};

/// A record of the topic. Its bytes are librdkafka's own: nothing is copied.
pub struct Record<'a> {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset within the partition.
    pub offset: i64,
    /// When it was produced, in milliseconds since 1970; 0 if the producer did not say.
    pub timestamp_ms: i64,
    message: BorrowedMessage<'a>,
}

impl<'a> Record<'a> {
    pub(super) fn new(message: BorrowedMessage<'a>) -> Self {
        Self {
            partition: message.partition(),
            offset: message.offset(),
            timestamp_ms: message.timestamp().to_millis().unwrap_or(0),
            message,
        }
    }

    /// Its value; empty if it has none.
    pub fn payload(&self) -> &[u8] {
        self.message.payload().unwrap_or_default()
    }

    /// Its key.
    pub fn key(&self) -> Option<&[u8]> {
        self.message.key()
    }
}
