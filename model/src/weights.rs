//! Weights of a batch's rows: what makes a source batch look like the target's label proportions.

use crate::{Error, Result};

/// How many rows of the batch belong to each class.
pub fn class_counts(labels: impl IntoIterator<Item = u32>, counts: &mut [f64]) {
    counts.fill(0.0);
    for label in labels {
        counts[label as usize] += 1.0;
    }
}

/// `omega_i = p_N[y_i] / n_{y_i}`, rescaled to sum to 1 when classes are absent from the batch. Returned
/// per class; `weights[k]` of an absent class is 0.
pub fn source_weights(proportions: &[f64], counts: &[f64], weights: &mut [f64]) -> Result<()> {
    let present: f64 = counts
        .iter()
        .zip(proportions)
        .filter(|(count, _)| **count > 0.0)
        .map(|(_, proportion)| proportion)
        .sum();
    if !(present.is_finite() && present > 0.0) {
        return Err(Error::setting(
            "proportions",
            "are 0 for every class in the source batch, floor them above 0",
        ));
    }
    for ((weight, count), proportion) in weights.iter_mut().zip(counts).zip(proportions) {
        *weight = if *count > 0.0 {
            proportion / (count * present)
        } else {
            0.0
        };
    }
    Ok(())
}

/// Class weights p_N / s of the cross-entropy, each at most `cap`. `shares` are the class shares of the
/// distribution that batches are drawn from: the buffer's if uniform, 1/K if class-balanced. A class
/// that is never drawn gets 0.
pub fn class_ratios(proportions: &[f64], shares: &[f64], cap: f64) -> Vec<f64> {
    proportions
        .iter()
        .zip(shares)
        .map(|(proportion, share)| match *share > 0.0 {
            true => (proportion / share).min(cap),
            false => 0.0,
        })
        .collect()
}

/// A row's share of the weighted cross-entropy, by class: `ratios` over their sum in the batch.
pub(crate) fn normalised_ratios(ratios: &[f64], counts: &[f64], weights: &mut [f64]) -> Result<()> {
    let total: f64 = ratios.iter().zip(counts).map(|(r, n)| r * n).sum();
    if !(total.is_finite() && total > 0.0) {
        return Err(Error::setting(
            "class weights",
            format!("sum to {total} over the batch, expected a finite number above 0"),
        ));
    }
    for (weight, ratio) in weights.iter_mut().zip(ratios) {
        *weight = ratio / total;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_weights_sum_to_one_with_and_without_absent_classes() {
        let proportions = [0.7, 0.2, 0.1];
        for labels in [vec![0, 1, 2, 2], vec![1, 2, 2, 2], vec![2]] {
            let mut counts = [0.0; 3];
            class_counts(labels.iter().copied(), &mut counts);
            let mut weights = [0.0; 3];
            source_weights(&proportions, &counts, &mut weights).unwrap();
            let sum: f64 = labels.iter().map(|l| weights[*l as usize]).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{labels:?}: {sum}");
        }
    }

    #[test]
    fn a_batch_of_impossible_classes_is_an_error() {
        let mut weights = [0.0; 2];
        assert!(source_weights(&[0.0, 1.0], &[3.0, 0.0], &mut weights).is_err());
    }

    #[test]
    fn ratios_are_capped_and_zero_for_classes_never_drawn() {
        let ratios = class_ratios(&[0.5, 0.4, 0.1], &[0.001, 0.999, 0.0], 10.0);
        assert_eq!(ratios[0], 10.0);
        assert_eq!(ratios[2], 0.0);
    }
}
