//! What the page shows at one moment: the state, and the state in words. `daemon/page/page.js` reads it.

use serde::Serialize;

use super::{about::About, history::series};
use crate::{
    proto::State,
    words::{self, Answers, Line, Listing, PerSecond, Remark},
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
        let hidden = about.classes_in_all - about.classes.len();
        Self {
            answers: Answers::new(state, rates.map(|rates| rates.events)),
            ready: words::readiness(state),
            learning: words::learning(state),
            up: words::span(up as f64 / 1_000.0),
            alarms: words::standing(state),
            classes: words::classes(state, false),
            classes_note: words::classes_note(state, hidden, about.movement_limit),
            candidates: words::candidates(state),
            candidates_note: words::candidates_note(state),
            inputs: words::inputs(state),
            stream: words::stream(state, &about.topic, about.labels, rates),
            figures: words::figures(state),
            rejected: words::rejected(state),
        }
    }
}
