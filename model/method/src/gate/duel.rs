//! Two candidates compared by labels.

use serde::{Deserialize, Serialize};

use super::outcomes::Outcomes;

/// What a label counts a block later, as a share.
pub(crate) const DECAY: f64 = 0.95;

/// Shares of their wealth that bettors stake on every label. Each is best for another margin of the winner; their
/// mean grows nearly as fast as the best of them.
const STAKES: [f64; 6] = [0.05, 0.1, 0.2, 0.35, 0.5, 0.75];

/// A bettor's wealth is cut here. Nothing is decided above it, and what is lost after a change is made up for sooner.
const MOST_WEALTH: f64 = 1_000.0;
/// Differences in log-likelihood are bet on as parts of the largest that a row could have shown, which counts as at least
/// this. Two candidates that differ by rounding alone would otherwise prove something.
const LEAST_BOUND: f64 = 0.01;
/// Blocks with labels over which most of the cash is handed to bettors.
const CASH_BLOCKS: f64 = 10.0;

/// Right and wrong of a challenger against an incumbent, and what bets on either have become.
///
/// Bettors stake a share of what they have on the next label. If the challenger is no better, no strategy can expect to
/// gain, so that 1 ever becomes 20 with a chance of at most 1 in 20, however often one looks (Ville's inequality). Half of
/// it is bet from the start. The rest is handed out little by little, so that a challenger that was bad for long can come
/// back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Duel {
    /// Labels that only the challenger had right, and only the incumbent. Each counts less with every block.
    right: f64,
    wrong: f64,
    /// The same by blocks.
    outcomes: Outcomes,
    /// The chance that the challenger is right more often where they differ, when last looked at.
    probability: f64,
    /// Sum of the challenger's gains in log-likelihood, counted alike, and of the labels behind it.
    gain: f64,
    labels: f64,
    /// Largest gain or loss that a row could have shown so far: what bets are scaled by.
    bound: f64,
    challenger: Bets,
    incumbent: Bets,
}

/// Bets on one of the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bets {
    cash: f64,
    /// Blocks in which something was bet.
    blocks: f64,
    /// Whether something was bet in this block.
    is_open: bool,
    bettors: [f64; STAKES.len()],
}

impl Default for Bets {
    fn default() -> Self {
        Self {
            cash: 0.5,
            blocks: 0.0,
            is_open: false,
            bettors: [0.5 / STAKES.len() as f64; STAKES.len()],
        }
    }
}

impl Bets {
    /// `score` is at most 1 and at least -1.
    fn bet(&mut self, score: f64) {
        self.is_open = true;
        for (wealth, stake) in self.bettors.iter_mut().zip(STAKES) {
            *wealth = (*wealth * (1.0 + stake * score)).min(MOST_WEALTH);
        }
    }

    fn age(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.blocks += 1.0;
            let handed_out = self.cash / (self.blocks + CASH_BLOCKS);
            self.cash -= handed_out;
            let each = handed_out / STAKES.len() as f64;
            self.bettors.iter_mut().for_each(|wealth| *wealth += each);
        }
    }

    fn wealth(&self) -> f64 {
        self.cash + self.bettors.iter().sum::<f64>()
    }
}

impl Default for Duel {
    fn default() -> Self {
        Self {
            right: 0.0,
            wrong: 0.0,
            outcomes: Outcomes::default(),
            probability: 0.5,
            gain: 0.0,
            labels: 0.0,
            bound: 0.0,
            challenger: Bets::default(),
            incumbent: Bets::default(),
        }
    }
}

impl Duel {
    /// A label of an event in `block` that exactly one of them had right.
    pub(crate) fn add(&mut self, block: u64, weight: f64, challenger_is_right: bool) {
        self.outcomes.add(block, challenger_is_right);
        self.count(weight, challenger_is_right);
    }

    /// [`Duel::add`] for a challenger whose chance is told by [`Duel::set_probability`].
    pub(crate) fn count(&mut self, weight: f64, challenger_is_right: bool) {
        let score = if challenger_is_right {
            self.right += weight;
            weight
        } else {
            self.wrong += weight;
            -weight
        };
        self.labels += weight;
        self.bet(score);
    }

    /// A label whose log-likelihood under the challenger is higher by `gain`. `bound` is the most that it could have
    /// been higher or lower by, whatever the label: it must be known before the label is.
    pub(crate) fn add_gain(&mut self, weight: f64, gain: f64, bound: f64) {
        self.bound = self.bound.max(bound);
        self.labels += weight;
        self.gain += weight * gain;
        let bound = self.bound.max(LEAST_BOUND);
        self.bet(weight * (gain / bound).clamp(-1.0, 1.0));
    }

    fn bet(&mut self, score: f64) {
        self.challenger.bet(score);
        self.incumbent.bet(-score);
    }

    /// A block has passed.
    pub(crate) fn age(&mut self) {
        for count in [
            &mut self.right,
            &mut self.wrong,
            &mut self.gain,
            &mut self.labels,
        ] {
            *count *= DECAY;
        }
        self.challenger.age();
        self.incumbent.age();
    }

    /// The challenger was believed, or no longer is: whoever is not has to prove itself from now on.
    pub(crate) fn turn(&mut self, challenger_is_believed: bool) {
        if challenger_is_believed {
            self.incumbent = Bets::default();
        } else {
            self.challenger = Bets::default();
        }
    }

    /// Looks at what labels say at block `now`.
    pub(crate) fn judge(&mut self, now: u64) {
        self.probability = self.outcomes.probability(now);
    }

    /// The chance that the challenger is right more often where they differ, from elsewhere.
    pub(crate) fn set_probability(&mut self, probability: f64) {
        self.probability = probability;
    }

    pub(crate) fn right(&self) -> f64 {
        self.right
    }

    pub(crate) fn wrong(&self) -> f64 {
        self.wrong
    }

    /// The chance that the challenger is right more often where they differ, when last judged.
    pub(crate) fn probability(&self) -> f64 {
        self.probability
    }

    /// Mean gain of the challenger in log-likelihood; 0 without labels.
    pub(crate) fn mean_gain(&self) -> f64 {
        if self.labels > 0.0 {
            self.gain / self.labels
        } else {
            0.0
        }
    }

    /// What 1 has become that was bet on the challenger.
    pub(crate) fn challenger_wealth(&self) -> f64 {
        self.challenger.wealth()
    }

    /// What 1 has become that was bet on the incumbent.
    pub(crate) fn incumbent_wealth(&self) -> f64 {
        self.incumbent.wealth()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Generator;

    /// Ten labels a block, of which the challenger wins a share; whether its wealth ever reaches 20, and after how many.
    fn opens(share: f64, blocks: usize, seed: u64) -> Option<usize> {
        let mut generator = Generator::new(seed);
        let mut duel = Duel::default();
        for block in 0..blocks {
            duel.age();
            for label in 0..10 {
                duel.add(1, 1.0, generator.uniform() < share);
                if duel.challenger_wealth() >= 20.0 {
                    return Some(10 * block + label + 1);
                }
            }
        }
        None
    }

    #[test]
    fn a_challenger_that_is_no_better_is_opened_in_at_most_a_twentieth_of_long_streams() {
        let opened = (0..400).filter(|seed| opens(0.5, 100, *seed).is_some());
        let share = opened.count() as f64 / 400.0;
        assert!(share <= 0.05, "{share}");
        assert!((0..100).all(|seed| opens(0.35, 100, seed).is_none()));
    }

    #[test]
    fn a_better_challenger_needs_few_labels() {
        let mut needed: Vec<usize> = (0..99).map(|seed| opens(0.8, 100, seed).unwrap()).collect();
        needed.sort_unstable();
        assert!(needed[49] <= 40, "median {}", needed[49]);
    }

    #[test]
    fn one_that_was_bad_for_long_comes_back() {
        let mut duel = Duel::default();
        for _ in 0..100 {
            duel.age();
            (0..10).for_each(|_| duel.add(1, 1.0, false));
        }
        assert!(duel.incumbent_wealth() > 100.0 && duel.challenger_wealth() < 0.5);
        for _ in 0..4 {
            duel.age();
            (0..10).for_each(|_| duel.add(1, 1.0, true));
        }
        assert!(
            duel.challenger_wealth() > 20.0,
            "{}",
            duel.challenger_wealth()
        );
    }

    #[test]
    fn candidates_that_differ_by_rounding_alone_prove_nothing() {
        let mut duel = Duel::default();
        for _ in 0..100 {
            duel.age();
            (0..500).for_each(|_| duel.add_gain(1.0, 6e-8, 6e-8));
        }
        let wealth = [duel.challenger_wealth(), duel.incumbent_wealth()];
        assert!(
            wealth.iter().all(|wealth| (0.9..1.1).contains(wealth)),
            "{wealth:?}"
        );
    }

    #[test]
    fn a_small_gain_in_log_likelihood_shows_in_time_and_a_loss_on_the_other_side() {
        let run = |gain: f64| {
            let mut generator = Generator::new(3);
            let mut duel = Duel::default();
            for _ in 0..60 {
                duel.age();
                for _ in 0..50 {
                    duel.add_gain(1.0, gain + 0.1 * (2.0 * generator.uniform() - 1.0), 0.4);
                }
            }
            (
                duel.challenger_wealth(),
                duel.incumbent_wealth(),
                duel.mean_gain(),
            )
        };
        let (challenger, incumbent, mean) = run(0.02);
        assert!(
            challenger > 20.0 && incumbent < 1.0,
            "{challenger} {incumbent}"
        );
        assert!((mean - 0.02).abs() < 0.01, "{mean}");
        let (challenger, incumbent, _) = run(-0.02);
        assert!(
            incumbent > 20.0 && challenger < 1.0,
            "{challenger} {incumbent}"
        );
    }
}
