//! Gaussian classes of a given difficulty.

use ostar_engine::{Generator, argmax};

use crate::task::Domain;

/// Rows by which the difficulty is measured, and halvings of the scale until it is met.
const PROBES: usize = 600;
const HALVINGS: usize = 14;

/// Classes with means and deviations of their own.
#[derive(Debug, Clone)]
pub(super) struct Gaussian {
    means: Vec<Vec<f64>>,
    deviations: Vec<f64>,
}

impl Gaussian {
    /// Classes in random directions, as far apart as gives the best classifier this accuracy at these shares.
    pub(super) fn of_accuracy(
        accuracy: f64,
        shares: &[f64],
        width: usize,
        generator: &mut Generator,
    ) -> Self {
        let alike = generator.uniform() < 0.5;
        let mut deviation = || {
            if alike {
                1.0
            } else {
                0.75 + 0.5 * generator.uniform()
            }
        };
        let deviations: Vec<f64> = shares.iter().map(|_| deviation()).collect();
        let directions: Vec<Vec<f64>> = shares
            .iter()
            .map(|_| (0..width).map(|_| generator.normal()).collect())
            .collect();
        let scaled = |scale: f64| Self {
            means: directions
                .iter()
                .map(|direction| direction.iter().map(|value| scale * value).collect())
                .collect(),
            deviations: deviations.clone(),
        };
        let (mut low, mut high) = (0.0, 6.0);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(low, high);
            if scaled(middle).best_accuracy(shares) < accuracy {
                low = middle;
            } else {
                high = middle;
            }
        }
        scaled(high)
    }

    /// Of the best classifier, the same draws each time.
    fn best_accuracy(&self, shares: &[f64]) -> f64 {
        let mut generator = Generator::new(1);
        let right = (0..PROBES).filter(|_| {
            let class = weighted(shares, &mut generator);
            let row = self.row(class, &mut generator);
            argmax(&self.posterior(&row, shares)) == class
        });
        right.count() as f64 / PROBES as f64
    }

    pub(super) fn row(&self, class: usize, generator: &mut Generator) -> Vec<f32> {
        let means = self.means[class].iter();
        let value = |mean: &f64| (mean + self.deviations[class] * generator.normal()) as f32;
        means.map(value).collect()
    }

    /// P(y given x) at these shares.
    pub(super) fn posterior(&self, row: &[f32], shares: &[f64]) -> Vec<f32> {
        let log = |class: usize| {
            let deviation = self.deviations[class];
            let values = row.iter().zip(&self.means[class]);
            let square: f64 = values.map(|(x, m)| (f64::from(*x) - m).powi(2)).sum();
            shares[class].max(1e-12).ln()
                - square / (2.0 * deviation * deviation)
                - row.len() as f64 * deviation.ln()
        };
        let logs: Vec<f64> = (0..shares.len()).map(log).collect();
        let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let likelihoods: Vec<f64> = logs.iter().map(|log| (log - highest).exp()).collect();
        let sum: f64 = likelihoods.iter().sum();
        likelihoods.iter().map(|v| (v / sum) as f32).collect()
    }

    /// The same with means moved by as many deviations at random, as another source has them.
    pub(super) fn another(&self, distance: f64, generator: &mut Generator) -> Self {
        let mut other = self.clone();
        let width = self.means[0].len() as f64;
        for value in other.means.iter_mut().flatten() {
            *value += distance * generator.normal() / width.sqrt();
        }
        other
    }

    pub(super) fn draw(&self, rows: usize, shares: &[f64], generator: &mut Generator) -> Domain {
        let mut domain = Domain {
            width: self.means[0].len(),
            rows: Vec::new(),
            labels: Vec::with_capacity(rows),
        };
        for _ in 0..rows {
            let class = weighted(shares, generator);
            domain.rows.extend(self.row(class, generator));
            domain.labels.push(class as u32);
        }
        domain
    }
}

/// A place drawn by weights that sum to 1.
pub(super) fn weighted(weights: &[f64], generator: &mut Generator) -> usize {
    let mut at = generator.uniform();
    let found = weights.iter().position(|weight| {
        at -= weight;
        at < 0.0
    });
    found.unwrap_or(weights.len() - 1)
}
