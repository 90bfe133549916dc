//! What the page shows of labels.

use ostar_method::learner::{LabelBlock, LabelDelays};
use serde::Serialize;

use crate::status::Status;

/// Most ids that the page lists.
const LISTED: usize = 10;

/// Labels that are wanted, wait, and came.
#[derive(Debug, Clone, Serialize)]
pub(super) struct LabelFrame {
    /// Asked for and not answered yet.
    wanted: usize,
    /// The newest of them; `None` on a listener that anybody may call.
    wanted_ids: Option<Vec<String>>,
    asked: u64,
    answered: u64,
    /// Events that wait for a label; one of so many does.
    waiting: usize,
    one_of: u64,
    without_id: u64,
    negatives: u64,
    late: u64,
    /// Half of the labels, and nine in ten, took at most so long; `None` without labels, or if it was more than a week.
    half_within_seconds: Option<f64>,
    most_within_seconds: Option<f64>,
}

impl LabelFrame {
    pub(super) fn withhold_ids(&mut self) {
        self.wanted_ids = None;
    }

    /// `None` if no labels are read, and before the first block.
    pub(super) fn new(status: &Status) -> Option<Self> {
        let block = status.block.as_ref()?;
        let LabelBlock {
            counts,
            waiting,
            sampled,
            delays,
            ..
        } = block.labels.as_ref()?;
        let within = |delays: &LabelDelays, share: f64| {
            let milliseconds = delays.quantile_ms(share)?;
            Some(milliseconds as f64 / 1000.0)
        };
        let newest = status.wanted.iter().rev().take(LISTED);
        Some(Self {
            wanted: status.wanted.len(),
            wanted_ids: Some(newest.map(|request| request.id.to_string()).collect()),
            asked: counts.asked_disagreements + counts.asked_random,
            answered: counts.answered_disagreements + counts.answered_random,
            waiting: *waiting,
            one_of: *sampled,
            without_id: counts.without_id,
            negatives: counts.negatives,
            late: counts.late,
            half_within_seconds: within(delays, 0.5),
            most_within_seconds: within(delays, 0.9),
        })
    }
}
