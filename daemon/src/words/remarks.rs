//! Remarks on the process, and what stands out.

use serde::Serialize;

use crate::proto::{Alarm, Alarms, InputField, State};

/// How urgent something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Urgency {
    Ok,
    /// Worth a look.
    Look,
    Bad,
}

/// A few words on the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Remark {
    pub(crate) state: Urgency,
    pub(crate) text: String,
}

/// Whether it can predict, and what is wrong nevertheless.
pub(crate) fn readiness(state: &State) -> Remark {
    let remark = |state, text| Remark { state, text };
    if !state.not_ready.is_empty() {
        return remark(Urgency::Bad, format!("not ready: {}", state.not_ready));
    }
    let wrong = state.conditions.iter();
    let wrong: Vec<String> = wrong
        .map(|(part, reason)| format!("{part}: {reason}"))
        .collect();
    if wrong.is_empty() {
        return remark(Urgency::Ok, "ready".to_owned());
    }
    remark(Urgency::Look, format!("ready, but {}", wrong.join("; ")))
}

/// Whether it learns.
pub(crate) fn learning(state: &State) -> Remark {
    let (state, text) = match (state.standby, state.paused) {
        (true, _) => (Urgency::Look, "standing by"),
        (false, true) => (Urgency::Look, "learning paused"),
        (false, false) => (Urgency::Ok, "learning"),
    };
    let text = text.to_owned();
    Remark { state, text }
}

/// The newest alarm of each series that stands.
pub(super) fn standing_alarms(alarms: &Alarms) -> impl Iterator<Item = &Alarm> {
    let stands = alarms.series.iter().filter(|series| series.firing);
    stands.filter_map(|series| {
        let mut newest_first = alarms.history.iter().rev();
        newest_first.find(|alarm| alarm.alarm == series.alarm && alarm.class == series.class)
    })
}

/// Alarms that stand, then inputs that broke, each in a sentence without a full stop.
pub(crate) fn standing(state: &State) -> Vec<String> {
    let alarms = state.alarms.iter().flat_map(standing_alarms);
    let mut told: Vec<String> = alarms.map(|alarm| alarm.explanation.clone()).collect();
    told.extend(broken(state));
    told
}

/// Inputs that are not what training had.
pub(super) fn broken_inputs(state: &State) -> impl Iterator<Item = &InputField> {
    let inputs = state.alarms.iter().flat_map(|alarms| &alarms.inputs);
    inputs.filter(|field| field.broken)
}

/// What is wrong with each of them, without full stops.
pub(super) fn broken(state: &State) -> Vec<String> {
    broken_inputs(state)
        .map(|field| field.explanation.clone())
        .collect()
}
