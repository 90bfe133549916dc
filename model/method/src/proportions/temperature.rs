//! Temperature calibration on held-out source rows.

use ostar_engine::{Result, powers};
use serde::{Deserialize, Serialize};

use super::{LabelProportions, Probabilities, em::check_prior, shrinkage::noise_share};

/// Logarithms are taken of at least this: an exact 0 from a rounded softmax is no certainty.
const SMALLEST_PROBABILITY: f64 = 1e-12;

/// Where the temperature is looked for. A classifier without an error on the held-out rows would have 0.
const RANGE: (f64, f64) = (0.1, 10.0);

/// T in softmax(logits / T): above 1 for a classifier that is too sure of itself. Probabilities are enough
/// to apply it, since their logarithms are logits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Temperature(f64);

impl Temperature {
    /// Leaves probabilities as they are.
    pub const ONE: Self = Self(1.0);

    /// The temperature with the least negative log-likelihood of the labels, within 0.1 to 10.
    ///
    /// `prior` is the class shares that the classifier was trained for. The held-out rows may have others
    /// (a class-balanced buffer): the likelihood is that of the prior-corrected probabilities, else the
    /// temperature would be bent to explain the difference.
    pub fn fit(held_out: &Probabilities, labels: &[u32], prior: &LabelProportions) -> Result<Self> {
        let (inverse, _) = fit_inverse(held_out, labels, prior)?;
        Ok(Self(1.0 / inverse))
    }

    /// [`fit`](Self::fit), drawn back towards 1, and exactly 1 unless the held-out rows contradict it: the
    /// classifier's own calibration mostly rests on more rows than are held out. Also returns the trust in that
    /// calibration: 1 when it is not contradicted, and less the more clearly it is.
    pub(crate) fn fit_cautiously(
        held_out: &Probabilities,
        labels: &[u32],
        prior: &LabelProportions,
    ) -> Result<(Self, f64)> {
        let (inverse, curvature) = fit_inverse(held_out, labels, prior)?;
        let distance = inverse - 1.0;
        let squared_score = distance * distance * curvature * labels.len() as f64;
        let trust = noise_share(squared_score, 1);
        Ok((Self(1.0 / (1.0 + (1.0 - trust) * distance)), trust))
    }

    /// T, between 0.1 and 10 when it was fitted.
    pub fn value(self) -> f64 {
        self.0
    }

    /// The probabilities at this temperature.
    pub fn apply(self, probabilities: &Probabilities) -> Probabilities {
        let mut tempered = probabilities.clone();
        self.apply_to(&mut tempered);
        tempered
    }

    /// [`Temperature::apply`] in place.
    pub(crate) fn apply_to(self, tempered: &mut Probabilities) {
        if self == Self::ONE {
            return;
        }
        // Single precision is what predictions come in. Scaled by a row's largest, its powers cannot all underflow.
        let mut powers: Vec<f32> = Vec::with_capacity(tempered.as_slice().len());
        for row in tempered.rows() {
            let largest = row
                .iter()
                .fold(0.0, |a: f64, b| if *b > a { *b } else { a });
            let scale = 1.0 / largest;
            let ratio = |value: &f64| (value.max(SMALLEST_PROBABILITY) * scale) as f32;
            powers.extend(row.iter().map(ratio));
        }
        powers::raise(&mut powers, (1.0 / self.0) as f32);
        let rows = powers.chunks_exact(tempered.classes());
        for (row, powers) in tempered.rows_mut().zip(rows) {
            let scale = 1.0 / powers.iter().map(|power| f64::from(*power)).sum::<f64>();
            for (value, power) in row.iter_mut().zip(powers) {
                *value = f64::from(*power) * scale;
            }
        }
    }
}

/// 1/T with the least mean negative log-likelihood, and the latter's curvature there.
fn fit_inverse(
    held_out: &Probabilities,
    labels: &[u32],
    prior: &LabelProportions,
) -> Result<(f64, f64)> {
    let classes = held_out.classes();
    ostar_engine::checks::length("held-out labels", labels.len(), held_out.count())?;
    ostar_engine::checks::labels(labels, classes)?;
    check_prior(prior, classes)?;
    let mut counts = vec![0.0; classes];
    ostar_engine::weights::class_counts(labels.iter().copied(), &mut counts);
    let shift = |(count, proportion): (&f64, &f64)| {
        (count / labels.len() as f64).max(SMALLEST_PROBABILITY).ln() - proportion.ln()
    };
    let shifts: Vec<f64> = counts.iter().zip(prior.as_ref()).map(shift).collect();
    let logits: Vec<f64> = held_out.as_slice().iter().map(logit).collect();
    let slopes = |inverse: f64| likelihood_slopes(&logits, labels, &shifts, inverse);
    let inverse = root(slopes, 1.0 / RANGE.1, 1.0 / RANGE.0);
    let (_, curvature) = slopes(inverse);
    Ok((inverse, curvature))
}

fn logit(probability: &f64) -> f64 {
    probability.max(SMALLEST_PROBABILITY).ln()
}

/// First and second derivative of the mean negative log-likelihood by 1/T, in which it is convex.
fn likelihood_slopes(logits: &[f64], labels: &[u32], shifts: &[f64], inverse: f64) -> (f64, f64) {
    let (mut first, mut second) = (0.0, 0.0);
    for (row, label) in logits.chunks_exact(shifts.len()).zip(labels) {
        let scaled = |(logit, shift): (&f64, &f64)| inverse * logit + shift;
        // Subtracted before exp, which would overflow for small temperatures.
        let largest = row
            .iter()
            .zip(shifts)
            .map(scaled)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut total, mut mean, mut square) = (0.0, 0.0, 0.0);
        for (logit, shift) in row.iter().zip(shifts) {
            let weight = (inverse * logit + shift - largest).exp();
            total += weight;
            mean += weight * logit;
            square += weight * logit * logit;
        }
        mean /= total;
        first += mean - row[*label as usize];
        second += square / total - mean * mean;
    }
    let rows = labels.len() as f64;
    (first / rows, second / rows)
}

/// Where a convex function's slope is 0 between `low` and `high`, or the nearer end: Newton's steps, halving
/// the bracket when one leaves it.
fn root(slopes: impl Fn(f64) -> (f64, f64), mut low: f64, mut high: f64) -> f64 {
    let mut at = 1.0;
    for _ in 0..200 {
        let (first, second) = slopes(at);
        if first > 0.0 {
            high = at;
        } else {
            low = at;
        }
        // A curvature of 0 makes this infinite or NaN. Neither is inside the bracket, which is then halved.
        let newton = at - first / second;
        let next = if newton > low && newton < high {
            newton
        } else {
            0.5 * (low + high)
        };
        if (next - at).abs() <= 1e-12 * at {
            return next;
        }
        at = next;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::{Generator, Rows};

    /// Rows whose labels are drawn from their own probabilities, then sharpened.
    fn overconfident(sharpness: f64) -> (Probabilities, Vec<u32>) {
        let mut generator = Generator::new(3);
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..20_000 {
            let odds = generator.normal();
            let positive = 1.0 / (1.0 + (-odds).exp());
            labels.push(u32::from(generator.uniform() < positive));
            let shown = 1.0 / (1.0 + (-odds * sharpness).exp());
            values.extend([1.0 - shown, shown]);
        }
        let rows = Rows::new(&values[..], 2).unwrap();
        (Probabilities::new("held-out", rows).unwrap(), labels)
    }

    #[test]
    fn the_temperature_that_sharpened_the_probabilities_is_found() {
        for sharpness in [0.5, 1.0, 3.0] {
            let (rows, labels) = overconfident(sharpness);
            let prior = LabelProportions::uniform(2);
            let temperature = Temperature::fit(&rows, &labels, &prior).unwrap();
            assert!(
                (temperature.value() / sharpness - 1.0).abs() < 0.05,
                "{temperature:?}"
            );
            let calm = temperature.apply(&rows);
            let again = Temperature::fit(&calm, &labels, &prior).unwrap();
            assert!((again.value() - 1.0).abs() < 1e-6, "{again:?}");
        }
    }

    #[test]
    fn a_cautious_fit_leaves_a_calibrated_classifier_alone() {
        let prior = LabelProportions::uniform(2);
        for (sharpness, expected) in [(1.0, 1.0), (0.5, 0.5), (3.0, 3.0)] {
            let (rows, labels) = overconfident(sharpness);
            let (cautious, trust) = Temperature::fit_cautiously(&rows, &labels, &prior).unwrap();
            assert!(
                (cautious.value() / expected - 1.0).abs() < 0.05,
                "{cautious:?}"
            );
            assert_eq!(cautious == Temperature::ONE, sharpness == 1.0);
            assert_eq!(trust == 1.0, sharpness == 1.0, "{trust}");
        }
    }

    #[test]
    fn a_buffer_with_other_shares_than_the_training_set_does_not_bend_it() {
        let (rows, labels) = overconfident(2.0);
        // Three positives of four are dropped: the classifier's prior stays uniform.
        let mut positives = 0;
        let (mut values, mut kept) = (Vec::new(), Vec::new());
        for (row, label) in rows.rows().zip(&labels) {
            positives += label;
            if *label == 0 || positives % 4 == 0 {
                values.extend_from_slice(row);
                kept.push(*label);
            }
        }
        let thinned = Probabilities::new("held-out", Rows::new(&values[..], 2).unwrap()).unwrap();
        let temperature = Temperature::fit(&thinned, &kept, &LabelProportions::uniform(2)).unwrap();
        assert!((temperature.value() - 2.0).abs() < 0.15, "{temperature:?}");
    }

    #[test]
    fn a_classifier_without_errors_gets_the_lowest_temperature() {
        let values = [1.0, 0.0, 0.2, 0.8];
        let rows = Probabilities::new("held-out", Rows::new(&values[..], 2).unwrap()).unwrap();
        let temperature = Temperature::fit(&rows, &[0, 1], &LabelProportions::uniform(2)).unwrap();
        assert!(
            (temperature.value() - RANGE.0).abs() < 1e-3,
            "{temperature:?}"
        );
        let applied = temperature.apply(&rows);
        assert!(applied.as_slice().iter().all(|value| value.is_finite()));
    }
}
