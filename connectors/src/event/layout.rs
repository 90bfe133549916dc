//! The bundle's input as decoders and encoders need it, and the checks of a row.

use ostar_bundle::{
    Input, InputKind,
    fields::{FieldSchema, FieldValue, LARGEST_NUMBER},
};

use super::{Cell, EventFormat, EventSettings, InputRows, Reject, RejectReason, path::Path};
use crate::problem::listed;

/// How far from 1 the sum of probabilities may be. Printed with a few digits, they are rounded.
const SUM_TOLERANCE: f64 = 1e-3;

/// The section `events` cannot carry the bundle's input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnsuitableSettings(String);

impl UnsuitableSettings {
    pub(crate) fn new(problem: impl Into<String>) -> Self {
        Self(problem.into())
    }
}

#[derive(Debug, Clone)]
pub(crate) enum Layout {
    Dense(DenseLayout),
    Fields(FieldLayout),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct DenseLayout {
    pub(crate) kind: InputKind,
    pub(crate) width: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct FieldLayout {
    schema: FieldSchema,
}

// === impl Layout ===

impl Layout {
    pub(crate) fn new(input: &Input, classes: usize) -> Self {
        let dense = |width| {
            Self::Dense(DenseLayout {
                kind: input.kind(),
                width,
            })
        };
        match input {
            Input::Probabilities | Input::Logits => dense(classes),
            Input::Latent { width } | Input::Dense { width } => dense(*width),
            Input::Fields(schema) => Self::Fields(FieldLayout {
                schema: schema.clone(),
            }),
        }
    }

    /// Refuses settings that cannot carry this.
    pub(crate) fn check_settings(
        &self,
        settings: &EventSettings,
    ) -> Result<(), UnsuitableSettings> {
        let known = |name: &str| match self {
            Self::Dense(dense) => dense.kind.as_str() == name,
            Self::Fields(fields) => fields.schema.fields.iter().any(|field| field.name == name),
        };
        if let Some(name) = settings.fields.keys().find(|name| !known(name)) {
            return Err(UnsuitableSettings(format!(
                "events.fields has `{name}`, expected {}",
                self.names()
            )));
        }
        match self {
            Self::Fields(_) if !settings.format.has_names() => Err(UnsuitableSettings(
                "events.format is raw, expected json or protobuf: the bundle takes named fields"
                    .into(),
            )),
            Self::Dense(_)
                if settings.format == EventFormat::Protobuf
                    && !settings.has_own_message()
                    && !settings.fields.is_empty() =>
            {
                Err(UnsuitableSettings(
                    "events.fields is set, expected nothing: a vector has one place in ostar.v1.Event".into(),
                ))
            }
            Self::Dense(dense) if settings.flat => Err(UnsuitableSettings(format!(
                "events.flat is true, expected false: the bundle takes `{}`, not named fields",
                dense.kind
            ))),
            Self::Dense(dense)
                if [&settings.id_field, &settings.time_field]
                    .iter()
                    .any(|name| *name == dense.kind.as_str()) =>
            {
                Err(UnsuitableSettings(format!(
                    "events.id_field or events.time_field is \"{}\", expected another name: the input has this one",
                    dense.kind
                )))
            }
            _ => Ok(()),
        }
    }

    /// What events.fields may name, in words.
    fn names(&self) -> String {
        match self {
            Self::Dense(dense) => format!("`{}` alone, which the bundle takes", dense.kind),
            Self::Fields(fields) => {
                let names = fields.schema.fields.iter().map(|field| &field.name);
                format!("fields of the bundle: {}", listed(names))
            }
        }
    }

    /// Where the numbers of a vector are in an event.
    pub(crate) fn numbers_path(
        &self,
        settings: &EventSettings,
    ) -> Result<Path, UnsuitableSettings> {
        let kind = self.kind().as_str();
        match settings.fields.get(kind) {
            None => Ok(Path::key(kind)),
            Some(path) => parse(kind, path),
        }
    }

    /// Names of the fields, in the schema's order; none for a vector.
    pub(crate) fn field_names(&self) -> Vec<String> {
        match self {
            Self::Dense(_) => Vec::new(),
            Self::Fields(fields) => fields.names(),
        }
    }

    pub(crate) fn kind(&self) -> InputKind {
        match self {
            Self::Dense(dense) => dense.kind,
            Self::Fields(_) => InputKind::Fields,
        }
    }

    pub(crate) fn missing(&self) -> Reject {
        let detail = format!("`{}` is missing, which the bundle takes", self.kind());
        Reject::new(RejectReason::MissingInput, detail)
    }
}

fn parse(field: &str, path: &str) -> Result<Path, UnsuitableSettings> {
    Path::parse(path)
        .map_err(|hint| UnsuitableSettings(format!("events.fields.{field} is {path:?}, {hint}")))
}

// === impl DenseLayout ===

impl DenseLayout {
    pub(crate) fn wrong_width(&self, found: impl std::fmt::Display) -> Reject {
        let detail = format!(
            "`{}` has {found} numbers, expected {}",
            self.kind, self.width
        );
        Reject::new(RejectReason::WrongWidth, detail)
    }

    pub(crate) fn check(&self, row: &[f32]) -> Result<(), Reject> {
        if row.len() != self.width {
            return Err(self.wrong_width(row.len()));
        }
        // Also false for NaN.
        let usable = |value: &f32| value.abs() <= LARGEST_NUMBER;
        // No early exit: so the compiler vectorises the loop.
        if !row.iter().fold(true, |all, value| all & usable(value)) {
            let column = row.iter().position(|value| !usable(value));
            let column = column.unwrap_or_default();
            return Err(Reject::new(
                RejectReason::NotFinite,
                format!(
                    "number {column} of `{}` is {}, expected one between {:e} and {LARGEST_NUMBER:e}",
                    self.kind, row[column], -LARGEST_NUMBER
                ),
            ));
        }
        if self.kind == InputKind::Probabilities {
            check_distribution(row)?;
        }
        Ok(())
    }
}

fn check_distribution(row: &[f32]) -> Result<(), Reject> {
    let reject = |detail| Err(Reject::new(RejectReason::NotADistribution, detail));
    if let Some(class) = row.iter().position(|value| *value < 0.0) {
        return reject(format!(
            "the probability of class {class} is {}, expected 0 or more",
            row[class]
        ));
    }
    let sum: f64 = row.iter().map(|value| f64::from(*value)).sum();
    if (sum - 1.0).abs() > SUM_TOLERANCE {
        return reject(format!("the probabilities sum to {sum}, expected 1"));
    }
    Ok(())
}

// === impl FieldLayout ===

impl FieldLayout {
    pub(crate) fn len(&self) -> usize {
        self.schema.fields.len()
    }

    pub(crate) fn schema(&self) -> &FieldSchema {
        &self.schema
    }

    /// Where each field is in an event, in the schema's order.
    pub(crate) fn paths(&self, settings: &EventSettings) -> Result<Vec<Path>, UnsuitableSettings> {
        let path = |name: &String| match settings.fields.get(name) {
            Some(path) => parse(name, path),
            None if settings.is_flat() => Ok(Path::key(name)),
            None => Ok(Path::key(InputKind::Fields.as_str()).below(name)),
        };
        let fields = self.schema.fields.iter();
        fields.map(|field| path(&field.name)).collect()
    }

    fn names(&self) -> Vec<String> {
        let fields = self.schema.fields.iter();
        fields.map(|field| field.name.clone()).collect()
    }

    /// Appends a row; `cells` are in the schema's order.
    pub(crate) fn push(
        &self,
        mut cells: Vec<Option<Cell<'_>>>,
        rows: &mut InputRows,
    ) -> Result<(), Reject> {
        for (cell, field) in cells.iter_mut().zip(&self.schema.fields) {
            if let Some(cell) = cell {
                cell.read_in_place(field.kind);
            }
        }
        rows.push_fields(&self.schema, |place| {
            let cell = cells[place].as_ref();
            cell.map_or(FieldValue::Missing, Cell::field_value)
        })
    }
}
