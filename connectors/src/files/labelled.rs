//! Reads a labelled file into memory, for `fit`.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
};

use ostar_model::{
    Rows,
    bundle::InputKind,
    fields::{Field, FieldBlock, FieldKind, FieldSchema},
    fit::{Labelled, LabelledRows},
};

use super::{
    ColumnKind, FileError, FileSettings,
    columns::{Columns, InputColumns},
    kinds::{KindGuess, UNMEASURED},
    reader::{FileCell, Reader, Record},
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
    /// Reads a file; a row without a label is an error.
    pub fn read(path: &Path, settings: &FileSettings) -> Result<Self, FileError> {
        let mut reader = Reader::open(path)?;
        let columns = Columns::find(settings, None, &reader)?;
        let label = columns.label.ok_or_else(|| FileError::Columns {
            path: path.into(),
            problem:
                "there is no column `label`, expected the classes; name their column with --label"
                    .into(),
        })?;
        let mut names = Vec::new();
        let mut rows = match &columns.input {
            InputColumns::Fields(fields) => RowsSoFar::Fields {
                columns: fields.clone(),
                records: Vec::new(),
            },
            _ => RowsSoFar::Dense(Vec::new()),
        };
        while let Some(record) = reader.records.next() {
            let record = record?;
            let (cell, place) = record.at(label, &reader.path, &reader.columns);
            let name = place.text(cell)?;
            let name = name.ok_or_else(|| place.wrong("is empty, expected a class"))?;
            names.push(name);
            rows.add(record, &columns, &reader, names.len())?;
        }
        let classes = sorted_classes(&names);
        let known = Classes::new(&classes);
        let number = |name| {
            let number = known.number(name);
            number.expect("the classes are all names that occur")
        };
        Ok(Self {
            labels: names.iter().map(|name| number(name)).collect(),
            classes,
            rows: rows.finish(columns.kind, names.len(), settings, &reader)?,
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

    /// The named fields with their kinds, given or guessed; `None` if the rows are vectors.
    pub fn schema(&self) -> Option<&FieldSchema> {
        match &self.rows {
            FileRows::Dense { .. } => None,
            FileRows::Fields { schema, .. } => Some(schema),
        }
    }

    /// Borrows the rows for [`fit`](ostar_model::fit::fit).
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

/// Rows while the file is read. Fields are hashed at its end, when the kinds of all columns are known.
enum RowsSoFar {
    Dense(Vec<f32>),
    Fields {
        columns: Vec<usize>,
        records: Vec<Record>,
    },
}

impl RowsSoFar {
    /// Adds a row; `count` includes it.
    fn add(
        &mut self,
        record: Record,
        columns: &Columns,
        reader: &Reader,
        count: usize,
    ) -> Result<(), FileError> {
        match self {
            Self::Fields { records, .. } => records.push(record),
            Self::Dense(values) => {
                let row = columns.vector(&record, reader)?;
                let width = values.len() / (count - 1).max(1);
                if row.is_empty() || (count > 1 && row.len() != width) {
                    let expected = match count {
                        1 => "at least one".to_owned(),
                        _ => format!("{width} as in the rows before"),
                    };
                    let place = columns.place(&record, reader);
                    let problem = format!("has {} numbers, expected {expected}", row.len());
                    return Err(place.wrong(problem));
                }
                values.extend(row);
            }
        }
        Ok(())
    }

    fn finish(
        self,
        kind: InputKind,
        count: usize,
        settings: &FileSettings,
        reader: &Reader,
    ) -> Result<FileRows, FileError> {
        if count == 0 {
            return Err(FileError::Columns {
                path: reader.path.clone(),
                problem: "there are no rows, expected some".into(),
            });
        }
        match self {
            Self::Dense(values) => Ok(FileRows::Dense {
                kind,
                width: values.len() / count,
                values,
            }),
            Self::Fields { columns, records } => hash_fields(&columns, records, settings, reader),
        }
    }
}

fn hash_fields(
    columns: &[usize],
    records: Vec<Record>,
    settings: &FileSettings,
    reader: &Reader,
) -> Result<FileRows, FileError> {
    let kind = |column: &usize| {
        let name = &reader.columns[*column];
        let given = settings.kinds.get(name).copied();
        let kind = given.unwrap_or_else(|| guess(*column, &records));
        match kind {
            ColumnKind::Number => (name.clone(), UNMEASURED),
            ColumnKind::Category => (name.clone(), FieldKind::Category),
            // `Columns::find` has left out ignored columns.
            ColumnKind::Text | ColumnKind::Ignore => (name.clone(), FieldKind::Text),
        }
    };
    let fields = columns
        .iter()
        .map(kind)
        .map(|(name, kind)| Field { name, kind });
    let mut schema = FieldSchema {
        fields: fields.collect(),
        buckets: BUCKETS,
    };
    let rows: Vec<Vec<Cell<'static>>> = records
        .into_iter()
        .map(|record| field_cells(&record, columns, &schema, reader))
        .collect::<Result<_, _>>()?;
    let names = schema.fields.iter().enumerate();
    let positions: HashMap<String, usize> =
        names.map(|(n, field)| (field.name.clone(), n)).collect();
    let positions = &positions;
    let wrong = |error: ostar_model::Error| FileError::Columns {
        path: reader.path.clone(),
        problem: error.to_string(),
    };
    let values = rows
        .iter()
        .map(|row| move |name: &str| row[positions[name]].field_value());
    schema.measure(values.clone()).map_err(wrong)?;
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

fn field_cells(
    record: &Record,
    columns: &[usize],
    schema: &FieldSchema,
    reader: &Reader,
) -> Result<Vec<Cell<'static>>, FileError> {
    let cell = |(column, field): (&usize, &Field)| {
        let (cell, place) = record.at(*column, &reader.path, &reader.columns);
        place.field(FileCell::clone(cell), field.kind)
    };
    columns.iter().zip(&schema.fields).map(cell).collect()
}

/// Distinct names, in numeric order if all are whole numbers, else in alphabetical order.
fn sorted_classes(names: &[String]) -> Vec<String> {
    let distinct: BTreeSet<&String> = names.iter().collect();
    let mut classes: Vec<String> = distinct.into_iter().cloned().collect();
    let number = |name: &String| name.parse::<i64>().ok();
    if classes.iter().all(|name| number(name).is_some()) {
        classes.sort_by_key(number);
    }
    classes
}
