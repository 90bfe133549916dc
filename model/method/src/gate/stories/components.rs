//! The principal components of latents: what the fit of a story is tested on.

use nalgebra::{DMatrix, SymmetricEigen};
use ostar_engine::{Generator, linear::Packed};

/// Components that are kept at most.
pub(super) const COMPONENTS: usize = 16;
/// Whitened components are cut off here: one row far away must not decide.
const FARTHEST: f32 = 6.0;
/// Rows that the components are found on, at most, spread evenly.
const MOST_ROWS: usize = 4_000;
/// Rounds of orthogonal iteration: 16 directions of most variance need not be exact, but the same at every start.
const ROUNDS: usize = 12;
const SEED: u64 = 0x70_63_61;

/// Directions of most variance, each scaled to variance 1 on the reference rows.
#[derive(Debug, Clone)]
pub(super) struct Components {
    width: usize,
    count: usize,
    directions: Packed,
    /// Product of each direction with the mean row.
    offsets: Vec<f32>,
}

impl Components {
    /// Components of rows of `width` numbers; fewer than [`COMPONENTS`] where rows have fewer directions.
    pub(super) fn new(rows: &[f32], width: usize) -> Self {
        let available = rows.len() / width;
        let picked = available.min(MOST_ROWS);
        let row = |number: usize| {
            let first = number * available / picked * width;
            rows[first..first + width]
                .iter()
                .map(|value| f64::from(*value))
        };
        let mut sample = DMatrix::from_row_iterator(picked, width, (0..picked).flat_map(row));
        let centre: Vec<f64> = sample.column_iter().map(|column| column.mean()).collect();
        for (mut column, mean) in sample.column_iter_mut().zip(&centre) {
            column.add_scalar_mut(-mean);
        }
        let basis = principal(&sample, COMPONENTS.min(width).min(picked));
        let projected = &sample * &basis;
        // Within the subspace the axes are turned so that they are uncorrelated, the largest first.
        let covariance = projected.tr_mul(&projected) / picked as f64;
        let decomposed = SymmetricEigen::new(covariance);
        let largest = decomposed.eigenvalues.max();
        let mut order: Vec<usize> = (0..basis.ncols())
            .filter(|place| decomposed.eigenvalues[*place] > 1e-6 * largest)
            .collect();
        order.sort_by(|a, b| decomposed.eigenvalues[*b].total_cmp(&decomposed.eigenvalues[*a]));
        let (mut directions, mut offsets) = (Vec::new(), Vec::new());
        for place in order {
            let axis = &basis * decomposed.eigenvectors.column(place)
                / decomposed.eigenvalues[place].sqrt();
            let along: f64 = axis.iter().zip(&centre).map(|(a, b)| a * b).sum();
            directions.extend(axis.iter().map(|value| *value as f32));
            offsets.push(along as f32);
        }
        let count = offsets.len();
        Self {
            width,
            count,
            directions: Packed::new(&directions, width, count),
            offsets,
        }
    }

    /// How many components there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The components of every row, cut off.
    pub(super) fn of(&self, rows: &[f32]) -> Vec<f32> {
        let count = rows.len() / self.width;
        let mut products = vec![0.0; count * self.count];
        if self.count > 0 {
            self.directions.multiply(count, rows, &mut products);
            for row in products.chunks_exact_mut(self.count) {
                for (value, offset) in row.iter_mut().zip(&self.offsets) {
                    *value = (*value - offset).clamp(-FARTHEST, FARTHEST);
                }
            }
        }
        products
    }
}

/// An orthonormal basis of about the `count` directions of most variance, by orthogonal iteration: an eigenvalue
/// decomposition of 1,280 columns would take 20 seconds.
fn principal(sample: &DMatrix<f64>, count: usize) -> DMatrix<f64> {
    let mut generator = Generator::new(SEED);
    let mut basis = DMatrix::from_fn(sample.ncols(), count, |_, _| generator.normal());
    for _ in 0..ROUNDS {
        basis = sample.tr_mul(&(sample * &basis)).qr().q();
    }
    basis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_whitened_on_the_rows_they_were_found_on() {
        let mut generator = Generator::new(3);
        let mut rows = Vec::new();
        for _ in 0..2_000 {
            let (a, b) = (generator.normal(), generator.normal());
            rows.extend([5.0 + 3.0 * a, a - 0.2 * b, 0.5 * b].map(|value| value as f32));
        }
        let components = Components::new(&rows, 3);
        assert_eq!(components.count(), 2, "the rows have two directions");
        let of = components.of(&rows);
        for component in 0..2 {
            let values = of.iter().skip(component).step_by(2).map(|v| f64::from(*v));
            let mean = values.clone().sum::<f64>() / 2_000.0;
            let square = values.map(|v| v * v).sum::<f64>() / 2_000.0;
            assert!(mean.abs() < 0.02, "{mean}");
            assert!((square - 1.0).abs() < 0.05, "{square}");
        }
    }

    #[test]
    fn constant_rows_have_no_components() {
        assert_eq!(Components::new(&[1.0; 30], 3).of(&[1.0; 6]).len() % 2, 0);
    }
}
