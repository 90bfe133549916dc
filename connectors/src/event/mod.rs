//! Events: what the deployed classifier saw, from bytes to rows that can be scored.

mod cell;
mod decoder;
mod encoder;
mod json;
mod layout;
mod reject;
mod rows;
mod settings;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;

pub use cell::{Cell, Row};
pub(crate) use decoder::MAX_ID_BYTES;
pub use decoder::{Decoder, RecordMeta};
pub use encoder::Encoder;
pub use layout::Unsuitable;
pub use reject::{Reject, RejectReason};
pub use rows::InputRows;
pub use settings::{EventFormat, EventSettings};

/// Where to go on reading, by partition: the offset of the next event.
pub type Offsets = BTreeMap<i32, i64>;

/// What is known of an event besides its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventMeta {
    /// Joins predictions and late labels with the event.
    pub id: Option<Box<str>>,
    /// When it happened, in milliseconds since 1970.
    pub time_ms: i64,
    /// Partition it was read from.
    pub partition: i32,
    /// Offset within the partition.
    pub offset: i64,
}

/// An event that could not be used.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// Why.
    pub reject: Reject,
    /// Partition it was read from.
    pub partition: i32,
    /// Offset within the partition.
    pub offset: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// The beginning of its value.
    pub payload: Vec<u8>,
    /// Bytes of the whole value.
    pub size: usize,
}

/// Events in the order they were read, ready to be scored and learned from.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Their inputs, one row an event.
    pub rows: InputRows,
    /// The rest of them, in the same order.
    pub events: Vec<EventMeta>,
    /// Those among them that could not be used.
    pub rejected: Vec<Rejected>,
    /// Where reading goes on after this chunk, rejected events included.
    pub next: Offsets,
}

// === impl Chunk ===

impl Chunk {
    /// An empty chunk for rows like these.
    pub fn new(rows: InputRows) -> Self {
        Self {
            rows,
            events: Vec::new(),
            rejected: Vec::new(),
            next: Offsets::new(),
        }
    }

    /// An empty one for the same rows, with room for as many.
    pub fn cleared(&self) -> Self {
        Self {
            events: Vec::with_capacity(self.events.len()),
            ..Self::new(self.rows.cleared())
        }
    }

    /// How many events it holds.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
