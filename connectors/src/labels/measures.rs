//! Accuracy, log loss, AUC and calibration of predictions whose labels are known.

use std::collections::VecDeque;

use ostar_engine::argmax;
use ostar_method::diagnostics::Auc;

use super::Predictor;

/// Lower bound on a probability in the log loss, so that one confident mistake does not make the mean infinite.
const LEAST_PROBABILITY: f64 = f32::EPSILON as f64;

const PREDICTORS: usize = Predictor::ALL.len();

/// Measures of one predictor.
#[derive(Debug, Clone, PartialEq)]
pub struct Measures {
    /// Share of the labels whose class was predicted as the most probable.
    pub accuracy: f64,
    /// Mean of the per-class accuracies, over the classes that occurred.
    pub balanced_accuracy: f64,
    /// Mean of -log(probability of the label).
    pub log_loss: f64,
    /// Area under the ROC curve: of class 1 if there are two classes, else the mean of each class against the
    /// rest. `None` if all labels are of one class, and for measures since the start, which keep only sums.
    pub auc: Option<f64>,
    /// Predicted over observed count of each class: above 1 where it is predicted too often. `None` for a class
    /// that did not occur.
    pub calibration_ratio: Vec<Option<f64>>,
}

/// Measures of all predictors over the same labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Measurement {
    /// Labels that were joined and measured.
    pub labels: u64,
    /// True proportions of the classes among these labels.
    pub proportions: Vec<f64>,
    /// One for each of [`Predictor::ALL`], in that order.
    pub by_predictor: [Measures; PREDICTORS],
}

/// A label and the predictions for its event.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) class: u32,
    /// Probabilities of all predictors, one predictor after the other.
    pub(super) probabilities: Box<[f32]>,
}

/// Sums over labels, from which the measures follow.
#[derive(Debug, Clone)]
pub(super) struct Sums {
    labels: Vec<u64>,
    by_predictor: [PredictorSums; PREDICTORS],
}

#[derive(Debug, Clone)]
struct PredictorSums {
    correct: Vec<u64>,
    predicted: Vec<f64>,
    log_loss: f64,
}

// === impl Measurement ===

impl Measurement {
    /// Looks up one predictor of [`Measurement::by_predictor`].
    pub fn of(&self, predictor: Predictor) -> &Measures {
        let index = match predictor {
            Predictor::Candidate(candidate) => candidate as usize,
            Predictor::Served => PREDICTORS - 1,
        };
        &self.by_predictor[index]
    }
}

// === impl Sample ===

impl Sample {
    pub(super) fn of(&self, predictor: usize) -> &[f32] {
        let classes = self.probabilities.len() / PREDICTORS;
        &self.probabilities[predictor * classes..][..classes]
    }
}

// === impl Sums ===

impl Sums {
    pub(super) fn new(classes: usize) -> Self {
        let zero = || PredictorSums {
            correct: vec![0; classes],
            predicted: vec![0.0; classes],
            log_loss: 0.0,
        };
        Self {
            labels: vec![0; classes],
            by_predictor: std::array::from_fn(|_| zero()),
        }
    }

    pub(super) fn add(&mut self, sample: &Sample) {
        let class = sample.class as usize;
        self.labels[class] += 1;
        for (number, sums) in self.by_predictor.iter_mut().enumerate() {
            let probabilities = sample.of(number);
            sums.correct[class] += u64::from(argmax(probabilities) == class);
            let probability = f64::from(probabilities[class]).max(LEAST_PROBABILITY);
            sums.log_loss -= probability.ln();
            for (sum, probability) in sums.predicted.iter_mut().zip(probabilities) {
                *sum += f64::from(*probability);
            }
        }
    }

    /// `None` without labels. `auc` is called with the index of each predictor.
    pub(super) fn measured(&self, auc: impl Fn(usize) -> Option<f64>) -> Option<Measurement> {
        let labels: u64 = self.labels.iter().sum();
        if labels == 0 {
            return None;
        }
        let total = labels as f64;
        let measures = |number: usize| {
            let sums = &self.by_predictor[number];
            let occurred = || {
                self.labels
                    .iter()
                    .zip(&sums.correct)
                    .filter(|(n, _)| **n > 0)
            };
            let recalls = occurred().map(|(labels, correct)| *correct as f64 / *labels as f64);
            let ratio = |(labels, predicted): (&u64, &f64)| {
                (*labels > 0).then(|| predicted / *labels as f64)
            };
            Measures {
                accuracy: sums.correct.iter().sum::<u64>() as f64 / total,
                balanced_accuracy: recalls.sum::<f64>() / occurred().count() as f64,
                log_loss: sums.log_loss / total,
                auc: auc(number),
                calibration_ratio: self.labels.iter().zip(&sums.predicted).map(ratio).collect(),
            }
        };
        Some(Measurement {
            labels,
            proportions: self.labels.iter().map(|n| *n as f64 / total).collect(),
            by_predictor: std::array::from_fn(measures),
        })
    }
}

/// Measures over these samples, with the AUC.
pub(super) fn measure(samples: &VecDeque<Sample>, classes: usize) -> Option<Measurement> {
    let mut sums = Sums::new(classes);
    samples.iter().for_each(|sample| sums.add(sample));
    sums.measured(|predictor| mean_auc(samples, predictor, classes))
}

fn mean_auc(samples: &VecDeque<Sample>, predictor: usize, classes: usize) -> Option<f64> {
    let measured = match classes {
        2 => 1..2,
        _ => 0..classes,
    };
    let areas = measured.filter_map(|class| {
        let scored = samples.iter().map(|sample| {
            let is_positive = sample.class as usize == class;
            (sample.of(predictor)[class], is_positive)
        });
        Auc::measure(scored.collect()).map(|auc| auc.area)
    });
    let areas: Vec<f64> = areas.collect();
    match areas.len() {
        0 => None,
        count => Some(areas.iter().sum::<f64>() / count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples for which all predictors gave the same probabilities.
    fn samples(rows: &[(u32, &[f32])]) -> VecDeque<Sample> {
        let sample = |(class, row): &(u32, &[f32])| Sample {
            class: *class,
            probabilities: row.repeat(PREDICTORS).into(),
        };
        rows.iter().map(sample).collect()
    }

    #[test]
    fn two_classes_by_hand() {
        let samples = samples(&[
            (0, &[0.9, 0.1]),
            (0, &[0.4, 0.6]),
            (0, &[0.8, 0.2]),
            (1, &[0.5, 0.5]),
        ]);
        let measured = measure(&samples, 2).unwrap();
        assert_eq!(
            (measured.labels, &measured.proportions[..]),
            (4, &[0.75, 0.25][..])
        );
        let measures = &measured.by_predictor[2];
        // The tie of the last row goes to class 0.
        assert_eq!(measures.accuracy, 0.5);
        assert!((measures.balanced_accuracy - 1.0 / 3.0).abs() < 1e-12);
        let log_loss = -(0.9f64.ln() + 0.4f64.ln() + 0.8f64.ln() + 0.5f64.ln()) / 4.0;
        assert!((measures.log_loss - log_loss).abs() < 1e-6);
        // 0.5 beats 0.1 and 0.2, not 0.6.
        assert!((measures.auc.unwrap() - 2.0 / 3.0).abs() < 1e-12);
        let ratios: Vec<f64> = measures
            .calibration_ratio
            .iter()
            .flatten()
            .copied()
            .collect();
        assert!((ratios[0] - 2.6 / 3.0).abs() < 1e-6 && (ratios[1] - 1.4).abs() < 1e-6);
    }

    #[test]
    fn a_class_that_did_not_occur_is_left_out() {
        let samples = samples(&[(0, &[0.7, 0.2, 0.1]), (1, &[0.1, 0.9, 0.0])]);
        let measures = &measure(&samples, 3).unwrap().by_predictor[0];
        assert_eq!(measures.balanced_accuracy, 1.0);
        assert_eq!(measures.auc, Some(1.0));
        assert_eq!(measures.calibration_ratio[2], None);
        assert!(measure(&VecDeque::new(), 3).is_none());
    }

    #[test]
    fn an_impossible_label_costs_no_more_than_single_precision_can_tell() {
        let impossible = samples(&[(1, &[1.0, 0.0])]);
        let log_loss = measure(&impossible, 2).unwrap().by_predictor[0].log_loss;
        assert!((15.0..17.0).contains(&log_loss), "{log_loss}");
    }
}
