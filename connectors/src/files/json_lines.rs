//! Reads files with one JSON object per line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use ostar_bundle::InputKind;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    FileError,
    reader::{FileCell, Record, Records},
};
use crate::event::Cell;

/// Reads the file twice: the columns are all keys that occur in any line.
pub(super) fn open(path: &Path) -> Result<(Vec<String>, Records), FileError> {
    let mut columns = BTreeSet::new();
    for object in objects(path)? {
        columns.extend(object?.1.into_keys());
    }
    let columns: Vec<String> = columns.into_iter().collect();
    let names = columns.clone();
    let records = objects(path)?.map(move |object| {
        let (row, mut cells) = object?;
        let missing = || FileCell::Scalar(Cell::Missing);
        let cell = |name| cells.remove(name).unwrap_or_else(missing);
        Ok(Record {
            row,
            cells: names.iter().map(cell).collect(),
        })
    });
    Ok((columns, Box::new(records)))
}

type Object = (u64, BTreeMap<String, FileCell>);

/// The file's objects with their line numbers; empty lines are skipped.
fn objects(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Object, FileError>> + use<>, FileError> {
    let file = File::open(path).map_err(|error| FileError::unreadable(path, error))?;
    let path = path.to_owned();
    let lines = (1u64..).zip(BufReader::new(file).lines());
    Ok(lines.filter_map(move |(row, line)| {
        let wrong = |problem: String| FileError::row(&path, row, problem);
        let line = match line {
            Ok(line) if line.trim().is_empty() => return None,
            Ok(line) => line,
            Err(error) => return Some(Err(wrong(error.to_string()))),
        };
        let parsed = serde_json::from_str::<Map<String, Value>>(&line);
        let parsed = parsed.map_err(|error| wrong(format!("is not a JSON object: {error}")));
        Some(parsed.map(|object| (row, to_cells(object))))
    }))
}

fn to_cells(object: Map<String, Value>) -> BTreeMap<String, FileCell> {
    let mut cells = BTreeMap::new();
    for (name, value) in object {
        match value {
            // An event's named fields: each is a column.
            Value::Object(fields) if name == InputKind::Fields.as_str() => {
                cells.extend(
                    fields
                        .into_iter()
                        .map(|(name, value)| (name, to_cell(value))),
                );
            }
            // A map of classes to numbers.
            Value::Object(numbers) if is_named_by_class(&name) => {
                let column = |class: String| format!("{name}.{class}");
                let cell = |(class, value)| (column(class), to_cell(value));
                cells.extend(numbers.into_iter().map(cell));
            }
            value => drop(cells.insert(name, to_cell(value))),
        }
    }
    cells
}

fn is_named_by_class(name: &str) -> bool {
    let mut kinds = InputKind::VECTORS.into_iter();
    kinds.any(|kind| kind.is_black_box() && kind.as_str() == name)
}

fn to_cell(value: Value) -> FileCell {
    if let Value::Array(values) = &value {
        let number = |value: &Value| value.as_f64().map(|number| number as f32);
        let numbers: Option<Vec<f32>> = values.iter().map(number).collect();
        if let Some(numbers) = numbers {
            return FileCell::Vector(numbers);
        }
    }
    // A list of categories is a value, an object is not.
    let cell = <Cell<'static> as Deserialize<'static>>::deserialize(value);
    cell.map_or(FileCell::Unusable, FileCell::Scalar)
}
