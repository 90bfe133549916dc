//! Figures of the whole stream.

use super::{Fact, Unit, seconds, shares_are_known};
use crate::proto::{GateState, Losses, Refresh, State, StreamState};

/// Half the sum of the differences, over all classes. Of the sums of the rest it would be too small: what moves among them
/// cancels.
fn distance_from_training(state: &State) -> f64 {
    let classes = state.classes.iter();
    let differences = classes.map(|class| (class.served - class.training).abs());
    differences.sum::<f64>() / 2.0
}

fn shares_at(state: &State) -> Option<f64> {
    let age = state.shares_age_ms?;
    Some(seconds((state.time_ms as u64).saturating_sub(age)))
}

fn flag(holds: bool) -> Option<f64> {
    Some(f64::from(holds))
}

fn gate(state: &State, holds: fn(&GateState) -> bool) -> Option<f64> {
    flag(state.gate.as_ref().is_some_and(holds))
}

fn stream(state: &State, holds: fn(&StreamState) -> bool) -> Option<f64> {
    flag(state.stream.as_ref().is_some_and(holds))
}

fn loss(state: &State, of: fn(&Losses) -> f64) -> Option<f64> {
    state.losses.as_ref().map(of)
}

fn refresh(state: &State, of: fn(&Refresh) -> f64) -> Option<f64> {
    state.refresh.as_ref().map(of)
}

// A table, a line or two for each.
#[rustfmt::skip]
pub(crate) static FACTS: &[Fact] = &[
    // The process.
    Fact::new("ostar_model_version_epoch", "Epoch of the served state: starts of the learner.", |state| Some(state.version?.epoch as f64)),
    Fact::new("ostar_model_version_step", "Step of the served state: alignment steps, or blocks of a black box.",
        |state| Some(state.version?.step as f64)),
    Fact::new("ostar_ready", "1 if /readyz answers 200, else 0.", |state| flag(state.not_ready.is_empty())),
    Fact::new("ostar_paused", "1 while learning is paused, else 0.", |state| flag(state.paused)),
    Fact::new("ostar_standby", "1 while another process learns and this one stands by and only serves, else 0.",
        |state| flag(state.standby)),
    Fact::new("ostar_state_age_seconds", "Time since the learner last wrote to the state topic, by its clock; of processes that follow one.",
        |state| state.state_age_ms.map(seconds)),
    Fact::new("ostar_snapshot_age_seconds", "Time since the snapshot that is served was published; of processes that follow a learner.",
        |state| state.snapshot_age_ms.map(seconds)),
    Fact::new("ostar_sample_share", "Share of the events that scorers pass on to the learner; of processes that follow one.",
        |state| state.sample_share)
            .shown("Events that scorers pass on", Unit::Share),
    Fact::new("ostar_broker_connected", "1 if a broker answers, else 0.", |state| stream(state, |stream| stream.connected)),
    Fact::new("ostar_consumption_stopped", "1 while reading is stopped after too many bad events, until `ostard ctl read-on` or a restart; else 0.",
        |state| stream(state, |stream| stream.stopped)),
    Fact::new("ostar_checkpoint_last_timestamp_seconds", "When the newest checkpoint was written, in seconds since 1970.",
        |state| state.stream.as_ref()?.checkpoint_ms.map(seconds)),
    // Shares.
    Fact::new("ostar_proportions_known", "1 if the served shares can be told, 0 before the first block and while they cannot.",
        |state| flag(shares_are_known(state))),
    Fact::new("ostar_distance_from_training",
        "Half the sum of the differences between the shares in the stream and in training, over all classes; absent while the shares cannot be told.",
        |state| shares_are_known(state).then(|| distance_from_training(state)))
            .shown("Distance of the shares from training", Unit::Share),
    Fact::new("ostar_label_proportion_timestamp_seconds",
        "When the shares were estimated, in seconds since 1970. After a restart, those of the checkpoint are shown.", shares_at),
    Fact::new("ostar_proportion_by_labels_labels", "Labels of randomly drawn events that the shares by labels rest on.",
        |state| Some(state.shares_by_labels.as_ref().map_or(0.0, |shares| shares.labels as f64))),
    // The gate.
    Fact::new("ostar_label_shift_refuted", "1 while the gate's tests say that more than the shares moved, else 0.",
        |state| gate(state, |gate| gate.refuted)),
    Fact::new("ostar_gate_adapted_ready", "1 while the adapted model explains a stream that label shift does not, else 0.",
        |state| gate(state, |gate| gate.adapted_ready)),
    Fact::new("ostar_gate_prior_strength", "How far prior correction goes: 1 to the estimated shares, less where labels prefer less.",
        |state| Some(state.gate.as_ref()?.prior_strength))
            .shown("Strength of prior correction", Unit::Share),
    Fact::new("ostar_gate_window_rows", "Rows in the window that the gate's tests look at; absent while there are too few.",
        |state| Some(state.gate.as_ref()?.window_rows?.into()))
            .shown("Rows in the gate's window", Unit::Count),
    // Alignment and the guard.
    Fact::new("ostar_critic_loss", "Loss of the last critic step.", |state| loss(state, |losses| losses.critic_loss)),
    Fact::new("ostar_critic_distance", "The critic's estimate of the distance between mapped source and stream.",
        |state| loss(state, |losses| losses.critic_distance)),
    Fact::new("ostar_gradient_penalty", "Gradient penalty of the last critic step.", |state| loss(state, |losses| losses.gradient_penalty)),
    Fact::new("ostar_transport_cost", "Transport cost of the last map step.", |state| loss(state, |losses| losses.transport_cost)),
    Fact::new("ostar_transport_weight", "Weight of the transport cost (lambda_OT).",
        |state| loss(state, |losses| losses.transport_weight))
            .shown("Weight of the transport cost", Unit::Number),
    Fact::new("ostar_classifier_loss", "Loss of the last step of the adapted model.", |state| loss(state, |losses| losses.classifier_loss)),
    Fact::new("ostar_largest_class_movement_ratio", "The largest ostar_class_movement_ratio of all classes; GetState names the class.",
        |state| Some(state.shift.as_ref()?.largest_movement.as_ref()?.ratio))
            .shown("Largest movement of a class", Unit::Number),
    Fact::new("ostar_confusion_smallest_singular_value",
        "Smallest singular value of the adapted model's confusion matrix; near 0 the shares cannot be estimated.",
        |state| refresh(state, |refresh| refresh.smallest_singular_value))
            .shown("Smallest singular value of the confusion matrix", Unit::Number),
    Fact::new("ostar_classifier_slope", "Largest input gradient of the adapted model on the window.",
        |state| refresh(state, |refresh| refresh.slope))
            .shown("Largest input gradient of the adapted model", Unit::Number),
    Fact::new("ostar_guard_agrees", "1 if the guard accepted the newest state, 0 if it refused it.",
        |state| refresh(state, |refresh| f64::from(refresh.accepted))),
    Fact::new("ostar_clusters_keep_classes", "1 if every cluster of the window is nearest to the class it is predicted as, else 0.",
        |state| refresh(state, |refresh| f64::from(refresh.clusters_keep_classes))),
    // Inputs and labels.
    Fact::new("ostar_inputs_watched", "Fields that are compared with training; 0 if the bundle does not say what training had.",
        |state| Some(state.alarms.as_ref().map_or(0.0, |alarms| alarms.inputs.len() as f64)))
            .shown("Fields compared with training", Unit::Count),
    Fact::new("ostar_label_waiting_events", "Events whose predictions wait for a label in the learner.",
        |state| Some(state.labels.as_ref().map_or(0.0, |labels| labels.waiting as f64))),
    Fact::new("ostar_label_waiting_one_of", "Of so many events one waits for a label: above 1 if labels.cache has no room for all.",
        |state| Some(state.labels.as_ref().map_or(0.0, |labels| labels.one_of as f64))),
];
