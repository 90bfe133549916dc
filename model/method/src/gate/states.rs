//! From one comparison a block to a decision that does not flicker.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    change::WHOLE,
    decision::{Decided, GateReason, Known, Verdict},
    explanation::ShapeTests,
    labels::{LabelTally, LabelsOnPrior, Objective},
    settings::GateSettings,
    stories::Stories,
};
use crate::Candidate;

const MOST_DECISIONS: usize = 64;
/// A test is clear when its statistic is this many times beyond its limit, or as many times below.
const CLEAR: f64 = 1.25;
/// A story fits while the scores lie within so many deviations of it.
pub(super) const MOST_DEVIATIONS: f64 = 2.5;
/// Rows before a step is taken that is not proven.
const STEP_ROWS: u32 = 1_500;
/// Points that correction may have lost lately. Steps that change a few rows win and lose so much by chance.
const MOST_LOST: f64 = 0.1;
/// Rule R: the least recall of a class on mapped held-out rows.
const SMALLEST_RECALL: f64 = 0.5;
/// Rule R: the largest deformation of a class, as a share of its squared distance to the nearest other.
const LARGEST_DEFORMATION: f64 = 0.25;

/// What the tests have said so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LabelShift {
    #[default]
    Untested,
    Explains,
    Refuted,
}

/// What the stream shows after a block, before anything is decided.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StreamEvidence {
    /// Whether held-out rows, reweighted, look like the window; why not where that cannot be tested.
    pub(crate) tests: Result<ShapeTests, GateReason>,
    /// `None` where stories cannot be judged.
    pub(crate) stories: Option<Stories>,
    /// The largest strength of correction that would hardly cost anything if inputs moved; 0 if none.
    pub(crate) bounded_strength: f64,
    /// Points that correction chosen before each block gained on it, faded: below 0 it lags behind the stream.
    pub(crate) gained: f64,
    /// Whether the stream jumped with this block.
    pub(crate) jumped: bool,
    /// How many deviations the stories must lie apart before one can be proven.
    pub(crate) least_power: f64,
}

/// Evidence for the adapted model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdaptedEvidence {
    /// On stream rows that the map was not trained on.
    pub(crate) tests: ShapeTests,
    /// Least recall of a class by the frozen classifier on mapped held-out rows.
    pub(crate) smallest_recall: f64,
    /// Largest deformation of a class over its separation.
    pub(crate) largest_deformation: f64,
}

/// The gate's memory; part of the state that lasts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GateState {
    label_shift: LabelShift,
    /// Blocks in a row whose tests contradict `label_shift` narrowly.
    against: u32,
    /// Whether label shift is proven.
    proven: bool,
    /// Blocks in a row that the adapted model explained.
    adapted_in_a_row: u32,
    verdict: Verdict,
    /// Changes of the decision, oldest first, at most [`MOST_DECISIONS`].
    history: VecDeque<Decided>,
}

impl Default for GateState {
    fn default() -> Self {
        let reason = GateReason::TooFewRows { rows: 0, needed: 1 };
        Self {
            label_shift: LabelShift::Untested,
            against: 0,
            proven: false,
            adapted_in_a_row: 0,
            verdict: Verdict {
                candidate: Candidate::Frozen,
                prior_strength: WHOLE,
                proven: false,
                stream_strength: 0.0,
                reason,
                since_block: 0,
                refuted: false,
                known: Known::Range,
                stories: None,
                adapted_ready: false,
                prior: None,
                adapted: None,
                labels: None,
            },
            history: VecDeque::new(),
        }
    }
}

impl GateState {
    /// The decision after the latest block.
    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }

    /// Changes of the decision, oldest first; the last 64.
    pub fn history(&self) -> impl Iterator<Item = &Decided> {
        self.history.iter()
    }

    /// Decides after `block`: what the stream says, what labels say, which candidate. Labels, where they come, overrule the
    /// stream both ways.
    pub(crate) fn decide(
        &mut self,
        block: u64,
        evidence: StreamEvidence,
        adapted: Option<AdaptedEvidence>,
        mut labels: Option<&mut LabelTally>,
        settings: &GateSettings,
        objective: Objective,
    ) -> &Verdict {
        let was_explained = self.label_shift == LabelShift::Explains;
        self.weigh(&evidence.tests, settings.patience);
        let is_refuted = self.label_shift == LabelShift::Refuted;
        let is_clear = |tests: &ShapeTests| tests.worst_ratio() >= CLEAR;
        // A narrow result is no sign that the stream changed just now.
        let changed = was_explained && is_refuted && evidence.tests.as_ref().is_ok_and(is_clear);
        if let (true, Some(labels)) = (changed, labels.as_mut()) {
            labels.forget_before(block);
        }
        self.proven = self.is_proven(&evidence, settings);
        self.adapted_in_a_row = match &adapted {
            Some(evidence) if evidence.holds() => self.adapted_in_a_row.saturating_add(1),
            _ => 0,
        };
        let adapted_ready =
            self.label_shift == LabelShift::Refuted && self.adapted_in_a_row >= settings.patience;
        let adapted_opens = settings.adapted_without_labels && adapted_ready;
        let stream = self.what_the_stream_says(&evidence, objective, settings);
        let by_tests = (stream.candidate, stream.reason);
        if let Some(labels) = labels.as_mut() {
            labels.judge(block);
        }
        let explained = by_tests.0 == Candidate::Prior;
        let on_prior = labels.as_mut().map_or(LabelsOnPrior::Undecided, |labels| {
            labels.decide_prior(explained)
        });
        let otherwise = overrule(by_tests, on_prior, labels.as_deref());
        let by_labels = labels.as_mut().and_then(|labels| {
            let opens = labels.decide_adapted(otherwise.0);
            let duel = opens.then(|| labels.report_of(Candidate::Adapted, otherwise.0));
            duel.flatten()
        });
        let (candidate, reason) = match by_labels {
            Some(duel) => {
                let strength = WHOLE;
                (
                    Candidate::Adapted,
                    GateReason::LabelsPrefer { duel, strength },
                )
            }
            None if adapted_opens => {
                let rows = adapted.as_ref().map_or(0, |evidence| evidence.tests.rows);
                (Candidate::Adapted, GateReason::AdaptedExplains { rows })
            }
            None => otherwise,
        };
        // Labels that contradict prior correction contradict the shares behind it.
        let known = match stream.known {
            Known::Interval if on_prior.contradicts_shares() => Known::Range,
            known => known,
        };
        let by_stream =
            candidate == Candidate::Prior && !matches!(reason, GateReason::LabelsPrefer { .. });
        let mut verdict = Verdict {
            candidate,
            prior_strength: if by_stream {
                stream.strength
            } else {
                on_prior.strength()
            },
            proven: self.proven,
            stream_strength: stream.strength,
            reason,
            since_block: self.verdict.since_block,
            refuted: is_refuted,
            known,
            adapted_ready,
            prior: evidence.tests.ok(),
            stories: evidence.stories,
            adapted: adapted.map(|evidence| evidence.tests),
            labels: labels.map(|labels| labels.evidence()),
        };
        let is_first = self.history.is_empty();
        if is_first || candidate != self.verdict.candidate {
            verdict.since_block = block;
        }
        if is_first || verdict.serves_otherwise_than(&self.verdict) {
            self.remember(Decided {
                block,
                candidate,
                reason: verdict.reason.clone(),
            });
        }
        self.verdict = verdict;
        &self.verdict
    }

    /// Whether shares moved, and not inputs: the stories lie apart, the odds are for shares, and label shift fits.
    fn is_proven(&self, evidence: &StreamEvidence, settings: &GateSettings) -> bool {
        let Some(stories) = &evidence.stories else {
            return false;
        };
        let was_proven = self.proven && !evidence.jumped;
        let is_likely = if was_proven {
            stories.log_odds > 0.0
        } else {
            stories.log_odds > settings.proof && stories.power > evidence.least_power
        };
        self.label_shift == LabelShift::Explains && is_likely
    }

    /// What is served and claimed by the stream alone.
    fn what_the_stream_says(
        &self,
        evidence: &StreamEvidence,
        objective: Objective,
        settings: &GateSettings,
    ) -> StreamSays {
        let frozen = |reason, known| StreamSays {
            candidate: Candidate::Frozen,
            strength: 0.0,
            reason,
            known,
        };
        let (tests, stories) = match &evidence.tests {
            Ok(tests) => (tests, &evidence.stories),
            Err(reason) => {
                let known = match reason {
                    GateReason::TooFewHeldOutRows { .. } => Known::Nothing,
                    _ => Known::Range,
                };
                return frozen(reason.clone(), known);
            }
        };
        let inputs_fit = (stories.as_ref()).is_some_and(|s| s.from_inputs.abs() < MOST_DEVIATIONS);
        if self.label_shift != LabelShift::Explains {
            let failed = GateReason::of_failed(tests);
            let narrow = GateReason::PassesNarrowly {
                rows: tests.rows,
                needed: settings.patience,
            };
            let known = if inputs_fit && tests.support.passes() {
                Known::Range
            } else {
                Known::Nothing
            };
            return frozen(failed.unwrap_or(narrow), known);
        }
        let Some(stories) = stories else {
            return frozen(GateReason::CannotTell { rows: tests.rows }, Known::Range);
        };
        let known = if self.proven {
            Known::Interval
        } else {
            Known::Range
        };
        let (rows, log_odds, power) = (stories.rows, stories.log_odds, stories.power);
        // A step relies on the test of fit, which sees little in few rows.
        let bounded = if rows >= STEP_ROWS {
            evidence.bounded_strength
        } else {
            0.0
        };
        let strength = if self.proven { WHOLE } else { bounded };
        if self.proven && evidence.gained < -MOST_LOST {
            let lost = -evidence.gained;
            return StreamSays {
                strength,
                ..frozen(GateReason::CorrectionLags { lost }, known)
            };
        }
        let reason = if self.proven {
            GateReason::SharesMoved { rows, log_odds }
        } else if objective == Objective::Probability {
            return frozen(GateReason::SharesNotKnown { rows }, known);
        } else if strength > 0.0 {
            GateReason::CostsLittle { rows, strength }
        } else {
            return frozen(
                GateReason::NotProven {
                    rows,
                    log_odds,
                    power,
                },
                known,
            );
        };
        StreamSays {
            candidate: Candidate::Prior,
            strength,
            reason,
            known,
        }
    }

    /// Moves `label_shift`.
    fn weigh(&mut self, tests: &Result<ShapeTests, GateReason>, patience: u32) {
        let Ok(tests) = tests else {
            self.label_shift = LabelShift::Untested;
            self.against = 0;
            return;
        };
        let (says, clear) = if tests.pass() {
            (LabelShift::Explains, tests.worst_ratio() * CLEAR <= 1.0)
        } else {
            (LabelShift::Refuted, tests.worst_ratio() >= CLEAR)
        };
        if says == self.label_shift {
            self.against = 0;
        } else {
            self.against += 1;
            if clear || self.against >= patience {
                self.label_shift = says;
                self.against = 0;
            }
        }
    }

    fn remember(&mut self, decided: Decided) {
        if self.history.len() == MOST_DECISIONS {
            self.history.pop_front();
        }
        self.history.push_back(decided);
    }
}

/// What the stream says: the candidate that it would have served, how far correction goes, and what is known of the shares.
struct StreamSays {
    candidate: Candidate,
    /// 0 where nothing would be corrected.
    strength: f64,
    reason: GateReason,
    known: Known,
}

/// What is served once labels were asked whether `prior` or `frozen` is better.
fn overrule(
    by_tests: (Candidate, GateReason),
    on_prior: LabelsOnPrior,
    labels: Option<&LabelTally>,
) -> (Candidate, GateReason) {
    let duel = labels.and_then(|labels| labels.report_of(Candidate::Prior, Candidate::Frozen));
    match (by_tests.0, on_prior, duel) {
        (by_tests, LabelsOnPrior::Preferred(strength), Some(duel))
            if by_tests == Candidate::Frozen || strength < WHOLE =>
        {
            let reason = GateReason::LabelsPrefer { duel, strength };
            (Candidate::Prior, reason)
        }
        (Candidate::Prior, LabelsOnPrior::Refuted, Some(duel)) => {
            (Candidate::Frozen, GateReason::LabelsRefute { duel })
        }
        _ => by_tests,
    }
}

// === impl AdaptedEvidence ===

impl AdaptedEvidence {
    /// Rule R of docs/decisions/0009: when the adapted model may be served.
    fn holds(&self) -> bool {
        self.tests.pass()
            && self.smallest_recall > SMALLEST_RECALL
            && self.largest_deformation <= LARGEST_DEFORMATION
    }
}

#[cfg(test)]
mod tests;
