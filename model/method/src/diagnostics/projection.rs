//! A plane to look at latents in.

use nalgebra::{DMatrix, SymmetricEigen};
use ostar_engine::{Result, checks};

use super::count_rows;

/// The plane of the first two principal components of some rows. It is found once and then stays, so that
/// pictures of different times can be laid over one another.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    centre: Vec<f64>,
    /// Of length 1, the direction of most variance first; zero where rows have one coordinate only.
    axes: [Vec<f64>; 2],
}

impl Projection {
    /// The plane of `latents`, rows of `width` numbers.
    pub fn principal(latents: &[f32], width: usize) -> Result<Self> {
        let count = count_rows("latents", latents, width)?;
        checks::at_least_one_row("latents", count)?;
        let mut rows =
            DMatrix::from_row_iterator(count, width, latents.iter().map(|value| f64::from(*value)));
        let centre: Vec<f64> = rows.column_iter().map(|column| column.mean()).collect();
        for (mut column, mean) in rows.column_iter_mut().zip(&centre) {
            column.add_scalar_mut(-mean);
        }
        let decomposed = SymmetricEigen::new(rows.tr_mul(&rows));
        let mut order: Vec<usize> = (0..width).collect();
        let variances = &decomposed.eigenvalues;
        order.sort_by(|left, right| variances[*right].total_cmp(&variances[*left]));
        let axis = |number: usize| match order.get(number) {
            None => vec![0.0; width],
            Some(column) => towards_positive(decomposed.eigenvectors.column(*column).iter()),
        };
        Ok(Self {
            axes: [axis(0), axis(1)],
            centre,
        })
    }

    /// Where rows are in the plane.
    pub fn project(&self, latents: &[f32]) -> Vec<[f32; 2]> {
        let along = |row: &[f32], axis: &[f64]| -> f32 {
            let parts = row.iter().zip(&self.centre).zip(axis);
            let sum: f64 = parts
                .map(|((value, centre), axis)| (f64::from(*value) - centre) * axis)
                .sum();
            sum as f32
        };
        let rows = latents.chunks_exact(self.centre.len());
        rows.map(|row| [along(row, &self.axes[0]), along(row, &self.axes[1])])
            .collect()
    }
}

/// An axis has two directions: the one in which its largest part is positive, or a restart could mirror the picture.
fn towards_positive<'a>(axis: impl Iterator<Item = &'a f64>) -> Vec<f64> {
    let axis: Vec<f64> = axis.copied().collect();
    let largest = axis
        .iter()
        .copied()
        .max_by(|a, b| a.abs().total_cmp(&b.abs()));
    let sign = largest.unwrap_or(1.0).signum();
    axis.into_iter().map(|part| sign * part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far apart along (0, 3, 4) / 5, a little along x, not at all along the rest, around (1, 1, 1).
    const ROWS: [f32; 12] = [
        1.0, 7.0, 9.0, //
        1.0, -5.0, -7.0, //
        2.0, 1.0, 1.0, //
        0.0, 1.0, 1.0,
    ];

    #[test]
    fn the_first_axis_is_that_of_most_variance_and_the_second_the_next() {
        let plane = Projection::principal(&ROWS, 3).unwrap();
        let expected = [[10.0, 0.0], [-10.0, 0.0], [0.0, 1.0], [0.0, -1.0]];
        for (point, expected) in plane.project(&ROWS).iter().zip(expected) {
            let apart = (point[0] - expected[0]).hypot(point[1] - expected[1]);
            assert!(apart < 1e-5, "{point:?} is not at {expected:?}");
        }
        // Rows that are moved are moved in the plane, which stays.
        let moved: Vec<f32> = ROWS.iter().map(|value| value + 5.0).collect();
        let point = plane.project(&moved)[2];
        assert!(
            (point[0] - 7.0).abs() < 1e-5 && (point[1] - 6.0).abs() < 1e-5,
            "{point:?}"
        );
    }

    #[test]
    fn rows_of_one_number_lie_on_a_line() {
        let plane = Projection::principal(&[1.0, 3.0], 1).unwrap();
        assert_eq!(plane.project(&[1.0, 3.0]), [[-1.0, 0.0], [1.0, 0.0]]);
    }

    #[test]
    fn no_rows_are_an_error() {
        assert!(Projection::principal(&[], 2).is_err());
    }
}
