//! Tables of the state: the live page and the command line show the same ones.

use serde::Serialize;

use super::{
    answers::{Urgency, candidate, lag, measure, untold},
    numbers::{self, UNKNOWN, count, figure, interval, or_unknown, percent, span},
};
use crate::{
    facts::{CLASS_FACTS, ClassFact, FACTS, Shown, has_shares},
    proto::{
        AlarmSeries, CandidateState, ClassProportions, GateDecision, GateTest, InputField,
        LabelDuel, LabelEvidence, LabelRequest, LabelState, State,
    },
    table,
};

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    text: String,
    /// In small print: the ends of an interval.
    #[serde(skip_serializing_if = "String::is_empty")]
    below: String,
    /// Worth a look.
    strong: bool,
}

/// A table in words. The first cell of a row is its name.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Listing {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// A row that stands out.
    marked: Option<usize>,
}

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

// === impl Cell ===

impl Cell {
    fn estimate(share: f64, low: f64, high: f64) -> Self {
        Self {
            text: percent(share),
            below: interval(low, high),
            strong: false,
        }
    }

    /// Without layout.
    fn line(&self) -> String {
        if self.below.is_empty() {
            self.text.clone()
        } else {
            format!("{} [{}]", self.text, self.below)
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

// === impl Listing ===

impl Listing {
    fn new<R>(head: &[&str], rows: impl IntoIterator<Item = R>) -> Self
    where
        R: IntoIterator<Item: Into<Cell>>,
    {
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into));
        Self {
            head: head.iter().map(ToString::to_string).collect(),
            rows: rows.map(Iterator::collect).collect(),
            marked: None,
        }
    }

    /// As aligned columns; `none` instead of no rows.
    pub(crate) fn text(&self, none: &str) -> String {
        if self.rows.is_empty() {
            return format!("{none}\n");
        }
        let head: Vec<&str> = self.head.iter().map(String::as_str).collect();
        let rows = self.rows.iter();
        let rows = rows.map(|row| row.iter().map(Cell::line).collect());
        table::Table::new(&head).lines(rows.collect())
    }
}

/// Shares of the classes. Without `models` those by the frozen and by the adapted model are left out.
pub(crate) fn classes(state: &State, models: bool) -> Listing {
    let drawn = state.shares_by_labels.as_ref();
    let by_labels = drawn.map(|drawn| format!("By {} labels", count(drawn.labels as f64)));
    let numbers = 0..state.classes.len();
    let is_known = |fact: &ClassFact| {
        numbers
            .clone()
            .any(|number| (fact.of)(state, number).is_some())
    };
    let facts = CLASS_FACTS.iter().filter(|fact| is_known(fact));
    let facts: Vec<_> = facts
        .filter_map(|fact| Some((fact.of, fact.shown?)))
        .collect();
    let mut head = vec!["Class", "Training", "Now"];
    head.extend(by_labels.as_deref());
    if models {
        head.extend(["Frozen", "Adapted"]);
    }
    head.extend(facts.iter().map(|(_, shown)| shown.words));
    let row = |(number, class): (usize, &ClassProportions)| {
        let mut cells: Vec<Cell> = vec![
            class.name.clone().into(),
            percent(class.training).into(),
            now(state, class),
        ];
        let drawn = drawn.and_then(|drawn| drawn.classes.get(number));
        cells.extend(drawn.map(|found| Cell::estimate(found.share, found.low, found.high)));
        if models {
            let frozen = (class.frozen, class.frozen_low, class.frozen_high);
            let adapted = (class.adapted, class.adapted_low, class.adapted_high);
            cells.extend([frozen, adapted].map(|shares| estimated(state, shares)));
        }
        cells.extend(facts.iter().map(|(of, shown)| {
            let value = of(state, number).map(|value| figure(value, shown.unit));
            Cell::from(or_unknown(value))
        }));
        cells
    };
    Listing::new(&head, state.classes.iter().enumerate().map(row))
}

fn estimated(state: &State, (share, low, high): (f64, f64, f64)) -> Cell {
    if has_shares(state) {
        Cell::estimate(share, low, high)
    } else {
        "not known yet".into()
    }
}

/// The served share of a class.
fn now(state: &State, class: &ClassProportions) -> Cell {
    if let Some(gate) = state.gate.as_ref().filter(|gate| gate.proportions_unknown) {
        return untold(gate).into();
    }
    let ClassProportions {
        training,
        served,
        served_low,
        served_high,
        ..
    } = *class;
    Cell {
        strong: has_shares(state) && (training < served_low || training > served_high),
        ..estimated(state, (served, served_low, served_high))
    }
}

/// Accuracies of the three candidates, that of what is served marked.
pub(crate) fn candidates(state: &State) -> Listing {
    let candidates = || state.candidates.iter().filter(|one| one.name != "served");
    let measured = candidates().any(|one| one.accuracy.is_some());
    let mut head = vec!["Candidate", "Estimated"];
    head.extend(
        measured
            .then_some(["Measured", "Log loss"])
            .into_iter()
            .flatten(),
    );
    let served = candidate(state);
    let row = |one: &CandidateState| {
        let name = match one.name.as_str() {
            "prior" => "prior-corrected",
            name => name,
        };
        let name = Cell {
            below: if one.name == served { "served" } else { "" }.to_owned(),
            ..name.into()
        };
        let estimated = match (one.estimated, one.estimated_low, one.estimated_high) {
            (Some(value), Some(low), Some(high)) => Cell::estimate(value, low, high),
            _ => UNKNOWN.into(),
        };
        let mut cells = vec![name, estimated];
        if measured {
            let loss = one.log_loss.map(|loss| format!("{loss:.3}"));
            cells.extend([one.accuracy.map(percent), loss].map(|text| or_unknown(text).into()));
        }
        cells
    };
    let mut listing = Listing::new(&head, candidates().map(row));
    listing.marked = candidates().position(|one| one.name == served);
    listing
}

/// Fields that are listed at most.
const LISTED_INPUTS: usize = 20;

/// The inputs beside training, those that broke first, then those that are farthest from it.
pub(crate) fn inputs(state: &State) -> Listing {
    let fields = state.alarms.iter().flat_map(|alarms| &alarms.inputs);
    let mut fields: Vec<&InputField> = fields.collect();
    let excess = |field: &InputField| field.distance - field.noise_floor;
    fields.sort_by(|a, b| {
        let broken = b.broken.cmp(&a.broken);
        broken.then(excess(b).total_cmp(&excess(a)))
    });
    fields.truncate(LISTED_INPUTS);
    let row = |field: &&InputField| {
        [
            field.name.clone(),
            percent(field.missing),
            percent(field.training_missing),
            or_unknown(field.unknown.map(percent)),
            or_unknown(field.beyond.map(percent)),
            format!("{:.3}", field.distance),
            format!("{:.3}", field.noise_floor),
            if field.broken {
                "broken"
            } else {
                "as in training"
            }
            .to_owned(),
        ]
    };
    let head = [
        "Field",
        "Missing",
        "In training",
        "Unknown",
        "Beyond its range",
        "Distance",
        "By chance",
        "State",
    ];
    let head = if fields.is_empty() {
        &[][..]
    } else {
        &head[..]
    };
    let mut listing = Listing::new(head, fields.iter().map(row));
    listing.marked = fields.iter().position(|field| field.broken);
    listing
}

/// The gate's tests beside their limits.
pub(super) fn tests(tests: &[GateTest]) -> Listing {
    let row = |test: &GateTest| {
        let GateTest {
            name,
            statistic,
            limit,
        } = test;
        let result = if statistic > limit {
            format!("fails, {:.1} times its limit", statistic / limit)
        } else if *limit > 0.0 {
            format!("passes, at {:.0} % of its limit", 100.0 * statistic / limit)
        } else {
            "passes".to_owned()
        };
        let compares = match name.as_str() {
            "scores" => "the frozen model's scores with those of training at the best shares",
            "latents" => "the latents with those of training at the same shares",
            "support" => "how many rows lie where training data has none",
            _ => "",
        };
        [
            name.clone(),
            measure(test, *statistic),
            measure(test, *limit),
            result,
            compares.to_owned(),
        ]
    };
    let head = ["test", "measured", "limit", "result", "compares"];
    Listing::new(&head, tests.iter().map(row))
}

/// What labels say of each two candidates.
pub(super) fn duels(evidence: &LabelEvidence) -> Listing {
    let by_class = evidence.objective != "probability";
    let figures: &[&str] = if by_class {
        &["right", "wrong", "chance to be better"]
    } else {
        &["mean gain in log loss"]
    };
    let row = |duel: &LabelDuel| {
        let mut cells = vec![duel.challenger.clone(), duel.incumbent.clone()];
        if by_class {
            cells.extend([
                format!("{:.1}", duel.right),
                format!("{:.1}", duel.wrong),
                format!("{:.2}", duel.probability),
            ]);
        } else {
            cells.push(format!("{:+.4}", duel.mean_gain));
        }
        cells.push(format!("{:.1} of 20", duel.challenger_wealth));
        cells
    };
    let head = [&["candidate", "against"], figures, &["bets on it became"]].concat();
    Listing::new(&head, evidence.duels.iter().map(row))
}

/// Every series beside the limit at which it raises an alarm.
pub(super) fn alarms(series: &[AlarmSeries]) -> Listing {
    let row = |series: &AlarmSeries| {
        let name = match series.class.as_str() {
            "" => series.alarm.clone(),
            class => format!("{} of {class}", series.alarm),
        };
        let worth = series.effective_rows;
        [
            name,
            format!("{:.1}", series.statistic),
            format!("{:.1}", series.limit),
            if series.firing { "stands" } else { "none" }.to_owned(),
            worth.map_or_else(String::new, |rows| format!("{rows:.0} independent events")),
        ]
    };
    let head = ["series", "statistic", "limit", "alarm", "a block is worth"];
    Listing::new(&head, series.iter().map(row))
}

/// Changes of what mode auto serves, the newest first.
pub(super) fn decisions(history: &[GateDecision]) -> Listing {
    let row = |decision: &GateDecision| {
        [
            decision.block.to_string(),
            decision.candidate.clone(),
            decision.explanation.clone(),
        ]
    };
    let head = ["after block", "mode auto serves", "because"];
    Listing::new(&head, history.iter().rev().map(row))
}

/// Labels that are wanted, with what each candidate predicts.
pub(crate) fn wanted(requests: &[LabelRequest]) -> Listing {
    let row = |request: &LabelRequest| {
        [
            request.id.clone(),
            request.reason.clone(),
            request.block.to_string(),
            request.frozen.clone(),
            request.prior.clone(),
            request.adapted.clone(),
        ]
    };
    let head = ["id", "reason", "block", "frozen", "prior", "adapted"];
    Listing::new(&head, requests.iter().map(row))
}

/// Events that could not be used, by reason; the most common first.
pub(crate) fn rejected(state: &State) -> Listing {
    let rejected = state.stream.iter().flat_map(|stream| &stream.rejected);
    let mut rejected: Vec<_> = rejected.collect();
    rejected.sort_by_key(|(_, events)| std::cmp::Reverse(**events));
    let row =
        |(reason, events): &(&String, &u64)| [reason.replace('_', " "), count(**events as f64)];
    Listing::new(&["Reason", "Events"], rejected.iter().map(row))
}

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
