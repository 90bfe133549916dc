//! Lists of names and values.

use serde::Serialize;

use super::{
    answers::lag,
    numbers::{self, count, figure, or_unknown, span},
    remarks::Urgency,
};
use crate::{
    facts::{FACTS, Shown},
    proto::{LabelState, State},
};

/// A line of a list: name and value.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    name: String,
    value: String,
    state: Urgency,
}

/// How fast events, steps and requests come.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct PerSecond {
    pub(crate) events: f64,
    pub(crate) steps: f64,
    pub(crate) requests: f64,
}

// === impl Line ===

impl Line {
    fn new(name: &str, value: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value: value.into(),
            state: Urgency::Ok,
        }
    }

    fn count(name: &str, number: u64) -> Self {
        Self::new(name, count(number as f64))
    }

    fn rate(name: &str, number: u64, rate: Option<f64>) -> Self {
        let rate = or_unknown(rate.map(numbers::rate));
        Self::new(name, format!("{} ({rate}/s)", count(number as f64)))
    }

    fn look_if(mut self, holds: bool) -> Self {
        if holds {
            self.state = Urgency::Look;
        }
        self
    }

    fn bad_if(mut self, holds: bool) -> Self {
        if holds {
            self.state = Urgency::Bad;
        }
        self
    }
}

/// The figures of the state that no sentence and no table has, as far as they are known.
pub(crate) fn figures(state: &State) -> Vec<Line> {
    let lines = FACTS.iter().filter_map(|fact| {
        let Shown { words, unit } = fact.shown?;
        Some(Line::new(words, figure((fact.of)(state)?, unit)))
    });
    lines.collect()
}

/// Lines as text.
pub(super) fn in_lines(lines: &[Line]) -> String {
    let lines = lines.iter();
    lines
        .map(|line| format!("{}: {}\n", line.name, line.value))
        .collect()
}

/// Kafka, labels, requests and checkpoints.
pub(crate) fn stream(
    state: &State,
    topic: &str,
    reads_labels: bool,
    rates: Option<PerSecond>,
) -> Vec<Line> {
    let stream = state.stream.clone().unwrap_or_default();
    let (records, seconds) = lag(&stream);
    let (behind, age) = (
        or_unknown(records.map(count)),
        or_unknown(seconds.map(span)),
    );
    let is_late = seconds.is_some_and(|seconds| seconds > 60.0);
    let rate = |of: fn(PerSecond) -> f64| rates.map(of);
    let checkpoint = stream.checkpoint_ms.map_or_else(
        || "none yet".to_owned(),
        |at_ms| {
            let age = (state.time_ms as u64).saturating_sub(at_ms);
            format!("{} ago", span(age as f64 / 1_000.0))
        },
    );
    let labels = if reads_labels {
        Line::count("Late labels", stream.labels)
    } else {
        Line::new("Late labels", "not read")
    };
    let broker = if stream.connected {
        "connected"
    } else {
        "no answer"
    };
    let mut lines = vec![
        Line::new("Topic", topic),
        Line::new("Broker", broker).bad_if(!stream.connected),
        Line::new("Behind", format!("{behind} records, {age}")).bad_if(is_late),
        Line::rate("Events read", stream.accepted, rate(|rates| rates.events)),
        Line::count("Events learned from", state.events),
        Line::rate("Alignment steps", state.steps, rate(|rates| rates.steps)),
        Line::count("Steps skipped", state.skipped_steps).look_if(state.skipped_steps > 0),
        Line::count("Predictions delivered", stream.predictions),
        Line::count("Dead letters delivered", stream.dead_letters).look_if(stream.dead_letters > 0),
        Line::count("Deliveries failed", stream.failed).bad_if(stream.failed > 0),
        Line::count("Records lost to retention", stream.offsets_lost)
            .bad_if(stream.offsets_lost > 0),
        Line::rate("Requests", stream.requests, rate(|rates| rates.requests)),
        Line::count("Requests refused", stream.refused_requests)
            .look_if(stream.refused_requests > 0),
        labels,
    ];
    if let Some(labels) = &state.labels {
        lines.extend(label_lines(state, labels));
    }
    lines.push(Line::new("Checkpoint", checkpoint).bad_if(stream.checkpoint_failures > 0));
    lines
}

/// Ids that are listed at most.
const LISTED_IDS: usize = 10;

/// Labels that are asked for, wait and came.
fn label_lines(state: &State, labels: &LabelState) -> Vec<Line> {
    let plain = |number: u64| count(number as f64);
    let wanted = if labels.wanted == 0 {
        "none".to_owned()
    } else if state.wanted_labels.is_empty() {
        let withheld = "ids are shown only with a token, or on the loopback";
        format!("{}: {withheld}", plain(labels.wanted))
    } else {
        let newest = state.wanted_labels.iter().rev().take(LISTED_IDS);
        let ids: Vec<&str> = newest.map(|request| request.id.as_str()).collect();
        let more = if labels.wanted as usize > ids.len() {
            ", …"
        } else {
            ""
        };
        format!("{}: {}{more}", plain(labels.wanted), ids.join(", "))
    };
    let sample = if labels.one_of > 1 {
        let one_of = plain(labels.one_of);
        format!(", one of {one_of} events: labels.cache has no room for all")
    } else {
        String::new()
    };
    let delays = labels.half_within_seconds.map(|half| {
        let most = labels.most_within_seconds.map(span);
        let most = most.unwrap_or_else(|| "more than a week".to_owned());
        format!("half within {}, 90 % within {most}", span(half))
    });
    let asked = format!("{}, {}", plain(labels.asked), plain(labels.answered));
    let waiting = format!("{} events{sample}", plain(labels.waiting));
    let mut lines = vec![
        Line::new("Labels wanted", wanted),
        Line::new("Labels asked for, answered", asked),
        Line::new("Waiting for a label", waiting).look_if(labels.one_of > 1),
        Line::new("Labels took", or_unknown(delays)),
    ];
    if labels.negatives > 0 {
        let negatives = format!("{}, {}", plain(labels.negatives), plain(labels.late));
        lines.push(Line::new("Negative by waiting, late labels", negatives));
    }
    if labels.without_id > 0 {
        let without = format!(
            "{}: their labels cannot be asked for",
            plain(labels.without_id)
        );
        lines.push(Line::new("Events without an id", without).look_if(true));
    }
    lines
}
