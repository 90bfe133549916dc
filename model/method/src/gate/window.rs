//! The last rows of the stream that the gate's evidence rests on.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{explanation::line_distance, histogram::Histogram};

/// Rows of a segment: the window forgets whole segments.
const SEGMENT_ROWS: u32 = 500;
/// A block this many times farther from the window than noise explains starts a new window.
const JUMP: f64 = 2.0;

/// Counts of some rows, and what the tests compare.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counted {
    pub(crate) histogram: Histogram,
    /// Of `histogram`.
    pub(crate) cumulative: Vec<f32>,
}

/// Histograms of the newest rows, in segments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "SavedWindow", into = "SavedWindow")]
pub(crate) struct EvidenceWindow {
    /// Oldest first.
    segments: VecDeque<Histogram>,
    /// Rows since the last jump of the stream, or since the start.
    rows_since_jump: u64,
    /// Sum of the segments, kept up to date: adding them up for every block cost a third of the gate's time.
    /// `None` before the first.
    total: Option<Counted>,
}

/// What is saved: the sum follows from the segments.
#[derive(Serialize, Deserialize)]
struct SavedWindow {
    segments: VecDeque<Histogram>,
    rows_since_jump: u64,
}

// === impl Counted ===

impl From<Histogram> for Counted {
    fn from(histogram: Histogram) -> Self {
        Self {
            cumulative: histogram.cumulative(),
            histogram,
        }
    }
}

// === impl EvidenceWindow ===

impl From<SavedWindow> for EvidenceWindow {
    fn from(saved: SavedWindow) -> Self {
        let mut segments = saved.segments.iter();
        let total = segments.next().cloned().map(|mut total| {
            segments.for_each(|segment| total.add(segment));
            total.into()
        });
        Self {
            segments: saved.segments,
            rows_since_jump: saved.rows_since_jump,
            total,
        }
    }
}

impl From<EvidenceWindow> for SavedWindow {
    fn from(window: EvidenceWindow) -> Self {
        Self {
            segments: window.segments,
            rows_since_jump: window.rows_since_jump,
        }
    }
}

impl EvidenceWindow {
    pub(crate) fn new() -> Self {
        Self {
            segments: VecDeque::new(),
            rows_since_jump: 0,
            total: None,
        }
    }

    /// Rows since the stream last jumped.
    pub(crate) fn rows_since_jump(&self) -> u64 {
        self.rows_since_jump
    }

    /// All rows of the window; `None` before the first.
    pub(crate) fn total(&self) -> Option<&Counted> {
        self.total.as_ref()
    }

    /// Takes a block in and keeps at most `most` rows. A block that does not look like the window, whatever
    /// the reason, starts a new one: a window that mixes two regimes would be explained by neither.
    /// Gives whether it did.
    pub(crate) fn add(&mut self, block: Counted, most: u32, cell_widths: &[f64]) -> bool {
        let before = self.total.take();
        let jumped = (before.as_ref()).is_some_and(|window| jumps(window, &block, cell_widths));
        if jumped {
            self.segments.clear();
            self.rows_since_jump = 0;
        }
        self.rows_since_jump += u64::from(block.histogram.rows);
        let Some(mut total) = before.filter(|_| !jumped) else {
            self.segments.push_back(block.histogram.clone());
            self.total = Some(block);
            return jumped;
        };
        total.histogram.add(&block.histogram);
        match self.segments.back_mut() {
            Some(open) if open.rows < SEGMENT_ROWS => open.add(&block.histogram),
            _ => self.segments.push_back(block.histogram),
        }
        self.forget(&mut total.histogram, most);
        self.total = Some(total.histogram.into());
        jumped
    }

    /// Forgets the oldest segments without which `most` rows are left in `total`.
    fn forget(&mut self, total: &mut Histogram, most: u32) {
        while let Some(oldest) = self.segments.front()
            && self.segments.len() > 1
            && total.rows - oldest.rows >= most
        {
            total.subtract(oldest);
            self.segments.pop_front();
        }
    }
}

fn jumps(window: &Counted, block: &Counted, cell_widths: &[f64]) -> bool {
    let rows = |counted: &Counted| f64::from(counted.histogram.rows);
    let inverse = 1.0 / rows(window) + 1.0 / rows(block);
    let (left, right) = (&window.cumulative, &block.cumulative);
    let (distance, noise_floor) = line_distance(left, right, inverse, cell_widths);
    distance > JUMP * noise_floor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::{lines::LINES, projections::CELLS};

    /// A block whose rows are spread over 20 cells of each line, from `first` on.
    fn block(rows: u32, first: usize) -> Counted {
        let mut histogram = Histogram::new(2);
        histogram.rows = rows;
        histogram.bins[first % 2] = rows;
        for line in 0..LINES {
            let cells = &mut histogram.cells[line * CELLS + first..][..20];
            cells.fill(rows / 20);
        }
        histogram.into()
    }

    #[test]
    fn the_kept_sum_is_that_of_the_segments_after_blocks_jumps_and_restarts() {
        let widths = [1.0; LINES];
        let mut window = EvidenceWindow::new();
        let firsts = [7, 7, 7, 7, 90, 90, 90, 90, 90, 90];
        for (number, first) in firsts.into_iter().enumerate() {
            let jumped = window.add(block(300, first), 700, &widths);
            assert_eq!(jumped, number == 4, "block {number}");
            let saved = serde_json::to_string(&window).unwrap();
            let restored: EvidenceWindow = serde_json::from_str(&saved).unwrap();
            assert_eq!(restored, window, "block {number}");
        }
        let rows = window.total().unwrap().histogram.rows;
        assert!((700..1_300).contains(&rows), "{rows}");
    }
}
