//! Weights that give the rows of a source batch the target's label proportions.

use crate::{Error, Result};

/// Counts the rows of each class. `counts` has one entry for each class.
pub fn class_counts(labels: impl IntoIterator<Item = u32>, counts: &mut [f64]) {
    counts.fill(0.0);
    for label in labels {
        counts[label as usize] += 1.0;
    }
}

/// `omega_i = p_N[y_i] / n_{y_i}`, scaled to sum to 1 over the batch even when classes are absent. `weights[k]` is the
/// weight of each row of class k, 0 for an absent class.
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
            "are 0 for every class in the source batch, expected at least one above 0",
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

/// Class weights p_N / s of the cross-entropy, each at most `cap`. `drawn_proportions` (s) are those of the
/// distribution that batches are drawn from: the buffer's if rows are drawn uniformly, 1/K if batches are
/// class-balanced. A class that is never drawn gets 0.
pub fn class_ratios(proportions: &[f64], drawn_proportions: &[f64], cap: f64) -> Vec<f64> {
    proportions
        .iter()
        .zip(drawn_proportions)
        .map(|(proportion, drawn)| {
            if *drawn > 0.0 {
                (proportion / drawn).min(cap)
            } else {
                0.0
            }
        })
        .collect()
}

/// Weight of a row in the cross-entropy, by class: `ratios` divided by their sum over the batch.
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
    fn a_batch_whose_classes_all_have_proportion_0_is_an_error() {
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
