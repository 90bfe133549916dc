//! From one comparison a block to a decision that does not flicker.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    change::WHOLE,
    decision::{Decided, GateReason, Verdict},
    explanation::{CONVINCING, STILL_CONVINCING, ShapeTests},
    labels::{LabelTally, LabelsOnPrior, Objective},
    settings::GateSettings,
};
use crate::Candidate;

const MOST_DECISIONS: usize = 64;
/// A test is clear when its statistic is this many times beyond its limit, or as many times below.
const CLEAR: f64 = 1.25;
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
            adapted_in_a_row: 0,
            verdict: Verdict {
                candidate: Candidate::Frozen,
                prior_strength: WHOLE,
                reason,
                since_block: 0,
                refuted: false,
                proportions_known: false,
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

    /// Decides after `block`. `prior` is an error where nothing can be tested. Labels, where they come, overrule the
    /// tests both ways.
    pub(crate) fn decide(
        &mut self,
        block: u64,
        prior: Result<ShapeTests, GateReason>,
        adapted: Option<AdaptedEvidence>,
        mut labels: Option<&mut LabelTally>,
        settings: &GateSettings,
        objective: Objective,
    ) -> &Verdict {
        let was_explained = self.label_shift == LabelShift::Explains;
        let untestable = self.weigh(&prior, settings.patience);
        let is_refuted = self.label_shift == LabelShift::Refuted;
        let is_clear = |tests: &ShapeTests| tests.worst_ratio() >= CLEAR;
        // A narrow result is no sign that the stream changed just now.
        let changed = was_explained && is_refuted && prior.as_ref().is_ok_and(is_clear);
        if let (true, Some(labels)) = (changed, labels.as_mut()) {
            labels.forget_before(block);
        }
        self.adapted_in_a_row = match &adapted {
            Some(evidence) if evidence.holds() => self.adapted_in_a_row.saturating_add(1),
            _ => 0,
        };
        let adapted_ready =
            self.label_shift == LabelShift::Refuted && self.adapted_in_a_row >= settings.patience;
        let adapted_opens = settings.adapted_without_labels && adapted_ready;
        let tests = prior.ok();
        let known = self.proportions_known(tests.as_ref());
        let enough = known || objective == Objective::Class;
        let by_tests = self.choose_by_tests(untestable, tests.as_ref(), enough, settings);
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
        let proportions_known = known && !on_prior.contradicts_shares();
        let mut verdict = Verdict {
            candidate,
            prior_strength: on_prior.strength(),
            reason,
            since_block: self.verdict.since_block,
            refuted: self.label_shift == LabelShift::Refuted,
            proportions_known,
            adapted_ready,
            prior: tests,
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

    /// `prior` or `frozen`, by what the tests have said so far. `enough` says that a pass is clear enough for what
    /// predictions are used for: probabilities are as wrong as the shares that they are corrected to.
    fn choose_by_tests(
        &self,
        untestable: Option<GateReason>,
        tests: Option<&ShapeTests>,
        enough: bool,
        settings: &GateSettings,
    ) -> (Candidate, GateReason) {
        let rows = tests.map_or(0, |tests| tests.rows);
        match (self.label_shift, untestable) {
            (_, Some(reason)) => (Candidate::Frozen, reason),
            (LabelShift::Explains, _) if !enough => {
                (Candidate::Frozen, GateReason::SharesNotKnown { rows })
            }
            (LabelShift::Explains, _) => {
                (Candidate::Prior, GateReason::LabelShiftExplains { rows })
            }
            (LabelShift::Untested | LabelShift::Refuted, _) => {
                let failed = tests.and_then(GateReason::of_failed);
                // A narrow pass does not yet change the decision.
                let narrow = GateReason::PassesNarrowly {
                    rows,
                    needed: settings.patience,
                };
                (Candidate::Frozen, failed.unwrap_or(narrow))
            }
        }
    }

    /// Moves `label_shift`; gives the reason why nothing can be tested.
    fn weigh(
        &mut self,
        prior: &Result<ShapeTests, GateReason>,
        patience: u32,
    ) -> Option<GateReason> {
        let tests = match prior {
            Ok(tests) => tests,
            Err(reason) => {
                self.label_shift = LabelShift::Untested;
                self.against = 0;
                return Some(reason.clone());
            }
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
        None
    }

    fn proportions_known(&self, tests: Option<&ShapeTests>) -> bool {
        let Some(tests) = tests else {
            return false;
        };
        let enough = if self.verdict.proportions_known {
            STILL_CONVINCING
        } else {
            CONVINCING
        };
        self.label_shift == LabelShift::Explains && tests.worst_ratio() <= enough
    }

    fn remember(&mut self, decided: Decided) {
        if self.history.len() == MOST_DECISIONS {
            self.history.pop_front();
        }
        self.history.push_back(decided);
    }
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
