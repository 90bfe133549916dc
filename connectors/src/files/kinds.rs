//! Guesses the kind of a column from its values.

use std::collections::BTreeSet;

use ostar_bundle::fields::FieldKind;

use super::{
    ColumnKind,
    cells::{Parsed, parse_number},
    reader::FileCell,
};
use crate::event::Cell;

/// A column with more distinct values than this is text, not a category.
const MAX_CATEGORIES: usize = 100;

/// Placeholder until the mean and deviation of the column are measured.
pub(super) const UNMEASURED: FieldKind = FieldKind::Number {
    mean: 0.0,
    deviation: 1.0,
};

/// What the values of a column have in common so far.
#[derive(Debug, Default)]
pub(super) struct KindGuess {
    not_numbers: bool,
    has_spaces: bool,
    distinct: BTreeSet<String>,
}

impl KindGuess {
    pub(super) fn see(&mut self, cell: &FileCell) {
        let cell = match cell {
            FileCell::Scalar(cell) => cell,
            // Several categories a row.
            FileCell::Vector(values) => {
                self.not_numbers = true;
                values.iter().for_each(|value| self.note(value.to_string()));
                return;
            }
            FileCell::Unusable => return,
        };
        match cell {
            Cell::Missing => return,
            Cell::Integer(_) | Cell::Number(_) => (),
            Cell::Bool(_) => self.not_numbers = true,
            Cell::Texts(texts) => {
                self.not_numbers = true;
                texts.iter().for_each(|text| self.note(text.to_string()));
                return;
            }
            Cell::Text(text) => match parse_number(text) {
                Parsed::Number(_) => (),
                Parsed::Missing => return,
                Parsed::Text => {
                    self.not_numbers = true;
                    self.has_spaces |= text.trim().contains(char::is_whitespace);
                }
            },
        }
        self.note(cell.to_string());
    }

    fn note(&mut self, value: String) {
        if self.distinct.len() <= MAX_CATEGORIES {
            self.distinct.insert(value);
        }
    }

    /// A number if all values are numbers, a category if they are few distinct single words, else a text.
    pub(super) fn kind(&self) -> ColumnKind {
        match (self.not_numbers, self.has_spaces) {
            (false, _) => ColumnKind::Number,
            (true, false) if self.distinct.len() <= MAX_CATEGORIES => ColumnKind::Category,
            _ => ColumnKind::Text,
        }
    }
}
