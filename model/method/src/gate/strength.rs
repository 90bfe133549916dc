//! How far labels carry prior correction.
//!
//! Where more than the shares has moved, correction by the estimated shares often goes in the right direction and too far.
//! At a lower strength it changes the class of fewer rows: of those on which the frozen model was least sure. A label of a
//! row that the whole correction changes says whether the change is right, so that labels together say which strength gains
//! most.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    beta::above_half,
    change::{Change, WHOLE},
    outcomes::{MOST_BLOCKS, unchanged},
};

/// Strengths to choose from, as shares of the whole correction's logarithm.
pub(crate) const STRENGTHS: [f64; 4] = [0.25, 0.5, 0.75, WHOLE];

/// How much of the correction may be right: from all of it backwards to twice as much.
const EXTENTS: usize = 13;
const FIRST_EXTENT: f64 = -1.0;
const EXTENT_STEP: f64 = 0.25;
/// How far the model's certainty may hold on the stream; 1 is what it claims.
const SLOPES: [f64; 3] = [0.25, 0.5, 1.0];
const CELLS: usize = EXTENTS * SLOPES.len();

/// Blocks whose rows stand for those that come, and how many of a block.
const RECENT_BLOCKS: usize = 2;
const MOST_ROWS: usize = 64;
/// Labelled blocks that the newest one is compared with.
const COMPARED_BLOCKS: usize = 4;
/// A block in which correction changes more than this many times as many rows, and this share of its rows more, is
/// not one that labels have vouched for.
const MANY_MORE: f64 = 2.0;
const A_FEW_ROWS: f64 = 0.01;
/// A strength is contradicted when the chance that it is better, by counts alone, is below this.
const CONTRADICTED: f64 = 0.1;

/// What labels say of each strength; part of the state that lasts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Strengths {
    /// By strength: labels of rows that it changes, each counted less with every block.
    counts: [Counts; STRENGTHS.len()],
    /// Blocks with such labels, oldest first.
    labelled: VecDeque<Labelled>,
    /// What correction changed in the latest blocks, oldest first.
    seen: VecDeque<Seen>,
    /// When last looked at; empty without labels.
    judged: Vec<Judged>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    /// The change is right.
    right: f64,
    /// The frozen model was right.
    wrong: f64,
}

/// Labels of one block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Labelled {
    block: u64,
    /// The logarithm of their likelihood in every cell.
    ln_likelihood: Vec<f64>,
}

/// A block's rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    block: u64,
    /// Share of rows whose class each strength changes.
    changed: [f64; STRENGTHS.len()],
    /// Reach and shift of some of them; only of the latest blocks.
    rows: Vec<[f32; 2]>,
}

/// A strength against the frozen model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Judged {
    pub(crate) strength: f64,
    /// The chance that it is right more often where it changes the class.
    pub(crate) chance: f64,
    /// Rows that it is expected to gain, of those that it is judged on.
    pub(crate) gain: f64,
    /// Whether labels of the rows that it changes say otherwise, counted without the model. The model may be wrong.
    pub(crate) is_contradicted: bool,
    /// Whether it changes many more rows now than in the blocks that labels are of.
    pub(crate) is_beyond_labels: bool,
}

/// The log-odds that a change is right in every cell.
fn log_odds(reach: f32, shift: f32) -> impl Iterator<Item = f64> {
    let (reach, shift) = (f64::from(reach), f64::from(shift));
    let extents = (0..EXTENTS).map(|step| FIRST_EXTENT + EXTENT_STEP * step as f64);
    extents.flat_map(move |extent| SLOPES.map(move |slope| slope * shift * (extent - reach)))
}

/// The logarithm of the logistic function.
fn ln_logistic(x: f64) -> f64 {
    x.min(0.0) - (-x.abs()).exp().ln_1p()
}

// === impl Strengths ===

impl Strengths {
    /// A block has passed.
    pub(crate) fn age(&mut self, decay: f64) {
        for counts in &mut self.counts {
            counts.right *= decay;
            counts.wrong *= decay;
        }
    }

    /// What the whole correction makes of a block's rows.
    pub(crate) fn note_changes(&mut self, block: u64, rows: &[Option<Change>]) {
        let made: Vec<&Change> = rows.iter().flatten().collect();
        let changed = STRENGTHS.map(|strength| {
            let count = made
                .iter()
                .filter(|change| Change::is_made_at(change.reach, strength));
            count.count() as f64 / rows.len().max(1) as f64
        });
        let every = made.len().div_ceil(MOST_ROWS).max(1);
        let sample = made.iter().step_by(every);
        self.seen.push_back(Seen {
            block,
            changed,
            rows: sample.map(|change| [change.reach, change.shift]).collect(),
        });
        if self.seen.len() > MOST_BLOCKS {
            self.seen.pop_front();
        }
        let old = self.seen.len().saturating_sub(RECENT_BLOCKS);
        for seen in self.seen.iter_mut().take(old) {
            seen.rows = Vec::new();
        }
    }

    /// A label of an event in `block` that either the frozen model or the whole correction had right.
    pub(crate) fn add(&mut self, block: u64, weight: f64, change: Change, is_right: bool) {
        for (counts, strength) in self.counts.iter_mut().zip(STRENGTHS) {
            if Change::is_made_at(change.reach, strength) {
                let count = if is_right {
                    &mut counts.right
                } else {
                    &mut counts.wrong
                };
                *count += weight;
            }
        }
        let before = self.labelled.partition_point(|one| one.block < block);
        let known = self.labelled.get(before);
        if known.is_none_or(|one| one.block != block) {
            let ln_likelihood = vec![0.0; CELLS];
            let none = Labelled {
                block,
                ln_likelihood,
            };
            self.labelled.insert(before, none);
        }
        let sign = if is_right { 1.0 } else { -1.0 };
        let cells = self.labelled[before].ln_likelihood.iter_mut();
        for (cell, odds) in cells.zip(log_odds(change.reach, change.shift)) {
            *cell += ln_logistic(sign * odds);
        }
        if self.labelled.len() > MOST_BLOCKS {
            self.labelled.pop_front();
        }
    }

    /// What labels said counts no longer. What correction changes is no label.
    pub(crate) fn forget_labels(&mut self) {
        let seen = std::mem::take(&mut self.seen);
        *self = Self {
            seen,
            ..Self::default()
        };
    }

    /// Labels of rows that the whole correction changes.
    pub(crate) fn labels(&self) -> f64 {
        let [.., whole] = self.counts;
        whole.right + whole.wrong
    }

    /// What labels say of each strength, weakest first; empty without labels.
    pub(crate) fn judged(&self) -> &[Judged] {
        &self.judged
    }

    /// Looks at what labels say at block `now`. Without rows that correction changes, what was said last stays.
    pub(crate) fn judge(&mut self, now: u64) {
        let Some(chances) = self.posterior(now) else {
            self.judged.clear();
            return;
        };
        let rows: Vec<[f32; 2]> = self
            .seen
            .iter()
            .flat_map(|seen| &seen.rows)
            .copied()
            .collect();
        if rows.is_empty() {
            return;
        }
        let judged = STRENGTHS.iter().enumerate();
        self.judged = judged
            .map(|(place, strength)| {
                let mut gains = [0.0; CELLS];
                let changed = rows
                    .iter()
                    .filter(|[reach, _]| Change::is_made_at(*reach, *strength));
                for [reach, shift] in changed {
                    for (gain, odds) in gains.iter_mut().zip(log_odds(*reach, *shift)) {
                        *gain += (0.5 * odds).tanh();
                    }
                }
                let cells = || gains.iter().zip(&chances);
                let Counts { right, wrong } = self.counts[place];
                let better = cells().filter(|(gain, _)| **gain > 0.0);
                Judged {
                    strength: *strength,
                    chance: better.map(|(_, chance)| chance).sum(),
                    gain: cells().map(|(gain, chance)| gain * chance).sum(),
                    is_contradicted: above_half(right, wrong) < CONTRADICTED,
                    is_beyond_labels: self.is_beyond_labels(place),
                }
            })
            .collect();
    }

    /// The chance of every cell at block `now`, when what is right may change with every block: Bayes' rule over all
    /// blocks with which the present may have begun.
    fn posterior(&self, now: u64) -> Option<Vec<f64>> {
        let newest = self.labelled.back()?.block;
        let flat = -(CELLS as f64).ln();
        let mut beginnings: Vec<Vec<f64>> = Vec::with_capacity(self.labelled.len());
        let (mut total, mut last) = (0.0, None);
        for Labelled {
            block,
            ln_likelihood,
        } in &self.labelled
        {
            let same = last.map_or(0.0, |last| unchanged(block - last));
            for cells in &mut beginnings {
                for (cell, ln_likelihood) in cells.iter_mut().zip(ln_likelihood) {
                    *cell += same.ln() + ln_likelihood;
                }
            }
            let begins = total + (1.0 - same).ln() + flat;
            beginnings.push(ln_likelihood.iter().map(|cell| begins + cell).collect());
            total = ln_sum(beginnings.iter().flatten().copied());
            last = Some(*block);
        }
        let same = unchanged(now.saturating_sub(newest + 1));
        let mut chances = vec![(1.0 - same) / CELLS as f64; CELLS];
        for cells in &beginnings {
            for (chance, cell) in chances.iter_mut().zip(cells) {
                *chance += same * (cell - total).exp();
            }
        }
        Some(chances)
    }

    fn is_beyond_labels(&self, place: usize) -> bool {
        let of_block = |block: u64| {
            let number = self.seen.binary_search_by_key(&block, |seen| seen.block);
            number.ok().map(|number| self.seen[number].changed[place])
        };
        let Some(newest) = self.seen.back() else {
            return false;
        };
        let labelled = self.labelled.iter().rev().take(COMPARED_BLOCKS);
        let labelled: Vec<f64> = labelled.filter_map(|one| of_block(one.block)).collect();
        if labelled.is_empty() {
            return false;
        }
        let mean = labelled.iter().sum::<f64>() / labelled.len() as f64;
        newest.changed[place] > MANY_MORE * mean + A_FEW_ROWS
    }
}

/// The logarithm of a sum of numbers whose logarithms are given.
fn ln_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = values.map(|value| (value - largest).exp()).sum();
    largest + sum.ln()
}

#[cfg(test)]
mod tests;
