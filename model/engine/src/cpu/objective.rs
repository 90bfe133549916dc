//! Losses of logits and their gradients, over one member's rows.

use crate::powers;

/// Softmax of every row, in place.
pub fn softmax_rows(logits: &mut [f32], classes: usize) {
    for row in logits.chunks_exact_mut(classes) {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|value| *value -= largest);
    }
    powers::exponentiate(logits);
    for row in logits.chunks_exact_mut(classes) {
        let scale = 1.0 / row.iter().sum::<f32>();
        row.iter_mut().for_each(|value| *value *= scale);
    }
}

/// Weighted cross-entropy of rows of `logits`. A row has the weight of its label's class. `gradient` receives `factor`
/// times the derivative.
pub(crate) fn cross_entropy(
    logits: &[f32],
    labels: &[u32],
    class_weights: &[f64],
    factor: f64,
    gradient: &mut Vec<f32>,
) -> f64 {
    let classes = class_weights.len();
    logits.clone_into(gradient);
    softmax_rows(gradient, classes);
    let mut loss = 0.0;
    let rows = logits
        .chunks_exact(classes)
        .zip(gradient.chunks_exact_mut(classes));
    for ((row, gradient), label) in rows.zip(labels) {
        let label = *label as usize;
        let weight = class_weights[label];
        loss += weight * (log_sum_exp(row) - f64::from(row[label]));
        gradient[label] -= 1.0;
        let scale = (factor * weight) as f32;
        gradient.iter_mut().for_each(|value| *value *= scale);
    }
    loss
}

/// Sum over rows of the entropy of softmax(logits). `probabilities` receives the softmax, `marginal` its column sums.
pub(crate) fn entropy(
    logits: &[f32],
    classes: usize,
    probabilities: &mut Vec<f32>,
    marginal: &mut [f64],
) -> f64 {
    logits.clone_into(probabilities);
    softmax_rows(probabilities, classes);
    marginal.fill(0.0);
    let mut sum = 0.0;
    let rows = logits
        .chunks_exact(classes)
        .zip(probabilities.chunks_exact(classes));
    for (row, probabilities) in rows {
        sum += row_entropy(row, probabilities);
        for (total, probability) in marginal.iter_mut().zip(probabilities) {
            *total += f64::from(*probability);
        }
    }
    sum
}

/// `gradient` receives the derivative by the logits of `entropy_factor` times each row's entropy plus `slopes` times
/// the row's probabilities.
pub(crate) fn information_gradient(
    logits: &[f32],
    probabilities: &[f32],
    entropy_factor: f64,
    slopes: &[f64],
    gradient: &mut Vec<f32>,
) {
    let classes = slopes.len();
    gradient.resize(logits.len(), 0.0);
    let rows = logits
        .chunks_exact(classes)
        .zip(probabilities.chunks_exact(classes));
    for ((row, probabilities), out) in rows.zip(gradient.chunks_exact_mut(classes)) {
        let total = log_sum_exp(row);
        let entropy = row_entropy(row, probabilities);
        let slope: f64 = slopes
            .iter()
            .zip(probabilities)
            .map(|(s, p)| s * f64::from(*p))
            .sum();
        let entries = row.iter().zip(probabilities).zip(slopes);
        for (out, ((logit, probability), own_slope)) in out.iter_mut().zip(entries) {
            let log = f64::from(*logit) - total;
            let by_entropy = -entropy_factor * (log + entropy);
            *out = (f64::from(*probability) * (by_entropy + own_slope - slope)) as f32;
        }
    }
}

fn row_entropy(logits: &[f32], probabilities: &[f32]) -> f64 {
    let total = log_sum_exp(logits);
    let terms = logits.iter().zip(probabilities);
    -terms
        .map(|(logit, p)| f64::from(*p) * (f64::from(*logit) - total))
        .sum::<f64>()
}

fn log_sum_exp(row: &[f32]) -> f64 {
    let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row
        .iter()
        .map(|value| f64::from(value - largest).exp())
        .sum();
    f64::from(largest) + sum.ln()
}
