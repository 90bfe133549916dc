//! The rows of the block that is being filled.

use std::ops::Range;

use ostar_engine::Inputs;

use crate::{
    frozen::{FrozenRows, FrozenScores},
    proportions::Probabilities,
};

/// Inputs of some of the rows that come, which alarms compare with training's.
#[derive(Debug, Clone, Copy)]
pub struct InputSample<'a> {
    /// The inputs.
    pub inputs: Inputs<'a>,
    /// How many rows these are.
    pub rows: usize,
}

/// Rows since the latest block, and how many of them the shares have followed.
#[derive(Debug, Default)]
pub(super) struct OpenBlock {
    scores: FrozenScores,
    /// Their probabilities, checked and in double precision, so that this is done once.
    probabilities: Vec<f64>,
    followed: usize,
}

impl OpenBlock {
    pub(super) fn append(&mut self, rows: FrozenRows<'_>, checked: &Probabilities) {
        self.scores.append(rows);
        self.probabilities.extend_from_slice(checked.as_slice());
    }

    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    /// Rows that the shares have followed.
    pub(super) fn followed(&self) -> usize {
        self.followed
    }

    /// The next rows that the shares follow, if there are `count`.
    pub(super) fn next_group(&mut self, count: usize) -> Option<Range<usize>> {
        let first = self.followed;
        if count == 0 || first + count > self.len() {
            return None;
        }
        self.followed += count;
        Some(first..self.followed)
    }

    pub(super) fn rows(&self, rows: Range<usize>) -> FrozenRows<'_> {
        self.scores.rows(rows)
    }

    pub(super) fn probabilities(&self, rows: Range<usize>) -> Probabilities {
        let classes = self.probabilities.len() / self.len();
        let values = rows.start * classes..rows.end * classes;
        Probabilities::from_checked(self.probabilities[values].to_vec(), classes)
    }

    /// Forgets the rows and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.scores.clear();
        self.probabilities.clear();
        self.followed = 0;
    }
}
