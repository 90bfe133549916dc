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
        let verdict = state.decide(1, Ok(tests(ratio)), None, None, &settings, Objective::Class);
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
