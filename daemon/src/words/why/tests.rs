use super::*;
use crate::{
    proto::{Alarm, AlarmSeries, InputField},
    serving::fixture::{
        Learned, daemon_after, learned, learned_elsewhere, learned_unmoved, learned_with_labels,
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
    let line = "spam   50.0 %    cannot be told: neither story fits  ";
    assert!(text.contains(line), "{text}");
    let text = summary(&after(learned_with_labels));
    assert!(text.contains("  By 200 labels "), "{text}");
    let line = "spam   50.0 %    cannot be told: neither story fits  90.0 % [87.0 to 93.0 %]  ";
    assert!(text.contains(line), "{text}");
}

#[test]
fn label_shift_is_explained_by_tests_within_their_limits() {
    let mut state = after(learned);
    let text = why(&state);
    let first = "Mode frozen serves the frozen model, whatever the evidence says. \
                 Mode auto would serve the prior-corrected model since block 1.\n\
                 Why: the shares moved: odds of ";
    assert!(text.starts_with(first), "{text}");
    assert_eq!(text.matches("  passes").count(), 2, "{text}");
    state.set_mode(Mode::Auto);
    let text = why(&state);
    assert!(
        text.starts_with("Mode auto serves the prior-corrected model since block 1.\n"),
        "{text}"
    );
    assert!(!text.contains("cannot be told"), "{text}");
    assert!(
        text.contains("\nStrength of prior correction: 100.0 %\nRows in the gate's window: 500\n"),
        "{text}"
    );
}

#[test]
fn a_stream_that_proves_neither_story_has_ranges_and_says_what_would_help() {
    let state = after(learned_unmoved);
    let text = summary(&state);
    assert!(text.contains(" % [range]  "), "{text}");
    let text = why(&state);
    for told in [
        "\nClass shares are a range: ",
        " if only the mix changed, and ",
        " deviations apart. More rows, a reference of unlabelled training rows, or labels would",
    ] {
        assert!(text.contains(told), "{told} in {text}");
    }
    assert!(!text.contains("cannot be told"), "{text}");
    let short = in_short(&state);
    assert!(
        short.starts_with("No share has moved for certain. Largest range: "),
        "{short}"
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
            explanation: "`price` is missing in 50.0 % of events, in 0.0 % in training".to_owned(),
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
