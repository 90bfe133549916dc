//! What `ostard state` prints.

use std::fmt::Write as _;

use ostar_method::gate::at_strength;

use super::{
    answers::{READY, moved},
    evidence,
    lines::{figures, in_lines},
    names::{candidate, model_name},
    numbers::span,
    remarks::{broken_inputs, standing_alarms},
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
        text += if gate.refuted {
            match &state.shares_by_labels {
                None => "Class shares cannot be told: the classes changed. Labels would tell.\n",
                Some(_) => "Class shares are told by labels alone: the classes changed.\n",
            }
        } else {
            "Class shares cannot be told yet: no window of events has passed the tests clearly.\n"
        };
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
mod tests {
    use super::*;
    use crate::{
        proto::{Alarm, AlarmSeries, InputField},
        serving::fixture::{
            Learned, daemon_after, learned, learned_elsewhere, learned_with_labels,
        },
        state::describe,
    };

    fn after(learn: fn(&ostar_bundle::Bundle) -> Learned) -> State {
        let daemon = daemon_after(learn);
        describe(&daemon.services, &daemon.status.borrow(), true)
    }

    #[test]
    fn a_state_has_its_shares_their_age_and_the_shift() {
        let state = after(learned);
        let text = summary(&state);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "model mail, version 3.42, mode frozen, 500 events, 1 steps"
        );
        assert!(lines[1].starts_with("Class  Training  Now "), "{text}");
        assert!(lines[2].starts_with("ham    50.0 %    "), "{text}");
        assert!(lines[4].starts_with("shares: estimated "), "{text}");
        assert!(lines[5].starts_with("shift: distance 0."), "{text}");
        let class = state.shift.unwrap().largest_movement.unwrap().class;
        assert!(["ham", "spam"].contains(&&class[..]), "{class}");
        let told = format!("movement: {class} moves farthest, 0.");
        assert!(lines[6].starts_with(&told), "{text}");
    }

    #[test]
    fn shares_of_classes_that_changed_are_not_shown_and_those_by_labels_are() {
        let text = summary(&after(learned_elsewhere));
        let line = "spam   50.0 %    cannot be told: the classes changed  ";
        assert!(text.contains(line), "{text}");
        let text = summary(&after(learned_with_labels));
        assert!(text.contains("  By 200 labels "), "{text}");
        let line =
            "spam   50.0 %    cannot be told: the classes changed  90.0 % [87.0 to 93.0 %]  ";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn label_shift_is_explained_by_tests_within_their_limits() {
        let mut state = after(learned);
        let text = why(&state);
        let first = "Mode frozen serves the frozen model, whatever the evidence says. \
                     Mode auto would serve the prior-corrected model since block 1.\n\
                     Why: label shift explains the last 500 rows.\n";
        assert!(text.starts_with(first), "{text}");
        assert_eq!(text.matches("  passes, at ").count(), 3, "{text}");
        state.set_mode(Mode::Auto);
        let text = why(&state);
        assert!(
            text.starts_with("Mode auto serves the prior-corrected model since block 1.\n"),
            "{text}"
        );
        assert!(!text.contains("cannot be told"), "{text}");
        assert!(
            text.contains(
                "\nStrength of prior correction: 100.0 %\nRows in the gate's window: 500\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn changed_classes_are_explained_by_the_test_that_failed() {
        let mut state = after(learned_elsewhere);
        state.set_mode(Mode::Auto);
        let text = why(&state);
        assert!(
            text.starts_with("Mode auto serves the frozen model since block 1.\nWhy: "),
            "{text}"
        );
        assert!(text.contains("Class shares cannot be told"), "{text}");
        assert!(
            text.contains("support  100.0 %   10.0 %  fails, 10.0 times its limit"),
            "{text}"
        );
        assert!(text.contains("\n1            frozen "), "{text}");
    }

    #[test]
    fn where_the_classes_changed_labels_tell_the_shares() {
        let text = why(&after(learned_with_labels));
        assert!(
            text.contains("Class shares are told by labels alone"),
            "{text}"
        );
        let shares = "Class shares by 200 labels of randomly drawn events are for 5000 events of blocks 2 to 11.\n";
        assert!(text.contains(shares), "{text}");
    }

    #[test]
    fn alarms_and_broken_fields_are_told_with_their_figures() {
        let series = |alarm: &str, class: &str, firing: bool| AlarmSeries {
            alarm: alarm.to_owned(),
            class: class.to_owned(),
            statistic: 3.3,
            limit: 11.5,
            firing,
            effective_rows: (alarm == "share").then_some(63.4),
        };
        let alarm = |class: &str, explanation: &str| Alarm {
            alarm: "share".to_owned(),
            class: class.to_owned(),
            explanation: explanation.to_owned(),
            ..Alarm::default()
        };
        let alarms = Alarms {
            series: vec![series("share", "spam", true), series("shape", "", false)],
            history: vec![alarm("spam", "first"), alarm("spam", "second")],
            blocks_per_week: 2_016.0,
            inputs: vec![InputField {
                name: "price".to_owned(),
                missing: 0.5,
                beyond: Some(0.0),
                broken: true,
                since_block: Some(7),
                explanation: "`price` is missing in 50.0 % of events, in 0.0 % in training"
                    .to_owned(),
                ..InputField::default()
            }],
        };
        let state = State {
            alarms: Some(alarms),
            ..State::default()
        };
        let told = summary(&state);
        assert!(
            told.contains("\nalarm: second\nbroken input: `price` is missing"),
            "{told}"
        );
        let text = why(&state);
        for line in [
            "\nA field of the input broke since block 7: `price` is missing in 50.0 %",
            "See the runbook OstardFieldBroken",
            "\nshare of spam  3.3        11.5   stands  63 independent events\n",
            "\nshape          3.3        11.5   none\n- second\n- first\n",
            "\nprice  50.0 %   0.0 %        –        0.0 %             0.000     0.000      broken\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(why(&State::default()).contains("not known, the bundle does not say"));
    }
}
