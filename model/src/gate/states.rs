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

    /// Starts with label shift refuted, before anything was tested.
    pub(crate) fn begin_refuted(&mut self) {
        self.label_shift = LabelShift::Refuted;
        self.verdict.refuted = true;
        self.verdict.proportions_known = false;
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
mod tests {
    use super::*;
    use crate::{
        gate::{Change, LabelledRow, ShapeTest},
        proportions::LabelProportions,
    };

    /// Tests whose worst statistic is `ratio` times its limit.
    fn tests(ratio: f64) -> ShapeTests {
        let at = |statistic: f64| ShapeTest {
            statistic,
            limit: 1.0,
        };
        ShapeTests {
            rows: 3000,
            proportions: LabelProportions::uniform(2),
            scores: at(0.5),
            latents: at(ratio),
            support: at(0.0),
        }
    }

    /// What is served after each of these ratios.
    fn served(ratios: &[f64], settings: &GateSettings) -> Vec<Candidate> {
        let mut state = GateState::default();
        let decide = |(block, ratio): (usize, &f64)| {
            let verdict = state.decide(
                block as u64,
                Ok(tests(*ratio)),
                None,
                None,
                settings,
                Objective::Class,
            );
            verdict.candidate
        };
        ratios.iter().enumerate().map(decide).collect()
    }

    #[test]
    fn one_narrow_failure_changes_nothing_and_a_clear_one_does() {
        use Candidate::{Frozen, Prior};
        let settings = GateSettings::default();
        let narrow = served(&[0.5, 1.1, 0.9, 1.1, 1.1, 0.9, 0.5], &settings);
        assert_eq!(narrow, [Prior, Prior, Prior, Prior, Frozen, Frozen, Prior]);
        let clear = served(&[0.9, 0.9, 2.0, 0.9, 0.9], &settings);
        assert_eq!(clear, [Frozen, Prior, Frozen, Frozen, Prior]);
    }

    #[test]
    fn shares_are_claimed_after_a_clear_pass_and_until_a_test_comes_near_its_limit() {
        let mut state = GateState::default();
        let settings = GateSettings::default();
        let mut known = |ratio| {
            let verdict =
                state.decide(1, Ok(tests(ratio)), None, None, &settings, Objective::Class);
            verdict.proportions_known
        };
        let claims = [0.9, 0.9, 0.82, 0.78, 0.84, 0.87, 0.82, 0.78, 3.0, 0.82].map(&mut known);
        let expected = [
            false, false, false, true, true, false, false, true, false, false,
        ];
        assert_eq!(claims, expected);
    }

    #[test]
    fn what_cannot_be_tested_is_frozen_and_not_refuted() {
        let mut state = GateState::default();
        let settings = GateSettings::default();
        state.decide(0, Ok(tests(0.5)), None, None, &settings, Objective::Class);
        let reason = GateReason::TooFewRows {
            rows: 7,
            needed: 500,
        };
        let verdict = state.decide(
            1,
            Err(reason.clone()),
            None,
            None,
            &settings,
            Objective::Class,
        );
        assert_eq!(verdict.candidate, Candidate::Frozen);
        assert_eq!(verdict.reason, reason);
        assert!(!verdict.refuted);
        let verdict = state.decide(2, Ok(tests(3.0)), None, None, &settings, Objective::Class);
        assert!(verdict.refuted);
        assert_eq!(verdict.reason.label(), "latents_differ");
        assert_eq!(verdict.since_block, 1, "frozen since the first of both");
        let candidates: Vec<Candidate> = state.history().map(|d| d.candidate).collect();
        assert_eq!(candidates, [Candidate::Prior, Candidate::Frozen]);
    }

    /// Ten labels a block where `adapted` and `prior` predict so, and frozen 0; nine in ten are of class 1.
    fn labels(tally: &mut LabelTally, predicted: [u32; 3], right: bool) {
        tally.age();
        let change = Change {
            class: 1,
            reach: 0.5,
            shift: 3.0,
        };
        tally.note_changes(1, &[Some(change), None, None, None]);
        for number in 0..10 {
            let class = usize::from((number > 0) == right);
            tally.add(LabelledRow {
                class,
                predicted,
                change: (predicted[0] != predicted[1]).then_some(change),
                probabilities: &[],
                block: 1,
                age: 1,
                asked: true,
                asked_for_disagreement: true,
            });
        }
    }

    #[test]
    fn labels_overrule_the_tests_both_ways_and_say_so() {
        let settings = GateSettings::default();
        let mut state = GateState::default();
        let mut tally = LabelTally::default();
        // The classes changed, and correction is right nevertheless.
        labels(&mut tally, [0, 1, 1], true);
        let verdict = state.decide(
            1,
            Ok(tests(3.0)),
            None,
            Some(&mut tally),
            &settings,
            Objective::Class,
        );
        assert_eq!(verdict.candidate, Candidate::Prior);
        assert_eq!(verdict.reason.label(), "labels_prefer");
        assert!(verdict.refuted && !verdict.proportions_known);
        assert!(verdict.reason.to_string().contains("prior had 9.0 right"));
        // Label shift seems to explain the stream, and correction is wrong.
        for _ in 0..5 {
            labels(&mut tally, [0, 1, 1], false);
        }
        let verdict = state.decide(
            2,
            Ok(tests(0.5)),
            None,
            Some(&mut tally),
            &settings,
            Objective::Class,
        );
        assert_eq!(verdict.candidate, Candidate::Frozen);
        assert_eq!(verdict.reason.label(), "labels_refute");
        assert!(!verdict.proportions_known, "its shares are not believed");
        // Without a word from labels the tests decide.
        let mut silent = LabelTally::default();
        let verdict = state.decide(
            3,
            Ok(tests(0.5)),
            None,
            Some(&mut silent),
            &settings,
            Objective::Class,
        );
        assert_eq!(verdict.candidate, Candidate::Prior);
        assert_eq!(verdict.labels.as_ref().unwrap().labels, 0.0);
    }

    #[test]
    fn labels_of_before_a_clear_change_count_no_longer_and_those_before_a_narrow_one_do() {
        let settings = GateSettings::default();
        let served = |ratios: [f64; 2]| {
            let mut state = GateState::default();
            let mut tally = LabelTally::default();
            labels(&mut tally, [0, 1, 1], true);
            for (block, ratio) in [0.5, ratios[0], ratios[1]].into_iter().enumerate() {
                let block = block as u64 + 2;
                state.decide(
                    block,
                    Ok(tests(ratio)),
                    None,
                    Some(&mut tally),
                    &settings,
                    Objective::Class,
                );
            }
            assert!(state.verdict().refuted);
            state.verdict().candidate
        };
        assert_eq!(served([1.1, 1.1]), Candidate::Prior);
        assert_eq!(served([1.1, 2.0]), Candidate::Frozen);
        assert_eq!(served([2.0, 2.0]), Candidate::Frozen);
    }

    #[test]
    fn labels_alone_open_the_adapted_model_and_close_it() {
        let settings = GateSettings::default();
        let mut state = GateState::default();
        let mut tally = LabelTally::default();
        let mut served = Vec::new();
        for block in 0..12 {
            labels(&mut tally, [0, 0, 1], block < 6);
            let verdict = state.decide(
                block,
                Ok(tests(3.0)),
                None,
                Some(&mut tally),
                &settings,
                Objective::Class,
            );
            served.push(verdict.candidate);
        }
        assert!(served[..6].contains(&Candidate::Adapted), "{served:?}");
        assert_eq!(served[5], Candidate::Adapted);
        assert_eq!(served[9], Candidate::Frozen, "{served:?}");
        assert_eq!(served[11], Candidate::Frozen, "{served:?}");
    }

    #[test]
    fn the_adapted_model_opens_by_opt_in_alone_and_every_part_of_the_rule_counts() {
        let evidence = |ratio, smallest_recall, largest_deformation| AdaptedEvidence {
            tests: tests(ratio),
            smallest_recall,
            largest_deformation,
        };
        let opened = |evidence: AdaptedEvidence, settings: &GateSettings| {
            let mut state = GateState::default();
            for block in 0..5 {
                state.decide(
                    block,
                    Ok(tests(3.0)),
                    Some(evidence.clone()),
                    None,
                    settings,
                    Objective::Class,
                );
            }
            let verdict = state.verdict();
            let ready = evidence.holds();
            assert_eq!(verdict.adapted_ready, ready, "told with and without opt-in");
            verdict.candidate == Candidate::Adapted
        };
        let opted_in = GateSettings {
            adapted_without_labels: true,
            ..GateSettings::default()
        };
        assert!(opened(evidence(0.9, 0.9, 0.1), &opted_in));
        assert!(!opened(evidence(0.9, 0.9, 0.1), &GateSettings::default()));
        assert!(!opened(evidence(1.1, 0.9, 0.1), &opted_in));
        assert!(!opened(evidence(0.9, 0.4, 0.1), &opted_in));
        assert!(!opened(evidence(0.9, 0.9, 0.3), &opted_in));
    }

    #[test]
    fn probabilities_are_corrected_only_once_the_shares_are_known() {
        let settings = GateSettings::default();
        for (objective, candidate) in [
            (Objective::Class, Candidate::Prior),
            (Objective::Probability, Candidate::Frozen),
        ] {
            let mut state = GateState::default();
            for block in 1..=settings.patience {
                state.decide(
                    block.into(),
                    Ok(tests(0.95)),
                    None,
                    None,
                    &settings,
                    objective,
                );
            }
            let verdict = state.verdict();
            assert_eq!(verdict.candidate, candidate, "{}", verdict.reason);
            assert!(!verdict.proportions_known && !verdict.refuted);
            let verdict = state.decide(9, Ok(tests(0.5)), None, None, &settings, objective);
            assert_eq!(verdict.candidate, Candidate::Prior, "{}", verdict.reason);
        }
    }
}
