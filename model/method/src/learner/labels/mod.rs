//! Labels meet predictions here: what waits for a label, which labels to ask for, how good the predictions were, and what
//! the gate gets to know of it.

mod book;
mod delays;
mod early;
mod measures;
mod memory;
mod order;
mod requests;
mod sampling;
mod saved;
mod shares;

use serde::{Deserialize, Serialize};

pub(crate) use self::{book::LabelBook, saved::SavedBook};
pub use self::{
    delays::LabelDelays,
    measures::{LabelMeasures, Measurement, Measures, Predictor},
    requests::{LabelRequest, RequestKind},
    shares::SharesByLabels,
};
use crate::diagnostics::OrderCheck;

/// How labels are used.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelUse {
    /// Most predictions that wait for their labels, and most labels that wait for their predictions.
    pub capacity: usize,
    /// Joined labels that the sliding measures are taken over.
    pub window: usize,
    /// Labels to ask for after every block, on rows where candidates disagree.
    pub disagreements: usize,
    /// Labels to ask for after every block, on rows drawn uniformly.
    pub random: usize,
    /// When an event without a label counts as negative; `None` for never.
    pub negatives: Option<Negatives>,
    /// Whether requests reach somebody. Labels then come because they were asked for, and those of rows on which candidates
    /// disagree are no fair sample: they say which candidate is right, and nobody's accuracy.
    pub requested: bool,
    /// Seed of what is asked for.
    pub seed: u64,
}

impl Default for LabelUse {
    fn default() -> Self {
        Self {
            capacity: 100_000,
            window: 10_000,
            disagreements: 0,
            random: 0,
            negatives: None,
            requested: false,
            seed: 0,
        }
    }
}

/// An event without a label becomes one of this class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negatives {
    /// Milliseconds of event time without a label.
    pub after_ms: i64,
    /// The class that it then has.
    pub class: u32,
}

/// An event of a block: what labels are joined by, and when it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEvent<'a> {
    /// `None` if it has none: it cannot be joined with a label.
    pub id: Option<&'a str>,
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// The class that a caller was sent, if it is known. It is compared, and changes nothing that is learned.
    pub sent: Option<u32>,
}

/// The true class of an event, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrivedLabel {
    /// The event's id.
    pub id: Box<str>,
    /// Index of its class, below the number of classes.
    pub class: u32,
    /// When the label was written, in milliseconds since 1970.
    pub time_ms: i64,
}

/// Labels and events by their fate, since the first start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinCounts {
    /// Labels that were joined with a prediction, those of `negatives` included.
    pub joined: u64,
    /// Second labels for an id.
    pub duplicates: u64,
    /// Labels that came after their event had become negative. They change nothing.
    pub late: u64,
    /// Labels that were dropped before a prediction came.
    pub unknown: u64,
    /// Predictions that were dropped before a label came.
    pub unlabelled: u64,
    /// Events that became negative because no label came in time.
    pub negatives: u64,
    /// Events without an id, which cannot be asked for.
    pub without_id: u64,
    /// Labels asked for where candidates disagree, and how many came.
    pub asked_disagreements: u64,
    /// Of these, labels that came.
    pub answered_disagreements: u64,
    /// Labels asked for at random, and how many came.
    pub asked_random: u64,
    /// Of these, labels that came.
    pub answered_random: u64,
}

/// What labels did in a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LabelBlock {
    /// Since the first start.
    pub counts: JoinCounts,
    /// Predictions that wait for a label.
    pub waiting: usize,
    /// Of so many events one waits; 1 while all do.
    pub sampled: u64,
    /// How long labels took, since the first start.
    pub delays: LabelDelays,
    /// Labels to ask for.
    pub requests: Vec<LabelRequest>,
    /// Class shares by answers to requests that were drawn uniformly; `None` while there are too few.
    pub shares: Option<SharesByLabels>,
    /// How good the predictions were whose labels came.
    pub measured: LabelMeasures,
    /// What the labels say about the order of the classes, if they were looked at after this block: at 200 labels, and
    /// whenever they have doubled, until the order is confirmed.
    pub class_order: Option<OrderCheck>,
    /// What callers were sent, beside what the learner's own candidate predicts for the same events.
    #[serde(skip)]
    pub sent: SentClasses,
    /// Ids of events that became negative in this block.
    #[serde(skip)]
    pub negative_ids: Vec<Box<str>>,
}

/// Classes of a block's events as they were sent. It depends on when the sender took over a snapshot, and is no part of the state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SentClasses {
    /// Events of which it is known.
    pub compared: u64,
    /// Of these, events for which the learner's own candidate predicts another class.
    pub otherwise: u64,
}
