//! How good a deployed model is on its held-out rows.

use ostar_engine::argmax;

use super::Auc;
use crate::{Deployed, deployed::HeldOut, proportions::Probabilities};

/// Confidence is compared with accuracy in so many bins of equal width.
const BINS: usize = 15;

/// Measures of the frozen model on rows that it was not trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Rows that were measured.
    pub rows: usize,
    /// Share of the rows whose most likely class is their label.
    pub accuracy: f64,
    /// Area under the ROC curve: of class 1 if there are two classes, else the mean of each class against the rest.
    pub auc: Option<f64>,
    /// Mean distance between how sure the model is and how often it is right (expected calibration error).
    pub calibration_error: f64,
    /// The same at the model's temperature.
    pub calibrated_error: f64,
    /// The model's temperature.
    pub temperature: f64,
}

impl Quality {
    /// Measures the held-out rows.
    pub fn measure(deployed: &Deployed) -> Self {
        let HeldOut {
            probabilities,
            labels,
            ..
        } = &deployed.held_out;
        let temperature = deployed.temperature;
        let rows = probabilities.rows().zip(labels);
        let right = rows.filter(|(row, label)| argmax(row) == **label as usize);
        Self {
            rows: labels.len(),
            accuracy: right.count() as f64 / labels.len().max(1) as f64,
            auc: mean_auc(probabilities, labels),
            calibration_error: calibration_error(probabilities, labels),
            calibrated_error: calibration_error(&temperature.apply(probabilities), labels),
            temperature: temperature.value(),
        }
    }
}

fn mean_auc(probabilities: &Probabilities, labels: &[u32]) -> Option<f64> {
    let measured = match probabilities.classes() {
        2 => 1..2,
        classes => 0..classes,
    };
    let areas = measured.filter_map(|class| {
        let rows = probabilities.rows().zip(labels);
        let scored = rows.map(|(row, label)| (row[class] as f32, *label as usize == class));
        Auc::measure(scored.collect()).map(|auc| auc.area)
    });
    let areas: Vec<f64> = areas.collect();
    (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64)
}

fn calibration_error(probabilities: &Probabilities, labels: &[u32]) -> f64 {
    // In each bin, confidence less what was right; the distance of the means times the rows is that of the sums.
    let mut bins = [0.0; BINS];
    for (row, label) in probabilities.rows().zip(labels) {
        let class = argmax(row);
        let bin = ((row[class] * BINS as f64) as usize).min(BINS - 1);
        bins[bin] += row[class] - f64::from(u8::from(class == *label as usize));
    }
    bins.iter().map(|sum: &f64| sum.abs()).sum::<f64>() / labels.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Rows;

    #[test]
    fn the_calibration_error_is_the_distance_of_confidence_from_accuracy() {
        // Four rows at 0.9 of which three are right, two at 0.6 of which one is.
        let confidence = [0.9, 0.9, 0.9, 0.9, 0.6, 0.6];
        let values: Vec<f64> = confidence.iter().flat_map(|c| [*c, 1.0 - c]).collect();
        let rows = Probabilities::new("rows", Rows::new(&values[..], 2).unwrap()).unwrap();
        let error = calibration_error(&rows, &[0, 0, 0, 1, 0, 1]);
        assert!((error - (0.6 + 0.2) / 6.0).abs() < 1e-9, "{error}");
    }
}
