//! Rows as the stories see them: points, each of one row or of the rows of a bin.
//!
//! Two classes have one score. Its bins are fixed by the reference rows, and what is computed of a score is computed of the mean
//! score of the reference rows in its bin: label shift mixes the classes' counts of each bin, so that nothing is lost but
//! a little power. More classes have points of one row each.

use nalgebra::{DMatrix, DVector};

use super::{
    calibration::Calibration,
    components::{COMPONENTS, Components},
};
use crate::{deployed::HeldOut, proportions::Probabilities};

/// Logits are cut off here before they are standardised.
const FARTHEST_LOGIT: f64 = 8.0;
/// Bins of the score of two classes, and the reference rows that each should have.
const MOST_BINS: usize = 200;
const FEWEST_BINS: usize = 10;
const ROWS_OF_A_BIN: usize = 5;
/// Logits that vary less than this say nothing.
const CONSTANT: f64 = 1e-6;

/// Points with what is computed of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Points {
    /// Rows of each point.
    pub(super) weights: Vec<f64>,
    /// Calibrated probabilities (f), point after point.
    pub(super) probabilities: Vec<f64>,
    /// Standardised logits (phi), K - 1 for each point.
    pub(super) logits: Vec<f64>,
    /// Sum of the components of the rows (g), point after point; empty for a black box.
    pub(super) components: Vec<f64>,
    /// What products of components are known.
    pub(super) products: Products,
    /// The class of each point's rows, where it is known.
    pub(super) labels: Vec<u32>,
}

/// Sums of products of components (g g').
#[derive(Debug, Clone, Default)]
pub(super) enum Products {
    /// Each point is one row.
    #[default]
    OfRows,
    /// Point after point.
    OfPoints(Vec<f64>),
    /// Of all rows together.
    Total(DMatrix<f64>),
}

/// Where rows are among the points.
#[derive(Debug, Clone)]
pub(super) enum Space {
    /// Bins of the logit of two classes.
    Bins {
        /// Inner edges.
        edges: Vec<f64>,
        /// Mean calibrated probabilities and mean standardised logit of each.
        probabilities: Vec<f64>,
        logits: Vec<f64>,
    },
    /// Each row is a point.
    Rows {
        /// Mean and one over the deviation of each logit.
        centre: Vec<f64>,
        scale: Vec<f64>,
    },
}

impl Points {
    pub(super) fn rows(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// Mean and covariance over the rows of `factor` (g - `fitted`), where factor and fitted belong to the point.
    /// With products of all rows together every factor is 1.
    pub(super) fn moments(
        &self,
        count: usize,
        factor: impl Fn(usize) -> f64,
        fitted: &[f64],
    ) -> (DVector<f64>, DMatrix<f64>) {
        let mut mean = [0.0; COMPONENTS];
        let mut second = [[0.0; COMPONENTS]; COMPONENTS];
        for (point, weight) in self.weights.iter().enumerate() {
            if *weight == 0.0 {
                continue;
            }
            let factor = factor(point);
            let sum = &self.components[point * count..][..count];
            let fitted = &fitted[point * count..][..count];
            let mut rest = [0.0; COMPONENTS];
            for ((rest, sum), fitted) in rest.iter_mut().zip(sum).zip(fitted) {
                *rest = factor * (sum - weight * fitted);
            }
            mean.iter_mut()
                .zip(&rest)
                .for_each(|(mean, rest)| *mean += rest);
            let products = match &self.products {
                Products::OfRows => {
                    for (line, left) in second.iter_mut().zip(&rest) {
                        line.iter_mut()
                            .zip(&rest)
                            .for_each(|(entry, right)| *entry += left * right);
                    }
                    continue;
                }
                Products::OfPoints(products) => Some(&products[point * count * count..]),
                Products::Total(_) => None,
            };
            for a in 0..count {
                for b in 0..count {
                    let product = products.map_or(0.0, |products| products[a * count + b]);
                    let crossed = sum[a] * fitted[b] + fitted[a] * sum[b];
                    let entry = product - crossed + weight * fitted[a] * fitted[b];
                    second[a][b] += factor * factor * entry;
                }
            }
        }
        let rows = self.rows();
        let mean = DVector::from_fn(count, |a, _| mean[a] / rows);
        let covariance = DMatrix::from_fn(count, count, |a, b| {
            let (a, b) = (a.max(b), a.min(b));
            let total = match &self.products {
                Products::Total(total) => total[(a, b)],
                _ => 0.0,
            };
            (total + second[a][b]) / rows - mean[a] * mean[b]
        });
        (mean, covariance)
    }
}

impl Space {
    /// The space of rows with these calibrated probabilities; `None` if a logit does not vary.
    pub(super) fn new(calibrated: &[f64], classes: usize) -> Option<Self> {
        let rows = calibrated.len() / classes;
        let logits: Vec<f64> = calibrated
            .chunks_exact(classes)
            .flat_map(clipped_logits)
            .collect();
        let (mut centre, mut scale) = (Vec::new(), Vec::new());
        for column in 0..classes - 1 {
            let values = logits.iter().skip(column).step_by(classes - 1);
            let mean = values.clone().sum::<f64>() / rows as f64;
            let variance = values.map(|v| (v - mean).powi(2)).sum::<f64>() / rows as f64;
            if variance.sqrt() < CONSTANT {
                return None;
            }
            centre.push(mean);
            scale.push(1.0 / variance.sqrt());
        }
        if classes > 2 {
            return Some(Self::Rows { centre, scale });
        }
        let mut sorted = logits.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let bins = (rows / ROWS_OF_A_BIN).clamp(FEWEST_BINS, MOST_BINS);
        let mut edges: Vec<f64> = (1..bins).map(|bin| sorted[bin * rows / bins]).collect();
        // Equal scores share a bin, and the highest has rows.
        edges.dedup();
        edges.retain(|edge| *edge < sorted[rows - 1]);
        let mut counts = vec![0.0; edges.len() + 1];
        let mut probabilities = vec![0.0; 2 * counts.len()];
        let mut means = vec![0.0; counts.len()];
        for (row, logit) in calibrated.chunks_exact(2).zip(&logits) {
            let bin = place(*logit, &edges);
            counts[bin] += 1.0;
            probabilities[2 * bin] += row[0];
            probabilities[2 * bin + 1] += row[1];
            means[bin] += (logit - centre[0]) * scale[0];
        }
        for (bin, count) in counts.iter().enumerate() {
            probabilities[2 * bin] /= count;
            probabilities[2 * bin + 1] /= count;
            means[bin] /= count;
        }
        Some(Self::Bins {
            edges,
            probabilities,
            logits: means,
        })
    }

    /// The bin of a row; `None` where rows are points of their own.
    pub(super) fn bin(&self, calibrated: &[f64]) -> Option<usize> {
        match self {
            Self::Bins { edges, .. } => Some(place(clipped_logits(calibrated).next()?, edges)),
            Self::Rows { .. } => None,
        }
    }

    /// How many bins there are; 0 where rows are points of their own.
    pub(super) fn bins(&self) -> usize {
        match self {
            Self::Bins { logits, .. } => logits.len(),
            Self::Rows { .. } => 0,
        }
    }

    /// Standardised logits of a row.
    pub(super) fn logits<'a>(&'a self, calibrated: &'a [f64]) -> impl Iterator<Item = f64> + 'a {
        let (centre, scale) = match self {
            Self::Rows { centre, scale } => (&centre[..], &scale[..]),
            Self::Bins { .. } => (&[][..], &[][..]),
        };
        let logits = clipped_logits(calibrated).zip(centre.iter().zip(scale));
        logits.map(|(logit, (centre, scale))| (logit - centre) * scale)
    }

    /// The points of rows that stay: products are kept for each, so that any factor can be applied.
    pub(super) fn points(
        &self,
        calibrated: &[f64],
        classes: usize,
        components: &[f32],
        labels: Option<&[u32]>,
    ) -> Points {
        let rows = calibrated.len() / classes;
        let count = components.len() / rows.max(1);
        let Self::Bins {
            probabilities,
            logits,
            ..
        } = self
        else {
            let logits = calibrated.chunks_exact(classes);
            return Points {
                weights: vec![1.0; rows],
                probabilities: calibrated.to_vec(),
                logits: logits.flat_map(|row| self.logits(row)).collect(),
                components: components.iter().map(|value| f64::from(*value)).collect(),
                products: Products::OfRows,
                labels: labels.unwrap_or_default().to_vec(),
            };
        };
        // A labelled bin is a point for each class.
        let groups = if labels.is_some() { classes } else { 1 };
        let bins = logits.len();
        let size = groups * bins;
        let mut points = Points {
            weights: vec![0.0; size],
            probabilities: probabilities.repeat(groups),
            logits: logits.repeat(groups),
            components: vec![0.0; size * count],
            products: Products::default(),
            labels: match labels {
                Some(_) => (0..size).map(|point| (point / bins) as u32).collect(),
                None => Vec::new(),
            },
        };
        let mut products = vec![0.0; size * count * count];
        for (number, row) in calibrated.chunks_exact(classes).enumerate() {
            let bin = self.bin(row).unwrap_or(0);
            let point = labels.map_or(bin, |labels| labels[number] as usize * bins + bin);
            points.weights[point] += 1.0;
            let row = &components[number * count..][..count];
            for (a, left) in row.iter().enumerate() {
                points.components[point * count + a] += f64::from(*left);
                for (b, right) in row.iter().enumerate() {
                    products[(point * count + a) * count + b] += f64::from(left * right);
                }
            }
        }
        points.products = Products::OfPoints(products);
        points
    }
}

/// ln f_k - ln f_0 for every class but the first, cut off.
fn clipped_logits(calibrated: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let first = calibrated[0].ln();
    let rest = calibrated[1..].iter();
    rest.map(move |f| (f.ln() - first).clamp(-FARTHEST_LOGIT, FARTHEST_LOGIT))
}

fn place(value: f64, edges: &[f64]) -> usize {
    edges.partition_point(|edge| *edge < value)
}

/// Calibrated probabilities and components of rows, which the frozen model has scored.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) calibrated: Vec<f64>,
    pub(super) components: Vec<f32>,
}

/// How rows are prepared; fixed by the bundle.
#[derive(Debug, Clone)]
pub(super) struct Preparation {
    pub(super) calibration: Calibration,
    /// `None` for a black box.
    pub(super) components: Option<Components>,
}

impl Preparation {
    pub(super) fn new(held_out: &HeldOut) -> Self {
        let width = held_out.latents.len() / held_out.labels.len();
        Self {
            calibration: Calibration::fit(&held_out.probabilities, &held_out.labels),
            components: (width > 0).then(|| Components::new(&held_out.latents, width)),
        }
    }

    /// `latents` is empty for a black box.
    pub(super) fn prepare(&self, latents: &[f32], probabilities: &Probabilities) -> Prepared {
        let mut calibrated = Vec::with_capacity(probabilities.as_slice().len());
        for row in probabilities.rows() {
            self.calibration.apply(row, &mut calibrated);
        }
        let components = self.components.as_ref().filter(|_| !latents.is_empty());
        Prepared {
            calibrated,
            components: components.map_or_else(Vec::new, |components| components.of(latents)),
        }
    }

    pub(super) fn components(&self) -> usize {
        self.components.as_ref().map_or(0, Components::count)
    }
}
