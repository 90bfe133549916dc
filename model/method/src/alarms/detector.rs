//! Tells when a series has left its usual level, and since when.

use serde::{Deserialize, Serialize};

use super::{
    baseline::{Baseline, SETTLED_PAIRS},
    limit::ALLOWANCE,
};

/// Which changes are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Both,
}

/// A series and its cumulative sums (CUSUM).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Detector {
    baseline: Baseline,
    up: Excess,
    down: Excess,
}

/// What every score must exceed in the sum that tells when a change began. The sum that raises the alarm is often
/// above 0 by chance before a large change, and would tell too early.
const STEEP_ALLOWANCE: f64 = 1.0;

/// Cumulative sums of scores in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excess {
    /// Raises the alarm.
    run: Run,
    /// Tells when a large change began.
    steep: Run,
}

/// A cumulative sum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    sum: f64,
    /// Blocks since the sum was last 0, and the sum of their values.
    blocks: u32,
    values: f64,
    /// The same as the baseline counts them.
    taken_in: f64,
}

/// The level of a series changed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    /// Blocks ago, the latest included, that it began.
    pub(super) blocks: u32,
    pub(super) before: f64,
    pub(super) after: f64,
}

impl Detector {
    /// The larger sum of those that count.
    pub(super) fn statistic(&self, direction: Direction) -> f64 {
        match direction {
            Direction::Up => self.up.run.sum,
            Direction::Both => self.up.run.sum.max(self.down.run.sum),
        }
    }

    pub(super) fn baseline(&self) -> &Baseline {
        &self.baseline
    }

    /// Whether this block was the first with which the usual level counts as known.
    pub(super) fn has_just_settled(&self) -> bool {
        self.baseline.blocks() == SETTLED_PAIRS
    }

    /// The series has a gap.
    pub(super) fn interrupt(&mut self) {
        self.baseline.interrupt();
        self.up = Excess::default();
        self.down = Excess::default();
    }

    /// Takes in the value of a block. After a change the usual level is learned anew.
    pub(super) fn observe(
        &mut self,
        value: f64,
        limit: f64,
        direction: Direction,
    ) -> Option<Change> {
        self.observe_noisy(value, 0.0, limit, direction)
    }

    /// [`Detector::observe`] of a value whose sampling alone gives it this variance: a series that has never varied is
    /// then surprised by a value that is.
    pub(super) fn observe_noisy(
        &mut self,
        value: f64,
        variance: f64,
        limit: f64,
        direction: Direction,
    ) -> Option<Change> {
        let found = self.baseline.take_in_noisy(value, variance);
        let found = found.filter(|_| self.baseline.is_settled())?;
        self.up.add(found.score, value, found.taken_in);
        self.down.add(-found.score, value, found.taken_in);
        let crossed = match direction {
            Direction::Both if self.down.run.sum > self.up.run.sum => self.down,
            Direction::Both | Direction::Up => self.up,
        };
        if crossed.run.sum < limit {
            return None;
        }
        let began = if crossed.steep.blocks > 0 {
            crossed.steep
        } else {
            crossed.run
        };
        let change = self.change(began, value);
        *self = Self {
            baseline: self.baseline.after_change(),
            ..Self::default()
        };
        Some(change)
    }

    fn change(&self, began: Run, value: f64) -> Change {
        let blocks = f64::from(began.blocks);
        let all = self.baseline.blocks();
        let mean = self.baseline.mean().unwrap_or(value);
        // The level before is that of the blocks before the change.
        let before = (all * mean - began.taken_in) / (all - blocks).max(1.0);
        Change {
            blocks: began.blocks,
            before: if all > blocks { before } else { mean },
            after: began.values / blocks.max(1.0),
        }
    }
}

impl Excess {
    fn add(&mut self, score: f64, value: f64, taken_in: f64) {
        self.run.add(score - ALLOWANCE, value, taken_in);
        self.steep.add(score - STEEP_ALLOWANCE, value, taken_in);
    }
}

impl Run {
    fn add(&mut self, excess: f64, value: f64, taken_in: f64) {
        self.sum += excess;
        if self.sum <= 0.0 {
            *self = Self::default();
            return;
        }
        self.blocks += 1;
        self.values += value;
        self.taken_in += taken_in;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Generator;

    #[test]
    fn a_jump_is_told_with_the_levels_before_and_after_and_when_it_began() {
        for (follows, most) in [(0.0f64, 6), (0.8, 16)] {
            let mut random = Generator::new(11);
            let (mut detector, mut noise) = (Detector::default(), 0.0);
            let innovation = (1.0 - follows * follows).sqrt();
            let mut told = None;
            for block in 0..230 {
                noise = follows * noise + innovation * random.normal();
                let level = if block < 200 { 0.3 } else { 0.4 };
                let value = level + 0.0205 * noise;
                if let Some(change) = detector.observe(value, 11.3, Direction::Both) {
                    told = Some((block, change));
                    break;
                }
            }
            let (block, change) = told.expect("a jump of ten points");
            assert!((200..200 + most).contains(&block), "{follows}: {block}");
            let began = block + 1 - change.blocks as usize;
            assert!((195..=205).contains(&began), "{follows}: {began}");
            assert!((change.before - 0.3).abs() < 0.02, "{change:?}");
            assert!((change.after - 0.4).abs() < 0.04, "{change:?}");
            // The new level is learned anew.
            assert_eq!(detector.baseline.blocks(), 0.0);
        }
    }
}
