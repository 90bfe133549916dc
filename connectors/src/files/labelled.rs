//! Reads a labelled file into memory, for `fit`.

use std::path::Path;

use ostar_bundle::{
    InputKind,
    fields::{Field, FieldBlock, FieldKind, FieldSchema},
    fit::{Labelled, LabelledRows},
};
use ostar_engine::Rows;

use super::{
    ColumnKind, FileError, FileSettings,
    classes::{check_width, sorted_classes, unknown_order},
    columns::{Columns, InputColumns},
    kinds::{KindGuess, UNMEASURED},
    reader::{Reader, Record},
};
use crate::{event::Cell, labels::Classes};

/// Rows of the embedding table that a new model gets for its categories and texts.
const BUCKETS: usize = 1 << 16;

/// All rows of a file, with their labels.
#[derive(Debug, Clone)]
pub struct LabelledFile {
    classes: Vec<String>,
    labels: Vec<u32>,
    rows: FileRows,
}

#[derive(Debug, Clone)]
enum FileRows {
    Dense {
        kind: InputKind,
        width: usize,
        values: Vec<f32>,
    },
    Fields {
        schema: FieldSchema,
        block: FieldBlock,
    },
}

impl LabelledFile {
    /// Reads a file; a row without a label is an error. For a model that exists: with its fields, whose numbers are taken as
    /// they are, and with its classes in its order. Probabilities and logits in a list do not say whose they are: without
    /// classes they are refused.
    pub fn read(
        path: &Path,
        settings: &FileSettings,
        schema: Option<&FieldSchema>,
        classes: Option<&[String]>,
    ) -> Result<Self, FileError> {
        let mut reader = Reader::open(path)?;
        let kind = schema.map(|_| InputKind::Fields);
        let columns = Columns::find(settings, kind, classes, &reader)?;
        let label = columns.label.ok_or_else(|| {
            reader.wrong(
                "there is no column `label`, expected the classes; name their column with --label",
            )
        })?;
        let (mut names, mut numbers, mut records) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(record) = reader.records.next() {
            let record = record?;
            let (cell, place) = reader.at(&record, label);
            let name = place.text(cell)?;
            names.push(name.ok_or_else(|| place.wrong("is empty, expected a class"))?);
            match &columns.input {
                // Hashed at the end, when the kinds of all columns are known.
                InputColumns::Fields(_) => records.push(record),
                _ => {
                    let added =
                        add_row(&mut numbers, columns.vector(&record, &reader)?, names.len());
                    added.map_err(|problem| columns.place(&record, &reader).wrong(problem))?;
                }
            }
        }
        let sorted = || sorted_classes(&names);
        let classes = match classes.or(columns.classes.as_deref()) {
            Some(classes) => classes.to_vec(),
            None if columns.kind.is_black_box() => {
                return Err(unknown_order(path, columns.kind, &sorted()));
            }
            None => sorted(),
        };
        let known = Classes::new(&classes);
        let number = |name: &String| {
            known.number(name).map_err(|_| {
                let classes = classes.join(", ");
                reader.wrong(format!(
                    "label {name:?} is none of the model's classes: {classes}"
                ))
            })
        };
        let labels = names.iter().map(number).collect::<Result<_, _>>()?;
        if names.is_empty() {
            return Err(reader.wrong("there are no rows, expected some"));
        }
        let rows = match (&columns.input, schema) {
            (InputColumns::Fields(_), Some(schema)) => {
                let columns = columns_of(schema, &reader)?;
                hash_fields(&columns, records, schema.clone(), false, &reader)?
            }
            (InputColumns::Fields(columns), None) => {
                let schema = guess_schema(columns, &records, settings, &reader);
                hash_fields(columns, records, schema, true, &reader)?
            }
            _ => FileRows::Dense {
                kind: columns.kind,
                width: numbers.len() / names.len(),
                values: numbers,
            },
        };
        if let FileRows::Dense { kind, width, .. } = &rows
            && kind.is_black_box()
        {
            check_width(path, *width, &classes)?;
        }
        Ok(Self {
            labels,
            rows,
            classes,
        })
    }

    /// Names of the classes, in the order of their indices.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Class index of each row.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Borrows the rows for [`fit`](ostar_bundle::fit::fit).
    pub fn labelled(&self) -> Labelled<'_> {
        let rows = match &self.rows {
            FileRows::Fields { schema, block } => LabelledRows::Fields { schema, block },
            FileRows::Dense {
                kind,
                width,
                values,
            } => {
                let rows = Rows::new(&values[..], *width).expect("all rows had this width");
                match kind {
                    InputKind::Probabilities => LabelledRows::Probabilities(rows),
                    InputKind::Logits => LabelledRows::Logits(rows),
                    InputKind::Latent => LabelledRows::Latents(rows),
                    InputKind::Dense | InputKind::Fields => LabelledRows::Dense(rows),
                }
            }
        };
        Labelled {
            classes: &self.classes,
            labels: &self.labels,
            rows,
        }
    }
}

/// Appends the numbers of row `count`, counted from 1. `Err` says why they are no row like the others.
fn add_row(numbers: &mut Vec<f32>, row: Vec<f32>, count: usize) -> Result<(), String> {
    let width = numbers.len() / (count - 1).max(1);
    let expected = match count {
        1 => "at least one".to_owned(),
        _ => format!("{width} as in the rows before"),
    };
    if row.is_empty() || (count > 1 && row.len() != width) {
        return Err(format!("has {} numbers, expected {expected}", row.len()));
    }
    numbers.extend(row);
    Ok(())
}

/// The columns of a model's fields, in its order.
fn columns_of(schema: &FieldSchema, reader: &Reader) -> Result<Vec<usize>, FileError> {
    let place = |field: &Field| {
        let found = reader.columns.iter().position(|name| *name == field.name);
        found.ok_or_else(|| {
            let (name, columns) = (&field.name, reader.columns.join(", "));
            reader.wrong(format!(
                "there is no column `{name}`, which the model takes; the columns are {columns}"
            ))
        })
    };
    schema.fields.iter().map(place).collect()
}

/// Fields of all columns, of the kinds that are given or guessed.
fn guess_schema(
    columns: &[usize],
    records: &[Record],
    settings: &FileSettings,
    reader: &Reader,
) -> FieldSchema {
    let field = |column: &usize| {
        let name = reader.columns[*column].clone();
        let given = settings.kinds.get(&name).copied();
        let kind = match given.unwrap_or_else(|| guess(*column, records)) {
            ColumnKind::Number => UNMEASURED,
            ColumnKind::Category => FieldKind::Category,
            // `Columns::find` has left out ignored columns.
            ColumnKind::Text | ColumnKind::Ignore => FieldKind::Text,
        };
        Field { name, kind }
    };
    FieldSchema {
        fields: columns.iter().map(field).collect(),
        buckets: BUCKETS,
    }
}

/// Rows hashed by a schema, whose numbers are measured first if `measure` is set.
fn hash_fields(
    columns: &[usize],
    records: Vec<Record>,
    mut schema: FieldSchema,
    measure: bool,
    reader: &Reader,
) -> Result<FileRows, FileError> {
    let rows: Vec<Vec<Cell<'static>>> = records
        .into_iter()
        .map(|record| {
            let cell = |(column, field): (&usize, &Field)| {
                let (cell, place) = reader.at(&record, *column);
                place.field(cell.clone(), field.kind)
            };
            columns.iter().zip(&schema.fields).map(cell).collect()
        })
        .collect::<Result<_, _>>()?;
    let wrong = |error: ostar_engine::Error| reader.wrong(error.to_string());
    let values = rows
        .iter()
        .map(|row| move |place: usize, _: &str| row[place].field_value());
    if measure {
        schema.measure(values.clone()).map_err(wrong)?;
    }
    let mut block = FieldBlock::default();
    for value in values {
        schema.push(value, &mut block).map_err(wrong)?;
    }
    Ok(FileRows::Fields { schema, block })
}

fn guess(column: usize, records: &[Record]) -> ColumnKind {
    let mut guess = KindGuess::default();
    records
        .iter()
        .for_each(|record| guess.see(&record.cells[column]));
    guess.kind()
}
