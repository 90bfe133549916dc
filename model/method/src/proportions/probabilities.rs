//! Predicted class probabilities, row after row, checked once and kept in double precision.

use ostar_engine::{Error, Result, Rows, tensors::Scalars};

use super::LabelProportions;

/// How far from 1 a row may sum: single-precision softmaxes and printed probabilities are rounded.
const SUM_TOLERANCE: f64 = 1e-2;

/// What a classifier predicted for some rows: all that the proportions are estimated from, so a model
/// that gives nothing else is enough.
#[derive(Debug, Clone, PartialEq)]
pub struct Probabilities {
    classes: usize,
    values: Vec<f64>,
}

impl Probabilities {
    /// Checks that there is a row, that no number is negative or non-finite and that rows sum to 1,
    /// and takes the rounding out of the sums. `what` names the argument in errors.
    pub fn new(what: &'static str, rows: Rows<'_>) -> Result<Self> {
        let classes = rows.width();
        rows.check(what, classes)?;
        if rows.count() == 0 {
            return Err(Error::shape(what, "at least one row", 0));
        }
        let mut values: Vec<f64> = match rows.values() {
            Scalars::F32(values) => values.iter().map(|value| f64::from(*value)).collect(),
            Scalars::F64(values) => values.to_vec(),
        };
        for (number, row) in values.chunks_exact_mut(classes).enumerate() {
            let sum: f64 = row.iter().sum();
            if row.iter().any(|value| *value < 0.0) || (sum - 1.0).abs() > SUM_TOLERANCE {
                return Err(Error::setting(
                    what,
                    format!("row {number} is {row:?}, expected probabilities that sum to 1"),
                ));
            }
            let scale = 1.0 / sum;
            row.iter_mut().for_each(|value| *value *= scale);
        }
        Ok(Self { classes, values })
    }

    /// Rows that [`Probabilities::new`] has checked before, of which there is at least one.
    pub(crate) fn from_checked(values: Vec<f64>, classes: usize) -> Self {
        debug_assert!(!values.is_empty() && values.len().is_multiple_of(classes));
        Self { classes, values }
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// How many rows there are; never 0.
    pub fn count(&self) -> usize {
        self.values.len() / self.classes
    }

    /// The rows, one after the other.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.classes)
    }

    pub(crate) fn row(&self, number: usize) -> &[f64] {
        &self.values[number * self.classes..][..self.classes]
    }

    /// All numbers, row after row.
    pub fn as_slice(&self) -> &[f64] {
        &self.values
    }

    /// All numbers, row after row, in single precision: as they were predicted, but for rounding.
    pub(crate) fn to_f32(&self) -> Vec<f32> {
        self.values.iter().map(|value| *value as f32).collect()
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        self.values.chunks_exact_mut(self.classes)
    }

    /// The mean prediction (q) over all rows; sums to 1.
    pub fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.classes];
        for row in self.rows() {
            mean.iter_mut().zip(row).for_each(|(m, value)| *m += value);
        }
        let scale = 1.0 / self.count() as f64;
        mean.iter_mut().for_each(|m| *m *= scale);
        mean
    }

    /// These probabilities for a population with `proportions`, when they were made for one with
    /// `prior`; see [`prior_correct`](super::prior_correct).
    pub fn corrected(&self, prior: &LabelProportions, proportions: &LabelProportions) -> Self {
        let mut corrected = self.clone();
        corrected.correct(prior, proportions);
        corrected
    }

    /// [`Probabilities::corrected`] in place.
    pub(crate) fn correct(&mut self, prior: &LabelProportions, proportions: &LabelProportions) {
        super::prior_correct(&mut self.values, prior, proportions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(values: &[f32]) -> String {
        let rows = Rows::new(values, 2).unwrap();
        Probabilities::new("target probabilities", rows)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn rows_that_are_no_probabilities_are_refused_by_number() {
        assert!(error(&[0.5, 0.5, 0.9, 0.9]).contains("target probabilities: row 1"));
        assert!(error(&[1.5, -0.5]).contains("row 0"));
        assert!(error(&[f32::NAN, 1.0]).contains("row 0, column 0 is NaN"));
        assert!(error(&[]).contains("at least one row"));
    }
}
