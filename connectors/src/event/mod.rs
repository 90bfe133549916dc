//! Events: the inputs that the deployed classifier saw, decoded from records into rows that can be scored.

mod cell;
mod collector;
mod decoder;
mod encoder;
mod formats;
mod header;
mod layout;
mod path;
mod places;
mod reject;
mod rows;
mod settings;
#[cfg(test)]
mod tests;
mod times;

use std::collections::BTreeMap;

pub use cell::{Cell, Row};
pub use decoder::{Decoder, RecordMeta, RegistryAway};
pub use encoder::Encoder;
pub(crate) use formats::JsonKeys;
pub use formats::Leaf;
pub(crate) use header::MAX_ID_BYTES;
pub use layout::UnsuitableSettings;
pub use reject::{Reject, RejectReason};
pub use rows::InputRows;
pub use settings::{EventFormat, EventSettings, RegistrySettings, TimeUnit};
pub use times::TimeLimit;

/// The offset to read next, by partition.
pub type Offsets = BTreeMap<i32, i64>;

/// An event without its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventMeta {
    /// Joins predictions and late labels with the event; `None` if neither event nor record key has one.
    pub id: Option<Box<str>>,
    /// Milliseconds since 1970: the event's own time, else the record's, else 0.
    pub time_ms: i64,
    /// When its record was written, in milliseconds since 1970; 0 if the broker does not tell. Labels take effect by it.
    pub recorded_ms: i64,
    /// Partition it was read from.
    pub partition: i32,
    /// Offset in that partition; identifies the event for deduplication.
    pub offset: i64,
}

/// An event that failed decoding, as dead letters need it.
#[derive(Debug, Clone)]
pub struct Rejected {
    /// Reason and detail of the failure.
    pub reject: Reject,
    /// Partition it was read from.
    pub partition: i32,
    /// Offset in that partition.
    pub offset: i64,
    /// The first `dead_letters.max_bytes` bytes of the record's key.
    pub key: Option<Vec<u8>>,
    /// Bytes of the record's key before it was cut.
    pub key_size: usize,
    /// The first `dead_letters.max_bytes` bytes of the record's value.
    pub payload: Vec<u8>,
    /// Bytes of the record's value before it was cut.
    pub size: usize,
}

/// Events that travel together between threads, in the order they were read.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// The inputs, one row per event.
    pub rows: InputRows,
    /// Ids, times and positions, in the order of the rows.
    pub events: Vec<EventMeta>,
    /// Events of the same stretch of the stream that failed decoding; they have no row.
    pub rejected: Vec<Rejected>,
    /// Bytes of keys and payloads that `rejected` holds.
    pub rejected_bytes: usize,
    /// The offsets to read after this chunk, rejected events included.
    pub next: Offsets,
    /// Applies before the events of this chunk.
    pub rewound: Option<Rewound>,
}

/// Offsets that begin anew: the topic was recreated, or the end of its log was lost. Events from these offsets on are new,
/// although events with the same offsets were read before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewound {
    /// Only the partitions that begin anew.
    pub offsets: Offsets,
    /// The broker's id of the topic; `None` if it does not tell.
    pub topic_id: Option<String>,
}

// === impl Chunk ===

impl Chunk {
    /// A chunk without events; `rows` must be empty.
    pub fn new(rows: InputRows) -> Self {
        Self {
            rows,
            events: Vec::new(),
            rejected: Vec::new(),
            rejected_bytes: 0,
            next: Offsets::new(),
            rewound: None,
        }
    }

    /// An empty chunk of the same kind, with capacity for as many events.
    pub fn cleared(&self) -> Self {
        Self {
            events: Vec::with_capacity(self.events.len()),
            ..Self::new(self.rows.cleared())
        }
    }

    /// Events with a row; rejected ones are not counted.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether no event has a row; there may be rejected ones.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}
