//! Labels of randomly drawn events, block by block, and the shares that they give.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::proportions::{LabelSums, ShareByLabels, Stratum};

/// Rows that shares by labels are for, at least, once there are as many.
const WINDOW_ROWS: u64 = 5_000;
/// Labels without which a block does not take part: one alone does not show how labels differ.
const FEWEST_LABELS: u32 = 2;
/// Most values that blocks without labels may hold, and the bounds of their number that follow.
const MOST_VALUES: usize = 100_000;
const KEPT_BLOCKS: std::ops::RangeInclusive<usize> = 64..=1_000;

/// Class shares by labels of randomly drawn events. They hold whatever has changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SharesByLabels {
    /// Labels of randomly drawn events that they rest on.
    pub labels: u64,
    /// Events that they are for: those with an id in the newest blocks with labels.
    pub rows: u64,
    /// The first and the last of these blocks, counted from 1. The newest blocks have no labels yet.
    pub first_block: u64,
    /// The last of these blocks.
    pub last_block: u64,
    /// For each class.
    pub classes: Vec<ShareByLabels>,
}

/// Blocks whose events were drawn from; those whose labels are still to come included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ShareBook {
    blocks: VecDeque<DrawnBlock>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DrawnBlock {
    block: u64,
    /// Events that could be drawn: those with an id.
    rows: u64,
    /// Mean probability of each class over these.
    predicted: Vec<f64>,
    /// Labels that came.
    labels: u32,
    /// By class; empty before the first label.
    sums: Vec<LabelSums>,
}

impl ShareBook {
    /// A block whose labels may come: the frozen model's probabilities for each event that could be drawn.
    pub(super) fn open<'a>(
        &mut self,
        block: u64,
        classes: usize,
        rows: impl Iterator<Item = &'a [f32]>,
    ) {
        let mut predicted = vec![0.0; classes];
        let mut count = 0;
        for row in rows {
            for (sum, probability) in predicted.iter_mut().zip(row) {
                *sum += f64::from(*probability);
            }
            count += 1;
        }
        if count == 0 {
            return;
        }
        predicted.iter_mut().for_each(|sum| *sum /= count as f64);
        self.blocks.push_back(DrawnBlock {
            block,
            rows: count,
            predicted,
            labels: 0,
            sums: Vec::new(),
        });
        let most = (MOST_VALUES / classes.max(1)).clamp(*KEPT_BLOCKS.start(), *KEPT_BLOCKS.end());
        while self.blocks.len() > most {
            self.blocks.pop_front();
        }
    }

    /// The label of an event that was drawn from a block. One whose block is no longer kept says nothing.
    pub(super) fn answer(&mut self, block: u64, class: u32, probabilities: &[f32]) {
        let Ok(place) = self
            .blocks
            .binary_search_by_key(&block, |drawn| drawn.block)
        else {
            return;
        };
        let drawn = &mut self.blocks[place];
        drawn.labels += 1;
        drawn
            .sums
            .resize(drawn.predicted.len(), LabelSums::default());
        for (number, (sums, probability)) in drawn.sums.iter_mut().zip(probabilities).enumerate() {
            sums.add(number == class as usize, f64::from(*probability));
        }
    }

    /// Forgets blocks that are older than the window.
    pub(super) fn forget_old(&mut self) {
        let mut rows = 0;
        let mut keep = 0;
        for drawn in self.blocks.iter().rev() {
            keep += 1;
            rows += if drawn.takes_part() { drawn.rows } else { 0 };
            if rows >= WINDOW_ROWS {
                break;
            }
        }
        self.blocks.drain(..self.blocks.len() - keep);
    }

    /// `None` before there are enough labels.
    pub(super) fn shares(&self) -> Option<SharesByLabels> {
        let mut window = Vec::new();
        let mut rows = 0;
        for drawn in self.blocks.iter().rev().filter(|drawn| drawn.takes_part()) {
            window.push(drawn);
            rows += drawn.rows;
            if rows >= WINDOW_ROWS {
                break;
            }
        }
        let (first, last) = (window.last()?, window.first()?);
        let share = |class: usize| {
            let strata: Vec<Stratum> = window.iter().map(|drawn| drawn.stratum(class)).collect();
            ShareByLabels::new(&strata)
        };
        let classes = (0..first.predicted.len()).map(share);
        Some(SharesByLabels {
            labels: window.iter().map(|drawn| u64::from(drawn.labels)).sum(),
            rows,
            first_block: first.block,
            last_block: last.block,
            classes: classes.collect::<Option<_>>()?,
        })
    }
}

impl DrawnBlock {
    fn takes_part(&self) -> bool {
        self.labels >= FEWEST_LABELS
    }

    fn stratum(&self, class: usize) -> Stratum {
        Stratum {
            rows: self.rows as f64,
            predicted: self.predicted[class],
            labels: f64::from(self.labels),
            sums: self.sums[class],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTAIN: [&[f32]; 2] = [&[1.0, 0.0], &[0.0, 1.0]];

    /// Blocks of 1,000 events, half of them of each class, of which 20 have labels.
    fn filled(blocks: u64) -> ShareBook {
        let mut book = ShareBook::default();
        for block in 1..=blocks {
            book.open(block, 2, (0..1_000).map(|row| CERTAIN[row % 2]));
            for row in 0..20 {
                book.answer(block, row % 2, CERTAIN[row as usize % 2]);
            }
            book.forget_old();
        }
        book
    }

    #[test]
    fn the_window_is_the_newest_blocks_with_labels() {
        let mut book = filled(8);
        // Two more, whose labels have not come.
        for block in 9..=10 {
            book.open(block, 2, CERTAIN.into_iter());
            book.forget_old();
        }
        let shares = book.shares().unwrap();
        assert_eq!((shares.first_block, shares.last_block), (4, 8));
        assert_eq!((shares.rows, shares.labels), (5_000, 100));
        let share = shares.classes[0];
        assert!(
            (share.share - 0.5).abs() < 1e-9 && share.tuning > 0.99,
            "{share:?}"
        );
        // Labels of a block that is forgotten, or that never was, change nothing.
        let before = book.clone();
        book.answer(1, 0, CERTAIN[0]);
        book.answer(99, 0, CERTAIN[0]);
        assert_eq!(book, before);
    }

    #[test]
    fn labels_that_never_come_leave_a_bounded_number_of_blocks() {
        let mut book = ShareBook::default();
        for block in 1..=1_200 {
            book.open(block, 2, CERTAIN.into_iter());
            book.forget_old();
        }
        assert_eq!(book.blocks.len(), *KEPT_BLOCKS.end());
        assert_eq!(book.shares(), None);
    }
}
