//! Reads labelled and unlabelled files for `fit`, `backtest` and `replay`: CSV, JSON lines, Parquet and safetensors.

mod cells;
mod classes;
mod columns;
mod csv;
mod events;
mod json_lines;
mod kinds;
mod labelled;
#[cfg(feature = "parquet")]
mod parquet;
mod reader;
mod safetensors;
mod settings;
#[cfg(test)]
mod tests;

use std::{fmt::Display, path::Path};

pub use events::{FileEvent, FileEvents};
pub use labelled::LabelledFile;
pub use settings::{ColumnKind, FileSettings};

/// Why a file could not be used: where in it, and what is wrong.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct FileError {
    place: String,
    problem: String,
}

impl FileError {
    /// The file as a whole cannot be used.
    fn new(path: &Path, problem: impl Into<String>) -> Self {
        Self {
            place: path.display().to_string(),
            problem: problem.into(),
        }
    }

    /// The file cannot be opened or parsed. `problem` is the message of the operating system or of the format's reader.
    fn unreadable(path: &Path, problem: impl Display) -> Self {
        Self {
            place: format!("cannot read {}", path.display()),
            problem: problem.to_string(),
        }
    }

    /// A row cannot be parsed. `row` is the line in a text file, header included; in others the row, from 1.
    fn row(path: &Path, row: u64, problem: impl Into<String>) -> Self {
        Self {
            place: format!("{}, row {row}", path.display()),
            problem: problem.into(),
        }
    }
}
