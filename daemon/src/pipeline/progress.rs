//! How far the learner has come.

use ostar_connectors::{event::Offsets, samples::SeenEvents};

/// How far the learner has come; part of every checkpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Events learned from, since the first start.
    pub(crate) events: u64,
    /// In each partition, the offset behind the last event that was learned.
    pub(crate) offsets: Offsets,
    /// The broker's id of the topic that the offsets belong to; `None` if it does not tell.
    pub(crate) topic_id: Option<String>,
    /// In each partition of the labels' topic, the offset behind the last label that took effect; `None` before the
    /// first time that labels were read.
    pub(crate) label_offsets: Option<Offsets>,
    /// Newest time of a record among the events learned from, in milliseconds since 1970; 0 if no labels are read.
    pub(crate) border_ms: i64,
    /// Requests for labels of blocks up to this one were delivered when the run began.
    pub(crate) requested_block: u64,
    /// If samples are learned: how far their events were seen.
    pub(crate) sampled: SeenEvents,
}
