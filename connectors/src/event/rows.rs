//! Input rows in the memory layout that the model reads.

use std::ops::Range;

use ostar_bundle::{
    Input,
    fields::{CarriedRow, FieldBlock, FieldSchema, FieldValue},
};
use ostar_engine::{Inputs, Rows};

use super::Reject;
use crate::sample_proto as samples;

/// Input rows of one bundle, all of the same kind and width.
#[derive(Debug, Clone)]
pub struct InputRows {
    values: Values,
    count: usize,
}

#[derive(Debug, Clone)]
enum Values {
    Dense { width: usize, values: Vec<f32> },
    Fields(FieldBlock),
}

impl InputRows {
    /// No rows yet, for a bundle with this input and so many classes.
    pub fn new(input: &Input, classes: usize) -> Self {
        let values = match input.vector_width(classes) {
            Some(width) => Values::Dense {
                width,
                values: Vec::new(),
            },
            None => Values::Fields(FieldBlock::default()),
        };
        Self { values, count: 0 }
    }

    /// Rows appended since the start or the last [`InputRows::clear`].
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing has been appended.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Numbers and tokens of all rows, a measure of the memory they take.
    pub fn size(&self) -> usize {
        match &self.values {
            Values::Dense { values, .. } => values.len(),
            Values::Fields(block) => block.size(),
        }
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        match &mut self.values {
            Values::Dense { values, .. } => values.clear(),
            Values::Fields(block) => block.clear(),
        }
    }

    /// An empty block of the same kind, without memory.
    pub fn emptied(&self) -> Self {
        let values = match &self.values {
            Values::Dense { width, .. } => Values::Dense {
                width: *width,
                values: Vec::new(),
            },
            Values::Fields(_) => Values::Fields(FieldBlock::default()),
        };
        Self { values, count: 0 }
    }

    /// An empty block of the same kind; dense rows get capacity for as many.
    pub fn cleared(&self) -> Self {
        let values = match &self.values {
            Values::Dense { width, values } => Values::Dense {
                width: *width,
                values: Vec::with_capacity(values.len()),
            },
            Values::Fields(_) => Values::Fields(FieldBlock::default()),
        };
        Self { values, count: 0 }
    }

    /// Borrows the rows for scoring or learning.
    pub fn inputs(&self) -> Inputs<'_> {
        match &self.values {
            Values::Dense { width, values } => {
                Inputs::Dense(Rows::new(&values[..], *width).expect("whole rows were appended"))
            }
            Values::Fields(block) => block.inputs(),
        }
    }

    /// Appends a range of rows of another block of the same bundle.
    pub fn append(&mut self, other: &Self, range: Range<usize>) {
        let added = range.len();
        match (&mut self.values, &other.values) {
            (Values::Dense { width, values }, Values::Dense { values: others, .. }) => {
                values.extend_from_slice(&others[range.start * *width..range.end * *width]);
            }
            (Values::Fields(block), Values::Fields(others)) => {
                block.append(others, range, other.count);
            }
            _ => unreachable!("rows of one bundle are of one kind"),
        }
        self.count += added;
    }

    /// A row, to be carried to a process that has the same bundle.
    pub fn carried(&self, number: usize) -> samples::Input {
        match &self.values {
            Values::Dense { width, values } => samples::Input {
                numbers: values[number * width..(number + 1) * width].to_vec(),
                ..samples::Input::default()
            },
            Values::Fields(block) => {
                let row = block.row(number, self.count);
                samples::Input {
                    numbers: row.numbers,
                    tokens: row.tokens,
                    bags: row.bags,
                }
            }
        }
    }

    /// Appends a row that another process has carried here, for a bundle with this input. `Err` says why it cannot be of
    /// this bundle; the rows are then unchanged.
    pub fn push_carried(&mut self, input: &Input, row: samples::Input) -> Result<(), String> {
        match (&mut self.values, input) {
            (Values::Dense { width, values }, _) => {
                let numbers = &row.numbers;
                if numbers.len() != *width || !numbers.iter().all(|number| number.is_finite()) {
                    return Err(format!("has an input that is not {width} finite numbers"));
                }
                values.extend_from_slice(numbers);
            }
            (Values::Fields(block), Input::Fields(schema)) => {
                let row = CarriedRow {
                    numbers: row.numbers,
                    tokens: row.tokens,
                    bags: row.bags,
                };
                let pushed = schema.push_carried(&row, block);
                pushed.map_err(|error| error.to_string())?;
            }
            _ => unreachable!("rows and input are of one bundle"),
        }
        self.count += 1;
        Ok(())
    }

    /// Appends the row that `fill` writes to the end of the values; on an error the rows are unchanged.
    pub(super) fn push_dense<T>(
        &mut self,
        fill: impl FnOnce(&mut Vec<f32>) -> Result<T, Reject>,
    ) -> Result<T, Reject> {
        let Values::Dense { values, .. } = &mut self.values else {
            unreachable!("a decoder and its rows are of one bundle");
        };
        let before = values.len();
        let filled = fill(values);
        match filled {
            Ok(_) => self.count += 1,
            Err(_) => values.truncate(before),
        }
        filled
    }

    /// Appends a row of named fields; on an error the rows are unchanged.
    pub(super) fn push_fields<'v>(
        &mut self,
        schema: &FieldSchema,
        value: impl Fn(&str) -> FieldValue<'v>,
    ) -> Result<(), Reject> {
        let Values::Fields(block) = &mut self.values else {
            unreachable!("a decoder and its rows are of one bundle");
        };
        schema.push(value, block)?;
        self.count += 1;
        Ok(())
    }
}
