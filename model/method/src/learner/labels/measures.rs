//! Accuracy, log loss, AUC and calibration of predictions whose labels are known.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use ostar_engine::{Result, argmax};
use serde::{Deserialize, Serialize};

use super::order::OrderLooks;
use crate::{
    Candidate,
    diagnostics::{Auc, OrderCheck},
};

/// Lower bound on a probability in the log loss, so that one confident mistake does not make the mean infinite.
const LEAST_PROBABILITY: f64 = f32::EPSILON as f64;
/// The window is measured once a second of event time, or when this share of it is new: an AUC sorts it as a whole.
const LOOK_EVERY_MS: i64 = 1_000;
const NEW_SHARE: usize = 20;
/// Most values that one AUC rests on: with many classes the newest labels alone.
const MOST_SORTED: usize = 200_000;

const PREDICTORS: usize = Predictor::ALL.len();

/// Whose predictions are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// Predicts every event, whatever is served.
    Candidate(Candidate),
    /// The candidate that the gate had chosen when the event came.
    Served,
}

impl Predictor {
    /// The candidates, then what was served.
    pub const ALL: [Self; 4] = [
        Self::Candidate(Candidate::Frozen),
        Self::Candidate(Candidate::Prior),
        Self::Candidate(Candidate::Adapted),
        Self::Served,
    ];

    /// The value of the metrics' `candidate` label.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Candidate(candidate) => candidate.name(),
            Self::Served => "served",
        }
    }
}

/// Measures of one predictor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Labels that were joined and measured.
    pub labels: u64,
    /// True proportions of the classes among these labels.
    pub proportions: Vec<f64>,
    /// One for each of [`Predictor::ALL`], in that order.
    pub by_predictor: [Measures; PREDICTORS],
}

/// How good predictions were whose labels came.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LabelMeasures {
    /// Over the labels that took effect with this block, without the AUC; `None` if there are none.
    pub block: Option<Measurement>,
    /// Over the newest [`LabelUse::window`](super::LabelUse) labels. It is measured once a second of event time, and whenever
    /// a twentieth of them is new.
    pub window: Option<Measurement>,
    /// Over all labels since the first start, without the AUC.
    pub total: Option<Measurement>,
}

/// A label and the predictions for its event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Joined {
    pub(super) class: u32,
    pub(super) served: Candidate,
    /// Candidate after candidate.
    pub(super) probabilities: Box<[f32]>,
}

/// Measures the labels that are joined.
#[derive(Debug)]
pub(super) struct LabelMeter {
    classes: usize,
    window_size: usize,
    window: VecDeque<Joined>,
    block: Sums,
    sums: MeterSums,
}

/// What a state keeps of the measures beside the labels of the window.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeterSums {
    total: Sums,
    /// Time of the newest event when the window was last measured.
    looked_ms: i64,
    /// What was measured then.
    looked: Option<Measurement>,
    /// Labels since then.
    unseen: usize,
    order: OrderLooks,
}

/// Sums over labels, from which the measures follow.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Sums {
    labels: Vec<u64>,
    by_predictor: [PredictorSums; PREDICTORS],
}

#[derive(Debug, Clone, Serialize, Deserialize)]
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

// === impl Joined ===

impl Joined {
    /// Probabilities by one of [`Predictor::ALL`].
    pub(super) fn by(&self, predictor: usize) -> &[f32] {
        let classes = self.probabilities.len() / Candidate::ALL.len();
        let candidate = match Predictor::ALL[predictor] {
            Predictor::Candidate(candidate) => candidate,
            Predictor::Served => self.served,
        };
        &self.probabilities[candidate as usize * classes..][..classes]
    }
}

// === impl LabelMeter ===

impl LabelMeter {
    pub(super) fn new(classes: usize, window_size: usize) -> Self {
        Self {
            classes,
            window_size: window_size.max(1),
            window: VecDeque::new(),
            block: Sums::new(classes),
            sums: MeterSums {
                total: Sums::new(classes),
                looked_ms: i64::MIN,
                looked: None,
                unseen: 0,
                order: OrderLooks::default(),
            },
        }
    }

    pub(super) fn add(&mut self, joined: Joined) {
        self.block.add(&joined);
        self.sums.total.add(&joined);
        self.sums.unseen += 1;
        self.keep(joined);
    }

    /// Adds to the window what is in the sums already.
    pub(super) fn keep(&mut self, joined: Joined) {
        if self.window.len() == self.window_size {
            self.window.pop_front();
        }
        self.window.push_back(joined);
    }

    /// Ends a block whose newest event happened at `clock_ms`.
    pub(super) fn close(&mut self, clock_ms: i64) -> LabelMeasures {
        let block = std::mem::replace(&mut self.block, Sums::new(self.classes));
        let unseen = self.sums.unseen;
        let is_due = clock_ms.saturating_sub(self.sums.looked_ms) >= LOOK_EVERY_MS
            || unseen * NEW_SHARE >= self.window.len();
        if unseen > 0 && is_due {
            self.sums.looked_ms = clock_ms;
            self.sums.unseen = 0;
            self.sums.looked = measure(&self.window, self.classes);
        }
        LabelMeasures {
            block: block.measured(|_| None),
            window: self.sums.looked.clone(),
            total: self.sums.total.measured(|_| None),
        }
    }

    /// Looks at the order of the classes, if that is due.
    pub(super) fn look_at_order(&mut self) -> Result<Option<OrderCheck>> {
        if !self.sums.order.is_due(self.sums.total.count()) {
            return Ok(None);
        }
        let check = self.check_order()?;
        if check.as_ref().is_some_and(OrderCheck::is_confirmed) {
            self.sums.order.end();
        }
        Ok(check)
    }

    /// What the labels of the window say about the order of the classes; `None` without labels.
    pub(super) fn check_order(&self) -> Result<Option<OrderCheck>> {
        super::order::check(&self.window, self.classes)
    }

    pub(super) fn window(&self) -> &VecDeque<Joined> {
        &self.window
    }

    pub(super) fn sums(&self) -> &MeterSums {
        &self.sums
    }

    pub(super) fn restore(&mut self, sums: MeterSums) {
        self.sums = sums;
    }
}

// === impl Sums ===

impl Sums {
    fn new(classes: usize) -> Self {
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

    fn add(&mut self, joined: &Joined) {
        let class = joined.class as usize;
        self.labels[class] += 1;
        for (number, sums) in self.by_predictor.iter_mut().enumerate() {
            let probabilities = joined.by(number);
            sums.correct[class] += u64::from(argmax(probabilities) == class);
            let probability = f64::from(probabilities[class]).max(LEAST_PROBABILITY);
            sums.log_loss -= probability.ln();
            for (sum, probability) in sums.predicted.iter_mut().zip(probabilities) {
                *sum += f64::from(*probability);
            }
        }
    }

    fn count(&self) -> u64 {
        self.labels.iter().sum()
    }

    /// `None` without labels. `auc` is called with the index of each predictor.
    fn measured(&self, auc: impl Fn(usize) -> Option<f64>) -> Option<Measurement> {
        let labels = self.count();
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

/// Measures over these labels, with the AUC.
fn measure(window: &VecDeque<Joined>, classes: usize) -> Option<Measurement> {
    let mut sums = Sums::new(classes);
    window.iter().for_each(|joined| sums.add(joined));
    sums.measured(|predictor| mean_auc(window, predictor, classes))
}

fn mean_auc(window: &VecDeque<Joined>, predictor: usize, classes: usize) -> Option<f64> {
    let measured = match classes {
        2 => 1..2,
        _ => 0..classes,
    };
    let newest = MOST_SORTED / classes.max(1);
    let areas = measured.filter_map(|class| {
        let scored = window.iter().rev().take(newest).map(|joined| {
            let is_positive = joined.class as usize == class;
            (joined.by(predictor)[class], is_positive)
        });
        Auc::measure(scored.collect()).map(|auc| auc.area)
    });
    let areas: Vec<f64> = areas.collect();
    match areas.len() {
        0 => None,
        count => Some(areas.iter().sum::<f64>() / count as f64),
    }
}
