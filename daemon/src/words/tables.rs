//! Tables of the state: the live page and the command line show the same ones.

use super::{
    listing::{Cell, Listing},
    names::{candidate, untold},
    numbers::{UNKNOWN, count, figure, or_unknown, percent},
};
use crate::{
    facts::{AMONG_LABELS, CLASS_FACTS, ClassFact, has_shares},
    proto::{CandidateState, ClassProportions, InputField, LabelRequest, State},
};

/// Shares of the classes. Without `models` those by the frozen and by the adapted model are left out.
pub(crate) fn classes(state: &State, models: bool) -> Listing {
    let drawn = state.shares_by_labels.as_ref();
    let by_labels = drawn.map(|drawn| format!("By {} labels", count(drawn.labels as f64)));
    let is_known = |fact: &ClassFact| {
        let mut values = (0..state.classes.len()).map(|number| (fact.of)(state, number));
        values.any(|value| value.is_some())
    };
    // Labels that were not drawn at random say less than those that were.
    let says_less = |fact: &ClassFact| drawn.is_some() && fact.metric == AMONG_LABELS;
    let facts = CLASS_FACTS.iter();
    let facts = facts.filter(|fact| is_known(fact) && !says_less(fact));
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
