//! Variances of readings of many classes, from the probabilities that matter.

use nalgebra::DMatrix;
use pulp::Arch;

use super::Probabilities;

/// Probabilities below this are taken to be the same in every row. Readings vary by the root of a share at least, and such
/// a probability by a thousandth at most. A classifier that is mostly sure leaves ten of 1,000 that are above.
const SMALLEST_KEPT: f64 = 1e-3;

/// Multiplications that the variances of a group of rows may take, about 10 ms of them. A classifier that is never sure needs
/// more, and then not all rows are looked at.
const MOST_PRODUCTS: usize = 1 << 26;

/// Held-out rows of a class behind the variances of its readings.
const MOST_ROWS: usize = 64;

/// G in single precision, by columns.
#[derive(Debug)]
pub(crate) struct ReadingNoise {
    classes: usize,
    columns: Vec<f32>,
}

impl ReadingNoise {
    pub(crate) fn new(inverse: &DMatrix<f64>) -> Self {
        Self {
            classes: inverse.ncols(),
            columns: inverse.iter().map(|value| *value as f32).collect(),
        }
    }

    /// Variance of each reading over a group of rows, whose mean reading is `mean`.
    pub(crate) fn of_group(&self, group: &Probabilities, mean: &[f64]) -> Vec<f64> {
        let kept = group.as_slice().iter().filter(|value| is_kept(**value));
        let products = kept.count() * self.classes;
        let count = group.count();
        let picked = match products.div_ceil(MOST_PRODUCTS) {
            0 | 1 => count,
            times => count.div_ceil(times),
        };
        let spread = (0..picked).map(|place| group.row(place * count / picked));
        self.variance(spread, mean)
    }

    /// Variance of each reading over held-out rows of each class, one class a row; `means` has the class's mean readings,
    /// one class a column.
    pub(crate) fn of_classes(
        &self,
        held_out: &Probabilities,
        labels: &[u32],
        means: &DMatrix<f64>,
    ) -> DMatrix<f64> {
        let mut by_class = vec![Vec::new(); self.classes];
        for (number, label) in labels.iter().enumerate() {
            let rows = &mut by_class[*label as usize];
            if rows.len() < MOST_ROWS {
                rows.push(number);
            }
        }
        let mut variances = Vec::with_capacity(self.classes * self.classes);
        let means = means.as_slice().chunks_exact(self.classes);
        for (numbers, mean) in by_class.iter().zip(means) {
            let rows = numbers.iter().map(|number| held_out.row(*number));
            variances.extend(self.variance(rows, mean));
        }
        DMatrix::from_row_slice(self.classes, self.classes, &variances)
    }

    fn variance<'a>(
        &self,
        rows: impl ExactSizeIterator<Item = &'a [f64]>,
        mean: &[f64],
    ) -> Vec<f64> {
        let count = rows.len() as f64;
        // Sums of small numbers: readings less a mean that is nearly theirs.
        let start: Vec<f32> = mean.iter().map(|value| -*value as f32).collect();
        let mut reading = start.clone();
        let mut sums = vec![0.0; self.classes];
        let mut squares = vec![0.0; self.classes];
        Arch::new().dispatch(|| {
            for row in rows {
                reading.copy_from_slice(&start);
                self.add_kept(row, &mut reading);
                let totals = sums.iter_mut().zip(&mut squares);
                for ((sum, square), value) in totals.zip(&reading) {
                    let value = f64::from(*value);
                    *sum += value;
                    *square += value * value;
                }
            }
        });
        // One row alone shows no noise.
        let freedom = (count - 1.0).max(1.0);
        let variance =
            |(sum, square): (&f64, &f64)| ((square - sum * sum / count) / freedom).max(0.0);
        sums.iter().zip(&squares).map(variance).collect()
    }

    #[inline(always)]
    fn add_kept(&self, row: &[f64], reading: &mut [f32]) {
        let columns = self.columns.chunks_exact(self.classes);
        for (column, value) in columns.zip(row) {
            if is_kept(*value) {
                let value = *value as f32;
                for (sum, factor) in reading.iter_mut().zip(column) {
                    *sum += factor * value;
                }
            }
        }
    }
}

#[inline(always)]
fn is_kept(value: f64) -> bool {
    value >= SMALLEST_KEPT
}
