//! The share of a class from a few labels of rows that were drawn at random, whatever has changed.
//!
//! Prediction-powered inference (Angelopoulos et al., PPI++, 2023), for the rows of a window: the mean label of the drawn
//! rows, corrected by how far the model's mean prediction on them is from that on all rows. Only the drawing is
//! relied on, not the model: its errors widen the interval. Each block is a stratum of its own, so that a share that
//! moves within the window does no harm. Labels that never came are taken to be missing at random within their block:
//! the ones that came stand for all.

use serde::{Deserialize, Serialize};

use super::Interval;

/// Fewer labels give no interval.
const FEWEST_LABELS: f64 = 10.0;
/// Degrees of freedom without which there is no interval.
const FEWEST_FREEDOM: f64 = 3.0;
/// Labels that are counted as wholly mispredicted on top of those that came. Without them a few labels without an error
/// would claim that there is none. With 1 instead, intervals were a tenth wider than need be; with 0 those of rare
/// classes covered too seldom.
const IMAGINED: f64 = 0.5;
/// Part of a block that always counts as not labelled: labels may be wrong, even if there is one for every row.
const LEAST_UNSEEN: f64 = 0.05;

/// A class in one block: all rows that could have been drawn, and the labels of those that were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stratum {
    /// Rows that could have been drawn.
    pub(crate) rows: f64,
    /// Their mean prediction.
    pub(crate) predicted: f64,
    /// Labels that came.
    pub(crate) labels: f64,
    /// Of the labelled rows.
    pub(crate) sums: LabelSums,
}

/// Sums over labelled rows of a label y, 0 or 1, and the prediction f.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LabelSums {
    y: f64,
    f: f64,
    ff: f64,
    yf: f64,
}

/// The share of a class by labels, and how it came about.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ShareByLabels {
    /// The estimate, from 0 to 1. Those of more than two classes need not sum to 1 exactly: each is tuned by itself.
    pub share: f64,
    /// 95 %, for the true share among the rows of the window.
    pub interval: Interval,
    /// The interval from the labels without the predictions. Never narrower.
    pub alone: Interval,
    /// How far predictions are relied on, from 0 to 1 (lambda): what makes the variance least.
    pub tuning: f64,
}

/// Sums over strata: the variance for a tuning of l is `labels - 2 l both + l^2 predictions`.
#[derive(Default)]
struct Variances {
    labels: f64,
    both: f64,
    predictions: f64,
    /// What a variance of 1 in each stratum would give.
    unit: f64,
}

// === impl LabelSums ===

impl LabelSums {
    pub(crate) fn add(&mut self, is_class: bool, prediction: f64) {
        let y = f64::from(u8::from(is_class));
        self.y += y;
        self.f += prediction;
        self.ff += prediction * prediction;
        self.yf += y * prediction;
    }
}

// === impl ShareByLabels ===

impl ShareByLabels {
    /// `None` with too few labels. Every stratum has at least two.
    pub(crate) fn new(strata: &[Stratum]) -> Option<Self> {
        let rows: f64 = strata.iter().map(|stratum| stratum.rows).sum();
        let labels: f64 = strata.iter().map(|stratum| stratum.labels).sum();
        let freedom = labels - strata.len() as f64;
        if labels < FEWEST_LABELS || freedom < FEWEST_FREEDOM + 1.0 {
            return None;
        }
        let mut variances = Variances::default();
        let (mut labelled, mut correction) = (0.0, 0.0);
        for stratum in strata {
            let weight = stratum.rows / rows;
            labelled += weight * stratum.sums.y / stratum.labels;
            correction += weight * (stratum.predicted - stratum.sums.f / stratum.labels);
            variances.add(stratum, weight);
        }
        let interval = |tuning: f64, freedom: f64| {
            let share = (labelled + tuning * correction).clamp(0.0, 1.0);
            let variance = variances.at(tuning) + variances.unit * IMAGINED / labels;
            let expected = (labels * share + IMAGINED) / (labels + 2.0 * IMAGINED);
            let effective = expected * (1.0 - expected) / variance;
            (share, wilson(share, effective, student(freedom)))
        };
        let (share, alone) = interval(0.0, freedom);
        let unaided = Self {
            share,
            interval: alone,
            alone,
            tuning: 0.0,
        };
        let tuning = variances.best_tuning();
        let (share, interval) = interval(tuning, freedom - 1.0);
        // The tuning costs a degree of freedom, which predictions that tell nothing do not earn.
        if tuning == 0.0 || width(interval) >= width(alone) {
            return Some(unaided);
        }
        Some(Self {
            share,
            interval,
            alone,
            tuning,
        })
    }
}

fn width(interval: Interval) -> f64 {
    interval.high - interval.low
}

// === impl Variances ===

impl Variances {
    fn add(&mut self, stratum: &Stratum, weight: f64) {
        let Stratum {
            rows, labels, sums, ..
        } = stratum;
        let unseen = (1.0 - labels / rows).max(LEAST_UNSEEN);
        let factor = weight * weight * unseen / labels;
        let covariance = |product: f64, left: f64, right: f64| {
            factor * (product - left * right / labels) / (labels - 1.0)
        };
        self.labels += covariance(sums.y, sums.y, sums.y);
        self.both += covariance(sums.yf, sums.y, sums.f);
        self.predictions += covariance(sums.ff, sums.f, sums.f);
        self.unit += factor;
    }

    fn at(&self, tuning: f64) -> f64 {
        let variance = self.labels - 2.0 * tuning * self.both + tuning * tuning * self.predictions;
        variance.max(0.0)
    }

    fn best_tuning(&self) -> f64 {
        // Predictions that do not differ carry nothing. Their variance is 0 up to rounding.
        if self.predictions <= 1e-12 * self.unit {
            return 0.0;
        }
        (self.both / self.predictions).clamp(0.0, 1.0)
    }
}

/// Wilson's interval of a share that is as precise as that of `rows` independent ones: near 0 and 1 it covers where the
/// usual one does not, and it always has a length.
fn wilson(share: f64, rows: f64, deviations: f64) -> Interval {
    let spread = deviations * deviations / rows;
    let centre = (share + spread / 2.0) / (1.0 + spread);
    let variance = share * (1.0 - share) / rows + spread / (4.0 * rows);
    let reach = deviations * variance.sqrt() / (1.0 + spread);
    let interval = Interval {
        low: (centre - reach).max(0.0),
        high: (centre + reach).min(1.0),
    };
    // By rounding alone an estimate of 0 or 1 could lie outside.
    interval.including(share)
}

/// Two-sided 95 % of Student's distribution, by the Cornish-Fisher expansion: to 0.8 % from 3 degrees of freedom on.
fn student(freedom: f64) -> f64 {
    let z = super::interval::DEVIATIONS;
    let (z2, z3) = (z * z, z * z * z);
    let (z5, z7) = (z3 * z2, z3 * z2 * z2);
    let first = (z3 + z) / 4.0;
    let second = (5.0 * z5 + 16.0 * z3 + 3.0 * z) / 96.0;
    let third = (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Generator;

    /// A block of rows with a share of the class, a model with errors of a rate, and labels of some rows.
    fn block(
        rows: usize,
        share: f64,
        errors: f64,
        labels: usize,
        random: &mut Generator,
    ) -> (Stratum, f64) {
        let mut sums = LabelSums::default();
        let (mut predicted, mut positive) = (0.0, 0.0);
        for row in 0..rows {
            let is_class = random.uniform() < share;
            let is_right = random.uniform() >= errors;
            let prediction = if is_class == is_right { 0.9 } else { 0.1 };
            predicted += prediction;
            positive += f64::from(u8::from(is_class));
            // Rows come in random order: the first ones are a random sample.
            if row < labels {
                sums.add(is_class, prediction);
            }
        }
        let stratum = Stratum {
            rows: rows as f64,
            predicted: predicted / rows as f64,
            labels: labels as f64,
            sums,
        };
        (stratum, positive)
    }

    /// Share of windows whose interval covers, and its mean width beside that of labels alone.
    fn coverage(share: f64, errors: f64, labels: [usize; 2], windows: usize) -> (f64, f64) {
        let mut random = Generator::new(7);
        let (mut covered, mut narrower) = (0, 0.0);
        for _ in 0..windows {
            let mut positives = 0.0;
            let mut strata = Vec::new();
            for number in 0..10 {
                // Blocks differ in size, share and answers.
                let rows = if number % 2 == 0 { 300 } else { 700 };
                let moved = share * (0.5 + 0.1 * f64::from(number));
                let (stratum, positive) = block(
                    rows,
                    moved,
                    errors,
                    labels[number as usize % 2],
                    &mut random,
                );
                strata.push(stratum);
                positives += positive;
            }
            let found = ShareByLabels::new(&strata).unwrap();
            assert!(width(found.interval) > 0.0 && width(found.interval) <= width(found.alone));
            assert!(found.interval.contains(found.share));
            covered += usize::from(found.interval.contains(positives / 5_000.0));
            narrower += width(found.interval) / width(found.alone);
        }
        let windows = windows as f64;
        (covered as f64 / windows, narrower / windows)
    }

    #[test]
    fn intervals_cover_whatever_the_model_is_worth_and_narrow_as_far_as_it_is_right() {
        for (share, errors) in [(0.5, 0.1), (0.5, 0.5), (0.1, 0.1), (0.1, 0.9), (0.02, 0.05)] {
            for labels in [[20, 20], [8, 24]] {
                let (covered, narrower) = coverage(share, errors, labels, 400);
                assert!(
                    (0.92..0.99).contains(&covered),
                    "{share} {errors} {labels:?}: {covered}"
                );
                // Of a model with balanced errors, the correlation of label and prediction is 1 - 2 e.
                if share == 0.5 {
                    let correlation: f64 = 1.0 - 2.0 * errors;
                    let theory = (1.0 - correlation * correlation).sqrt();
                    let ratio = narrower / theory;
                    assert!(
                        (0.85..1.15).contains(&ratio),
                        "{errors} {labels:?}: {ratio}"
                    );
                }
            }
        }
    }

    #[test]
    fn labels_of_one_class_alone_leave_room_for_the_other() {
        let mut random = Generator::new(1);
        let (stratum, _) = block(500, 0.0, 0.0, 20, &mut random);
        let found = ShareByLabels::new(&[stratum]).unwrap();
        assert_eq!(found.share, 0.0);
        assert_eq!(found.interval.low, 0.0);
        // One in ten would show itself in 20 labels with a chance of 0.88.
        assert!((0.1..0.25).contains(&found.interval.high), "{found:?}");
    }

    #[test]
    fn too_few_labels_say_nothing() {
        let mut random = Generator::new(2);
        let (stratum, _) = block(500, 0.5, 0.1, 9, &mut random);
        assert_eq!(ShareByLabels::new(&[stratum]), None);
        assert_eq!(ShareByLabels::new(&[]), None);
    }

    #[test]
    fn student_is_that_of_the_tables() {
        for (freedom, tabulated) in [(3.0, 3.182), (5.0, 2.571), (10.0, 2.228), (30.0, 2.042)] {
            let found = student(freedom);
            assert!(
                (found / tabulated - 1.0).abs() < 0.008,
                "{freedom}: {found}"
            );
        }
    }
}
