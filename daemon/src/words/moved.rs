//! What moved: the first of the five answers.

use super::{
    answers::{Answer, answer},
    names::untold,
    numbers::{count, interval, percent},
    remarks::Urgency,
    stories::ShareRange,
};
use crate::{
    facts::shares_are_known,
    proto::{ClassProportions, GateState, ShareByLabels, State},
};

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
        return in_range(state).unwrap_or_else(|| not_known(state, gate));
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

/// Where two stories give a range: the class that they take farthest from training; `None` elsewhere.
fn in_range(state: &State) -> Option<Answer> {
    let ranges = state.classes.iter().filter_map(|class| {
        let range = ShareRange::of(class)?;
        let grew = range.grew_from(class.training);
        let far = range.far_from(class.training) + if grew { 1e-6 } else { 0.0 };
        Some((class, range, far))
    });
    // A class whose share moved by either story comes first.
    let moved = |class: &ClassProportions, range: ShareRange| !range.contains(class.training);
    let (class, range, _) = ranges.max_by(|left, right| {
        let by_both = moved(left.0, left.1).cmp(&moved(right.0, right.1));
        by_both.then(left.2.total_cmp(&right.2))
    })?;
    let told = format!("{} is {}", class.name, range.in_short());
    let ends = format!("{}; {} in training", range.ends(), percent(class.training));
    let labels = by_labels(state).map_or_else(String::new, |labels| format!(" {labels}"));
    Some(if moved(class, range) {
        let evidence = format!("A range: {ends}.{labels}");
        answer(Urgency::Look, told, evidence)
    } else {
        let evidence = format!("Largest range: {told}: {ends}.{labels}");
        answer(Urgency::Ok, "No share has moved for certain", evidence)
    })
}

/// Where not even a range can be told.
fn not_known(state: &State, gate: &GateState) -> Answer {
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
    answer(Urgency::Look, moved, evidence)
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
