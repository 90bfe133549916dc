//! A table in words, for the page and for terminals.

use serde::Serialize;

use super::numbers::{interval, percent};
use crate::table::Table;

/// A cell of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Cell {
    pub(super) text: String,
    /// In small print: the ends of an interval.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) below: String,
    /// Worth a look.
    pub(super) strong: bool,
}

/// A table in words. The first cell of a row is its name.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Listing {
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// A row that stands out.
    pub(super) marked: Option<usize>,
}

// === impl Cell ===

impl Cell {
    pub(super) fn estimate(share: f64, low: f64, high: f64) -> Self {
        Self {
            text: percent(share),
            below: interval(low, high),
            strong: false,
        }
    }

    /// Without layout.
    fn line(&self) -> String {
        if self.below.is_empty() {
            self.text.clone()
        } else {
            format!("{} [{}]", self.text, self.below)
        }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }
}

// === impl Listing ===

impl Listing {
    pub(super) fn new<R>(head: &[&str], rows: impl IntoIterator<Item = R>) -> Self
    where
        R: IntoIterator<Item: Into<Cell>>,
    {
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into));
        Self {
            head: head.iter().map(ToString::to_string).collect(),
            rows: rows.map(Iterator::collect).collect(),
            marked: None,
        }
    }

    /// As aligned columns; `none` instead of no rows.
    pub(crate) fn text(&self, none: &str) -> String {
        if self.rows.is_empty() {
            return format!("{none}\n");
        }
        let head: Vec<&str> = self.head.iter().map(String::as_str).collect();
        let rows = self.rows.iter();
        let rows = rows.map(|row| row.iter().map(Cell::line).collect());
        Table::new(&head).lines(rows.collect())
    }
}
