//! Least squares on the simplex for many classes, by accelerated projected descent.
//!
//! The exact method of `simplex` factorises a matrix, in cubic time. Here the matrix is made once from the held-out
//! rows, and each step is a product with it.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use nalgebra::DMatrix;
use ostar_engine::linear::Packed;
use pulp::Arch;

use super::LabelProportions;

/// Shares are found when a step moves them less than this in all. Sampling noise moves them thousands of times more.
const TOLERANCE: f64 = 1e-5;
/// Steps at most. They bound the time where two classes look alike, and what is left to move then lies within noise.
const MOST_STEPS: usize = 150;
/// Solutions that are kept. A block asks for two, that of now and that of the long run, and again for the first.
const KEPT: usize = 2;

/// Finds the p on the simplex with the least ||M (p - r)|| for one M and many r.
#[derive(Debug)]
pub(crate) struct SimplexDescent {
    /// M'M in single precision. Its numbers are at least 0 because M's are.
    gram: Vec<f32>,
    /// How far each class moves along its slope: one over its row's sum in the Gram matrix. The matrix with these sums on
    /// its diagonal exceeds the Gram matrix, so that no step goes too far.
    reach: Vec<f64>,
    solved: Solved,
}

/// The newest solutions, by reading.
#[derive(Debug, Default)]
struct Solved(Mutex<VecDeque<(Vec<f64>, LabelProportions)>>);

// === impl SimplexDescent ===

impl SimplexDescent {
    /// `columns` (M) has the mean prediction of each class, one a column.
    pub(crate) fn new(columns: &DMatrix<f64>) -> Self {
        let classes = columns.ncols();
        let values: Vec<f32> = columns.iter().map(|value| *value as f32).collect();
        let mut gram = vec![0.0; classes * classes];
        // Stored by columns, M is the row-major matrix of its transpose.
        Packed::new(&values, classes, classes).multiply(classes, &values, &mut gram);
        let sum = |row: &[f32]| row.iter().map(|value| f64::from(*value)).sum::<f64>();
        Self {
            reach: gram.chunks_exact(classes).map(|r| 1.0 / sum(r)).collect(),
            gram,
            solved: Solved::default(),
        }
    }

    /// The shares whose mean prediction is nearest to that of `reading`. They depend on `reading` alone: a
    /// start from earlier shares would make a restored learner differ from one that went on.
    pub(crate) fn nearest(&self, reading: &[f64]) -> LabelProportions {
        if let Some(known) = self.solved.get(reading) {
            return known;
        }
        let found = LabelProportions::rescaled(self.descend(reading));
        self.solved.keep(reading, &found);
        found
    }

    /// FISTA (Beck and Teboulle 2009), its momentum restarted where it leads uphill (O'Donoghue and Candes 2015).
    fn descend(&self, reading: &[f64]) -> Vec<f64> {
        let mut shares = reading.to_vec();
        self.project(&mut shares);
        let mut ahead = shares.clone();
        let mut next = vec![0.0; shares.len()];
        let mut slopes = vec![0.0; shares.len()];
        let mut momentum: f64 = 1.0;
        for _ in 0..MOST_STEPS {
            self.slopes(&ahead, reading, &mut slopes);
            for (place, to) in next.iter_mut().enumerate() {
                *to = ahead[place] - self.reach[place] * f64::from(slopes[place]);
            }
            self.project(&mut next);
            let (mut moved, mut uphill) = (0.0, 0.0);
            for (place, to) in next.iter().enumerate() {
                let step = to - shares[place];
                moved += step.abs();
                uphill += (ahead[place] - to) * step / self.reach[place];
            }
            let grown = 0.5 * (1.0 + (1.0 + 4.0 * momentum * momentum).sqrt());
            let push = if uphill > 0.0 {
                0.0
            } else {
                (momentum - 1.0) / grown
            };
            momentum = if uphill > 0.0 { 1.0 } else { grown };
            for ((ahead, to), from) in ahead.iter_mut().zip(&next).zip(&shares) {
                *ahead = to + push * (to - from);
            }
            shares.copy_from_slice(&next);
            if moved < TOLERANCE {
                break;
            }
        }
        shares
    }

    /// M'M (at - reading). The matrix is symmetric: its rows are added as columns, four at a time, which the
    /// compiler vectorises.
    fn slopes(&self, at: &[f64], reading: &[f64], slopes: &mut [f32]) {
        let classes = at.len();
        let differences: Vec<f32> = at
            .iter()
            .zip(reading)
            .map(|(a, r)| (a - r) as f32)
            .collect();
        Arch::new().dispatch(|| {
            slopes.fill(0.0);
            let fours = self.gram.chunks_exact(4 * classes);
            let rest = fours.remainder().chunks_exact(classes);
            let (scales, last) = differences.as_chunks::<4>();
            for (rows, scale) in fours.zip(scales) {
                let (first, others) = rows.split_at(classes);
                let (second, others) = others.split_at(classes);
                let (third, fourth) = others.split_at(classes);
                let rows = first.iter().zip(second).zip(third.iter().zip(fourth));
                for (slope, ((a, b), (c, d))) in slopes.iter_mut().zip(rows) {
                    *slope += (scale[0] * a + scale[1] * b) + (scale[2] * c + scale[3] * d);
                }
            }
            for (row, scale) in rest.zip(last) {
                for (slope, value) in slopes.iter_mut().zip(row) {
                    *slope += scale * value;
                }
            }
        });
    }

    /// The nearest point of the simplex, distances of each class weighed by one over its `reach`: all classes fall,
    /// each by its reach, until those above 0 sum to 1. Newton's method, which here never goes too far.
    fn project(&self, point: &mut [f64]) {
        let all: f64 = point.iter().sum();
        let mut fall = (all - 1.0) / self.reach.iter().sum::<f64>();
        // Each round but the last takes a class to 0.
        for _ in 0..point.len() {
            let (mut excess, mut reach) = (-1.0, 0.0);
            for (value, own) in point.iter().zip(&self.reach) {
                let left = value - fall * own;
                if left > 0.0 {
                    excess += left;
                    reach += own;
                }
            }
            if excess <= 1e-12 || reach <= 0.0 {
                break;
            }
            fall += excess / reach;
        }
        for (value, own) in point.iter_mut().zip(&self.reach) {
            *value = (*value - fall * own).max(0.0);
        }
    }
}

// === impl Solved ===

impl Solved {
    fn get(&self, reading: &[f64]) -> Option<LabelProportions> {
        let solved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = solved.iter().find(|(of, _)| of == reading);
        known.map(|(_, found)| found.clone())
    }

    fn keep(&self, reading: &[f64], found: &LabelProportions) {
        let mut solved = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        solved.truncate(KEPT - 1);
        solved.push_front((reading.to_vec(), found.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proportions::simplex::nearest_on_simplex;
    use ostar_engine::Generator;

    /// Mean predictions of classes of which each is taken for some others.
    fn columns(classes: usize, generator: &mut Generator) -> DMatrix<f64> {
        let mut columns = DMatrix::from_fn(classes, classes, |row, column| {
            let own = if row == column { 2.0 } else { 0.0 };
            own + 3.0 * generator.uniform().powi(8) * 30.0 / classes as f64
        });
        for mut column in columns.column_iter_mut() {
            column /= column.sum();
        }
        columns
    }

    #[test]
    fn shares_are_those_of_the_exact_method() {
        let mut generator = Generator::new(1);
        for classes in [65, 100, 203] {
            let columns = columns(classes, &mut generator);
            let descent = SimplexDescent::new(&columns);
            // Noise as large as the shares: about a third of the classes end at 0.
            let mut reading: Vec<f64> = (0..classes)
                .map(|_| (1.0 + 2.0 * generator.normal()) / classes as f64)
                .collect();
            let sum: f64 = reading.iter().sum();
            reading[0] += 1.0 - sum;
            let point = &columns * nalgebra::DVector::from_column_slice(&reading);
            let exact = nearest_on_simplex(&columns, point.as_slice());
            let absent = exact.as_ref().iter().filter(|share| **share == 0.0).count();
            assert!(absent > classes / 10, "{absent} of {classes}");
            let found = descent.nearest(&reading);
            let distance = found.l1_distance(&exact);
            assert!(distance < 1e-3, "{classes} classes: {distance}");
            assert_eq!(descent.nearest(&reading), found);
        }
    }

    #[test]
    fn a_reading_on_the_simplex_stays_as_it_is() {
        let columns = columns(80, &mut Generator::new(2));
        let descent = SimplexDescent::new(&columns);
        let uniform = LabelProportions::uniform(80);
        let found = descent.nearest(uniform.as_ref());
        assert!(found.l1_distance(&uniform) < 1e-9);
    }
}
