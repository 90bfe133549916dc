//! Figures with labels of their own: candidates, tests, alarms, fields, partitions.

use ostar_method::{Candidate, gate::GateReason};

use super::{Add, Series};
use crate::{
    current::ServingMode,
    health::CONDITIONS,
    proto::{
        AlarmSeries, CandidateState, GateState, GateTest, InputField, LabelDuel, PartitionLag,
        State,
    },
};

type Of<T> = fn(&T) -> Option<f64>;

const fn series(
    metric: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    read: fn(&State, &mut Add<'_>),
) -> Series {
    Series {
        metric,
        help,
        labels,
        read,
    }
}

/// 1 for the value that holds, 0 for the others.
fn one_of<'a>(add: &mut Add<'_>, values: impl IntoIterator<Item = &'a str>, holds: &str) {
    for value in values {
        add(&[value], Some(f64::from(value == holds)));
    }
}

fn candidates(state: &State, add: &mut Add<'_>, of: Of<CandidateState>) {
    for candidate in &state.candidates {
        add(&[&candidate.name], of(candidate));
    }
}

fn tests(state: &State, add: &mut Add<'_>, of: Of<GateTest>) {
    for test in state.gate.iter().flat_map(|gate| &gate.tests) {
        add(&[&test.name], of(test));
    }
}

fn alarms(state: &State, add: &mut Add<'_>, of: Of<AlarmSeries>) {
    for series in state.alarms.iter().flat_map(|alarms| &alarms.series) {
        add(&[&series.alarm, &series.class], of(series));
    }
}

fn inputs(state: &State, add: &mut Add<'_>, of: Of<InputField>) {
    for field in state.alarms.iter().flat_map(|alarms| &alarms.inputs) {
        add(&[&field.name], of(field));
    }
}

fn duels(state: &State, add: &mut Add<'_>, of: Of<LabelDuel>) {
    let labels = state.gate.iter().flat_map(|gate| &gate.labels);
    for duel in labels.flat_map(|labels| &labels.duels) {
        add(&[&duel.challenger, &duel.incumbent], of(duel));
    }
}

fn partitions(state: &State, add: &mut Add<'_>, of: Of<PartitionLag>) {
    for lag in state.stream.iter().flat_map(|stream| &stream.partitions) {
        add(&[&lag.partition.to_string()], of(lag));
    }
}

fn conditions(state: &State, add: &mut Add<'_>) {
    for part in CONDITIONS {
        let holds = state.conditions.contains_key(part);
        add(&[part], Some(f64::from(holds)));
    }
}

fn cross_entropies(state: &State, add: &mut Add<'_>) {
    if let Some(refresh) = &state.refresh {
        add(&["frozen"], Some(refresh.frozen_cross_entropy));
        add(&["adapted"], Some(refresh.adapted_cross_entropy));
    }
}

fn distances(state: &State, add: &mut Add<'_>) {
    if let Some(shift) = &state.shift {
        add(&["before_map"], Some(shift.distance_before_map));
        add(&["after_map"], Some(shift.distance_after_map));
        add(&["noise_floor"], Some(shift.noise_floor));
    }
}

/// What the gate says of itself; empty before its first decision.
fn decided(state: &State, of: fn(&GateState) -> &str) -> &str {
    let gate = state.gate.as_ref();
    gate.filter(|gate| !gate.history.is_empty()).map_or("", of)
}

// A table, a line or two for each.
#[rustfmt::skip]
pub(crate) static SERIES: &[Series] = &[
    // The process.
    series("ostar_serving_mode", "1 for the current serving mode, 0 for the others.",
        &["mode"], |state, add| one_of(add, ServingMode::NAMED.map(|(name, _)| name), state.mode().name())),
    series("ostar_learner_device_info", "Always 1; the label carries learner.device, where the learner works.",
        &["device"], |state, add| add(&[&state.device], Some(1.0))),
    series("ostar_role_info", "Always 1; the label carries the role: all, scorer or learner.",
        &["role"], |state, add| add(&[&state.role], Some(1.0))),
    series("ostar_condition", "1 while a part has a problem although predictions are served, else 0. /state says which problem.",
        &["condition"], conditions),
    series("ostar_consumer_lag_records", "Records of the partition that are not read yet.",
        &["partition"], |state, add| partitions(state, add, |lag| Some(lag.records as f64))),
    series("ostar_consumer_lag_seconds", "Age of the last record read, by its time stamp; 0 if nothing is left to read.",
        &["partition"], |state, add| partitions(state, add, |lag| lag.seconds)),
    // The gate.
    series("ostar_gate_candidate", "1 for the candidate that mode auto serves, 0 for the others.",
        &["candidate"], |state, add| one_of(add, Candidate::ALL.map(Candidate::name), decided(state, |gate| &gate.candidate))),
    series("ostar_gate_reason", "1 for the reason of the gate's decision, 0 for the others.",
        &["reason"], |state, add| one_of(add, GateReason::LABELS, decided(state, |gate| &gate.reason))),
    series("ostar_gate_statistic", "What the gate's test of label shift measured on the window.",
        &["test"], |state, add| tests(state, add, |test| Some(test.statistic))),
    series("ostar_gate_limit", "The largest ostar_gate_statistic that label shift explains.",
        &["test"], |state, add| tests(state, add, |test| Some(test.limit))),
    series("ostar_label_preference_probability", "Chance that the challenger is right more often than the incumbent where they differ, by labels.",
        &["challenger", "incumbent"], |state, add| duels(state, add, |duel| Some(duel.probability))),
    series("ostar_label_preference_wealth", "What 1 has become that was bet on the challenger, label by label; 20 is proof.",
        &["challenger", "incumbent"], |state, add| duels(state, add, |duel| Some(duel.challenger_wealth))),
    // Candidates.
    series("ostar_label_proportion_effective_rows", "Number of independent events that the shares are as precise as.",
        &["candidate"], |state, add| candidates(state, add, |one| one.effective_rows)),
    series("ostar_estimated_accuracy", "Accuracy on the stream, estimated without labels; right if only the shares moved.",
        &["candidate"], |state, add| candidates(state, add, |one| one.estimated)),
    series("ostar_estimated_accuracy_low", "Lower end of the estimated accuracy's 95 % interval.",
        &["candidate"], |state, add| candidates(state, add, |one| one.estimated_low)),
    series("ostar_estimated_accuracy_high", "Upper end of the estimated accuracy's 95 % interval.",
        &["candidate"], |state, add| candidates(state, add, |one| one.estimated_high)),
    series("ostar_measured_accuracy", "Share of the newest labelled events that the candidate predicted correctly.",
        &["candidate"], |state, add| candidates(state, add, |one| one.accuracy)),
    series("ostar_measured_balanced_accuracy", "Mean over classes of the share predicted correctly.",
        &["candidate"], |state, add| candidates(state, add, |one| one.balanced_accuracy)),
    series("ostar_measured_log_loss", "Mean negative log probability of the true class.",
        &["candidate"], |state, add| candidates(state, add, |one| one.log_loss)),
    series("ostar_measured_auc", "Area under the ROC curve.", &["candidate"], |state, add| candidates(state, add, |one| one.auc)),
    series("ostar_held_out_cross_entropy", "Cross-entropy on held-out source rows; for the adapted model the rows are mapped.",
        &["candidate"], cross_entropies),
    series("ostar_sliced_distance", "Sliced Wasserstein distance between source and stream before and after the map, and its noise floor.",
        &["stage"], distances),
    // Alarms.
    series("ostar_alarm_statistic", "How far the series has left its usual level: a cumulative sum of surprises.",
        &["alarm", "class"], |state, add| alarms(state, add, |series| Some(series.statistic))),
    series("ostar_alarm_limit", "The ostar_alarm_statistic at which an alarm is raised.",
        &["alarm", "class"], |state, add| alarms(state, add, |series| Some(series.limit))),
    series("ostar_alarm_firing", "1 while an alarm stands, else 0.",
        &["alarm", "class"], |state, add| alarms(state, add, |series| Some(f64::from(series.firing)))),
    series("ostar_input_missing_ratio", "Share of events without the field, over about ten blocks.",
        &["field"], |state, add| inputs(state, add, |field| Some(field.missing))),
    series("ostar_input_unknown_ratio", "Share of categories or words that training did not have.",
        &["field"], |state, add| inputs(state, add, |field| field.unknown)),
    series("ostar_input_beyond_ratio", "Share of numbers below or above all of training.",
        &["field"], |state, add| inputs(state, add, |field| field.beyond)),
    series("ostar_input_distance", "Total variation distance between the field and the nearest mixture of training's classes.",
        &["field"], |state, add| inputs(state, add, |field| Some(field.distance))),
    series("ostar_input_noise_floor", "What chance alone makes of ostar_input_distance.",
        &["field"], |state, add| inputs(state, add, |field| Some(field.noise_floor))),
    series("ostar_input_statistic", "How far the distance of the field has risen above its usual level: a cumulative sum of surprises.",
        &["field"], |state, add| inputs(state, add, |field| Some(field.statistic))),
    series("ostar_input_limit", "The ostar_input_statistic at which the field counts as broken.",
        &["field"], |state, add| inputs(state, add, |field| field.limit)),
    series("ostar_input_broken", "1 while the field is not what training had, else 0.",
        &["field"], |state, add| inputs(state, add, |field| Some(f64::from(field.broken)))),
];
