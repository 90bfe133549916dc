//! What the page shows at one moment: the state, and the state in words. `daemon/page/page.js` reads it.

use serde::Serialize;

use super::{about::About, history::series};
use crate::{
    proto::State,
    words::{self, Answers, Line, Listing, PerSecond, Remark, count},
};

/// A frame as viewers get it every second.
#[derive(Debug, Serialize)]
pub(super) struct Frame {
    state: State,
    words: Words,
    /// The row of the history, in the order of [`About::columns`].
    pub(super) values: Box<[f32]>,
}

/// Sentences, tables and lists.
#[derive(Debug, Serialize)]
struct Words {
    answers: Answers,
    ready: Remark,
    learning: Remark,
    /// How long the process has been up.
    up: String,
    /// Alarms that stand and inputs that broke, without full stops.
    alarms: Vec<String>,
    classes: Listing,
    classes_note: String,
    candidates: Listing,
    candidates_note: String,
    inputs: Listing,
    stream: Vec<Line>,
    figures: Vec<Line>,
    rejected: Listing,
}

// === impl Frame ===

impl Frame {
    pub(super) fn new(mut state: State, about: &About, rates: Option<PerSecond>) -> Self {
        about.choose_classes(&mut state);
        let events_per_second = rates.map(|rates| rates.events);
        let values = series(&state, events_per_second).into_iter();
        let values = values.map(|(_, value)| value.map_or(f32::NAN, |value| value as f32));
        Self {
            words: Words::new(&state, about, rates),
            values: values.collect(),
            state: shortened(state),
        }
    }

    pub(super) fn time_ms(&self) -> u64 {
        self.state.time_ms as u64
    }
}

/// Leaves out what is long and already in words: a frame is sent every second.
fn shortened(mut state: State) -> State {
    state.wanted_labels.clear();
    if let Some(gate) = &mut state.gate {
        gate.history.clear();
    }
    if let Some(alarms) = &mut state.alarms {
        alarms.history.clear();
        alarms.inputs.clear();
    }
    state
}

// === impl Words ===

impl Words {
    fn new(state: &State, about: &About, rates: Option<PerSecond>) -> Self {
        let up = (state.time_ms as u64).saturating_sub(about.started_ms);
        Self {
            answers: Answers::new(state, rates.map(|rates| rates.events)),
            ready: words::readiness(state),
            learning: words::learning(state),
            up: words::span(up as f64 / 1_000.0),
            alarms: words::standing(state),
            classes: words::classes(state, false),
            classes_note: classes_note(state, about),
            candidates: words::candidates(state),
            candidates_note: candidates_note(state),
            inputs: words::inputs(state),
            stream: words::stream(state, &about.topic, about.labels, rates),
            figures: words::figures(state),
            rejected: words::rejected(state),
        }
    }
}

fn classes_note(state: &State, about: &About) -> String {
    let rest = about.classes_in_all - about.classes.len();
    let mut note = String::new();
    if rest > 0 {
        note += &format!("{rest} rarer classes are in the metrics. ");
    }
    if state.refresh.is_some() {
        note += &format!(
            "Movement: squared movement by the map over squared distance to the nearest other class; the guard's limit is {}. ",
            about.movement_limit
        );
    }
    note += "Bold: the share in training is outside the interval.";
    if let Some(drawn) = &state.shares_by_labels {
        note += &format!(
            " Labels of randomly drawn events tell the shares of {} events up to block {}, whatever has changed.",
            count(drawn.rows as f64),
            count(drawn.last_block as f64)
        );
    }
    note
}

fn candidates_note(state: &State) -> String {
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
