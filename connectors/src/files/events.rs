//! Reads a file as a stream of events, for `backtest` and `replay`.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

use ostar_bundle::{Input, fields::FieldKind};

use super::{
    FileError, FileSettings,
    columns::{Columns, InputColumns},
    reader::{Reader, Record},
};
use crate::{event::Row, labels::Classes};

/// Iterates over the events of a file, in its order, without loading it whole.
pub struct FileEvents {
    reader: Reader,
    columns: Columns,
    classes: Classes,
    /// Kinds of the bundle's fields, by name; empty if it takes vectors.
    kinds: HashMap<String, FieldKind>,
    /// Width of the bundle's vectors; unused for named fields.
    width: usize,
}

/// One row of a file as an event.
#[derive(Debug, Clone, PartialEq)]
pub struct FileEvent {
    /// Line in a text file, header included; in others the row, from 1.
    pub row: u64,
    /// `None` if the file has no id column or the cell is empty.
    pub id: Option<String>,
    /// Milliseconds since 1970; `None` if the file has no time column or the cell is empty.
    pub time_ms: Option<i64>,
    /// Index of the class; `None` if the file has no label column or the cell is empty.
    pub label: Option<u32>,
    /// When the label was known, in milliseconds since 1970; `None` if the file does not say so.
    pub label_time_ms: Option<i64>,
    /// The input of the model, not checked against the bundle yet.
    pub input: Row,
}

impl FileEvents {
    /// Opens a file of events for a bundle with this input and these classes.
    pub fn open(
        path: &Path,
        settings: &FileSettings,
        input: &Input,
        classes: &[String],
    ) -> Result<Self, FileError> {
        let reader = Reader::open(path)?;
        let columns = Columns::find(settings, Some(input.kind()), Some(classes), &reader)?;
        let kinds = match input {
            Input::Fields(schema) => {
                let fields = schema.fields.iter();
                fields
                    .map(|field| (field.name.clone(), field.kind))
                    .collect()
            }
            _ => HashMap::new(),
        };
        let width = input.vector_width(classes.len()).unwrap_or(0);
        let events = Self {
            reader,
            columns,
            classes: Classes::new(classes),
            kinds,
            width,
        };
        events.check_fields()?;
        Ok(events)
    }

    /// Whether events have times.
    pub fn has_times(&self) -> bool {
        self.columns.time.is_some()
    }

    /// Whether events have labels.
    pub fn has_labels(&self) -> bool {
        self.columns.label.is_some()
    }

    /// Refuses a file without any of the model's fields: it is most likely the wrong one.
    fn check_fields(&self) -> Result<(), FileError> {
        let known = |name: &String| self.kinds.contains_key(name);
        if self.kinds.is_empty() || self.reader.columns.iter().any(known) {
            return Ok(());
        }
        Err(self
            .reader
            .wrong("none of the columns is a field of the bundle"))
    }

    fn event(&self, record: &Record) -> Result<FileEvent, FileError> {
        let at = |column: usize| self.reader.at(record, column);
        let text = |column: Option<usize>| {
            let cell = column.map(at);
            cell.map_or(Ok(None), |(cell, place)| place.text(cell))
        };
        let time = |column: Option<usize>| {
            let cell = column.map(at);
            cell.map_or(Ok(None), |(cell, place)| place.integer(cell))
        };
        let label = match (text(self.columns.label)?, self.columns.label) {
            (Some(label), Some(column)) => {
                let class = self.classes.number(&label);
                Some(class.map_err(|problem| at(column).1.wrong(problem))?)
            }
            _ => None,
        };
        Ok(FileEvent {
            row: record.row,
            id: text(self.columns.id)?,
            time_ms: time(self.columns.time)?,
            label,
            label_time_ms: time(self.columns.label_time)?,
            input: self.input(record)?,
        })
    }

    fn input(&self, record: &Record) -> Result<Row, FileError> {
        let InputColumns::Fields(_) = &self.columns.input else {
            let numbers = self.columns.vector(record, &self.reader)?;
            if numbers.len() != self.width {
                let place = self.columns.place(record, &self.reader);
                return Err(place.wrong(format!(
                    "has {} numbers, expected {} as the bundle takes",
                    numbers.len(),
                    self.width
                )));
            }
            return Ok(Row::Dense(numbers));
        };
        let mut named = BTreeMap::new();
        for (number, name) in self.reader.columns.iter().enumerate() {
            if let Some(kind) = self.kinds.get(name) {
                let (cell, place) = self.reader.at(record, number);
                named.insert(name.clone(), place.field(cell.clone(), *kind)?);
            }
        }
        Ok(Row::Fields(named))
    }
}

impl Iterator for FileEvents {
    type Item = Result<FileEvent, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.reader.records.next()?;
        Some(record.and_then(|record| self.event(&record)))
    }
}
