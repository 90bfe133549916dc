//! How likely a challenger is the better one now, when that may change with every block.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::beta::{above_half, ln_beta};

/// Chance that what is right changes between two blocks, before labels are looked at. Labels that only fade with time follow a
/// change too slowly: a candidate that was right for ten blocks is believed for many more.
const CHANGE: f64 = 0.05;
/// Blocks with labels that are remembered.
pub(super) const MOST_BLOCKS: usize = 24;
/// A beginning that is less likely than this, compared with all, makes no difference.
const UNLIKELY: f64 = 1e-6;

/// Labels that only one of two candidates had right, by the blocks of their events.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Outcomes {
    /// Oldest first.
    blocks: VecDeque<Counted>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    block: u64,
    right: f64,
    wrong: f64,
}

/// What is right now may have begun with some block: how likely that is, and what was counted since.
struct Beginning {
    ln_chance: f64,
    right: f64,
    wrong: f64,
}

impl Outcomes {
    /// A label of an event in `block`.
    pub(crate) fn add(&mut self, block: u64, challenger_is_right: bool) {
        let before = self.blocks.partition_point(|counted| counted.block < block);
        if self
            .blocks
            .get(before)
            .is_none_or(|counted| counted.block != block)
        {
            let empty = Counted {
                block,
                right: 0.0,
                wrong: 0.0,
            };
            self.blocks.insert(before, empty);
        }
        let counted = &mut self.blocks[before];
        if challenger_is_right {
            counted.right += 1.0;
        } else {
            counted.wrong += 1.0;
        }
        if self.blocks.len() > MOST_BLOCKS {
            self.blocks.pop_front();
        }
    }

    /// The chance that the challenger is right more often at block `now`: Bayes' rule over all blocks with which the present
    /// may have begun, whose shares of right labels are unknown. A label counts fully in the block after its event.
    pub(crate) fn probability(&self, now: u64) -> f64 {
        let Some(newest) = self.blocks.back() else {
            return 0.5;
        };
        let (beginnings, total) = self.beginnings();
        let chance = |one: &Beginning| (one.ln_chance - total).exp();
        let likely = beginnings.iter().filter(|one| chance(one) > UNLIKELY);
        let better: f64 = likely
            .map(|one| chance(one) * above_half(one.right, one.wrong))
            .sum();
        let same = unchanged(now.saturating_sub(newest.block + 1));
        same * better + (1.0 - same) * 0.5
    }

    /// All beginnings, and the logarithm of what their chances add up to.
    fn beginnings(&self) -> (Vec<Beginning>, f64) {
        let mut beginnings: Vec<Beginning> = Vec::with_capacity(self.blocks.len());
        let (mut total, mut last) = (0.0, None);
        for Counted {
            block,
            right,
            wrong,
        } in &self.blocks
        {
            let same = last.map_or(0.0, |last| unchanged(block - last));
            for one in &mut beginnings {
                let before = ln_beta(1.0 + one.right, 1.0 + one.wrong);
                one.right += right;
                one.wrong += wrong;
                one.ln_chance += same.ln() + ln_beta(1.0 + one.right, 1.0 + one.wrong) - before;
            }
            beginnings.push(Beginning {
                ln_chance: total + (1.0 - same).ln() + ln_beta(1.0 + right, 1.0 + wrong),
                right: *right,
                wrong: *wrong,
            });
            let chances = beginnings.iter().map(|one| one.ln_chance);
            let largest = chances.clone().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = chances.map(|chance| (chance - largest).exp()).sum();
            total = largest + sum.ln();
            last = Some(*block);
        }
        (beginnings, total)
    }
}

/// The chance that nothing changes in so many blocks.
pub(super) fn unchanged(blocks: u64) -> f64 {
    (1.0 - CHANGE).powi(i32::try_from(blocks).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks from 1 on with so many right and wrong labels.
    fn outcomes(blocks: &[(u32, u32)]) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for ((right, wrong), block) in blocks.iter().zip(1..) {
            (0..*right).for_each(|_| outcomes.add(block, true));
            (0..*wrong).for_each(|_| outcomes.add(block, false));
        }
        outcomes
    }

    #[test]
    fn labels_of_one_block_are_a_beta_distribution() {
        assert_eq!(Outcomes::default().probability(7), 0.5);
        let found = outcomes(&[(8, 2)]).probability(2);
        assert!((found - above_half(8.0, 2.0)).abs() < 1e-12, "{found}");
    }

    #[test]
    fn steady_labels_add_up_and_a_change_is_seen_after_a_block_or_two() {
        let steady = outcomes(&[(6, 4); 12]).probability(13);
        assert!(steady > 0.9, "{steady}");
        let mut blocks = vec![(7, 3); 8];
        blocks.push((2, 8));
        let once = outcomes(&blocks).probability(10);
        assert!((0.1..0.7).contains(&once), "{once}");
        blocks.push((2, 8));
        let twice = outcomes(&blocks).probability(11);
        assert!(twice < 0.15, "{twice}");
    }

    #[test]
    fn one_bad_block_by_chance_changes_little_where_the_margin_is_small() {
        let mut blocks = vec![(6, 4); 8];
        blocks.push((4, 6));
        let found = outcomes(&blocks).probability(10);
        assert!(found > 0.7, "{found}");
    }

    #[test]
    fn late_labels_count_for_their_blocks_and_old_ones_say_little_of_now() {
        let mut late = Outcomes::default();
        for block in [3, 1, 2] {
            (0..7).for_each(|_| late.add(block, true));
            (0..3).for_each(|_| late.add(block, false));
        }
        assert_eq!(late, outcomes(&[(7, 3); 3]));
        let soon = late.probability(4);
        let after = [8, 24, 1_000_000].map(|now| late.probability(now));
        assert!(soon > after[0] && after[0] > after[1], "{soon} {after:?}");
        assert!(after[1] < 0.7 && (after[2] - 0.5).abs() < 1e-6, "{after:?}");
    }

    #[test]
    fn memory_is_bounded_and_many_labels_are_no_trouble() {
        let found = outcomes(&[(2_000, 1_900); 60]);
        assert_eq!(found.blocks.len(), MOST_BLOCKS);
        assert!(found.probability(61) > 0.99);
    }
}
