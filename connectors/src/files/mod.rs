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

use std::path::PathBuf;

pub use events::{FileEvent, FileEvents};
pub use labelled::LabelledFile;
pub use settings::{ColumnKind, FileSettings};

/// Why a file could not be used. Every variant names the file.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be opened or parsed.
    #[error("cannot read {}: {problem}", path.display())]
    Unreadable {
        /// Path as it was given.
        path: PathBuf,
        /// Message of the operating system or of the format's reader.
        problem: String,
    },
    /// The extension is not known, or this build has no reader for it.
    #[error("{}: {problem}", path.display())]
    UnknownFormat {
        /// Path as it was given.
        path: PathBuf,
        /// Which extensions can be read.
        problem: String,
    },
    /// A column is missing or cannot be what it is meant for.
    #[error("{}: {problem}", path.display())]
    Columns {
        /// Path as it was given.
        path: PathBuf,
        /// Which column, what was expected, and the flag that names it.
        problem: String,
    },
    /// A row that cannot be parsed.
    #[error("{}, row {row}: {problem}", path.display())]
    Row {
        /// Path as it was given.
        path: PathBuf,
        /// Line in a text file, header included; in others the row, from 1.
        row: u64,
        /// What is wrong with the row.
        problem: String,
    },
    /// A value that cannot be used.
    #[error("{}, row {row}, column `{column}`: {problem}", path.display())]
    Cell {
        /// Path as it was given.
        path: PathBuf,
        /// Line in a text file, header included; in others the row, from 1.
        row: u64,
        /// Name of the column.
        column: String,
        /// What is wrong with the value and what was expected.
        problem: String,
    },
}
