//! Reads Parquet files row by row.

use std::{
    fs::File,
    iter,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::{Field, Row, reader::RowIter},
};

use super::{
    FileError,
    reader::{FileCell, Record, Records},
};
use crate::event::Cell;

pub(super) fn open(path: &Path) -> Result<(Vec<String>, Records), FileError> {
    let file = File::open(path).map_err(|error| FileError::unreadable(path, error))?;
    let opened = caught(|| SerializedFileReader::new(file).map_err(|error| error.to_string()));
    let reader = opened.map_err(|problem| FileError::unreadable(path, problem))?;
    let schema = reader.metadata().file_metadata().schema();
    let names = schema
        .get_fields()
        .iter()
        .map(|field| field.name().to_owned());
    let columns = names.collect();
    let path = path.to_owned();
    let mut rows = RowIter::from_file_into(Box::new(reader));
    let mut row = 0;
    let records = iter::from_fn(move || {
        row += 1;
        let read = caught(|| {
            let read = rows.next().transpose();
            read.map_err(|error| error.to_string())
        });
        let read = read.map_err(|problem| FileError::row(&path, row, problem));
        let to_record = |read: Row| Record {
            row,
            cells: read
                .into_columns()
                .into_iter()
                .map(|(_, field)| to_cell(field))
                .collect(),
        };
        read.transpose().map(|read| read.map(to_record))
    });
    Ok((columns, Box::new(records)))
}

/// What the library makes of a file. It panics on some that are damaged.
fn caught<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err("the file is damaged: it contradicts itself".to_owned()))
}

fn to_cell(field: Field) -> FileCell {
    if let Field::ListInternal(list) = &field {
        let number = |field: &Field| number(field).map(|number| number as f32);
        let numbers: Option<Vec<f32>> = list.elements().iter().map(number).collect();
        if let Some(numbers) = numbers {
            return FileCell::Vector(numbers);
        }
        let text = |field: &Field| match field {
            Field::Str(text) => Some(text.clone().into()),
            _ => None,
        };
        let texts: Option<_> = list.elements().iter().map(text).collect();
        return texts.map_or(FileCell::Unusable, |texts| {
            FileCell::Scalar(Cell::Texts(texts))
        });
    }
    FileCell::Scalar(match field {
        Field::Null => Cell::Missing,
        Field::Bool(value) => Cell::Bool(value),
        Field::Str(text) => Cell::Text(text.into()),
        Field::Byte(value) => Cell::Integer(value.into()),
        Field::Short(value) => Cell::Integer(value.into()),
        Field::Int(value) => Cell::Integer(value.into()),
        Field::Long(value) | Field::TimestampMillis(value) => Cell::Integer(value),
        Field::UByte(value) => Cell::Integer(value.into()),
        Field::UShort(value) => Cell::Integer(value.into()),
        Field::UInt(value) => Cell::Integer(value.into()),
        // Times are in milliseconds everywhere else.
        Field::TimestampMicros(value) => Cell::Integer(value.div_euclid(1000)),
        field => match number(&field) {
            Some(number) => Cell::Number(number),
            None => return FileCell::Unusable,
        },
    })
}

fn number(field: &Field) -> Option<f64> {
    match field {
        Field::Float(value) => Some(f64::from(*value)),
        Field::Double(value) => Some(*value),
        Field::Int(value) => Some(f64::from(*value)),
        Field::Long(value) => Some(*value as f64),
        Field::ULong(value) => Some(*value as f64),
        _ => None,
    }
}
