//! A record, borrowed from librdkafka.

use rdkafka::{Message, message::BorrowedMessage};

use crate::event::RecordMeta;

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

    /// What the decoder wants to know of it.
    pub fn meta(&self) -> RecordMeta<'_> {
        RecordMeta {
            partition: self.partition,
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key(),
        }
    }

    /// A copy that outlives the next poll; `None` of a tombstone.
    pub fn copied(&self) -> Option<OwnedRecord> {
        Some(OwnedRecord {
            partition: self.partition,
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key().map(<[u8]>::to_vec),
            payload: self.payload()?.to_vec(),
        })
    }
}

/// A record in memory of its own.
#[derive(Debug, Clone)]
pub struct OwnedRecord {
    /// Partition it was read from.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// The record's time stamp in milliseconds since 1970; `None` if it has none.
    pub timestamp_ms: Option<i64>,
    /// The record's key; `None` if it has none.
    pub key: Option<Vec<u8>>,
    /// The record's value.
    pub payload: Vec<u8>,
}

impl OwnedRecord {
    /// What the decoder wants to know of it.
    pub fn meta(&self) -> RecordMeta<'_> {
        RecordMeta {
            partition: self.partition,
            offset: self.offset,
            timestamp_ms: self.timestamp_ms,
            key: self.key.as_deref(),
        }
    }
}
