//! A record, borrowed from librdkafka.

use rdkafka::{Message, message::BorrowedMessage};

/// A record of the topic. Key and payload borrow librdkafka's memory.
pub struct Record<'a> {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// The record's time stamp in milliseconds since 1970; `None` if it has none.
    pub timestamp_ms: Option<i64>,
    message: BorrowedMessage<'a>,
}

impl<'a> Record<'a> {
    pub(super) fn new(message: BorrowedMessage<'a>) -> Self {
        Self {
            partition: message.partition(),
            offset: message.offset(),
            timestamp_ms: message.timestamp().to_millis(),
            message,
        }
    }

    /// The record's value. `None` for a tombstone, which only says that the key's earlier records are gone.
    pub fn payload(&self) -> Option<&[u8]> {
        self.message.payload()
    }

    /// The record's key; `None` if it has none.
    pub fn key(&self) -> Option<&[u8]> {
        self.message.key()
    }
}
