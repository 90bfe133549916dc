//! The answer of GetState and WatchState.

use ostar_connectors::proto::Version;
use ostar_method::{
    alarms::{self, AlarmKind, AlarmReport},
    diagnostics::Decision,
    gate::{self, Decided, ShapeTests},
    learner::{self, RefreshReport},
    proportions::ProportionEstimate,
};

use crate::{
    clock::now_ms,
    current,
    proto::{
        Alarm, AlarmSeries, Alarms, ClassMovement, ClassProportions, GateDecision, GateState,
        GateTest, InputField, LabelDuel, LabelEvidence, LabelRequest, Mode, ShareByLabels,
        SharesByLabels, Shift, State,
    },
    serving::Services,
    status::Status,
};

/// Without `shows_ids` wanted labels are counted and not listed.
pub(super) fn describe(services: &Services, status: &Status, shows_ids: bool) -> State {
    let description = &services.description;
    let block = status.block.as_ref();
    let frozen = block.map(|block| &block.frozen);
    let adapted = block.and_then(|block| block.adapted.as_ref());
    let served = block.map(|block| &block.served);
    let classes = description.classes.iter().enumerate().map(|(class, name)| {
        let (frozen, frozen_low, frozen_high) = proportion(frozen, class);
        let (adapted, adapted_low, adapted_high) = proportion(adapted, class);
        let (served, served_low, served_high) = proportion(served, class);
        ClassProportions {
            name: name.clone(),
            training: description.training_proportions[class],
            frozen,
            frozen_low,
            frozen_high,
            adapted,
            adapted_low,
            adapted_high,
            served,
            served_low,
            served_high,
        }
    });
    let alarms = block.map(|block| &block.alarms);
    let alarms = alarms.filter(|alarms| !alarms.series.is_empty() || !alarms.inputs.is_empty());
    State {
        alarms: alarms.map(|report| describe_alarms(report, &description.classes)),
        model: description.name.clone(),
        version: Some(version(services.current.load().version)),
        mode: Mode::from(services.current.mode()).into(),
        classes: classes.collect(),
        events: status.events,
        steps: status.steps,
        paused: status.paused,
        standby: status.standby,
        refusal: status.refresh.as_ref().map_or_else(String::new, refusal),
        shift: status
            .refresh
            .as_ref()
            .map(|refresh| shift(refresh, &description.classes)),
        gate: Some(gate_state(status)),
        shares_age_ms: status
            .shares_at_ms
            .map(|at_ms| now_ms().saturating_sub(at_ms)),
        wanted_labels: if shows_ids {
            wanted(status, &description.classes)
        } else {
            Vec::new()
        },
        wanted_labels_withheld: if shows_ids {
            0
        } else {
            status.wanted.len() as u64
        },
        shares_by_labels: status
            .shares_by_labels
            .as_ref()
            .map(|shares| shares_by_labels(shares, &description.classes)),
    }
}

/// Most wanted labels in an answer.
const MOST_WANTED: usize = 1_000;

fn wanted(status: &Status, classes: &[String]) -> Vec<LabelRequest> {
    let first = status.wanted.len().saturating_sub(MOST_WANTED);
    let request = |request: &learner::LabelRequest| {
        let [frozen, prior, adapted] = request
            .predicted
            .map(|class| classes.get(class as usize).cloned().unwrap_or_default());
        LabelRequest {
            id: request.id.to_string(),
            reason: request.kind.name().to_owned(),
            block: request.block,
            time_ms: request.time_ms,
            frozen,
            prior,
            adapted,
        }
    };
    status.wanted[first..].iter().map(request).collect()
}

fn shares_by_labels(shares: &learner::SharesByLabels, classes: &[String]) -> SharesByLabels {
    let classes = classes.iter().zip(&shares.classes);
    let classes = classes.map(|(name, found)| ShareByLabels {
        name: name.clone(),
        share: found.share,
        low: found.interval.low,
        high: found.interval.high,
    });
    SharesByLabels {
        labels: shares.labels,
        rows: shares.rows,
        first_block: shares.first_block,
        last_block: shares.last_block,
        classes: classes.collect(),
    }
}

fn describe_alarms(report: &AlarmReport, classes: &[String]) -> Alarms {
    let class = |kind: AlarmKind| {
        let class = kind.class().and_then(|class| classes.get(class));
        class.cloned().unwrap_or_default()
    };
    let series = report.series.iter().map(|series| AlarmSeries {
        alarm: series.kind.name().to_owned(),
        class: class(series.kind),
        statistic: series.statistic,
        limit: series.limit,
        firing: series.firing,
        effective_rows: series.effective_rows,
    });
    let alarm = |alarm: &alarms::Alarm| Alarm {
        alarm: alarm.kind.name().to_owned(),
        class: class(alarm.kind),
        block: alarm.block,
        since_block: alarm.since_block,
        before: alarm.before,
        after: alarm.after,
        explanation: alarm.in_words(classes),
    };
    Alarms {
        series: series.collect(),
        history: report.history.iter().map(alarm).collect(),
        blocks_per_week: report.blocks_per_week,
        inputs: report.inputs.iter().map(input_field).collect(),
    }
}

fn input_field(field: &alarms::FieldStatus) -> InputField {
    let report = &field.report;
    InputField {
        name: report.name.clone(),
        missing: report.missing,
        training_missing: report.training_missing,
        unknown: report.unknown,
        beyond: report.beyond,
        distance: report.distance,
        noise_floor: report.noise_floor,
        broken: field.broken,
        since_block: field.since_block,
        explanation: report.to_string(),
    }
}

fn label_evidence(evidence: &gate::LabelEvidence) -> LabelEvidence {
    let duel = |duel: &gate::DuelReport| LabelDuel {
        challenger: duel.challenger.to_string(),
        incumbent: duel.incumbent.to_string(),
        right: duel.right,
        wrong: duel.wrong,
        probability: duel.probability,
        mean_gain: duel.mean_gain,
        challenger_wealth: duel.challenger_wealth,
        incumbent_wealth: duel.incumbent_wealth,
    };
    LabelEvidence {
        objective: match evidence.objective {
            gate::Objective::Class => "class",
            gate::Objective::Probability => "probability",
        }
        .to_owned(),
        labels: evidence.labels,
        of_one_class: evidence.of_one_class,
        adapted_open: evidence.adapted_open,
        duels: evidence.duels.iter().map(duel).collect(),
    }
}

pub(super) fn version(version: current::Version) -> Version {
    Version {
        epoch: version.epoch,
        step: version.step,
    }
}

/// A class's proportion with its interval; 0 in [0, 1] before the first block.
fn proportion(estimate: Option<&ProportionEstimate>, class: usize) -> (f64, f64, f64) {
    match estimate {
        None => (0.0, 0.0, 1.0),
        Some(estimate) => {
            let interval = estimate.intervals[class];
            (estimate.proportions[class], interval.low, interval.high)
        }
    }
}

fn refusal(refresh: &RefreshReport) -> String {
    match &refresh.decision {
        Decision::Serve => String::new(),
        Decision::Refuse(reason) => reason.to_string(),
    }
}

fn gate_state(status: &Status) -> GateState {
    let verdict = status.gate.verdict();
    let tests = verdict.prior.iter().flat_map(ShapeTests::named);
    let tests = tests.map(|(name, test)| GateTest {
        name: name.to_owned(),
        statistic: test.statistic,
        limit: test.limit,
    });
    let decision = |decided: &Decided| GateDecision {
        block: decided.block,
        candidate: decided.candidate.to_string(),
        explanation: decided.reason.to_string(),
    };
    GateState {
        candidate: verdict.candidate.to_string(),
        reason: verdict.reason.label().to_owned(),
        explanation: verdict.reason.to_string(),
        since_block: verdict.since_block,
        refuted: verdict.refuted,
        proportions_unknown: status
            .block
            .as_ref()
            .is_some_and(|block| !block.served.known),
        tests: tests.collect(),
        history: status.gate.history().map(decision).collect(),
        adapted_ready: verdict.adapted_ready,
        labels: verdict.labels.as_ref().map(label_evidence),
        prior_strength: verdict.prior_strength,
    }
}

fn shift(refresh: &RefreshReport, classes: &[String]) -> Shift {
    let largest = refresh.movement.largest();
    Shift {
        distance_before_map: refresh.distance_before_map,
        distance_after_map: refresh.distance_after_map,
        noise_floor: refresh.noise_floor,
        largest_movement: largest.map(|(class, ratio)| ClassMovement {
            class: classes.get(class).cloned().unwrap_or_default(),
            ratio,
        }),
    }
}
