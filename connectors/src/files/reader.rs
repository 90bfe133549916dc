//! Opens a file of any format as rows of cells.

use std::path::{Path, PathBuf};

use super::{FileError, cells::Place, csv, json_lines, safetensors};
use crate::event::Cell;

/// A cell of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum FileCell {
    Scalar(Cell<'static>),
    Vector(Vec<f32>),
    /// A list of lists, a nested object: no model takes these.
    Unusable,
}

/// A row and its number, which errors name.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) row: u64,
    /// In the order of the file's columns.
    pub(super) cells: Vec<FileCell>,
}

pub(super) type Records = Box<dyn Iterator<Item = Result<Record, FileError>> + Send>;

/// An open file with its columns; `records` are read lazily.
pub(super) struct Reader {
    pub(super) path: PathBuf,
    pub(super) columns: Vec<String>,
    pub(super) records: Records,
}

impl Reader {
    /// Opens a file; its extension decides the format.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        let (columns, records) = match extension.to_str() {
            Some("csv") => csv::open(path, b',')?,
            Some("tsv") => csv::open(path, b'\t')?,
            Some("jsonl" | "ndjson") => json_lines::open(path)?,
            Some("safetensors") => safetensors::open(path)?,
            #[cfg(feature = "parquet")]
            Some("parquet") => super::parquet::open(path)?,
            #[cfg(not(feature = "parquet"))]
            Some("parquet") => {
                return Err(FileError::new(
                    path,
                    "this build has no Parquet, build with --features parquet",
                ));
            }
            _ => {
                return Err(FileError::new(
                    path,
                    "expected a name that ends in .csv, .tsv, .jsonl, .ndjson, .parquet or .safetensors",
                ));
            }
        };
        let mut names = std::collections::BTreeSet::new();
        if let Some(name) = columns.iter().find(|name| !names.insert(*name)) {
            return Err(FileError::new(
                path,
                format!("column `{name}` comes twice, expected every name once"),
            ));
        }
        Ok(Self {
            path: path.into(),
            columns,
            records,
        })
    }

    /// A cell and its position.
    pub(super) fn at<'a>(&'a self, record: &'a Record, column: usize) -> (&'a FileCell, Place<'a>) {
        (&record.cells[column], self.place(record, column))
    }

    pub(super) fn place(&self, record: &Record, column: usize) -> Place<'_> {
        Place {
            path: &self.path,
            row: record.row,
            column: &self.columns[column],
        }
    }

    /// Something is wrong with the file's columns.
    pub(super) fn wrong(&self, problem: impl Into<String>) -> FileError {
        FileError::new(&self.path, problem)
    }
}
