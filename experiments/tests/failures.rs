//! Streams on which something goes wrong, through the gate: nothing is lost, and the reasons say what happened.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use ostar_experiments::{
    gate::{
        AUTO, Answering, Outcome, PRIOR, Replay, WINDOW,
        failures::{CLASSES, Failure},
        replay,
    },
    stream::train_classes,
};

/// Rows after which streams go wrong.
const QUIET_ROWS: usize = 4_000;

fn outcome(failure: Failure) -> Outcome {
    let (source, stream) = failure.generate(0);
    let bundle = train_classes(&source, CLASSES, 0).unwrap();
    let how = Replay {
        steps: 0,
        always: false,
        adapted_without_labels: false,
        rivals: true,
        answering: Answering::NONE,
        seed: 0,
    };
    replay(&bundle, &stream, how).unwrap()
}

/// Checks the loss, and gives the reasons' labels.
fn reasons(failure: Failure) -> Vec<String> {
    let outcome = outcome(failure);
    let gains = gains(&outcome, AUTO);
    assert!(keep_the_promise(gains), "{failure:?}: {gains:.2?}");
    outcome
        .reasons
        .into_iter()
        .map(|(label, _)| label)
        .collect()
}

/// A candidate less the frozen model, in points: after things went wrong, and in the worst 2,000 rows.
fn gains(outcome: &Outcome, candidate: usize) -> [f64; 2] {
    [
        outcome.gain_after(candidate, QUIET_ROWS),
        outcome.worst_window(candidate),
    ]
}

/// At most half a point is lost, and at most two in any 2,000 rows.
fn keep_the_promise([after, worst]: [f64; 2]) -> bool {
    after > -0.5 && worst > -2.0
}

fn says(failure: Failure, expected: &[&str]) {
    let reasons = reasons(failure);
    let named = reasons.iter().any(|reason| expected.contains(&&reason[..]));
    assert!(named, "{failure:?}: {reasons:?}");
}

#[test]
fn moved_shares_are_corrected_whatever_the_order_of_events() {
    for failure in [
        Failure::NoShift,
        Failure::OneClassBursts,
        Failure::CorrelatedOrder,
        Failure::VanishingClass,
        Failure::AlternatingRegimes,
    ] {
        let reasons = reasons(failure);
        assert_eq!(reasons, ["label_shift_explains"], "{failure:?}");
    }
}

#[test]
fn without_the_gate_prior_correction_breaks_the_promise_where_classes_changed() {
    for failure in [
        Failure::NewClass,
        Failure::FieldTimesThousand,
        Failure::FarTarget,
        Failure::AlongTheLine,
    ] {
        let gains = gains(&outcome(failure), PRIOR);
        assert!(!keep_the_promise(gains), "{failure:?}: {gains:.2?}");
    }
}

#[test]
fn a_fixed_window_does_harm_where_the_order_of_events_is_not_random() {
    // The tracker's control: what it gains there, shares of the last 1,000 rows lose.
    let outcome = outcome(Failure::CorrelatedOrder);
    let (window, auto) = (gains(&outcome, WINDOW), gains(&outcome, AUTO));
    assert!(!keep_the_promise(window), "{window:.2?}");
    assert!(auto[0] > 0.5, "{auto:.2?}");
}

#[test]
fn a_new_class_is_seen() {
    says(Failure::NewClass, &["latents_differ", "scores_differ"]);
}

#[test]
fn a_broken_field_and_a_far_target_are_seen() {
    let out = ["beyond_support", "latents_differ", "scores_differ"];
    says(Failure::FieldTimesThousand, &out);
    says(Failure::FarTarget, &out);
}

#[test]
fn slow_rotation_and_crafted_events_cost_nothing() {
    says(Failure::SlowRotation, &["scores_differ", "latents_differ"]);
    reasons(Failure::CraftedEvents);
}

#[test]
fn a_class_on_the_way_to_another_is_the_loss_that_nothing_without_labels_can_see() {
    let outcome = outcome(Failure::AlongTheLine);
    let after = outcome.gain_after(AUTO, QUIET_ROWS);
    // RESULTS.md reports it. A gate that saw it would be news, and one that lost more a fault.
    assert!((-4.0..-0.5).contains(&after), "{after:.2} points");
}
