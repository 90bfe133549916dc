//! Reads CSV and TSV files with a header.

use std::path::Path;

use csv::{ErrorKind, ReaderBuilder, StringRecord};

use super::{
    FileError,
    reader::{FileCell, Record, Records},
};
use crate::event::Cell;

pub(super) fn open(path: &Path, delimiter: u8) -> Result<(Vec<String>, Records), FileError> {
    let opened = ReaderBuilder::new().delimiter(delimiter).from_path(path);
    let mut reader = opened.map_err(|error| FileError::unreadable(path, error))?;
    let header = reader
        .headers()
        .map_err(|error| FileError::unreadable(path, error))?;
    // Spreadsheets write a byte order mark before the first name.
    let name = |name: &str| name.trim_start_matches('\u{feff}').trim().to_owned();
    let columns = header.iter().map(name).collect();
    let path = path.to_owned();
    let records = reader.into_records().map(move |read| match read {
        Ok(record) => Ok(to_record(&record)),
        Err(error) => {
            let row = error.position().map_or(0, csv::Position::line);
            let problem = match error.kind() {
                ErrorKind::UnequalLengths {
                    expected_len, len, ..
                } => format!("has {len} cells, expected {expected_len} as in the header"),
                ErrorKind::Utf8 { .. } => "is not UTF-8".to_owned(),
                _ => error.to_string(),
            };
            Err(FileError::row(&path, row, problem))
        }
    });
    Ok((columns, Box::new(records)))
}

fn to_record(record: &StringRecord) -> Record {
    let cell = |text: &str| {
        FileCell::Scalar(match text {
            "" => Cell::Missing,
            text => Cell::Text(text.to_owned().into()),
        })
    };
    Record {
        row: record.position().map_or(0, csv::Position::line),
        cells: record.iter().map(cell).collect(),
    }
}
