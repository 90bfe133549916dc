//! Reads tensors as columns: shape (rows) is a column of numbers, shape (rows, width) a column of vectors.

use std::{fs, path::Path};

use ostar_engine::{HostTensor, tensors::from_safetensors};

use super::{
    FileError,
    reader::{FileCell, Record, Records},
};
use crate::event::Cell;

enum Column {
    Numbers(Vec<f64>),
    Vectors { width: usize, values: Vec<f32> },
}

pub(super) fn open(path: &Path) -> Result<(Vec<String>, Records), FileError> {
    let bytes = fs::read(path).map_err(|error| FileError::unreadable(path, error))?;
    let tensors = from_safetensors(&bytes).map_err(|error| FileError::unreadable(path, error))?;
    let count = tensors.values().next().map(|tensor| tensor.shape.first());
    let count = count.flatten().copied().unwrap_or(0);
    let mut columns = Vec::new();
    for (name, tensor) in &tensors {
        let column = to_column(tensor, count).ok_or_else(|| {
            let shape = &tensor.shape;
            let problem = format!(
                "tensor `{name}` has shape {shape:?}, expected ({count}) or ({count}, width)"
            );
            FileError::new(path, problem)
        })?;
        columns.push(column);
    }
    let records = (0..count).map(move |row| {
        let cells = columns.iter().map(|column| column.cell(row));
        Ok(Record {
            row: row as u64 + 1,
            cells: cells.collect(),
        })
    });
    Ok((tensors.into_keys().collect(), Box::new(records)))
}

fn to_column(tensor: &HostTensor, count: usize) -> Option<Column> {
    match tensor.shape[..] {
        [rows] if rows == count => Some(Column::Numbers(tensor.to_f64())),
        [rows, width] if rows == count => Some(Column::Vectors {
            width,
            values: tensor.to_f32(),
        }),
        _ => None,
    }
}

impl Column {
    fn cell(&self, row: usize) -> FileCell {
        match self {
            Self::Vectors { width, values } => {
                FileCell::Vector(values[row * width..][..*width].to_vec())
            }
            Self::Numbers(values) => {
                let number = values[row];
                let integer = number as i64;
                // Tensors of labels and ids may be stored as floating point.
                FileCell::Scalar(if integer as f64 == number {
                    Cell::Integer(integer)
                } else {
                    Cell::Number(number)
                })
            }
        }
    }
}
