//! Calibration of the frozen model on labelled held-out rows: a slope for its logits and a bias for each class.

use nalgebra::{DMatrix, DVector};

use crate::proportions::Probabilities;

/// Logarithms are taken of at least this: an exact 0 from a rounded softmax is no certainty.
pub(super) const SMALLEST_PROBABILITY: f64 = 1e-6;
/// Pulls slope and biases towards those of a calibrated model, as much as this many rows would. Without it classes that
/// are separated without an error would have an infinite slope.
const RIDGE: f64 = 1.0;
const MOST_STEPS: usize = 50;
const TOLERANCE: f64 = 1e-9;
/// A model whose certainty says nothing, or the opposite, is taken for one that says little.
const SMALLEST_SLOPE: f64 = 0.05;

/// f = softmax(slope ln p + bias), fitted by maximum likelihood.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Calibration {
    slope: f64,
    /// The first is 0: a number added to all of them changes nothing.
    biases: Vec<f64>,
}

impl Calibration {
    /// Newton's method on the penalised log-likelihood, which is concave.
    pub(super) fn fit(held_out: &Probabilities, labels: &[u32]) -> Self {
        let classes = held_out.classes();
        let mut parameters = DVector::zeros(classes);
        parameters[0] = 1.0;
        let mut best = Self::from_parameters(&parameters);
        let mut loss = best.loss(held_out, labels);
        for _ in 0..MOST_STEPS {
            let (gradient, hessian) = best.slopes(held_out, labels);
            let Some(factor) = hessian.cholesky() else {
                break;
            };
            let direction = factor.solve(&gradient);
            // Full steps overshoot where the likelihood is flat: halve until one is an improvement.
            let mut step = 1.0;
            let found = (0..20).find_map(|_| {
                let next = &parameters - step * &direction;
                step /= 2.0;
                let candidate = Self::from_parameters(&next);
                let reached = candidate.loss(held_out, labels);
                (reached < loss).then_some((next, candidate, reached))
            });
            let Some((next, candidate, reached)) = found else {
                break;
            };
            let gain = loss - reached;
            (parameters, best, loss) = (next, candidate, reached);
            if gain < TOLERANCE * labels.len() as f64 {
                break;
            }
        }
        best.slope = best.slope.max(SMALLEST_SLOPE);
        best
    }

    /// Replaces a row by its calibrated probabilities, each at least [`SMALLEST_PROBABILITY`].
    pub(super) fn apply(&self, row: &[f64], out: &mut Vec<f64>) {
        let first = out.len();
        let logit = |(p, bias): (&f64, &f64)| self.slope * p.max(SMALLEST_PROBABILITY).ln() + bias;
        out.extend(row.iter().zip(&self.biases).map(logit));
        let row = &mut out[first..];
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        row.iter_mut()
            .for_each(|value| *value = (*value - largest).exp());
        let sum: f64 = row.iter().sum();
        row.iter_mut()
            .for_each(|value| *value = (*value / sum).max(SMALLEST_PROBABILITY));
    }

    /// ln p of the model before calibration, up to a number for each row.
    pub(super) fn logits<'a>(
        &'a self,
        calibrated: &'a [f64],
    ) -> impl Iterator<Item = f64> + Clone + 'a {
        let logit = |(f, bias): (&f64, &f64)| (f.ln() - bias) / self.slope;
        calibrated.iter().zip(&self.biases).map(logit)
    }

    fn from_parameters(parameters: &DVector<f64>) -> Self {
        let mut biases = parameters.as_slice().to_vec();
        biases[0] = 0.0;
        Self {
            slope: parameters[0],
            biases,
        }
    }

    /// Negative log-likelihood with its penalty.
    fn loss(&self, held_out: &Probabilities, labels: &[u32]) -> f64 {
        let mut row = Vec::with_capacity(self.biases.len());
        let mut loss = 0.5 * RIDGE * (self.slope - 1.0).powi(2);
        loss += 0.5 * RIDGE * self.biases.iter().map(|bias| bias * bias).sum::<f64>();
        for (probabilities, label) in held_out.rows().zip(labels) {
            row.clear();
            self.apply(probabilities, &mut row);
            loss -= row[*label as usize].ln();
        }
        loss
    }

    /// Gradient and Hessian of [`Calibration::loss`] by slope and biases, the slope in the place of the first bias.
    fn slopes(&self, held_out: &Probabilities, labels: &[u32]) -> (DVector<f64>, DMatrix<f64>) {
        let classes = self.biases.len();
        let mut gradient = DVector::from_column_slice(&self.biases) * RIDGE;
        gradient[0] = RIDGE * (self.slope - 1.0);
        let mut hessian = DMatrix::identity(classes, classes) * RIDGE;
        let mut row = Vec::with_capacity(classes);
        for (probabilities, label) in held_out.rows().zip(labels) {
            row.clear();
            self.apply(probabilities, &mut row);
            let logs: Vec<f64> = probabilities
                .iter()
                .map(|p| p.max(SMALLEST_PROBABILITY).ln())
                .collect();
            let mean: f64 = row.iter().zip(&logs).map(|(f, log)| f * log).sum();
            gradient[0] += mean - logs[*label as usize];
            hessian[(0, 0)] += row
                .iter()
                .zip(&logs)
                .map(|(f, log)| f * (log - mean).powi(2))
                .sum::<f64>();
            for class in 1..classes {
                gradient[class] += row[class] - f64::from(u8::from(class == *label as usize));
                let with_slope = row[class] * (logs[class] - mean);
                hessian[(0, class)] += with_slope;
                hessian[(class, 0)] += with_slope;
                for other in 1..classes {
                    let own = if other == class { row[class] } else { 0.0 };
                    hessian[(class, other)] += own - row[class] * row[other];
                }
            }
        }
        (gradient, hessian)
    }
}

#[cfg(test)]
mod tests {
    use ostar_engine::{Generator, Rows};

    use super::*;

    /// Rows whose true log-odds are `ratio` of what the model claims, plus `bias`.
    fn claimed(ratio: f64, bias: f64) -> (Probabilities, Vec<u32>) {
        let mut generator = Generator::new(5);
        let (mut rows, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..4_000 {
            let logit = 2.0 * generator.normal();
            let p = 1.0 / (1.0 + (-logit).exp());
            rows.extend([1.0 - p, p]);
            let truth = 1.0 / (1.0 + (-(ratio * logit + bias)).exp());
            labels.push(u32::from(generator.uniform() < truth));
        }
        let rows = Rows::new(&rows[..], 2).unwrap();
        (Probabilities::new("test", rows).unwrap(), labels)
    }

    #[test]
    fn an_overconfident_model_is_calibrated_in_slope_and_bias() {
        for (ratio, bias) in [(1.0, 0.0), (0.5, 0.0), (0.6, 0.8), (1.5, -0.4)] {
            let (rows, labels) = claimed(ratio, bias);
            let fitted = Calibration::fit(&rows, &labels);
            assert!(
                (fitted.slope - ratio).abs() < 0.1,
                "{ratio} {bias}: {fitted:?}"
            );
            assert!(
                (fitted.biases[1] - bias).abs() < 0.15,
                "{ratio} {bias}: {fitted:?}"
            );
        }
    }

    #[test]
    fn scores_of_0_and_1_and_classes_without_an_error_stay_finite() {
        let values = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0];
        let rows = Probabilities::new("test", Rows::new(&values[..], 2).unwrap()).unwrap();
        let fitted = Calibration::fit(&rows, &[0, 1, 0, 1]);
        let mut out = Vec::new();
        fitted.apply(&[1.0, 0.0], &mut out);
        assert!(
            out.iter().all(|value| value.is_finite() && *value > 0.0),
            "{out:?}"
        );
    }
}
