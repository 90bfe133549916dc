//! Files of rows, labelled or not: CSV, JSON lines, Parquet and safetensors, for `fit`, `backtest` and `replay`.

mod cells;
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

use std::path::PathBuf;

pub use events::{FileEvent, FileEvents};
pub use labelled::LabelledFile;
pub use settings::{ColumnKind, FileSettings};

/// What can be wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened or read.
    #[error("cannot read {}: {problem}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system or the format's reader said.
        problem: String,
    },
    /// Its name ends in no known way.
    #[error("{}: {problem}", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// What is known.
        problem: String,
    },
    /// A column is missing or cannot be what it is meant for.
    #[error("{}: {problem}", path.display())]
    Columns {
        /// The file.
        path: PathBuf,
        /// Which column, and what was expected.
        problem: String,
    },
    /// A row that cannot be read.
    #[error("{}, row {row}: {problem}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// The row: the line in a text file, header included; counted from 1 in others.
        row: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// A value that cannot be used.
    #[error("{}, row {row}, column `{column}`: {problem}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The row: the line in a text file, header included; counted from 1 in others.
        row: u64,
        /// The column.
        column: String,
        /// What is wrong with the value and what was expected.
        problem: String,
    },
}
