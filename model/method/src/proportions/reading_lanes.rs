//! Variances of readings of few classes, four classes at a time.

use nalgebra::DMatrix;
use pulp::{Arch, Simd, WithSimd};

use super::Probabilities;

/// Classes that are read together: the doubles of an AVX2 register.
const LANES: usize = 4;

/// G by rows of four, so that the sums of a row stay in registers.
#[derive(Debug)]
pub(crate) struct ReadingLanes {
    classes: usize,
    /// Four rows of G, column by column, then the next four; rows beyond the last are 0.
    columns: Vec<[f64; LANES]>,
}

/// Sums the squared deviations of readings from their mean, over rows.
struct SquaredDeviations<'a> {
    lanes: &'a ReadingLanes,
    rows: &'a Probabilities,
    mean: &'a [[f64; LANES]],
    sums: &'a mut [[f64; LANES]],
}

impl ReadingLanes {
    pub(crate) fn new(inverse: &DMatrix<f64>) -> Self {
        let classes = inverse.nrows();
        let column = |first: usize, column: usize| {
            std::array::from_fn(|lane| match first + lane {
                row if row < classes => inverse[(row, column)],
                _ => 0.0,
            })
        };
        let firsts = (0..classes).step_by(LANES);
        let columns = firsts.flat_map(|first| (0..classes).map(move |c| (first, c)));
        Self {
            classes,
            columns: columns.map(|(first, c)| column(first, c)).collect(),
        }
    }

    /// Variance of each reading over a group of rows, whose mean reading is `mean`.
    pub(crate) fn variance(&self, rows: &Probabilities, mean: &[f64]) -> Vec<f64> {
        let mut padded = vec![[0.0; LANES]; self.classes.div_ceil(LANES)];
        padded.as_flattened_mut()[..self.classes].copy_from_slice(mean);
        let mut sums = vec![[0.0; LANES]; padded.len()];
        Arch::new().dispatch(SquaredDeviations {
            lanes: self,
            rows,
            mean: &padded,
            sums: &mut sums,
        });
        let freedom = (rows.count() as f64 - 1.0).max(1.0);
        let sums = sums.as_flattened()[..self.classes].iter();
        sums.map(|sum| sum / freedom).collect()
    }
}

impl WithSimd for SquaredDeviations<'_> {
    type Output = ();

    // Plain loops over arrays, which the compiler vectorises.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for row in self.rows.rows() {
            let columns = self.lanes.columns.chunks_exact(self.lanes.classes);
            for ((columns, mean), sums) in columns.zip(self.mean).zip(self.sums.iter_mut()) {
                let mut reading = [0.0; LANES];
                for (column, value) in columns.iter().zip(row) {
                    for lane in 0..LANES {
                        reading[lane] += column[lane] * value;
                    }
                }
                for lane in 0..LANES {
                    let deviation = reading[lane] - mean[lane];
                    sums[lane] += deviation * deviation;
                }
            }
        }
    }
}
