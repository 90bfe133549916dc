//! Accuracy on the target without labels, as far as only the class shares moved.

use ostar_engine::{Result, argmax, checks};
use serde::{Deserialize, Serialize};

use super::{
    Interval, Probabilities, ProportionEstimate, ProportionEstimator, interval::DEVIATIONS,
};

/// An estimate of accuracy on the target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EstimatedAccuracy {
    /// `sum_j p[j] C[j,j] / D[j]`, C counting hard decisions: the classes' recalls, weighted by their shares.
    pub value: f64,
    /// 95 % interval: noise of the recalls, of the shares, and of both through the same held-out rows.
    pub interval: Interval,
}

impl ProportionEstimator {
    /// The accuracy that a candidate would have on the target. `candidate` is what it predicts for the rows
    /// that the estimator holds out, in their order; `estimate` has the target's proportions.
    pub fn accuracy(
        &self,
        candidate: &Probabilities,
        estimate: &ProportionEstimate,
    ) -> Result<EstimatedAccuracy> {
        checks::length("candidate rows", candidate.count(), self.labels().len())?;
        checks::length("candidate classes", candidate.classes(), self.classes())?;
        checks::length(
            "proportions",
            estimate.proportions.classes(),
            self.classes(),
        )?;
        let correct: Vec<bool> = candidate
            .rows()
            .zip(self.labels())
            .map(|(row, label)| argmax(row) == *label as usize)
            .collect();
        let recalls = self.class_means(correct.iter().map(|is| f64::from(*is)));
        let proportions = estimate.proportions.as_ref();
        let value: f64 = proportions
            .iter()
            .zip(&recalls)
            .map(|(p, recall)| p * recall)
            .sum();

        let (unmixing, held_out) = self.unmixed(&estimate.proportions)?;
        let slopes = unmixing.slopes(&recalls);
        let read = |row: &[f64]| row.iter().zip(&slopes).map(|(a, b)| a * b).sum::<f64>();
        let readings: Vec<f64> = held_out.rows().map(read).collect();
        let squares = self.class_means(readings.iter().map(|reading| reading * reading));
        let of_row: f64 = proportions
            .iter()
            .zip(&squares)
            .map(|(p, square)| p * square)
            .sum();
        let of_window = (of_row - value * value).max(0.0) / estimate.effective_rows;
        // A held-out row moves the recalls one way and, through C, the shares' reading the other.
        let differences = readings
            .iter()
            .zip(&correct)
            .map(|(u, is)| f64::from(*is) - u);
        let noise = self.class_means(differences.map(|difference| difference * difference));
        let of_held_out = |((proportion, noise), count): ((&f64, &f64), &f64)| {
            // At least what one row more or less would do: no error seen does not mean none.
            proportion * proportion * (noise / count).max(1.0 / (count * count))
        };
        let of_held_out: f64 = proportions
            .iter()
            .zip(&noise)
            .zip(unmixing.counts())
            .map(of_held_out)
            .sum();
        let reach = DEVIATIONS * (of_window + of_held_out).sqrt();
        Ok(EstimatedAccuracy {
            value: value.clamp(0.0, 1.0),
            interval: Interval {
                low: (value - reach).max(0.0),
                high: (value + reach).min(1.0),
            },
        })
    }

    /// Mean by class of one number a held-out row.
    fn class_means(&self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut sums = vec![0.0; self.classes()];
        let mut counts = vec![0.0; self.classes()];
        for (value, label) in values.zip(self.labels()) {
            sums[*label as usize] += value;
            counts[*label as usize] += 1.0;
        }
        sums.iter()
            .zip(&counts)
            .map(|(sum, count)| sum / count)
            .collect()
    }
}
