//! A record, borrowed from librdkafka.

use rdkafka::{Message, message::BorrowedMessage};

/// A record of the topic. Key and payload borrow librdkafka's memory.
pub struct Record<'a> {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// The record's time stamp in milliseconds since 1970; 0 if it has none.
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

    /// The record's value; empty if it has none.
    pub fn payload(&self) -> &[u8] {
        self.message.payload().unwrap_or_default()
    }

    /// The record's key; `None` if it has none.
    pub fn key(&self) -> Option<&[u8]> {
        self.message.key()
    }
}
