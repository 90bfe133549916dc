//! The last rows of the stream that the gate's evidence rests on.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{explanation::line_distance, histogram::Histogram};

/// Rows of a segment: the window forgets whole segments.
const SEGMENT_ROWS: u32 = 500;
/// A block this many times farther from the window than noise explains starts a new window.
const JUMP: f64 = 2.0;

/// Histograms of the newest rows, in segments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct EvidenceWindow {
    /// Oldest first. Their sum is not saved: it follows from them.
    segments: VecDeque<Histogram>,
    /// Rows since the last jump of the stream, or since the start.
    rows_since_jump: u64,
}

impl EvidenceWindow {
    pub(crate) fn new() -> Self {
        Self {
            segments: VecDeque::new(),
            rows_since_jump: 0,
        }
    }

    /// Rows since the stream last jumped.
    pub(crate) fn rows_since_jump(&self) -> u64 {
        self.rows_since_jump
    }

    /// Takes a block in and keeps at most `most` rows. A block that does not look like the window, whatever
    /// the reason, starts a new one: a window that mixes two regimes would be explained by neither.
    /// Gives whether it did.
    pub(crate) fn add(&mut self, block: Histogram, most: u32, cell_widths: &[f64]) -> bool {
        let before = self.total();
        let jumped = before.is_some_and(|window| jumps(&window, &block, cell_widths));
        if jumped {
            self.segments.clear();
            self.rows_since_jump = 0;
        }
        self.rows_since_jump += u64::from(block.rows);
        match self.segments.back_mut() {
            Some(open) if open.rows < SEGMENT_ROWS => open.add(&block),
            _ => self.segments.push_back(block),
        }
        self.keep(most);
        jumped
    }

    /// Forgets the oldest segments without which `most` rows are left.
    fn keep(&mut self, most: u32) {
        let mut rows: u32 = self.segments.iter().map(|segment| segment.rows).sum();
        while let Some(oldest) = self.segments.front()
            && self.segments.len() > 1
            && rows - oldest.rows >= most
        {
            rows -= oldest.rows;
            self.segments.pop_front();
        }
    }

    /// All rows of the window; `None` before the first.
    pub(crate) fn total(&self) -> Option<Histogram> {
        let mut segments = self.segments.iter();
        let mut total = segments.next()?.clone();
        segments.for_each(|segment| total.add(segment));
        Some(total)
    }
}

fn jumps(window: &Histogram, block: &Histogram, cell_widths: &[f64]) -> bool {
    let rows = |histogram: &Histogram| f64::from(histogram.rows);
    let inverse = 1.0 / rows(window) + 1.0 / rows(block);
    let (left, right) = (window.cumulative(), block.cumulative());
    let (distance, noise_floor) = line_distance(&left, &right, inverse, cell_widths);
    distance > JUMP * noise_floor
}
