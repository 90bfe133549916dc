//! A mixture of Gaussians with full covariances, fitted by expectation and maximisation from several starts.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use ostar_engine::Generator;

/// Added to every variance, so that a component with fewer rows than directions has a density.
const REGULARISATION: f64 = 1e-3;
/// A start has converged when the mean log likelihood changes by less.
const TOLERANCE: f64 = 1e-3;
const MOST_STEPS: usize = 100;
const MOST_MEAN_STEPS: usize = 100;
/// Directions whose variance is below this part of the largest are left out.
const LEAST_VARIANCE: f64 = 1e-9;
/// Rows that belong to a component by less than this change its sums by less than rounding does.
const LEAST_MEMBERSHIP: f64 = 1e-16;
/// Columns that a triangular system is solved in one go for; the rest are matrix products.
const BLOCK: usize = 32;

/// Weight and mean of each component.
#[derive(Debug, Clone)]
pub(crate) struct Mixture {
    pub(crate) weights: Vec<f64>,
    pub(crate) means: Vec<Vec<f64>>,
}

/// Rows in the directions in which they vary. Distances, starts and regularised covariances are the same in every rotation,
/// and directions of no variance add the same to every density.
struct Rotated {
    centre: DVector<f64>,
    directions: DMatrix<f64>,
    /// A column for each direction, so that a direction's values are next to each other.
    rows: DMatrix<f64>,
}

/// Weight, mean and Cholesky factor of the covariance of one component.
struct Component {
    weight: f64,
    mean: DVector<f64>,
    covariance: Cholesky<f64, Dyn>,
}

impl Mixture {
    /// Fits `count` components to rows of `width` numbers. Every start begins with k-means from other centres; the one with
    /// the greatest likelihood is returned. `None` if there are fewer rows than components, or if no start gives one.
    pub(crate) fn fit(
        rows: &[f32],
        width: usize,
        count: usize,
        starts: usize,
        seed: u64,
    ) -> Option<Self> {
        if rows.len() / width < count {
            return None;
        }
        let rotated = Rotated::new(rows, width);
        let (_, components) = best_of_starts(&rotated.rows, count, starts, seed)?;
        Some(Self {
            weights: components.iter().map(|c| c.weight).collect(),
            means: components.iter().map(|c| rotated.back(&c.mean)).collect(),
        })
    }
}

impl Rotated {
    fn new(rows: &[f32], width: usize) -> Self {
        let count = rows.len() / width;
        let mut rows =
            DMatrix::from_row_iterator(count, width, rows.iter().copied().map(f64::from));
        let centre = rows.row_mean().transpose();
        for (mut column, mean) in rows.column_iter_mut().zip(centre.iter()) {
            column.add_scalar_mut(-mean);
        }
        let eigen = (rows.transpose() * &rows / count as f64).symmetric_eigen();
        let least = LEAST_VARIANCE * eigen.eigenvalues.max();
        let varying: Vec<_> = eigen
            .eigenvectors
            .column_iter()
            .zip(eigen.eigenvalues.iter())
            .filter(|(_, variance)| **variance > least)
            .map(|(direction, _)| direction)
            .collect();
        let directions = match &varying[..] {
            // All rows are equal.
            [] => DMatrix::zeros(width, 1),
            some => DMatrix::from_columns(some),
        };
        Self {
            rows: rows * &directions,
            centre,
            directions,
        }
    }

    fn back(&self, mean: &DVector<f64>) -> Vec<f64> {
        let mean = &self.centre + &self.directions * mean;
        mean.iter().copied().collect()
    }
}

/// The components with the greatest mean log likelihood of a row, after it.
fn best_of_starts(
    rows: &DMatrix<f64>,
    count: usize,
    starts: usize,
    seed: u64,
) -> Option<(f64, Vec<Component>)> {
    let mut generator = Generator::new(seed);
    let found = (0..starts).filter_map(|_| {
        let memberships = k_means(rows, count, &mut generator);
        improve(rows, memberships)
    });
    found.max_by(|left, right| left.0.total_cmp(&right.0))
}

/// Expectation and maximisation until the likelihood stays. Returns it with the components.
fn improve(rows: &DMatrix<f64>, mut memberships: DMatrix<f64>) -> Option<(f64, Vec<Component>)> {
    let mut components = components(rows, &memberships)?;
    let mut likelihood = expect(rows, &components, &mut memberships);
    for _ in 0..MOST_STEPS {
        let before = likelihood;
        components = self::components(rows, &memberships)?;
        likelihood = expect(rows, &components, &mut memberships);
        if (likelihood - before).abs() < TOLERANCE {
            break;
        }
    }
    likelihood.is_finite().then_some((likelihood, components))
}

/// The components that rows belong to by `memberships`, a column for each.
fn components(rows: &DMatrix<f64>, memberships: &DMatrix<f64>) -> Option<Vec<Component>> {
    let component = |memberships: &[f64]| {
        let mut members: Vec<usize> = (0..rows.nrows()).collect();
        members.retain(|number| memberships[*number] > LEAST_MEMBERSHIP);
        // An empty component keeps the centre of all rows, and a weight that no row comes to it with.
        let sum = memberships.iter().sum::<f64>() + 10.0 * f64::EPSILON;
        let mut members_rows = rows.select_rows(&members);
        let member = DVector::from_iterator(
            members.len(),
            members.iter().map(|number| memberships[*number]),
        );
        let mean = members_rows.transpose() * &member / sum;
        let roots = member.map(f64::sqrt);
        for (mut column, mean) in members_rows.column_iter_mut().zip(mean.iter()) {
            column.add_scalar_mut(-mean);
            column.component_mul_assign(&roots);
        }
        let mut covariance = members_rows.transpose() * &members_rows / sum;
        for place in 0..covariance.nrows() {
            covariance[(place, place)] += REGULARISATION;
        }
        Some(Component {
            weight: sum / rows.nrows() as f64,
            mean,
            covariance: Cholesky::new(covariance)?,
        })
    };
    let columns = memberships.as_slice().chunks_exact(rows.nrows());
    columns.map(component).collect()
}

/// Sets how much each row belongs to each component, and returns the rows' mean log likelihood.
fn expect(rows: &DMatrix<f64>, components: &[Component], memberships: &mut DMatrix<f64>) -> f64 {
    for (number, component) in components.iter().enumerate() {
        let factor = component.covariance.l_dirty();
        let mut distances = rows.clone();
        for (mut column, mean) in distances.column_iter_mut().zip(component.mean.iter()) {
            column.add_scalar_mut(-mean);
        }
        divide_by_factor(&mut distances, factor);
        let log_determinant: f64 = factor.diagonal().iter().map(|value| value.ln()).sum();
        let width = rows.ncols() as f64;
        let constant = component.weight.ln()
            - log_determinant
            - 0.5 * width * (2.0 * std::f64::consts::PI).ln();
        let mut logarithms = memberships.column_mut(number);
        logarithms.fill(constant);
        for column in distances.column_iter() {
            for (sum, value) in logarithms.iter_mut().zip(column.iter()) {
                *sum -= 0.5 * value * value;
            }
        }
    }
    let mut likelihood = 0.0;
    for mut row in memberships.row_iter_mut() {
        let largest = row.max();
        let sum: f64 = row.iter().map(|value| (value - largest).exp()).sum();
        let logarithm = largest + sum.ln();
        row.iter_mut()
            .for_each(|value| *value = (*value - logarithm).exp());
        likelihood += logarithm;
    }
    likelihood / rows.nrows() as f64
}

/// Replaces every row x by the y with factor * y = x, for a lower triangular factor.
fn divide_by_factor(rows: &mut DMatrix<f64>, factor: &DMatrix<f64>) {
    let width = rows.ncols();
    for first in (0..width).step_by(BLOCK) {
        let size = BLOCK.min(width - first);
        let (done, mut rest) = rows.columns_range_pair_mut(..first, first..);
        let mut block = rest.columns_mut(0, size);
        if first > 0 {
            let before = factor.view((first, 0), (size, first)).transpose();
            block.gemm(-1.0, &done, &before, 1.0);
        }
        for place in 0..size {
            let (solved, mut rest) = block.columns_range_pair_mut(..place, place..);
            let mut column = rest.column_mut(0);
            for (number, other) in solved.column_iter().enumerate() {
                column.axpy(-factor[(first + place, first + number)], &other, 1.0);
            }
            column /= factor[(first + place, first + place)];
        }
    }
}

/// Clusters of k-means from centres that are drawn far from each other (k-means++): 1 where a row belongs, else 0.
fn k_means(rows: &DMatrix<f64>, count: usize, generator: &mut Generator) -> DMatrix<f64> {
    let squares =
        DVector::from_iterator(rows.nrows(), rows.row_iter().map(|row| row.norm_squared()));
    let mut centres = first_centres(rows, count, generator);
    let mut clusters = vec![usize::MAX; rows.nrows()];
    for _ in 0..MOST_MEAN_STEPS {
        let products = rows * centres.transpose();
        let lengths: Vec<f64> = centres.row_iter().map(|row| row.norm_squared()).collect();
        let mut moved = false;
        for (row, cluster) in clusters.iter_mut().enumerate() {
            let distance = |c: usize| squares[row] + lengths[c] - 2.0 * products[(row, c)];
            let nearest = (0..count).min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
            moved |= nearest != Some(*cluster);
            *cluster = nearest.unwrap_or(0);
        }
        if !moved {
            break;
        }
        let memberships = indicators(&clusters, count);
        let sums = memberships.transpose() * rows;
        for number in 0..count {
            let size = memberships.column(number).sum();
            // A cluster without rows stays where it is.
            if size > 0.0 {
                centres.set_row(number, &(sums.row(number) / size));
            }
        }
    }
    indicators(&clusters, count)
}

fn first_centres(rows: &DMatrix<f64>, count: usize, generator: &mut Generator) -> DMatrix<f64> {
    let mut centres = DMatrix::zeros(count, rows.ncols());
    let mut distances = vec![f64::INFINITY; rows.nrows()];
    let mut chosen = (generator.uniform() * rows.nrows() as f64) as usize;
    for number in 0..count {
        centres.set_row(number, &rows.row(chosen));
        for (row, distance) in distances.iter_mut().enumerate() {
            let to_new = (rows.row(row) - rows.row(chosen)).norm_squared();
            *distance = distance.min(to_new);
        }
        let mut left = generator.uniform() * distances.iter().sum::<f64>();
        chosen = distances
            .iter()
            .position(|distance| {
                left -= distance;
                left < 0.0
            })
            .unwrap_or(rows.nrows() - 1);
    }
    centres
}

fn indicators(clusters: &[usize], count: usize) -> DMatrix<f64> {
    let entry = |row: usize, cluster: usize| f64::from(u8::from(clusters[row] == cluster));
    DMatrix::from_fn(clusters.len(), count, entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of two components: 60 around 0 with variances 4 and 1, 30 around (8, 8) with variance 1.
    fn two_clouds(generator: &mut Generator) -> Vec<f32> {
        let mut rows = Vec::new();
        for number in 0..90 {
            let (centre, spread) = if number < 60 { (0.0, 2.0) } else { (8.0, 1.0) };
            rows.push((centre + spread * generator.normal()) as f32);
            rows.push((centre + generator.normal()) as f32);
        }
        rows
    }

    fn sorted(mixture: &Mixture) -> Vec<f64> {
        let mut weights = mixture.weights.clone();
        weights.sort_by(f64::total_cmp);
        weights
    }

    #[test]
    fn components_of_two_clouds_are_found() {
        let rows = two_clouds(&mut Generator::new(1));
        let mixture = Mixture::fit(&rows, 2, 2, 5, 1).unwrap();
        assert!(
            (sorted(&mixture)[0] - 1.0 / 3.0).abs() < 0.01,
            "{mixture:?}"
        );
        let far = mixture.means.iter().find(|mean| mean[0] > 4.0).unwrap();
        assert!(far.iter().all(|value| (value - 8.0).abs() < 0.5), "{far:?}");
    }

    #[test]
    fn constant_columns_and_a_rotation_change_nothing() {
        let plain = two_clouds(&mut Generator::new(2));
        let (sine, cosine) = 0.7f32.sin_cos();
        let turned: Vec<f32> = plain
            .chunks_exact(2)
            .flat_map(|row| {
                let (x, y) = (row[0], row[1]);
                [5.0, cosine * x - sine * y, -1.0, sine * x + cosine * y]
            })
            .collect();
        let plain = Mixture::fit(&plain, 2, 2, 3, 7).unwrap();
        let turned = Mixture::fit(&turned, 4, 2, 3, 7).unwrap();
        for (a, b) in sorted(&plain).iter().zip(sorted(&turned)) {
            assert!((a - b).abs() < 1e-4, "{plain:?} {turned:?}");
        }
        assert!(turned.means.iter().all(|mean| (mean[0] - 5.0).abs() < 1e-5));
    }

    /// More directions than rows in a component, and more than a block of columns.
    #[test]
    fn wide_rows_have_finite_likelihoods_equal_to_the_plain_formula() {
        let (width, count) = (70, 40);
        let mut generator = Generator::new(3);
        let rows: Vec<f32> = (0..count * width)
            .map(|place| generator.normal() as f32 + if place / width < 25 { 3.0 } else { -3.0 })
            .collect();
        let mixture = Mixture::fit(&rows, width, 2, 3, 1).unwrap();
        assert!(
            (sorted(&mixture)[0] - 15.0 / 40.0).abs() < 1e-9,
            "{mixture:?}"
        );

        let matrix = Rotated::new(&rows, width).rows;
        let memberships = DMatrix::from_element(count, 1, 1.0);
        let one = components(&matrix, &memberships).unwrap();
        let found = expect(&matrix, &one, &mut memberships.clone());
        let inverse = one[0].covariance.inverse();
        let squares: f64 = matrix
            .row_iter()
            .map(|row| {
                let centred = row.transpose() - &one[0].mean;
                (centred.transpose() * &inverse * centred)[0]
            })
            .sum();
        let constant = matrix.ncols() as f64 * (2.0 * std::f64::consts::PI).ln()
            + one[0].covariance.determinant().ln();
        let plain = -0.5 * (constant + squares / count as f64);
        assert!(
            (found - plain).abs() < 1e-6 * plain.abs(),
            "{found} {plain}"
        );
    }

    #[test]
    fn more_starts_are_never_less_likely() {
        let rows = two_clouds(&mut Generator::new(4));
        let rows = Rotated::new(&rows, 2).rows;
        let likelihood = |starts: usize| best_of_starts(&rows, 5, starts, 9).unwrap().0;
        let (one, three, twenty) = (likelihood(1), likelihood(3), likelihood(20));
        assert!(
            one <= three && three <= twenty && one < twenty,
            "{one} {three} {twenty}"
        );
    }

    #[test]
    fn fewer_rows_than_components_are_refused() {
        assert!(Mixture::fit(&[1.0, 2.0], 1, 3, 2, 1).is_none());
        assert!(Mixture::fit(&[1.0, 1.0, 1.0], 1, 2, 2, 1).is_some());
    }
}
