//! Measures of a run.

use ostar_engine::argmax;
use serde::{Deserialize, Serialize};

/// Accuracies on the target, and the error of the estimated proportions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Mean recall over classes on the whole target, in percent.
    pub balanced_accuracy: f64,
    /// Share of right predictions on the whole target, in percent.
    pub accuracy: f64,
    /// l1 error of the estimated target proportions; `None` for a method without an estimate.
    pub proportion_error: Option<f64>,
}

impl Score {
    /// Scores rows of class probabilities against the labels. Classes without a row do not count.
    pub fn new(probabilities: &[f32], labels: &[u32], classes: usize) -> Self {
        let (mut right, mut all) = (vec![0.0; classes], vec![0.0; classes]);
        for (row, label) in probabilities.chunks_exact(classes).zip(labels) {
            let label = *label as usize;
            all[label] += 1.0;
            if argmax(row) == label {
                right[label] += 1.0;
            }
        }
        let recalls = right.iter().zip(&all).filter(|(_, all)| **all > 0.0);
        let recalls: Vec<f64> = recalls.map(|(right, all)| right / all).collect();
        Self {
            balanced_accuracy: 100.0 * recalls.iter().sum::<f64>() / recalls.len().max(1) as f64,
            accuracy: 100.0 * right.iter().sum::<f64>() / labels.len().max(1) as f64,
            proportion_error: None,
        }
    }
}

/// The l1 distance: the sum of absolute differences.
pub fn l1(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(a, b)| (a - b).abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_accuracy_weights_classes_and_accuracy_rows() {
        let probabilities = [0.9, 0.1, 0.8, 0.2, 0.7, 0.3, 0.6, 0.4];
        let score = Score::new(&probabilities, &[0, 0, 0, 1], 2);
        assert_eq!(score.balanced_accuracy, 50.0);
        assert_eq!(score.accuracy, 75.0);
    }
}
