//! What the page shows at one moment. `daemon/page/words.js` and `tables.js` read it.

use std::collections::BTreeMap;

use ostar_method::{
    Candidate,
    alarms::FieldStatus,
    diagnostics::Decision,
    gate::{ShapeTests, Verdict},
    learner::{BlockReport, EstimatedAccuracies, RefreshReport},
    proportions::{EstimatedAccuracy, ProportionEstimate},
};
use serde::Serialize;

use super::{
    about::{About, Class},
    labels::LabelFrame,
    rates::PerSecond,
    readings::Readings,
};
use crate::{
    clock::now_ms,
    current::{ServingMode, Version},
    serving::Services,
    status::Status,
};

/// An input of the model beside training.
#[derive(Debug, Clone, Serialize)]
struct InputFrame {
    name: String,
    missing: f64,
    training_missing: f64,
    unknown: Option<f64>,
    beyond: Option<f64>,
    distance: f64,
    noise_floor: f64,
    /// What is wrong, in words, without a full stop; `None` if nothing is.
    broken: Option<String>,
}

/// Everything that changes. `None` means not known, or not known yet.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Frame {
    pub(super) time_ms: u64,
    mode: ServingMode,
    version: Version,
    /// The reasons of `/readyz`; `None` if the process is ready.
    not_ready: Option<String>,
    /// What is wrong although predictions are served, by part.
    conditions: BTreeMap<&'static str, String>,
    paused: bool,
    standby: bool,
    /// What happens in the demo's stream now; `None` without a demo.
    act: Option<&'static str>,
    /// Events learned from, since the first start.
    events: u64,
    steps: u64,
    skipped_steps: u64,
    /// The model whose proportions are served.
    proportions_from: Option<Candidate>,
    /// The shares cannot be told: the classes changed, or it is too early to say.
    proportions_unknown: bool,
    gate: GateFrame,
    /// Number of independent events that the served proportions are as precise as.
    effective_rows: Option<f64>,
    /// In the order of [`About::classes`].
    pub(super) classes: Vec<ClassFrame>,
    /// In the order of [`Candidate::ALL`].
    pub(super) candidates: Vec<CandidateFrame>,
    pub(super) shift: Option<Shift>,
    guard: Option<Guard>,
    /// Alarms that stand, in words, without a full stop.
    alarms: Vec<String>,
    /// The inputs beside training, those that are farthest from it first; none if that is not known.
    inputs: Vec<InputFrame>,
    /// `None` if no labels are read.
    labels: Option<LabelFrame>,
    /// What the shares by labels rest on; `None` while there are too few labels.
    shares_by_labels: Option<LabelledShares>,
    pub(super) stream: StreamFrame,
}

/// A value and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Labels of randomly drawn events, and the events that they tell the shares of.
#[derive(Debug, Clone, Copy, Serialize)]
struct LabelledShares {
    labels: u64,
    rows: u64,
    last_block: u64,
}

/// Proportions of a class, and how far the map moves it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ClassFrame {
    /// `None` also while the proportions cannot be told.
    pub(super) served: Option<Estimate>,
    frozen: Option<Estimate>,
    adapted: Option<Estimate>,
    /// By labels of randomly drawn events, whatever has changed.
    by_labels: Option<Estimate>,
    /// Proportion among the newest labels.
    pub(super) true_proportion: Option<f64>,
    /// Mean squared movement over squared distance to the nearest other class.
    movement_ratio: Option<f64>,
}

/// Accuracy of a candidate, without and with labels.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CandidateFrame {
    name: Candidate,
    /// Accuracy as estimated without labels.
    pub(super) estimated: Option<Estimate>,
    /// Measured on the newest labels.
    pub(super) accuracy: Option<f64>,
    log_loss: Option<f64>,
}

/// Distances between source and stream.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Shift {
    pub(super) distance_before_map: f64,
    pub(super) distance_after_map: f64,
    pub(super) noise_floor: f64,
}

/// What mode `auto` serves, and why.
#[derive(Debug, Clone, Serialize)]
struct GateFrame {
    candidate: Candidate,
    /// In a sentence, without a full stop.
    reason: String,
    since_block: u64,
    /// Whether label shift alone cannot explain the stream.
    refuted: bool,
    /// Whether the adapted model does.
    adapted_ready: bool,
    /// None while there are too few rows.
    tests: Vec<GateTest>,
}

/// A test of label shift on the window: it fails above its limit.
#[derive(Debug, Clone, Serialize)]
struct GateTest {
    name: &'static str,
    statistic: f64,
    limit: f64,
}

/// The guard's decision about the newest state.
#[derive(Debug, Clone, Serialize)]
struct Guard {
    serves: bool,
    /// Label of the reason, as in metrics; `None` if the state was accepted.
    refusal: Option<&'static str>,
    reason: Option<String>,
    restored: bool,
    /// Refused states since the start.
    refusals: f64,
}

/// Kafka and requests. Counts are since the start.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct StreamFrame {
    connected: bool,
    /// Reading is stopped after too many bad events.
    stopped: bool,
    pub(super) events_per_second: Option<f64>,
    steps_per_second: Option<f64>,
    requests_per_second: Option<f64>,
    pub(super) lag_records: Option<f64>,
    lag_seconds: Option<f64>,
    accepted: f64,
    /// Reasons of rejected events, with their counts.
    rejected: Vec<(String, f64)>,
    dead_letters: f64,
    predictions: f64,
    failed: f64,
    offsets_lost: f64,
    requests: f64,
    refused_requests: f64,
    labels: f64,
    checkpoint_ms: Option<f64>,
    checkpoint_failures: f64,
}

// === impl Frame ===

impl Frame {
    /// Leaves out the ids of events.
    pub(super) fn withhold_ids(&mut self) {
        if let Some(labels) = &mut self.labels {
            labels.withhold_ids();
        }
    }

    pub(super) fn new(
        services: &Services,
        about: &About,
        status: &Status,
        readings: &Readings,
        rates: Option<PerSecond>,
    ) -> Self {
        let (block, refresh) = (status.block.as_ref(), status.refresh.as_ref());
        Self {
            time_ms: now_ms(),
            mode: services.current.mode(),
            version: services.current.load().version,
            not_ready: services.health.readiness().err(),
            conditions: services.health.conditions(),
            paused: status.paused,
            standby: status.standby,
            act: status.act,
            events: status.events,
            steps: status.steps,
            skipped_steps: status.skipped_steps,
            proportions_from: block.map(proportions_from),
            proportions_unknown: block.is_some_and(|block| !block.served.known),
            gate: GateFrame::new(status.gate.verdict()),
            effective_rows: block.map(|block| block.served.effective_rows),
            classes: about
                .classes
                .iter()
                .map(|class| ClassFrame::new(class, status, readings))
                .collect(),
            candidates: Candidate::ALL
                .into_iter()
                .map(|candidate| CandidateFrame::new(candidate, &status.accuracies, readings))
                .collect(),
            shift: refresh.map(|refresh| Shift {
                distance_before_map: refresh.distance_before_map,
                distance_after_map: refresh.distance_after_map,
                noise_floor: refresh.noise_floor,
            }),
            guard: refresh.map(|refresh| Guard::new(refresh, readings)),
            alarms: standing(status, &services.description.classes),
            inputs: inputs(status),
            labels: LabelFrame::new(status),
            shares_by_labels: status
                .shares_by_labels
                .as_ref()
                .map(|shares| LabelledShares {
                    labels: shares.labels,
                    rows: shares.rows,
                    last_block: shares.last_block,
                }),
            stream: StreamFrame::new(readings, rates),
        }
    }
}

/// Fields that the page shows at most.
const SHOWN_INPUTS: usize = 20;

fn inputs(status: &Status) -> Vec<InputFrame> {
    let fields = status.block.iter().flat_map(|block| &block.alarms.inputs);
    let mut fields: Vec<&FieldStatus> = fields.collect();
    let excess = |field: &FieldStatus| field.report.distance - field.report.noise_floor;
    fields.sort_by(|a, b| {
        let broken = b.broken.cmp(&a.broken);
        broken.then(excess(b).total_cmp(&excess(a)))
    });
    let shown = fields.into_iter().take(SHOWN_INPUTS);
    shown
        .map(|field| InputFrame {
            name: field.report.name.clone(),
            missing: field.report.missing,
            training_missing: field.report.training_missing,
            unknown: field.report.unknown,
            beyond: field.report.beyond,
            distance: field.report.distance,
            noise_floor: field.report.noise_floor,
            broken: field.broken.then(|| field.report.to_string()),
        })
        .collect()
}

/// The newest alarm of each series that stands.
fn standing(status: &Status, classes: &[String]) -> Vec<String> {
    let Some(block) = &status.block else {
        return Vec::new();
    };
    let report = &block.alarms;
    let stands = report.series.iter().filter(|series| series.firing);
    let newest = stands.filter_map(|series| {
        let mut newest_first = report.history.iter().rev();
        newest_first.find(|alarm| alarm.kind == series.kind)
    });
    newest.map(|alarm| alarm.in_words(classes)).collect()
}

fn proportions_from(block: &BlockReport) -> Candidate {
    match block.verdict.candidate {
        Candidate::Frozen | Candidate::Prior => Candidate::Frozen,
        Candidate::Adapted => Candidate::Adapted,
    }
}

// === impl GateFrame ===

impl GateFrame {
    fn new(verdict: &Verdict) -> Self {
        let tests = verdict.prior.iter().flat_map(ShapeTests::named);
        let tests = tests.map(|(name, test)| GateTest {
            name,
            statistic: test.statistic,
            limit: test.limit,
        });
        Self {
            candidate: verdict.candidate,
            reason: verdict.reason.to_string(),
            since_block: verdict.since_block,
            refuted: verdict.refuted,
            adapted_ready: verdict.adapted_ready,
            tests: tests.collect(),
        }
    }
}

// === impl ClassFrame ===

impl ClassFrame {
    fn new(class: &Class, status: &Status, readings: &Readings) -> Self {
        let (block, refresh) = (status.block.as_ref(), status.refresh.as_ref());
        let number = class.number;
        let by_labels = status.shares_by_labels.as_ref().map(|shares| {
            let found = shares.classes[number];
            Estimate {
                value: found.share,
                low: found.interval.low,
                high: found.interval.high,
            }
        });
        let proportion = |estimate: &ProportionEstimate| {
            let interval = estimate.intervals[number];
            Estimate {
                value: estimate.proportions[number],
                low: interval.low,
                high: interval.high,
            }
        };
        let known = block.filter(|block| block.served.known);
        let adapted = block.and_then(|block| block.adapted.as_ref());
        let moved = refresh.and_then(|refresh| refresh.movement.classes[number]);
        Self {
            served: known.map(|block| proportion(&block.served)),
            frozen: block.map(|block| proportion(&block.frozen)),
            adapted: adapted.map(proportion),
            by_labels,
            true_proportion: readings.value("ostar_true_proportion", &[("class", &class.name)]),
            movement_ratio: moved.and_then(|moved| moved.ratio),
        }
    }
}

// === impl CandidateFrame ===

impl CandidateFrame {
    fn new(candidate: Candidate, accuracies: &EstimatedAccuracies, readings: &Readings) -> Self {
        let estimate = |EstimatedAccuracy { value, interval }| Estimate {
            value,
            low: interval.low,
            high: interval.high,
        };
        let measured = |family| readings.value(family, &[("candidate", candidate.name())]);
        Self {
            name: candidate,
            estimated: accuracies.of(candidate).map(estimate),
            accuracy: measured("ostar_measured_accuracy"),
            log_loss: measured("ostar_measured_log_loss"),
        }
    }
}

// === impl Guard ===

impl Guard {
    fn new(refresh: &RefreshReport, readings: &Readings) -> Self {
        let refused = match &refresh.decision {
            Decision::Serve => None,
            Decision::Refuse(reason) => Some(reason),
        };
        Self {
            serves: refused.is_none(),
            refusal: refused.map(|reason| reason.label()),
            reason: refused.map(ToString::to_string),
            restored: refresh.restored,
            refusals: readings.sum("ostar_guard_refusals_total").unwrap_or(0.0),
        }
    }
}

// === impl StreamFrame ===

impl StreamFrame {
    fn new(readings: &Readings, rates: Option<PerSecond>) -> Self {
        let count = |family| readings.sum(family).unwrap_or(0.0);
        let output = |output, outcome| {
            let labels = [("output", output), ("outcome", outcome)];
            let records = readings.value("ostar_output_records_total", &labels);
            records.unwrap_or(0.0)
        };
        let counted = |family, outcome| {
            let value = readings.value(family, &[("outcome", outcome)]);
            value.unwrap_or(0.0)
        };
        let checkpoint = readings.sum("ostar_checkpoint_last_timestamp_seconds");
        Self {
            connected: readings.sum("ostar_broker_connected") == Some(1.0),
            stopped: readings.sum("ostar_consumption_stopped") == Some(1.0),
            events_per_second: rates.map(|rates| rates.events),
            steps_per_second: rates.map(|rates| rates.steps),
            requests_per_second: rates.map(|rates| rates.requests),
            lag_records: readings.sum("ostar_consumer_lag_records"),
            lag_seconds: readings.largest("ostar_consumer_lag_seconds"),
            accepted: counted("ostar_events_total", "accepted"),
            rejected: readings.by_label("ostar_events_rejected_total", "reason"),
            dead_letters: output("dead_letters", "delivered"),
            predictions: output("predictions", "delivered"),
            failed: output("dead_letters", "failed") + output("predictions", "failed"),
            offsets_lost: count("ostar_offsets_lost_total"),
            requests: count("ostar_requests_total"),
            refused_requests: count("ostar_requests_refused_total"),
            labels: counted("ostar_labels_total", "joined"),
            checkpoint_ms: checkpoint.map(|seconds| seconds * 1000.0),
            checkpoint_failures: count("ostar_checkpoint_failures_total"),
        }
    }
}
