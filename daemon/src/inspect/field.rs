//! What a field of the bundle gets from the events.

use std::collections::BTreeSet;

use ostar_bundle::{Bundle, Input, fields::FieldKind};
use ostar_connectors::event::{Cell, EventSettings};
use ostar_method::profile::FieldReport;
use serde::Serialize;

/// Values that are shown as examples.
const EXAMPLES: usize = 3;
/// Characters of an example.
const EXAMPLE_CHARACTERS: usize = 24;

/// One field beside training.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct FieldLook {
    /// Name in the bundle.
    pub(crate) name: String,
    /// What the bundle takes: number, category or text.
    pub(crate) kind: &'static str,
    /// Where it is in the events.
    pub(crate) path: String,
    /// Types of the values that came.
    pub(crate) types: BTreeSet<&'static str>,
    /// Share of events without it.
    pub(crate) missing: f64,
    /// The same in training; `None` if that is not known.
    pub(crate) training_missing: Option<f64>,
    /// Lowest and highest number; `None` for others.
    pub(crate) range: Option<(f64, f64)>,
    /// The same in training.
    pub(crate) training_range: Option<(f64, f64)>,
    /// Different values; `None` for numbers.
    pub(crate) distinct: Option<usize>,
    /// Share of values that training did not have, or beyond its range.
    pub(crate) unlike_training: Option<f64>,
    pub(crate) examples: Vec<String>,
}

/// All fields; for dense features those that training's profile has.
pub(super) fn looks(
    bundle: &Bundle,
    settings: &EventSettings,
    cells: &[Vec<Cell<'static>>],
    reports: &[FieldReport],
) -> Vec<FieldLook> {
    let Input::Fields(schema) = &bundle.description().input else {
        return reports.iter().map(dense).collect();
    };
    let fields = schema.fields.iter().enumerate();
    fields
        .map(|(place, field)| {
            let values: Vec<&Cell<'static>> = cells
                .iter()
                .filter_map(|row| row.get(place))
                .filter(|cell| !is_missing(cell))
                .collect();
            let report = reports.get(place);
            let numbers = values.iter().filter_map(|cell| match cell {
                Cell::Number(number) => Some(*number),
                _ => None,
            });
            let is_number = matches!(field.kind, FieldKind::Number { .. });
            let distinct: BTreeSet<String> = values.iter().map(|cell| cell.to_string()).collect();
            let path = settings.fields.get(&field.name).cloned();
            FieldLook {
                name: field.name.clone(),
                kind: match field.kind {
                    FieldKind::Number { .. } => "number",
                    FieldKind::Category => "category",
                    FieldKind::Text => "text",
                },
                path: path.unwrap_or_else(|| field.name.clone()),
                types: values.iter().map(|cell| type_of(cell)).collect(),
                missing: 1.0 - values.len() as f64 / cells.len().max(1) as f64,
                training_missing: report.map(|report| report.training_missing),
                range: numbers
                    .clone()
                    .min_by(f64::total_cmp)
                    .zip(numbers.max_by(f64::total_cmp)),
                training_range: bundle.inputs().and_then(|profile| profile.range(place)),
                distinct: (!is_number).then_some(distinct.len()),
                unlike_training: report.and_then(|report| report.beyond.or(report.unknown)),
                examples: distinct
                    .iter()
                    .take(EXAMPLES)
                    .map(|text| cut(text))
                    .collect(),
            }
        })
        .collect()
}

/// A dense feature has neither name nor missing values in events.
fn dense(report: &FieldReport) -> FieldLook {
    FieldLook {
        name: report.name.clone(),
        kind: "number",
        path: report.name.clone(),
        types: BTreeSet::from(["number"]),
        unlike_training: report.beyond,
        ..FieldLook::default()
    }
}

/// An empty list counts as missing: it is an empty bag.
fn is_missing(cell: &Cell<'_>) -> bool {
    match cell {
        Cell::Missing => true,
        Cell::Texts(texts) => texts.is_empty(),
        _ => false,
    }
}

fn type_of(cell: &Cell<'_>) -> &'static str {
    match cell {
        Cell::Missing => "nothing",
        Cell::Bool(_) => "boolean",
        Cell::Integer(_) | Cell::Number(_) => "number",
        Cell::Text(_) => "text",
        Cell::Texts(_) => "list",
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= EXAMPLE_CHARACTERS {
        return text.to_owned();
    }
    let cut: String = text.chars().take(EXAMPLE_CHARACTERS).collect();
    cut + "…"
}
