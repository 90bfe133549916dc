//! Where a learner is in its topics.

use serde::{Deserialize, Serialize};

use crate::{event::Offsets, samples::SeenEvents};

/// Where a learner is: how far events are learned, outputs emitted, labels used and labels asked for. Part of every
/// manifest, and the only struct that says so.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Events learned from, since the first start.
    pub events: u64,
    /// The offset to read next in each partition; all events before it are learned.
    pub learned: Offsets,
    /// In each partition, the offset behind the last event whose output is delivered or parked, and all before it.
    pub emitted: Offsets,
    /// The broker's id of the topic that `learned` and `emitted` belong to. `None` if the broker does not tell.
    #[serde(deserialize_with = "Option::deserialize")]
    pub topic_id: Option<String>,
    /// The offset to read next in each partition of the labels' topic; all labels before it have taken effect. Empty
    /// before labels were read for the first time.
    pub labels: Offsets,
    /// Newest time of a record among the events learned from, in milliseconds since 1970: labels before it take effect. 0
    /// if no labels are read.
    pub label_border_ms: i64,
    /// Requests for labels of blocks up to this one are delivered.
    pub requested_block: u64,
    /// If the events are samples: by partition of the events, how far they are learned.
    pub sampled: SeenEvents,
}
