//! Figures of each class.

use super::{ClassFact, Unit, has_shares, shares_are_known};
use crate::proto::{CandidateState, ClassProportions, ShareByLabels, State};

const SHARE: (&str, &str) = (
    "ostar_label_proportion",
    "Share of the class in the stream, or in training.",
);
const LOW: (&str, &str) = (
    "ostar_label_proportion_low",
    "Lower end of the share's 95 % interval.",
);
const HIGH: (&str, &str) = (
    "ostar_label_proportion_high",
    "Upper end of the share's 95 % interval.",
);
const CALIBRATION: (&str, &str) = (
    "ostar_measured_calibration_ratio",
    "Predicted over observed count of the class; 1 is calibrated.",
);

/// The shares among late labels.
pub(crate) const AMONG_LABELS: &str = "ostar_true_proportion";

type Of = fn(&State, usize) -> Option<f64>;

/// A share, which has a sum, in the stream or in training.
const fn share(candidate: &'static str, of: Of) -> ClassFact {
    ClassFact::new(SHARE.0, SHARE.1, of)
        .of_candidate(candidate)
        .summed()
}

const fn end(
    (metric, help): (&'static str, &'static str),
    candidate: &'static str,
    of: Of,
) -> ClassFact {
    ClassFact::new(metric, help, of).of_candidate(candidate)
}

const fn calibration(candidate: &'static str, of: Of) -> ClassFact {
    end(CALIBRATION, candidate, of)
}

/// Once shares were estimated.
fn estimated(state: &State, class: usize, of: fn(&ClassProportions) -> f64) -> Option<f64> {
    has_shares(state).then(|| of(&state.classes[class]))
}

/// A black box has no adapted model.
fn adapted(state: &State, class: usize, of: fn(&ClassProportions) -> f64) -> Option<f64> {
    candidate(state, "adapted")?.effective_rows?;
    estimated(state, class, of)
}

fn candidate<'a>(state: &'a State, name: &str) -> Option<&'a CandidateState> {
    state.candidates.iter().find(|one| one.name == name)
}

fn ratio(state: &State, name: &str, class: usize) -> Option<f64> {
    let ratio = candidate(state, name)?.calibration_ratios.get(class)?;
    Some(*ratio).filter(|ratio| !ratio.is_nan())
}

fn by_labels(state: &State, class: usize, of: fn(&ShareByLabels) -> f64) -> Option<f64> {
    let shares = state.shares_by_labels.as_ref()?;
    shares.classes.get(class).map(of)
}

// A table, a line or two for each.
#[rustfmt::skip]
pub(crate) static CLASS_FACTS: &[ClassFact] = &[
    share("training", |state, class| Some(state.classes[class].training)),
    share("frozen", |state, class| estimated(state, class, |one| one.frozen)),
    share("adapted", |state, class| adapted(state, class, |one| one.adapted)),
    share("served", |state, class| estimated(state, class, |one| one.served)),
    end(LOW, "frozen", |state, class| estimated(state, class, |one| one.frozen_low)),
    end(LOW, "adapted", |state, class| adapted(state, class, |one| one.adapted_low)),
    end(LOW, "served", |state, class| estimated(state, class, |one| one.served_low)),
    end(HIGH, "frozen", |state, class| estimated(state, class, |one| one.frozen_high)),
    end(HIGH, "adapted", |state, class| adapted(state, class, |one| one.adapted_high)),
    end(HIGH, "served", |state, class| estimated(state, class, |one| one.served_high)),
    ClassFact::new("ostar_served_proportion", "Share of the class in the stream; absent while it cannot be told.",
        |state, class| shares_are_known(state).then(|| state.classes[class].served)).summed(),
    ClassFact::new(AMONG_LABELS, "Share of the class among the newest labels.",
        |state, class| state.classes[class].among_labels).summed().shown("Among labels", Unit::Share),
    ClassFact::new("ostar_gate_proportion", "Share of the class at which training looks most like the gate's window.",
        |state, class| state.classes[class].best_fit).summed().shown("Best fit", Unit::Share),
    ClassFact::new("ostar_class_movement", "Mean squared distance by which the map moves the class.",
        |state, class| state.classes[class].movement),
    ClassFact::new("ostar_class_movement_ratio",
        "ostar_class_movement over the squared distance to the nearest other class; the guard refuses large values.",
        |state, class| state.classes[class].movement_ratio).shown("Movement", Unit::Number),
    // Those of many classes have no sum: each is tuned by itself, and held at 0.
    ClassFact::new("ostar_proportion_by_labels", "Share of the class by labels of randomly drawn events, whatever has changed.",
        |state, class| by_labels(state, class, |one| one.share)),
    ClassFact::new("ostar_proportion_by_labels_low", "Lower end of the 95 % interval of the share by labels.",
        |state, class| by_labels(state, class, |one| one.low)),
    ClassFact::new("ostar_proportion_by_labels_high", "Upper end of the 95 % interval of the share by labels.",
        |state, class| by_labels(state, class, |one| one.high)),
    calibration("frozen", |state, class| ratio(state, "frozen", class)),
    calibration("prior", |state, class| ratio(state, "prior", class)),
    calibration("adapted", |state, class| ratio(state, "adapted", class)),
    calibration("served", |state, class| ratio(state, "served", class)),
];
