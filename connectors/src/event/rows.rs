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
    /// Numbers a row; `None` for named fields.
    width: Option<usize>,
    block: FieldBlock,
    count: usize,
}

impl InputRows {
    /// No rows yet, for a bundle with this input and so many classes.
    pub fn new(input: &Input, classes: usize) -> Self {
        Self {
            width: input.vector_width(classes),
            block: FieldBlock::default(),
            count: 0,
        }
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
        self.block.size()
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.count = 0;
        self.block.clear();
    }

    /// An empty block of the same kind, without memory.
    pub fn emptied(&self) -> Self {
        Self {
            width: self.width,
            block: FieldBlock::default(),
            count: 0,
        }
    }

    /// An empty block of the same kind, with room for as many numbers.
    pub fn cleared(&self) -> Self {
        let mut rows = self.emptied();
        let numbers = self.block.numbers().len();
        rows.block.numbers_mut().reserve_exact(numbers);
        rows
    }

    /// Borrows the rows for scoring or learning.
    pub fn inputs(&self) -> Inputs<'_> {
        match self.width {
            Some(width) => {
                let rows = Rows::new(self.block.numbers(), width);
                Inputs::Dense(rows.expect("whole rows were appended"))
            }
            None => self.block.inputs(),
        }
    }

    /// Appends a range of rows of another block of the same bundle.
    pub fn append(&mut self, other: &Self, range: Range<usize>) {
        self.count += range.len();
        self.block.append(&other.block, range, other.count);
    }

    /// A row, to be carried to a process that has the same bundle.
    pub fn carried(&self, number: usize) -> samples::Input {
        let row = self.block.row(number, self.count);
        samples::Input {
            numbers: row.numbers,
            tokens: row.tokens,
            bags: row.bags,
        }
    }

    /// Appends a row that another process has carried here, for a bundle with this input. `Err` says why it cannot be of
    /// this bundle; the rows are then unchanged.
    pub fn push_carried(&mut self, input: &Input, row: samples::Input) -> Result<(), String> {
        match (self.width, input) {
            (None, Input::Fields(schema)) => {
                let row = CarriedRow {
                    numbers: row.numbers,
                    tokens: row.tokens,
                    bags: row.bags,
                };
                let pushed = schema.push_carried(&row, &mut self.block);
                pushed.map_err(|error| error.to_string())?;
            }
            (width, _) => {
                let (width, numbers) = (width.unwrap_or_default(), row.numbers);
                if numbers.len() != width || !numbers.iter().all(|number| number.is_finite()) {
                    return Err(format!("has an input that is not {width} finite numbers"));
                }
                self.block.numbers_mut().extend(numbers);
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Appends the row that `fill` writes to the end of the values; on an error the rows are unchanged.
    pub(super) fn push_dense<T>(
        &mut self,
        fill: impl FnOnce(&mut Vec<f32>) -> Result<T, Reject>,
    ) -> Result<T, Reject> {
        let values = self.block.numbers_mut();
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
        value: impl Fn(usize) -> FieldValue<'v>,
    ) -> Result<(), Reject> {
        schema.push(|place, _| value(place), &mut self.block)?;
        self.count += 1;
        Ok(())
    }
}
