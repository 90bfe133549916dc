//! The state of the daemon, built in one place from what the learner reported.
//!
//! gRPC, `GET /state`, the live page, `ostard state`, `ostard backtest`, the demo and the metrics all read this message.

mod alarms;
mod gate;
mod labels;

pub(crate) use self::gate::objective;

use ostar_bundle::Description;
use ostar_method::{
    Candidate,
    diagnostics::Decision,
    learner::{Measures, Predictor, RefreshReport, StepReport},
    proportions::ProportionEstimate,
};

use crate::{
    clock::now_ms,
    current::Current,
    proto::{CandidateState, ClassMovement, ClassProportions, Losses, Mode, Refresh, Shift, State},
    serving::Services,
    status::Status,
};

/// Everything that is known now. Without `shows_ids` wanted labels are counted and not listed.
pub(crate) fn describe(services: &Services, status: &Status, shows_ids: bool) -> State {
    let mut state = learned(&services.description, &services.current, status);
    state.not_ready = services.health.readiness().err().unwrap_or_default();
    let conditions = services.health.conditions().into_iter();
    state.conditions = conditions
        .map(|(part, reason)| (part.to_owned(), reason))
        .collect();
    state.stream = Some(services.metrics.stream());
    if !shows_ids {
        state.wanted_labels_withheld = status.wanted.len() as u64;
        state.wanted_labels.clear();
    }
    state
}

/// What the learner has reported. The rest of the state belongs to a process that serves.
pub(crate) fn learned(description: &Description, current: &Current, status: &Status) -> State {
    let names = &description.classes;
    let (block, refresh) = (status.block.as_ref(), status.refresh.as_ref());
    let now = now_ms();
    let age = |at_ms: Option<u64>| at_ms.map(|at_ms| now.saturating_sub(at_ms));
    State {
        time_ms: now as i64,
        model: description.name.clone(),
        version: Some(current.load().version.into()),
        mode: Mode::from(current.mode()).into(),
        role: status.role.name().to_owned(),
        device: status.device.to_string(),
        classes: classes(description, status),
        candidates: candidates(status),
        events: status.events,
        steps: status.steps,
        skipped_steps: status.skipped_steps,
        paused: status.paused,
        standby: status.standby,
        act: status.act.unwrap_or_default().to_owned(),
        refusal: refresh.map_or_else(String::new, |refresh| refusal(refresh, names)),
        shift: refresh.map(|refresh| shift(refresh, names)),
        refresh: refresh.map(|refresh| measured(refresh, status.refusals)),
        losses: status.step.as_ref().map(losses),
        gate: Some(gate::state(status, names)),
        shares_age_ms: age(status.shares_at_ms),
        wanted_labels: labels::wanted(status, names),
        wanted_labels_withheld: 0,
        labels: block.and_then(|block| labels::state(block, status.wanted.len())),
        shares_by_labels: status
            .shares_by_labels
            .as_ref()
            .map(|shares| labels::shares(shares, names)),
        alarms: block.and_then(|block| alarms::state(&block.alarms, names)),
        state_age_ms: age(status.state_written_at_ms),
        snapshot_age_ms: age(status.snapshot_at_ms),
        sample_share: status.sample_share,
        ..State::default()
    }
}

fn classes(description: &Description, status: &Status) -> Vec<ClassProportions> {
    let block = status.block.as_ref();
    let adapted = block.and_then(|block| block.adapted.as_ref());
    let moved = status.refresh.as_ref().map(|refresh| &refresh.movement);
    let tests = status.gate.verdict().prior.as_ref();
    let class = |(class, name): (usize, &String)| {
        let (frozen, frozen_low, frozen_high) = proportion(block.map(|block| &block.frozen), class);
        let (adapted, adapted_low, adapted_high) = proportion(adapted, class);
        let (served, served_low, served_high) = proportion(block.map(|block| &block.served), class);
        let moved = moved.and_then(|moved| moved.classes[class].as_ref());
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
            among_labels: status
                .measured()
                .map(|measured| measured.proportions[class]),
            movement: moved.map(|moved| moved.cost),
            movement_ratio: moved.and_then(|moved| moved.ratio),
            best_fit: tests.map(|tests| tests.proportions[class]),
        }
    };
    description.classes.iter().enumerate().map(class).collect()
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

fn candidates(status: &Status) -> Vec<CandidateState> {
    let block = status.block.as_ref();
    let candidate = |predictor: Predictor| {
        let shares = block.and_then(|block| match predictor {
            Predictor::Candidate(Candidate::Frozen) => Some(&block.frozen),
            Predictor::Candidate(Candidate::Prior) => None,
            Predictor::Candidate(Candidate::Adapted) => block.adapted.as_ref(),
            Predictor::Served => Some(&block.served),
        });
        let estimated = match predictor {
            Predictor::Candidate(candidate) => status.accuracies.of(candidate),
            Predictor::Served => None,
        };
        let measures = status.measured().map(|measured| measured.of(predictor));
        CandidateState {
            name: predictor.name().to_owned(),
            effective_rows: shares.map(|shares| shares.effective_rows),
            estimated: estimated.map(|estimated| estimated.value),
            estimated_low: estimated.map(|estimated| estimated.interval.low),
            estimated_high: estimated.map(|estimated| estimated.interval.high),
            accuracy: measures.map(|measures| measures.accuracy),
            balanced_accuracy: measures.map(|measures| measures.balanced_accuracy),
            log_loss: measures.map(|measures| measures.log_loss),
            auc: measures.and_then(|measures| measures.auc),
            calibration_ratios: measures.map_or_else(Vec::new, ratios),
        }
    };
    Predictor::ALL.map(candidate).into()
}

fn ratios(measures: &Measures) -> Vec<f64> {
    let ratios = measures.calibration_ratio.iter();
    ratios.map(|ratio| ratio.unwrap_or(f64::NAN)).collect()
}

/// Why the guard refused the newest state; empty if it did not.
fn refusal(refresh: &RefreshReport, names: &[String]) -> String {
    match &refresh.decision {
        Decision::Serve => String::new(),
        Decision::Refuse(reason) => with_name(reason.to_string(), names),
    }
}

/// Reasons of the model know a class by its number; people know it by its name.
fn with_name(reason: String, names: &[String]) -> String {
    let class = reason.strip_prefix("class ").and_then(|rest| {
        let (number, rest) = rest.split_once(' ')?;
        let name = names.get(number.parse::<usize>().ok()?)?;
        Some(format!("{name} {rest}"))
    });
    class.unwrap_or(reason)
}

fn measured(refresh: &RefreshReport, refusals: u64) -> Refresh {
    Refresh {
        accepted: refresh.decision == Decision::Serve,
        reason: match &refresh.decision {
            Decision::Serve => String::new(),
            Decision::Refuse(reason) => reason.label().to_owned(),
        },
        restored: refresh.restored,
        refusals,
        smallest_singular_value: refresh.smallest_singular_value,
        frozen_cross_entropy: refresh.frozen_cross_entropy,
        adapted_cross_entropy: refresh.adapted_cross_entropy,
        slope: refresh.slope,
        clusters_keep_classes: refresh.assignment.identity,
    }
}

fn shift(refresh: &RefreshReport, names: &[String]) -> Shift {
    let largest = refresh.movement.largest();
    Shift {
        distance_before_map: refresh.distance_before_map,
        distance_after_map: refresh.distance_after_map,
        noise_floor: refresh.noise_floor,
        largest_movement: largest.map(|(class, ratio)| ClassMovement {
            class: names.get(class).cloned().unwrap_or_default(),
            ratio,
        }),
    }
}

fn losses(step: &StepReport) -> Losses {
    Losses {
        critic_loss: step.critic.loss,
        critic_distance: step.critic.distance,
        gradient_penalty: step.critic.penalty,
        transport_cost: step.map.transport_cost,
        transport_weight: step.transport_weight,
        classifier_loss: step.classifier.loss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        facts::{CLASS_FACTS, FACTS},
        serving::fixture::daemon,
        words,
    };

    #[test]
    fn every_figure_that_has_words_is_on_the_page_on_the_command_line_and_in_the_metrics() {
        let daemon = daemon();
        let state = describe(&daemon.services, &daemon.status.borrow(), true);
        let page = serde_json::to_string(&(words::figures(&state), words::classes(&state, false)));
        let (page, why, summary) = (page.unwrap(), words::why(&state), words::summary(&state));
        let metrics = daemon.services.metrics.render(&state).unwrap();
        let known = FACTS.iter().filter(|fact| (fact.of)(&state).is_some());
        let facts = known.filter_map(|fact| Some((fact.metric, fact.shown?.words, &why)));
        let known = CLASS_FACTS
            .iter()
            .filter(|fact| (fact.of)(&state, 1).is_some());
        let of_classes = known.filter_map(|fact| Some((fact.metric, fact.shown?.words, &summary)));
        let shown: Vec<_> = facts.chain(of_classes).collect();
        for name in ["Rows in the gate's window", "Best fit", "Movement"] {
            assert!(shown.iter().any(|(_, words, _)| *words == name), "{name}");
        }
        for (metric, words, text) in shown {
            assert!(page.contains(words), "{words} is not on the page");
            assert!(text.contains(words), "{words} in {text}");
            assert!(
                metrics.contains(&format!("\n{metric}")),
                "{metric} in {metrics}"
            );
        }
    }

    #[test]
    fn a_reason_has_the_name_of_its_class_and_another_reason_stays() {
        let names = ["ham", "spam"].map(str::to_owned);
        let told = |reason: &str| with_name(reason.to_owned(), &names);
        assert_eq!(told("class 1 is moved by 0.2"), "spam is moved by 0.2");
        for reason in [
            "class 7 is moved by 0.2",
            "labels prefer it",
            "class of its own",
        ] {
            assert_eq!(told(reason), reason);
        }
    }
}
