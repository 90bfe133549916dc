//! What the gate answers: a candidate, since when, and the evidence that decided.

use serde::{Deserialize, Serialize};

use super::{
    change::WHOLE,
    explanation::{ShapeTest, ShapeTests},
    labels::{DuelReport, LabelEvidence},
    stories::Stories,
};
use crate::Candidate;

/// The gate's answer after a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Candidate that mode `auto` serves.
    pub candidate: Candidate,
    /// How far prior correction goes, as a share of the correction to the estimated shares: 1 unless labels prefer less.
    pub prior_strength: f64,
    /// Whether the stream alone has proven that shares moved, and not inputs.
    pub proven: bool,
    /// How far the stream's evidence alone would correct, whether that is served or not; 0 where it would not. Even where it has
    /// proven that the shares moved it goes only to the end of their interval that is nearest to training.
    pub stream_strength: f64,
    /// Why it is served, with the figures that decided.
    pub reason: GateReason,
    /// The block after which this candidate was chosen.
    pub since_block: u64,
    /// Whether the tests say that more than the shares moved: then the shares cannot be told without labels.
    pub refuted: bool,
    /// What can be said of the shares.
    pub known: Known,
    /// Whether the adapted model explains a stream that label shift does not. It is served by opt-in alone, because
    /// without labels no rule was safe.
    pub adapted_ready: bool,
    /// The tests for `prior`, whether they decided or not; `None` while there are too few rows.
    pub prior: Option<ShapeTests>,
    /// What the stream says of the two stories; `None` where they cannot be judged.
    pub stories: Option<Stories>,
    /// The tests for `adapted`, on rows that the map was not trained on; `None` without a map.
    pub adapted: Option<ShapeTests>,
    /// What labels say; `None` if none are read.
    pub labels: Option<LabelEvidence>,
}

/// What can be said of the shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Known {
    /// Shares moved, or labels say how: an interval.
    Interval,
    /// Either story may be true: the range of both.
    Range,
    /// No story fits.
    Nothing,
}

impl Verdict {
    /// Whether prior correction is served for what the stream alone says.
    pub(crate) fn corrects_by_stream(&self) -> bool {
        let by_labels = matches!(self.reason, GateReason::LabelsPrefer { .. });
        self.candidate == Candidate::Prior && !by_labels
    }

    /// Whether the shares are known, with an interval.
    pub fn proportions_known(&self) -> bool {
        self.known == Known::Interval
    }

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
    /// Prior correction is served: the shares moved.
    #[error("the shares moved: odds of {} against moved inputs by {rows} rows", odds(*log_odds))]
    SharesMoved {
        /// Rows that were judged.
        rows: u32,
        /// Logarithm of the odds.
        log_odds: f64,
    },
    /// A part of prior correction is served: it would cost next to nothing if inputs moved.
    #[error("{:.0} % of the correction: {rows} rows do not prove that the shares moved, and it costs next to nothing if they did not", 100.0 * strength)]
    CostsLittle {
        /// Rows that were judged.
        rows: u32,
        /// How far correction goes.
        strength: f64,
    },
    /// The frozen model is served: neither story is proven.
    #[error(
        "{rows} rows do not tell whether shares or inputs moved: odds of {} for shares, {power:.1} deviations between the two", odds(*log_odds)
    )]
    NotProven {
        /// Rows that were judged.
        rows: u32,
        /// Logarithm of the odds that shares moved.
        log_odds: f64,
        /// How many deviations the stories lie apart.
        power: f64,
    },
    /// The frozen model is served: the stories cannot be judged.
    #[error(
        "{rows} rows cannot tell whether shares or inputs moved: the scores do not vary, or there are too many classes"
    )]
    CannotTell {
        /// Rows in the window.
        rows: u32,
    },
    /// The frozen model is served: the shares move faster than correction follows.
    #[error(
        "correction lags behind the stream: what was chosen before each block has lost {lost:.2} points"
    )]
    CorrectionLags {
        /// Points of accuracy, faded.
        lost: f64,
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
    #[error("the classes changed: no shares explain the scores ({:.1} deviations, at most {:.1} by chance)", test.statistic, test.limit)]
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
    #[error("the classes changed: no shares explain the latents ({:.3}, at most {:.3} by chance)", test.statistic, test.limit)]
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

/// Odds in words. Beyond a thousand to one nobody acts on the difference.
fn odds(log_odds: f64) -> String {
    const MOST: f64 = 1_000.0;
    match log_odds.exp() {
        odds if odds >= MOST => format!("more than {MOST} : 1"),
        odds if odds >= 10.0 => format!("{odds:.0} : 1"),
        odds if odds >= 0.1 => format!("{odds:.1} : 1"),
        odds if odds > 1.0 / MOST => format!("1 : {:.0}", 1.0 / odds),
        _ => format!("less than 1 : {MOST}"),
    }
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
    pub const LABELS: [&'static str; 15] = [
        "shares_moved",
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
        "costs_little",
        "not_proven",
        "cannot_tell",
        "correction_lags",
    ];

    /// A name that does not change, for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::SharesMoved { .. } => Self::LABELS[0],
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
            Self::CostsLittle { .. } => Self::LABELS[11],
            Self::NotProven { .. } => Self::LABELS[12],
            Self::CannotTell { .. } => Self::LABELS[13],
            Self::CorrectionLags { .. } => Self::LABELS[14],
        }
    }

    /// The test that failed by most; `None` when all passed.
    pub(crate) fn of_failed(tests: &ShapeTests) -> Option<Self> {
        let reason = |(name, test): (&str, ShapeTest)| match name {
            "scores" => (test, Self::ScoresDiffer { test }),
            "latents" => (test, Self::LatentsDiffer { test }),
            _ => (test, Self::BeyondSupport { test }),
        };
        let failed = tests.named().map(reason);
        failed
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
