//! The last rows of the stream that the gate's evidence rests on.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::histogram::Histogram;

/// Rows of a segment: the window forgets whole segments.
const SEGMENT_ROWS: u32 = 500;
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
    /// Sum of the segments, kept up to date: adding them up for every block cost a third of the gate's time.
    /// `None` before the first.
    total: Option<Counted>,
}

/// What is saved: the sum follows from the segments.
#[derive(Serialize, Deserialize)]
struct SavedWindow {
    segments: VecDeque<Histogram>,
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
            total,
        }
    }
}

impl From<EvidenceWindow> for SavedWindow {
    fn from(window: EvidenceWindow) -> Self {
        Self {
            segments: window.segments,
        }
    }
}

impl EvidenceWindow {
    pub(crate) fn new() -> Self {
        Self {
            segments: VecDeque::new(),
            total: None,
        }
    }

    /// All rows of the window; `None` before the first.
    pub(crate) fn total(&self) -> Option<&Counted> {
        self.total.as_ref()
    }

    /// Takes a block in and keeps at most `most` rows; of those before it none if the stream `jumped`.
    pub(crate) fn add(&mut self, block: Counted, most: u32, jumped: bool) {
        let before = self.total.take();
        if jumped {
            self.segments.clear();
        }
        let Some(mut total) = before.filter(|_| !jumped) else {
            self.segments.push_back(block.histogram.clone());
            self.total = Some(block);
            return;
        };
        total.histogram.add(&block.histogram);
        match self.segments.back_mut() {
            Some(open) if open.rows < SEGMENT_ROWS => open.add(&block.histogram),
            _ => self.segments.push_back(block.histogram),
        }
        self.forget(&mut total.histogram, most);
        self.total = Some(total.histogram.into());
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
        let mut window = EvidenceWindow::new();
        let firsts = [7, 7, 7, 7, 90, 90, 90, 90, 90, 90];
        for (number, first) in firsts.into_iter().enumerate() {
            window.add(block(300, first), 700, number == 4);
            let saved = serde_json::to_string(&window).unwrap();
            let restored: EvidenceWindow = serde_json::from_str(&saved).unwrap();
            assert_eq!(restored, window, "block {number}");
        }
        let rows = window.total().unwrap().histogram.rows;
        assert!((700..1_300).contains(&rows), "{rows}");
    }
}
