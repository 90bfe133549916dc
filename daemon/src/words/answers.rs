//! The five answers at the top of the live page.

use serde::Serialize;

use super::{
    names::{candidate, capital, model_name, refusal, untold},
    numbers::{UNKNOWN, count, interval, percent, rate, span},
    remarks::{Urgency, broken},
};
use crate::{
    facts::shares_are_known,
    proto::{
        CandidateState, ClassProportions, GateState, GateTest, Mode, ShareByLabels, State,
        StreamState,
    },
};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answer {
    pub(crate) state: Urgency,
    pub(crate) answer: String,
    pub(crate) evidence: String,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Answers {
    /// What moved?
    moved: Answer,
    /// Only shares, or more?
    shape: Answer,
    /// What is served, and why?
    served: Answer,
    /// How often is it right?
    right: Answer,
    /// Are events flowing?
    stream: Answer,
}

/// What the adapted model waits for.
pub(super) const READY: &str = "The adapted model explains the stream and is ready. It waits for labels: without them it may be wrong.";

impl Answers {
    /// `events_per_second` is `None` until it is known.
    pub(crate) fn new(state: &State, events_per_second: Option<f64>) -> Self {
        let gate = state.gate.clone().unwrap_or_default();
        Self {
            moved: moved(state, &gate),
            shape: shape(state, &gate),
            served: served(state, &gate),
            right: right(state),
            stream: flows(state, events_per_second),
        }
    }
}

fn answer(state: Urgency, answer: impl Into<String>, evidence: impl Into<String>) -> Answer {
    Answer {
        state,
        answer: answer.into(),
        evidence: evidence.into(),
    }
}

/// How far a share is from training. Two classes always move by the same amount: the one that grew comes first.
fn far(share: f64, training: f64) -> f64 {
    (share - training).abs() + if share > training { 1e-6 } else { 0.0 }
}

/// The share by labels that is farthest from training; `None` while there are too few labels.
fn by_labels(state: &State) -> Option<String> {
    let shares = state.shares_by_labels.as_ref()?;
    let classes = shares.classes.iter().zip(&state.classes);
    let far =
        |(found, class): &(&ShareByLabels, &ClassProportions)| far(found.share, class.training);
    let (found, class) = classes.max_by(|left, right| far(left).total_cmp(&far(right)))?;
    Some(format!(
        "By {} labels {} is {} [{}], {} in training.",
        count(shares.labels as f64),
        class.name,
        percent(found.share),
        interval(found.low, found.high),
        percent(class.training)
    ))
}

/// The class whose share moved most.
pub(super) fn moved(state: &State, gate: &GateState) -> Answer {
    if gate.proportions_unknown {
        let told = if gate.refuted {
            " Labels would tell."
        } else {
            ""
        };
        let evidence = by_labels(state);
        let evidence = evidence.unwrap_or_else(|| format!("Shares {}.{told}", untold(gate)));
        let moved = if gate.refuted {
            "More than the shares"
        } else {
            "Too early to say"
        };
        return answer(Urgency::Look, moved, evidence);
    }
    if !shares_are_known(state) {
        return waiting(state);
    }
    let mut classes: Vec<_> = state.classes.iter().collect();
    let far = |class: &ClassProportions| far(class.served, class.training);
    classes.sort_by(|left, right| far(right).total_cmp(&far(left)));
    let apart = |class: &&&ClassProportions| {
        class.training < class.served_low || class.training > class.served_high
    };
    if let Some(most) = classes.iter().find(apart) {
        return answer(
            Urgency::Look,
            format!("{} is {}", most.name, percent(most.served)),
            format!(
                "95 % interval {}; {} in training{}.",
                interval(most.served_low, most.served_high),
                percent(most.training),
                times(most.served / most.training)
            ),
        );
    }
    let largest = classes.first().map_or_else(String::new, |class| {
        format!(
            "Largest difference: {}, {} [{}], {} in training.",
            class.name,
            percent(class.served),
            interval(class.served_low, class.served_high),
            percent(class.training)
        )
    });
    answer(Urgency::Ok, "Shares are as in training", largest)
}

fn times(factor: f64) -> String {
    if factor >= 1.5 {
        format!(", {factor:.1} times as much")
    } else if factor <= 0.67 {
        format!(", {:.1} times less", 1.0 / factor)
    } else {
        String::new()
    }
}

fn waiting(state: &State) -> Answer {
    if state.standby {
        let evidence = "Another process learns; this one serves its newest checkpoint.";
        return answer(Urgency::Look, "Standing by", evidence);
    }
    let evidence = "The first block of events is not complete yet.";
    answer(Urgency::Look, "No events yet", evidence)
}

/// A test's statistic or limit.
pub(super) fn measure(test: &GateTest, value: f64) -> String {
    if test.name == "support" {
        percent(value)
    } else {
        format!("{value:.3}")
    }
}

fn against(test: &GateTest) -> String {
    let name = match test.name.as_str() {
        "support" => "rows unlike training",
        name => name,
    };
    let (statistic, limit) = (measure(test, test.statistic), measure(test, test.limit));
    format!("{name} {statistic} of at most {limit}")
}

/// Whether more than the shares moved, by the gate's tests.
fn shape(state: &State, gate: &GateState) -> Answer {
    if gate.tests.is_empty() {
        let reason = format!("{}.", capital(&gate.explanation));
        return answer(Urgency::Ok, "Not measured yet", reason);
    }
    let fails = |test: &&GateTest| test.statistic > test.limit;
    let mut tests: Vec<&GateTest> = gate.tests.iter().collect();
    if gate.refuted && tests.iter().any(fails) {
        tests.retain(fails);
    }
    let tests: Vec<String> = tests.into_iter().map(against).collect();
    let compared = format!(
        "Compared with training at the stream's shares: {}.",
        tests.join(", ")
    );
    if gate.refuted {
        let evidence = compared + &broken_first(state);
        return answer(Urgency::Look, "Classes changed shape, too", evidence);
    }
    if gate.proportions_unknown {
        answer(Urgency::Look, "Too early to say", compared)
    } else {
        answer(Urgency::Ok, "Shares explain it", compared)
    }
}

/// Where to look before believing that classes changed; empty if no input broke.
fn broken_first(state: &State) -> String {
    let broken = broken(state);
    if broken.is_empty() {
        return String::new();
    }
    format!(" Look at the inputs first: {}.", broken.join("; "))
}

/// What is served, and why: the gate's reason in mode auto, else what the guard says about the newest adapted state.
fn served(state: &State, gate: &GateState) -> Answer {
    let candidate = candidate(state);
    let serves = capital(model_name(candidate));
    let version = state.version.unwrap_or_default();
    let version = format!(
        "Mode {}, version {}.{}.",
        state.mode().name(),
        version.epoch,
        version.step
    );
    if state.mode() == Mode::Auto {
        let mut evidence = format!("{}.", capital(&gate.explanation));
        if gate.since_block > 0 {
            evidence += &format!(" Since block {}.", count(gate.since_block as f64));
        }
        if gate.adapted_ready && candidate != "adapted" {
            evidence += &format!(" {READY}");
        }
        if gate.refuted {
            evidence += &broken_first(state);
        }
        let look = if gate.refuted {
            Urgency::Look
        } else {
            Urgency::Ok
        };
        return answer(look, serves, format!("{evidence} {version}"));
    }
    let adapts = state.mode() == Mode::Adapted;
    let (look, guard) = match &state.refresh {
        None if adapts => (Urgency::Ok, "Nothing was learned yet.".to_owned()),
        None => (Urgency::Ok, String::new()),
        Some(refresh) if refresh.accepted => {
            let newest = if adapts {
                "newest state"
            } else {
                "newest adapted state"
            };
            (Urgency::Ok, format!("The guard accepts the {newest}."))
        }
        Some(refresh) => {
            let instead = if adapts {
                "The last good one is served."
            } else {
                "It would not be served in this mode."
            };
            let why = refusal(&refresh.reason);
            let look = if adapts { Urgency::Look } else { Urgency::Ok };
            (
                look,
                format!("The guard refuses the newest adapted state: {why}. {instead}"),
            )
        }
    };
    answer(look, serves, format!("{version} {guard}"))
}

/// Accuracy of what is served: measured if there are late labels, else estimated.
fn right(state: &State) -> Answer {
    let of = |name: &str| state.candidates.iter().find(|one| one.name == name);
    let own = candidate(state);
    if let (Some(accuracy), Some(frozen)) = (
        of(own).and_then(|one| one.accuracy),
        of("frozen").and_then(|one| one.accuracy),
    ) {
        let gain = 100.0 * (accuracy - frozen);
        let mut evidence = "Measured on the newest late labels.".to_owned();
        if own != "frozen" {
            let sign = if gain >= 0.0 { "+" } else { "−" };
            let (frozen, gain) = (percent(frozen), gain.abs());
            evidence += &format!(" Frozen model: {frozen} ({sign}{gain:.1} points).");
        }
        let look = if gain < -1.0 {
            Urgency::Bad
        } else {
            Urgency::Ok
        };
        return answer(look, percent(accuracy), evidence);
    }
    match of(own) {
        Some(CandidateState {
            estimated: Some(estimated),
            estimated_low: Some(low),
            estimated_high: Some(high),
            ..
        }) => answer(
            Urgency::Ok,
            format!("about {}", percent(*estimated)),
            format!(
                "Estimated without labels, 95 % interval {}; right if only shares moved.",
                interval(*low, *high)
            ),
        ),
        _ => answer(
            Urgency::Ok,
            "Not known",
            "No late labels, and no estimate yet.",
        ),
    }
}

/// Records that are not read yet, and how old the oldest is; `None` until it is known.
pub(super) fn lag(stream: &StreamState) -> (Option<f64>, Option<f64>) {
    let records = stream.partitions.iter().map(|lag| lag.records as f64);
    let seconds = stream.partitions.iter().filter_map(|lag| lag.seconds);
    (records.reduce(|a, b| a + b), seconds.reduce(f64::max))
}

/// Whether events come in and predictions go out.
fn flows(state: &State, events_per_second: Option<f64>) -> Answer {
    let stream = state.stream.clone().unwrap_or_default();
    let (records, seconds) = lag(&stream);
    let records = records.map_or_else(|| UNKNOWN.to_owned(), count);
    let behind = seconds.map_or_else(String::new, |seconds| format!(" ({})", span(seconds)));
    let bad: u64 = stream.rejected.values().sum();
    let letters = if bad > 0 {
        format!(" {} events could not be used.", count(bad as f64))
    } else {
        String::new()
    };
    let evidence = format!("{records} records behind{behind}.{letters}");
    if stream.stopped {
        let evidence = "`ostard ctl read-on` continues reading.";
        return answer(Urgency::Bad, "Stopped: too many bad events", evidence);
    }
    if !stream.connected {
        return answer(Urgency::Bad, "No broker answers", evidence);
    }
    let is_late = seconds.is_some_and(|seconds| seconds > 60.0);
    let look = if is_late { Urgency::Bad } else { Urgency::Ok };
    let rate = events_per_second.map_or_else(|| UNKNOWN.to_owned(), rate);
    answer(look, format!("{rate} events/s"), evidence)
}
