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
        Self::read_for(path, settings, None, None)
    }

    /// Reads a file for a model that exists: with its fields, whose numbers are taken as they are, and with its classes in
    /// its order. Probabilities and logits in a list do not say whose they are: without classes they are refused.
    pub fn read_for(
        path: &Path,
        settings: &FileSettings,
        schema: Option<&FieldSchema>,
        classes: Option<&[String]>,
    ) -> Result<Self, FileError> {
        let mut reader = Reader::open(path)?;
        let kind = schema.map(|_| InputKind::Fields);
        let columns = Columns::find(settings, kind, classes, &reader)?;
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
            known.number(name).map_err(|_| FileError::Columns {
                path: path.into(),
                problem: format!(
                    "label {name:?} is none of the model's classes: {}",
                    classes.join(", ")
                ),
            })
        };
        let labels = names.iter().map(number).collect::<Result<_, _>>()?;
        let rows = rows.finish(columns.kind, names.len(), settings, schema, &reader)?;
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

    /// The named fields with their kinds, given or guessed; `None` if the rows are vectors.
    pub fn schema(&self) -> Option<&FieldSchema> {
        match &self.rows {
            FileRows::Dense { .. } => None,
            FileRows::Fields { schema, .. } => Some(schema),
        }
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
        schema: Option<&FieldSchema>,
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
            Self::Fields { columns, records } => match schema {
                Some(schema) => {
                    let columns = columns_of(schema, reader)?;
                    hash_fields(&columns, records, schema.clone(), false, reader)
                }
                None => {
                    let schema = guess_schema(&columns, &records, settings, reader);
                    hash_fields(&columns, records, schema, true, reader)
                }
            },
        }
    }
}

/// The columns of a model's fields, in its order.
fn columns_of(schema: &FieldSchema, reader: &Reader) -> Result<Vec<usize>, FileError> {
    let place = |field: &Field| {
        let found = reader.columns.iter().position(|name| *name == field.name);
        found.ok_or_else(|| FileError::Columns {
            path: reader.path.clone(),
            problem: format!(
                "there is no column `{}`, which the model takes; the columns are {}",
                field.name,
                reader.columns.join(", ")
            ),
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
    let kind = |column: &usize| {
        let name = &reader.columns[*column];
        let given = settings.kinds.get(name).copied();
        let kind = given.unwrap_or_else(|| guess(*column, records));
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
    FieldSchema {
        fields: fields.collect(),
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
        .map(|record| field_cells(&record, columns, &schema, reader))
        .collect::<Result<_, _>>()?;
    let wrong = |error: ostar_engine::Error| FileError::Columns {
        path: reader.path.clone(),
        problem: error.to_string(),
    };
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
