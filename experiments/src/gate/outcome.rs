//! What a replay measured.

use ostar_method::{Candidate, learner::BlockReport};

use super::{AUTO, BLOCK, FROZEN};
use crate::task::proportions;

/// Rows over which the largest loss is looked for.
const LOSS_WINDOW: usize = 2_000;
/// Tenths of the stream.
const PARTS: usize = 10;
/// A window counts as lost if it lies below this many points by so many standard errors.
const LOST: (f64, f64) = (-2.0, 3.0);

/// A stream's outcome.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Of every row and candidate, whether the prediction was right.
    pub(super) right: Vec<[bool; 7]>,
    /// Blocks whose proportions were published as known.
    pub known: usize,
    /// Blocks for whose proportions a range was published.
    pub ranges: usize,
    /// Of the known ones, intervals that cover, and intervals in all.
    pub covered: (usize, usize),
    /// Sum of the widths of these intervals.
    pub width: f64,
    /// Blocks in all.
    pub blocks: usize,
    /// Blocks after which each candidate was served.
    pub served: [usize; 3],
    /// Reasons of the gate and how many blocks each decided.
    pub reasons: Vec<(String, usize)>,
    /// What the gate said after each block, in words.
    pub verdicts: Vec<String>,
    /// Alignment steps taken.
    pub steps: u64,
    /// Labels that were joined.
    pub labels: u64,
}

impl Outcome {
    /// Share of right predictions of a candidate, in percent.
    pub fn accuracy(&self, candidate: usize) -> f64 {
        percent(&self.right, candidate)
    }

    /// `auto` less the frozen model, in points, in the worst tenth.
    pub fn worst_tenth(&self) -> f64 {
        let rows = self.right.len();
        let part = |number: usize| &self.right[number * rows / PARTS..(number + 1) * rows / PARTS];
        let losses = (0..PARTS).map(|number| gain(part(number), AUTO));
        losses.fold(f64::INFINITY, f64::min)
    }

    /// A candidate less the frozen model, in points, in the worst window of 2,000 rows.
    pub fn worst_window(&self, candidate: usize) -> f64 {
        let windows = self.right.windows(LOSS_WINDOW.min(self.right.len()));
        windows
            .step_by(BLOCK / 2)
            .map(|rows| gain(rows, candidate))
            .fold(f64::INFINITY, f64::min)
    }

    /// The worst window of 2,000 rows of `auto` less the frozen model, and in how many of them too much is lost.
    pub fn paired_windows(&self) -> PairedWindows {
        let mut worst = PairedWindows {
            points: f64::INFINITY,
            error: 0.0,
            lost: 0,
            count: 0,
        };
        let windows = self.right.windows(LOSS_WINDOW.min(self.right.len().max(1)));
        for rows in windows.step_by(BLOCK) {
            let (points, error) = paired(rows);
            worst.count += 1;
            worst.lost += usize::from(points + LOST.1 * error < LOST.0);
            if points < worst.points {
                (worst.points, worst.error) = (points, error);
            }
        }
        worst
    }

    /// A candidate less the frozen model after the first `skip` rows, in points.
    pub fn gain_after(&self, candidate: usize, skip: usize) -> f64 {
        gain(&self.right[skip.min(self.right.len() - 1)..], candidate)
    }

    /// A candidate less the frozen model in the second half of the stream, in points.
    pub fn later_gain(&self, candidate: usize) -> f64 {
        let rows = &self.right[self.right.len() / 2..];
        percent(rows, candidate) - percent(rows, FROZEN)
    }

    /// Accuracy of a candidate in block `number`, in percent.
    pub fn block_accuracy(&self, candidate: usize, number: usize) -> f64 {
        let rows = &self.right[number * BLOCK..((number + 1) * BLOCK).min(self.right.len())];
        percent(rows, candidate)
    }
}

/// Windows of 2,000 rows in steps of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PairedWindows {
    /// `auto` less the frozen model in the worst window, on the same rows.
    pub points: f64,
    /// Standard error of that difference.
    pub error: f64,
    /// Windows more than 2 points below the frozen model by more than 3 standard errors.
    pub lost: usize,
    /// Windows in all.
    pub count: usize,
}

/// Difference in points with its standard error: rows on which both are right or wrong say nothing.
fn paired(rows: &[[bool; 7]]) -> (f64, f64) {
    let count = rows.len() as f64;
    let of = |won: bool| {
        let differ = rows
            .iter()
            .filter(|row| row[AUTO] == won && row[FROZEN] != won);
        differ.count() as f64 / count
    };
    let (won, lost) = (of(true), of(false));
    let variance = won + lost - (won - lost).powi(2);
    (100.0 * (won - lost), 100.0 * (variance / count).sqrt())
}

fn percent(rows: &[[bool; 7]], candidate: usize) -> f64 {
    let right = rows.iter().filter(|row| row[candidate]).count();
    100.0 * right as f64 / rows.len().max(1) as f64
}

fn gain(rows: &[[bool; 7]], candidate: usize) -> f64 {
    percent(rows, candidate) - percent(rows, FROZEN)
}

impl Outcome {
    pub(super) fn note(&mut self, report: &BlockReport, seen: &[u32], classes: usize) {
        self.blocks += 1;
        self.served[match report.verdict.candidate {
            Candidate::Frozen => 0,
            Candidate::Prior => 1,
            Candidate::Adapted => 2,
        }] += 1;
        let verdict = &report.verdict;
        let duels = verdict.labels.iter().flat_map(|labels| &labels.duels);
        let duels = duels.map(|duel| {
            format!(
                ", {} : {} = {:.1} : {:.1} ({:.2}, bets {:.1} : {:.1})",
                duel.challenger,
                duel.incumbent,
                duel.right,
                duel.wrong,
                duel.probability,
                duel.challenger_wealth,
                duel.incumbent_wealth
            )
        });
        let duels: String = duels.collect();
        self.verdicts
            .push(format!("{}: {}{duels}", verdict.candidate, verdict.reason));
        let label = verdict.reason.label();
        match self.reasons.iter_mut().find(|(known, _)| known == label) {
            Some((_, count)) => *count += 1,
            None => self.reasons.push((label.to_owned(), 1)),
        }
        let estimate = &report.served;
        if !estimate.known {
            return;
        }
        self.known += 1;
        // An interval is for the mean over the rows that the estimate is worth.
        let rows = (estimate.effective_rows as usize).clamp(1, seen.len());
        let truth = proportions(&seen[seen.len() - rows..], classes);
        for (interval, truth) in estimate.intervals.iter().zip(truth) {
            self.covered.0 += usize::from(interval.contains(truth));
            self.covered.1 += 1;
            self.width += interval.high - interval.low;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paired_difference_counts_the_rows_that_differ() {
        let row = |frozen: bool, auto: bool| {
            let mut right = [false; 7];
            (right[FROZEN], right[AUTO]) = (frozen, auto);
            right
        };
        // 1,500 rows that are both right, 300 lost, 200 won.
        let mut rows = vec![row(true, true); 1_500];
        rows.extend(vec![row(true, false); 300]);
        rows.extend(vec![row(false, true); 200]);
        let (points, error) = paired(&rows);
        assert!((points + 5.0).abs() < 1e-9, "{points}");
        // Deviation of -1, 0, 1 with these shares, over the root of 2,000.
        let expected = 100.0 * (0.25f64 - 0.0025).sqrt() / 2_000f64.sqrt();
        assert!((error - expected).abs() < 1e-9, "{error}");
    }
}
