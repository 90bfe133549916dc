//! What the gate answers: a candidate, since when, and the evidence that decided.

use serde::{Deserialize, Serialize};

use super::{
    change::WHOLE,
    explanation::{ShapeTest, ShapeTests},
    labels::{DuelReport, LabelEvidence},
};
use crate::Candidate;

/// The gate's answer after a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Candidate that mode `auto` serves.
    pub candidate: Candidate,
    /// How far prior correction goes, as a share of the correction to the estimated shares: 1 unless labels prefer less.
    pub prior_strength: f64,
    /// Why it is served, with the figures that decided.
    pub reason: GateReason,
    /// The block after which this candidate was chosen.
    pub since_block: u64,
    /// Whether the tests say that more than the shares moved: then the shares cannot be told without labels.
    pub refuted: bool,
    /// Whether the tests pass clearly enough to publish the shares as known. Neither `refuted` nor this means that it
    /// cannot be told yet.
    pub proportions_known: bool,
    /// Whether the adapted model explains a stream that label shift does not. It is served by opt-in alone, because
    /// without labels no rule was safe.
    pub adapted_ready: bool,
    /// The tests for `prior`, whether they decided or not; `None` while there are too few rows.
    pub prior: Option<ShapeTests>,
    /// The tests for `adapted`, on rows that the map was not trained on; `None` without a map.
    pub adapted: Option<ShapeTests>,
    /// What labels say; `None` if none are read.
    pub labels: Option<LabelEvidence>,
}

impl Verdict {
    /// Whether mode `auto` serves something else than by `other`: another candidate, or correction that goes further or less far.
    pub fn serves_otherwise_than(&self, other: &Self) -> bool {
        let is_prior = self.candidate == Candidate::Prior;
        self.candidate != other.candidate
            || (is_prior && self.prior_strength != other.prior_strength)
    }
}

/// A change of what mode `auto` serves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// The block after which it was chosen.
    pub block: u64,
    /// What is served from there on.
    pub candidate: Candidate,
    /// Why it is served, with the figures that decided.
    pub reason: GateReason,
}

/// Why a candidate is served.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum GateReason {
    /// Prior correction is served: reweighted held-out rows look like the window.
    #[error("label shift explains the last {rows} rows")]
    LabelShiftExplains {
        /// Rows in the window that was tested.
        rows: u32,
    },
    /// The adapted model is served, by explicit opt-in.
    #[error(
        "label shift does not explain the stream, the adapted model does, on {rows} rows it has not learned from"
    )]
    AdaptedExplains {
        /// Rows it was tested on.
        rows: u32,
    },
    /// The frozen model is served: the window has too few rows to test.
    #[error("{rows} rows so far, {needed} are needed to judge")]
    TooFewRows {
        /// Rows in the window that was tested.
        rows: u32,
        /// Fewest rows that are tested.
        needed: usize,
    },
    /// The frozen model is served: the bundle has too few held-out rows of a class.
    #[error("class {class} has {rows} held-out rows, {needed} are needed to judge")]
    TooFewHeldOutRows {
        /// The class, counted from 0.
        class: usize,
        /// Held-out rows that the bundle has of this class.
        rows: usize,
        /// Fewest rows that are tested.
        needed: usize,
    },
    /// Too many rows lie where the held-out rows have none.
    #[error("{:.1} % of rows lie where training data has none, at most {:.1} % are expected", 100.0 * test.statistic, 100.0 * test.limit)]
    BeyondSupport {
        /// Share of such rows beside its limit.
        test: ShapeTest,
    },
    /// The frozen model is served where probabilities are used: the shares to correct to cannot be told yet.
    #[error(
        "label shift explains the last {rows} rows, but not clearly enough to tell the shares that probabilities would be corrected to"
    )]
    SharesNotKnown {
        /// Rows in the window that was tested.
        rows: u32,
    },
    /// No mixture of the classes gives these scores.
    #[error("the classes changed: no shares explain the scores (distance {:.3}, at most {:.3} by chance)", test.statistic, test.limit)]
    ScoresDiffer {
        /// Total variation of the scores beside its limit.
        test: ShapeTest,
    },
    /// Label shift may explain the stream; one more block will tell.
    #[error(
        "label shift explains the last {rows} rows narrowly, {needed} such blocks in a row are needed"
    )]
    PassesNarrowly {
        /// Rows of the window.
        rows: u32,
        /// Blocks in a row.
        needed: u32,
    },
    /// No mixture of the classes gives these latents.
    #[error("the classes changed: no shares explain the latents (distance {:.3}, at most {:.3} by chance)", test.statistic, test.limit)]
    LatentsDiffer {
        /// Sliced distance of the latents beside its limit.
        test: ShapeTest,
    },
    /// Labels say that the candidate is better than what the tests would have served.
    #[error("labels prefer it{}: {}", at_strength(*strength), in_words(duel))]
    LabelsPrefer {
        /// What labels say of it and of what is served otherwise.
        duel: DuelReport,
        /// How far prior correction goes; 1 for the adapted model.
        strength: f64,
    },
    /// The frozen model is served although label shift explains the stream: labels say that correction is wrong.
    #[error("labels refute prior correction: {}", in_words(duel))]
    LabelsRefute {
        /// What labels say of prior correction and of the frozen model.
        duel: DuelReport,
    },
}

/// What follows the name of prior correction that goes only part of the way; empty for the whole.
pub fn at_strength(strength: f64) -> String {
    if strength < WHOLE {
        format!(" at {:.0} % of its strength", 100.0 * strength)
    } else {
        String::new()
    }
}

/// The figures that decided.
fn in_words(duel: &DuelReport) -> String {
    let DuelReport {
        challenger,
        incumbent,
        right,
        wrong,
        probability,
        mean_gain,
        challenger_wealth,
        incumbent_wealth,
    } = duel;
    if right + wrong == 0.0 {
        let (better, worse, gain, wealth) = if incumbent_wealth > challenger_wealth {
            (incumbent, challenger, -mean_gain, incumbent_wealth)
        } else {
            (challenger, incumbent, *mean_gain, challenger_wealth)
        };
        return format!(
            "{better} has a log loss lower than {worse} by {gain:.4} (bets on it multiplied by {wealth:.1}, {:.0} is proof)",
            LabelEvidence::PROOF
        );
    }
    format!(
        "of those on which they differ, {challenger} had {right:.1} right and {incumbent} {wrong:.1} (chance to be \
         better {probability:.2}, bets on it multiplied by {challenger_wealth:.1})"
    )
}

// === impl GateReason ===

impl GateReason {
    /// All labels, so that metrics can start at 0.
    pub const LABELS: [&'static str; 11] = [
        "label_shift_explains",
        "adapted_explains",
        "too_few_rows",
        "too_few_held_out_rows",
        "beyond_support",
        "scores_differ",
        "latents_differ",
        "passes_narrowly",
        "labels_prefer",
        "labels_refute",
        "shares_not_known",
    ];

    /// A name that does not change, for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::LabelShiftExplains { .. } => Self::LABELS[0],
            Self::AdaptedExplains { .. } => Self::LABELS[1],
            Self::TooFewRows { .. } => Self::LABELS[2],
            Self::TooFewHeldOutRows { .. } => Self::LABELS[3],
            Self::BeyondSupport { .. } => Self::LABELS[4],
            Self::ScoresDiffer { .. } => Self::LABELS[5],
            Self::LatentsDiffer { .. } => Self::LABELS[6],
            Self::PassesNarrowly { .. } => Self::LABELS[7],
            Self::LabelsPrefer { .. } => Self::LABELS[8],
            Self::LabelsRefute { .. } => Self::LABELS[9],
            Self::SharesNotKnown { .. } => Self::LABELS[10],
        }
    }

    /// The test that failed by most; `None` when all passed.
    pub(crate) fn of_failed(tests: &ShapeTests) -> Option<Self> {
        let failed = [
            (
                tests.support,
                Self::BeyondSupport {
                    test: tests.support,
                },
            ),
            (tests.scores, Self::ScoresDiffer { test: tests.scores }),
            (
                tests.latents,
                Self::LatentsDiffer {
                    test: tests.latents,
                },
            ),
        ];
        failed
            .into_iter()
            .filter(|(test, _)| !test.passes())
            .max_by(|a, b| a.0.ratio().total_cmp(&b.0.ratio()))
            .map(|(_, reason)| reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_candidate_that_labels_believe() {
        let duel = DuelReport {
            challenger: Candidate::Prior,
            incumbent: Candidate::Frozen,
            right: 0.0,
            wrong: 0.0,
            probability: 0.5,
            mean_gain: -0.0123,
            challenger_wealth: 0.2,
            incumbent_wealth: 24.0,
        };
        let told = GateReason::LabelsRefute { duel: duel.clone() }.to_string();
        assert_eq!(
            told,
            "labels refute prior correction: frozen has a log loss lower than prior by 0.0123 (bets on it multiplied by \
             24.0, 20 is proof)"
        );
        let duel = DuelReport {
            right: 30.0,
            wrong: 12.0,
            probability: 0.99,
            ..duel
        };
        let told = GateReason::LabelsPrefer {
            duel,
            strength: 0.5,
        };
        let told = told.to_string();
        assert!(
            told.starts_with("labels prefer it at 50 % of its strength: of those on which they differ, prior had 30.0 right"),
            "{told}"
        );
    }
}
