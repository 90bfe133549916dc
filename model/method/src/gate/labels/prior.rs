//! What labels say of prior correction: whether it is served, and how far it goes.

use super::{
    super::{change::WHOLE, strength::Judged},
    DOUBT, LabelTally, Objective, PROOF,
};

/// Below this chance that the whole correction is better, labels refute it where the tests do not.
const REFUTED: f64 = 0.2;
/// Chance above which a strength of prior correction is served where little is at stake. Where candidates disagree, either
/// mistake costs as much as the other: to wait for more certainty loses more than it saves (record 10).
const BELIEF: f64 = 0.7;
/// Little is at stake if so many labels compare prior correction with the frozen model, because one alone says little, and if
/// correction has changed no larger share of a block: ten labels of a small share cannot vouch for a large one.
const ENOUGH_LABELS: f64 = 8.0;
const MOST_CHANGED: f64 = 0.3;
/// What labels have said with more certainty holds until this chance that it is so.
const EVEN: f64 = 0.5;

/// What labels say of prior correction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum LabelsOnPrior {
    /// They do not tell: the tests decide.
    Undecided,
    /// It is better than the frozen model, at this strength.
    Preferred(f64),
    /// The frozen model is better.
    Refuted,
}

impl LabelsOnPrior {
    /// How far prior correction goes.
    pub(crate) fn strength(self) -> f64 {
        match self {
            Self::Preferred(strength) => strength,
            Self::Undecided | Self::Refuted => WHOLE,
        }
    }

    /// Whether the shares behind the whole correction cannot be right.
    pub(crate) fn contradicts_shares(self) -> bool {
        self == Self::Refuted || self.strength() < WHOLE
    }
}

// === impl LabelTally ===

impl LabelTally {
    /// Decides which of `prior` and `frozen` is better, and how far correction goes, without remembering it. `explained` says
    /// that the tests would serve the whole correction.
    pub(super) fn weigh_prior(&self, explained: bool) -> LabelsOnPrior {
        if self.of_one_class() {
            return LabelsOnPrior::Undecided;
        }
        match self.objective {
            Objective::Class => self.weigh_strengths(explained),
            Objective::Probability => self.weigh_log_loss(explained),
        }
    }

    /// Correction is served against the tests once bets have proved it, and with them while labels do not lean against it:
    /// with a click in two hundred events proof takes long, and until then the frozen model is the safe choice. Bets remember
    /// all labels; what has been lost lately counts, too.
    fn weigh_log_loss(&self, explained: bool) -> LabelsOnPrior {
        let duel = &self.duels[0];
        let is_proved = duel.challenger_wealth() >= PROOF && duel.incumbent_wealth() < PROOF;
        if is_proved && duel.mean_gain() > 0.0 {
            LabelsOnPrior::Preferred(WHOLE)
        } else if duel.incumbent_wealth() >= PROOF || (explained && duel.mean_gain() < 0.0) {
            LabelsOnPrior::Refuted
        } else {
            LabelsOnPrior::Undecided
        }
    }

    /// The strength that is expected to gain most, of those that are likely to gain.
    fn weigh_strengths(&self, explained: bool) -> LabelsOnPrior {
        let Some(whole) = self.strengths.judged().last() else {
            return LabelsOnPrior::Undecided;
        };
        let likely = |judged: &&Judged| {
            !judged.is_contradicted && judged.gain > 0.0 && judged.chance > self.needed(judged)
        };
        let judged = self.strengths.judged().iter();
        let best = judged
            .filter(likely)
            .max_by(|a, b| a.gain.total_cmp(&b.gain));
        let refuted = match (self.believes_prior, explained) {
            // What labels have said holds until they are even: else it would come and go.
            (Some(false), _) => EVEN,
            (_, true) => REFUTED,
            (_, false) => DOUBT,
        };
        let is_refuted = whole.is_contradicted || whole.chance < refuted;
        if explained && !is_refuted {
            // Only the shares seem to have moved: no part of the correction is better than all of it.
            return if likely(&whole) {
                LabelsOnPrior::Preferred(WHOLE)
            } else {
                LabelsOnPrior::Undecided
            };
        }
        match best {
            Some(best) => LabelsOnPrior::Preferred(best.strength),
            None if is_refuted => LabelsOnPrior::Refuted,
            None => LabelsOnPrior::Undecided,
        }
    }

    /// The chance above which a strength is served.
    fn needed(&self, judged: &Judged) -> f64 {
        let is_little = self.strengths.labels() >= ENOUGH_LABELS && self.changed <= MOST_CHANGED;
        let is_served = self.believes_prior == Some(true) && self.strength == judged.strength;
        if judged.is_beyond_labels {
            1.0 - DOUBT
        } else if is_little {
            BELIEF
        } else if is_served {
            EVEN
        } else {
            1.0 - DOUBT
        }
    }
}
