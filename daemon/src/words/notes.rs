//! What stands below a table.

use super::numbers::count;
use crate::proto::State;

/// Below the classes. `hidden` classes are not in the table; the guard refuses a map that moves a class by more than the
/// limit.
pub(crate) fn classes_note(state: &State, hidden: usize, movement_limit: f64) -> String {
    let mut note = String::new();
    if hidden > 0 {
        note += &format!("{hidden} rarer classes are in the metrics. ");
    }
    if state.refresh.is_some() {
        note += &format!(
            "Movement: squared movement by the map over squared distance to the nearest other class; the guard's limit is {movement_limit}. "
        );
    }
    note += "Bold: the share in training is outside the interval.";
    if let Some(drawn) = &state.shares_by_labels {
        note += &format!(
            " Labels of randomly drawn events measure the shares of {} events up to block {}, whatever has changed.",
            count(drawn.rows as f64),
            count(drawn.last_block as f64)
        );
    }
    note
}

/// Below the candidates: what the guard thinks of the adapted model.
pub(crate) fn candidates_note(state: &State) -> String {
    let Some(refresh) = &state.refresh else {
        return "The guard has judged no state yet.".to_owned();
    };
    let refusals = count(refresh.refusals as f64);
    let mut note = format!("The guard has refused {refusals} states so far.");
    if !refresh.accepted {
        note += &format!(" It refuses the newest: {}.", state.refusal);
    }
    note
}
