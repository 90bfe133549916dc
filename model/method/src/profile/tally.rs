//! Counts rows in the cells of a profile.

use ostar_engine::Inputs;
use serde::{Deserialize, Serialize};

use super::{FieldValues, InputProfile, MISSING};

/// Rows of a stream, counted in the cells of each field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    rows: f64,
    pub(super) fields: Vec<FieldTally>,
}

/// Rows counted in the cells of one field.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldTally {
    pub(super) cells: Vec<f64>,
    /// Sum of the logarithms of magnitudes, and how many were not 0.
    pub(super) logarithms: f64,
    pub(super) squares: f64,
    pub(super) magnitudes: f64,
}

impl Tally {
    /// How many rows were counted.
    pub fn rows(&self) -> f64 {
        self.rows
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.rows = 0.0;
        self.fields.clear();
    }

    /// Counts `count` rows of the profile's model.
    pub fn add(&mut self, profile: &InputProfile, inputs: Inputs<'_>, count: usize) {
        if count == 0 {
            return;
        }
        self.fit(profile);
        self.rows += count as f64;
        // Adding 0 turns -0, which stands for a missing field, into 0; adding -0 changes nothing.
        let (numbers, values, dense) = match inputs {
            Inputs::Dense(rows) => (rows.width(), rows.values(), 0.0),
            Inputs::Fields(rows) => (rows.numbers.len() / count, rows.numbers, -0.0),
        };
        let bags = match inputs {
            Inputs::Dense(_) => 0,
            Inputs::Fields(rows) => (rows.offsets.len() - 1) / count,
        };
        let (mut number, mut bag) = (0, 0);
        for (field, tally) in profile.fields.iter().zip(&mut self.fields) {
            match &field.values {
                FieldValues::Numbers { .. } => {
                    if number >= numbers {
                        return;
                    }
                    let column = (0..count).map(|row| values.get(row * numbers + number) as f32);
                    // A dense feature is never missing.
                    let column = column.map(|value| value + dense);
                    tally.add_numbers(&field.values, column);
                    number += 1;
                }
                FieldValues::Tokens { common, known } => {
                    let Inputs::Fields(rows) = inputs else { return };
                    if bag >= bags {
                        return;
                    }
                    for row in 0..count {
                        tally.add_bag(common, known.as_deref(), rows.bag(row * bags + bag));
                    }
                    bag += 1;
                }
            }
        }
    }

    /// Adds what another one counted, after what was counted here lost some of its weight.
    pub(crate) fn blend(&mut self, profile: &InputProfile, kept: f64, other: &Self) {
        self.fit(profile);
        self.rows = kept * self.rows + other.rows;
        for (field, other) in self.fields.iter_mut().zip(&other.fields) {
            let sums = field.cells.iter_mut().zip(&other.cells);
            sums.for_each(|(sum, more)| *sum = kept * *sum + more);
            // Of the newest rows alone: a mixture of two units shows neither.
            field.logarithms = other.logarithms;
            field.squares = other.squares;
            field.magnitudes = other.magnitudes;
        }
    }

    /// Whether it could have counted rows of this profile's model.
    pub(crate) fn fits(&self, profile: &InputProfile) -> bool {
        let cells = |(tally, field): (&FieldTally, &super::FieldProfile)| {
            tally.cells.len() == field.cells()
        };
        let is_empty = self.fields.is_empty();
        let mut pairs = self.fields.iter().zip(&profile.fields);
        is_empty || (self.fields.len() == profile.fields.len() && pairs.all(cells))
    }

    fn fit(&mut self, profile: &InputProfile) {
        self.fields
            .resize(profile.fields.len(), FieldTally::default());
        for (field, tally) in profile.fields.iter().zip(&mut self.fields) {
            tally.cells.resize(field.cells(), 0.0);
        }
    }
}

impl FieldTally {
    pub(super) fn add_numbers(&mut self, values: &FieldValues, column: impl Iterator<Item = f32>) {
        let FieldValues::Numbers {
            deviation,
            mean,
            lowest,
            highest,
            edges,
            ..
        } = values
        else {
            return;
        };
        for value in column {
            let cell = FieldValues::cell_of_number(*lowest, *highest, edges, value);
            self.cells[cell] += 1.0;
            let magnitude = (mean + deviation * f64::from(value)).abs();
            if cell != MISSING && magnitude > f64::MIN_POSITIVE {
                let logarithm = magnitude.ln();
                self.logarithms += logarithm;
                self.squares += logarithm * logarithm;
                self.magnitudes += 1.0;
            }
        }
    }

    /// A row with several tokens counts as one row in all.
    pub(super) fn add_bag(&mut self, common: &[u32], known: Option<&[u32]>, bag: &[u32]) {
        if bag.is_empty() {
            self.cells[MISSING] += 1.0;
            return;
        }
        let weight = 1.0 / bag.len() as f64;
        for token in bag {
            self.cells[FieldValues::cell_of_token(common, known, *token)] += weight;
        }
    }

    /// Mean and deviation of the logarithms of magnitudes; `None` if there are too few.
    pub(super) fn logarithm(&self) -> Option<(f64, f64)> {
        if self.magnitudes < 10.0 {
            return None;
        }
        let mean = self.logarithms / self.magnitudes;
        let variance = self.squares / self.magnitudes - mean * mean;
        Some((mean, variance.max(0.0).sqrt()))
    }
}
