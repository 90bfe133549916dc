//! What `ostard state` prints.

use std::fmt::Write as _;

use ostar_method::gate::at_strength;

use super::{
    answers::READY,
    evidence,
    lines::{figures, in_lines},
    moved::moved,
    names::{candidate, model_name, untold},
    numbers::span,
    remarks::{broken_inputs, standing_alarms},
    stories::{self, is_range},
    tables,
};
use crate::proto::{Alarms, GateState, LabelEvidence, Mode, State};

/// Shares, shift and what is wrong.
pub(crate) fn summary(state: &State) -> String {
    let version = state.version.unwrap_or_default();
    let mut text = format!(
        "model {}, version {}.{}, mode {}, {} events, {} steps{}{}\n",
        state.model,
        version.epoch,
        version.step,
        state.mode().name(),
        state.events,
        state.steps,
        if state.paused { ", paused" } else { "" },
        if state.standby { ", standing by" } else { "" },
    );
    text += &tables::classes(state, true).text("no classes");
    // Writing to a String does not fail.
    if let Some(milliseconds) = state.shares_age_ms {
        let age = span(milliseconds as f64 / 1_000.0);
        let _ = writeln!(text, "shares: estimated {age} ago");
    }
    if let Some(shift) = &state.shift {
        let _ = writeln!(
            text,
            "shift: distance {:.3} before the map, {:.3} after it, noise floor {:.3}",
            shift.distance_before_map, shift.distance_after_map, shift.noise_floor
        );
        if let Some(largest) = &shift.largest_movement {
            let _ = writeln!(
                text,
                "movement: {} moves farthest, {:.3} of the squared distance to the nearest other class",
                largest.class, largest.ratio
            );
        }
    }
    for alarm in state.alarms.iter().flat_map(standing_alarms) {
        let _ = writeln!(text, "alarm: {}", alarm.explanation);
    }
    for field in broken_inputs(state) {
        let _ = writeln!(text, "broken input: {}", field.explanation);
    }
    if !state.refusal.is_empty() {
        let _ = writeln!(
            text,
            "the guard refuses the newest state: {}",
            state.refusal
        );
    }
    text
}

/// What moved, and what is served because of it, in a line.
pub(crate) fn in_short(state: &State) -> String {
    let gate = state.gate.clone().unwrap_or_default();
    let moved = moved(state, &gate);
    format!(
        "{}. {} Served {}: {}.",
        moved.answer,
        moved.evidence,
        candidate(state),
        gate.explanation
    )
}

/// What is served, since when, and which evidence decided.
pub(crate) fn why(state: &State) -> String {
    let gate = &state.gate.clone().unwrap_or_default();
    let mut text = served(state, gate);
    let _ = writeln!(text, "Why: {}.", gate.explanation);
    text += &broken(state);
    if gate.proportions_unknown {
        text += &not_known(state, gate);
    }
    if gate.adapted_ready && gate.candidate != "adapted" {
        let _ = writeln!(text, "{READY}");
    }
    if let Some(shares) = &state.shares_by_labels {
        let _ = writeln!(
            text,
            "Class shares by {} labels of randomly drawn events are for {} events of blocks {} to {}.",
            shares.labels, shares.rows, shares.first_block, shares.last_block
        );
    }
    text += "\nEvidence that only the shares moved:\n";
    text += &evidence::tests(&gate.tests).text("none yet");
    text += &gate.labels.as_ref().map_or_else(String::new, by_labels);
    text += "\nCandidates:\n";
    text += &tables::candidates(state).text("none");
    text += &state.alarms.as_ref().map_or_else(String::new, alarms);
    text += "\nInputs beside training:\n";
    text += &tables::inputs(state).text("not known, the bundle does not say what training had");
    text += "\nFigures:\n";
    text += &in_lines(&figures(state));
    text += "\nDecisions, newest first:\n";
    text += &evidence::decisions(&gate.history).text("none yet");
    text
}

/// What may be said of shares that are not known, what the rows say of the two stories, and what would help.
fn not_known(state: &State, gate: &GateState) -> String {
    let has_labels = state.shares_by_labels.is_some();
    let told = match (is_range(gate), gate.refuted, has_labels) {
        (true, _, _) => {
            "Class shares are a range: shares moved, or inputs did and the model's scores still hold.".to_owned()
        }
        (false, true, true) => "Class shares are told by labels alone: neither story fits.".to_owned(),
        (false, ..) => format!("Class shares {}.", untold(gate)),
    };
    let mut text = format!("{told}\n");
    if let Some(line) = gate.stories.as_ref().map(stories::told) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(line) = stories::help(gate).filter(|_| !has_labels) {
        let _ = writeln!(text, "{line}");
    }
    text
}

/// What is served, and what mode `auto` would serve if that is not the mode.
fn served(state: &State, gate: &GateState) -> String {
    let mut model = model_name(&gate.candidate).to_owned();
    if gate.candidate == "prior" {
        model += &at_strength(gate.prior_strength);
    }
    let since = match gate.since_block {
        0 => "from the start".to_owned(),
        block => format!("since block {block}"),
    };
    if matches!(state.mode(), Mode::Auto | Mode::Unspecified) {
        return format!("Mode auto serves the {model} {since}.\n");
    }
    format!(
        "Mode {} serves the {}, whatever the evidence says. Mode auto would serve the {model} {since}.\n",
        state.mode().name(),
        model_name(candidate(state)),
    )
}

/// What broke, one sentence a field; the first lines that explain a refuted stream.
fn broken(state: &State) -> String {
    let mut text = String::new();
    for field in broken_inputs(state) {
        let since = field.since_block;
        let since = since.map_or_else(String::new, |block| format!(" since block {block}"));
        let _ = writeln!(
            text,
            "A field of the input broke{since}: {}. See the runbook OstardFieldBroken: what the tests found may be this \
             and no change of the classes.",
            field.explanation
        );
    }
    text
}

/// What labels say of the candidates.
fn by_labels(labels: &LabelEvidence) -> String {
    let mut text = format!(
        "\nEvidence by labels ({:.0}, each counts 5 % less with every block):\n",
        labels.labels
    );
    if labels.of_one_class {
        text +=
            "All labels are of one class, so that they were selected by it: they decide nothing.\n";
    }
    text + &evidence::duels(labels).text("none yet")
}

/// Every series beside its limit, and what alarms said.
fn alarms(alarms: &Alarms) -> String {
    let mut text = "\nAlarms:\n".to_owned();
    text += &evidence::alarms(&alarms.series).text("off");
    for alarm in alarms.history.iter().rev() {
        let _ = writeln!(text, "- {}", alarm.explanation);
    }
    text
}

#[cfg(test)]
mod tests;
