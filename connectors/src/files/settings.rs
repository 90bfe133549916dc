//! What the flags of `fit`, `backtest` and `replay` say about a file's columns. Errors name the flags.

use std::collections::BTreeMap;

use ostar_bundle::InputKind;
use serde::Deserialize;

/// Which column of a file is what, as far as the user said so.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FileSettings {
    /// `--label`: column of the classes. By default `label`, if there is one.
    pub label: Option<String>,
    /// `--id`: column of the events' ids. By default `id`, if there is one.
    pub id: Option<String>,
    /// `--time`: column of the events' times, in milliseconds since 1970. By default `time_ms`, if there is one.
    pub time: Option<String>,
    /// `--label-time`: column of the times at which labels were known, in milliseconds since 1970. By default
    /// `label_time_ms`, if there is one, else the events' times.
    pub label_time: Option<String>,
    /// `--input`: what the rows are. A bundle's own kind comes first; without either the columns' names decide.
    pub input: Option<InputKind>,
    /// `--columns`, for vectors: a column of lists, or the prefix of numbered columns (`z` for z0, z1...). By default
    /// the name of the input's kind, and for dense features also all columns that are nothing else.
    pub columns: Option<String>,
    /// `--kind` and `--ignore`, for named fields: what a column is, where the guess would be wrong.
    pub kinds: BTreeMap<String, ColumnKind>,
}

/// What a column of named fields is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnKind {
    /// A number, standardised by the mean and deviation of the column.
    Number,
    /// One token per cell.
    Category,
    /// A bag of words.
    Text,
    /// Not an input of the model.
    Ignore,
}
