//! Converts cells of files to numbers, fields, ids, times and labels.

use std::path::Path;

use ostar_bundle::fields::FieldKind;

use super::{FileError, reader::FileCell};
use crate::event::Cell;

/// Position of a cell, for errors.
pub(super) struct Place<'a> {
    pub(super) path: &'a Path,
    pub(super) row: u64,
    pub(super) column: &'a str,
}

impl Place<'_> {
    pub(super) fn wrong(&self, problem: impl Into<String>) -> FileError {
        let Self { path, row, column } = self;
        FileError {
            place: format!("{}, row {row}, column `{column}`", path.display()),
            problem: problem.into(),
        }
    }

    pub(super) fn number(&self, cell: &FileCell) -> Result<f32, FileError> {
        let number = match cell {
            FileCell::Scalar(Cell::Text(text)) => text.trim().parse().ok(),
            FileCell::Scalar(Cell::Integer(value)) => Some(*value as f64),
            FileCell::Scalar(Cell::Number(value)) => Some(*value),
            FileCell::Scalar(Cell::Bool(value)) => Some(f64::from(u8::from(*value))),
            FileCell::Scalar(Cell::Missing) => {
                return Err(self.wrong("is empty, expected a number"));
            }
            FileCell::Scalar(Cell::Texts(_)) | FileCell::Vector(_) | FileCell::Unusable => None,
        };
        match number {
            Some(number) if (number as f32).is_finite() => Ok(number as f32),
            Some(number) => Err(self.wrong(format!("is {number}, expected a finite number"))),
            None => Err(self.wrong(format!("is {}, expected a number", describe(cell)))),
        }
    }

    /// A list of finite numbers, or a text like "[0.1, 0.9]".
    pub(super) fn vector(&self, cell: &FileCell) -> Result<Vec<f32>, FileError> {
        let values = match cell {
            FileCell::Vector(values) => Some(values.clone()),
            FileCell::Scalar(Cell::Text(text)) => serde_json::from_str(text).ok(),
            _ => None,
        };
        let values = values.ok_or_else(|| {
            self.wrong(format!("is {}, expected a list of numbers", describe(cell)))
        })?;
        match values.iter().position(|value| !value.is_finite()) {
            None => Ok(values),
            Some(index) => Err(self.wrong(format!(
                "has {} as number {index}, expected finite numbers",
                values[index]
            ))),
        }
    }

    /// A value for a field of this kind. CSV has only texts, so numbers are parsed here.
    pub(super) fn field(
        &self,
        cell: FileCell,
        kind: FieldKind,
    ) -> Result<Cell<'static>, FileError> {
        let number = matches!(kind, FieldKind::Number { .. });
        match cell {
            FileCell::Scalar(Cell::Text(text)) if number => match parse_number(&text) {
                Parsed::Number(number) => Ok(Cell::Number(number)),
                Parsed::Missing => Ok(Cell::Missing),
                Parsed::Text => Err(self.wrong(format!("is {text:?}, expected a number"))),
            },
            FileCell::Scalar(Cell::Number(value)) if value.is_nan() => Ok(Cell::Missing),
            FileCell::Scalar(Cell::Number(value)) if value.is_infinite() => {
                Err(self.wrong(format!("is {value}, expected a finite number")))
            }
            // A bag of categories that are whole numbers.
            FileCell::Vector(values) if !number && values.iter().all(|v| v.fract() == 0.0) => {
                let texts = values.iter().map(|value| format!("{value:.0}").into());
                Ok(Cell::Texts(texts.collect()))
            }
            FileCell::Scalar(Cell::Texts(_)) if number => {
                Err(self.wrong(format!("is {}, expected a number", describe(&cell))))
            }
            FileCell::Scalar(cell) => match cell.read_as(kind) {
                cell @ (Cell::Missing | Cell::Text(_) | Cell::Texts(_)) => Ok(cell),
                cell @ Cell::Number(_) if number => Ok(cell),
                cell => Err(self.wrong(format!("is {cell}, expected a text"))),
            },
            cell => Err(self.wrong(format!("is {}, expected one value", describe(&cell)))),
        }
    }

    /// A text; `None` for an empty cell.
    pub(super) fn text(&self, cell: &FileCell) -> Result<Option<String>, FileError> {
        match cell {
            FileCell::Scalar(Cell::Missing) => Ok(None),
            FileCell::Scalar(cell) if !matches!(cell, Cell::Texts(_)) => Ok(Some(cell.to_string())),
            cell => Err(self.wrong(format!("is {}, expected one value", describe(cell)))),
        }
    }

    /// A whole number; `None` for an empty cell.
    pub(super) fn integer(&self, cell: &FileCell) -> Result<Option<i64>, FileError> {
        let Some(text) = self.text(cell)? else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(integer) => Ok(Some(integer)),
            Err(_) => Err(self.wrong(format!("is {text:?}, expected a whole number"))),
        }
    }
}

pub(super) enum Parsed {
    Number(f64),
    /// Empty, or "NaN", which data frames write for missing values.
    Missing,
    Text,
}

pub(super) fn parse_number(text: &str) -> Parsed {
    match text.trim() {
        "" => Parsed::Missing,
        text => match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Parsed::Number(number),
            Ok(number) if number.is_nan() => Parsed::Missing,
            _ => Parsed::Text,
        },
    }
}

fn describe(cell: &FileCell) -> String {
    match cell {
        FileCell::Scalar(Cell::Missing) => "empty".to_owned(),
        FileCell::Scalar(Cell::Texts(_)) => "a list of texts".to_owned(),
        FileCell::Scalar(cell) => format!("{:?}", cell.to_string()),
        FileCell::Vector(values) => format!("a list of {} numbers", values.len()),
        FileCell::Unusable => "a nested value".to_owned(),
    }
}
