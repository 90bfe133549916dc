//! The linear map that turns predictions into unbiased readings of the class shares, and its noise.

use nalgebra::{DMatrix, DVector};
use ostar_engine::Result;
use serde::{Deserialize, Serialize};

use super::{
    Confusion, LabelProportions, Probabilities, descent::SimplexDescent,
    reading_lanes::ReadingLanes, reading_noise::ReadingNoise, shrinkage::noise_share, simplex,
};

/// With more classes than this, what grows with their cube is made once and approximated where noise allows it.
pub(crate) const EXACT_CLASSES: usize = 64;

/// Above this condition number (in the 1-norm) the inverse is replaced by the pseudo-inverse.
const ILL_CONDITIONED: f64 = 1e10;

/// Singular values below this share of the largest are taken for 0.
const RANK_TOLERANCE: f64 = 1e-10;

/// How far from 1 a reading may sum by rounding.
const READING_TOLERANCE: f64 = 1e-9;

/// How far from the identity the map times M may be for a class whose share is still identified.
const IDENTIFIED_TOLERANCE: f64 = 1e-6;

/// With M the mean prediction of each class (a column each) and G its inverse, the *reading* u = G f(x) of
/// a row has mean e_j over rows of class j. So the mean reading of a population is its class shares, whatever
/// they are and however badly f is calibrated, and nothing but averaging happens to the rows' noise. That mean
/// may leave the simplex, which keeps it free of the bias that clipping brings.
#[derive(Debug)]
pub(crate) struct Unmixing {
    confusion: Confusion,
    conditional: DMatrix<f64>,
    inverse: DMatrix<f64>,
    /// variances[(j, k)]: of reading k over held-out rows of class j.
    variances: DMatrix<f64>,
    counts: Vec<f64>,
    identified: Vec<bool>,
    size: Size,
}

/// What readings are made with, by the number of classes.
#[derive(Debug)]
enum Size {
    Few(ReadingLanes),
    /// With more than [`EXACT_CLASSES`].
    Many(ManyClasses),
}

/// What makes readings of many classes fast.
#[derive(Debug)]
struct ManyClasses {
    /// One over the held-out rows of each class.
    inverse_counts: Vec<f64>,
    noise: ReadingNoise,
    descent: SimplexDescent,
}

/// Of a block's readings, by class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Readings {
    /// Unbiased; what intervals are made from.
    pub(crate) mean: Vec<f64>,
    pub(crate) variance: Vec<f64>,
    /// What is added to the mean for the published shares; see [`Unmixing::adjustment`].
    pub(crate) adjustment: Vec<f64>,
}

impl Readings {
    pub(crate) fn adjusted(&self) -> Vec<f64> {
        let pairs = self.mean.iter().zip(&self.adjustment);
        pairs.map(|(mean, added)| mean + added).collect()
    }
}

impl Unmixing {
    /// Exact with at most `exact_classes`; see [`EXACT_CLASSES`].
    pub(crate) fn new(
        held_out: &Probabilities,
        labels: &[u32],
        exact_classes: usize,
    ) -> Result<Self> {
        let confusion = Confusion::new(held_out, labels)?;
        let conditional = confusion.conditional();
        let classes = conditional.ncols();
        let inverse = invert(&conditional);
        let resolution = &inverse * &conditional;
        // G M is the identity if M has an inverse. With the pseudo-inverse it is a projection: only classes whose
        // row is still that of the identity can be read.
        let identified = (0..classes).map(|class| {
            let row = resolution.row(class);
            let error = |(other, value): (usize, &f64)| {
                (value - if other == class { 1.0 } else { 0.0 }).abs()
            };
            row.iter().enumerate().map(error).fold(0.0, f64::max) < IDENTIFIED_TOLERANCE
        });
        let mut counts = vec![0.0; classes];
        ostar_engine::weights::class_counts(labels.iter().copied(), &mut counts);
        let mut unmixing = Self {
            identified: identified.collect(),
            variances: DMatrix::zeros(classes, classes),
            size: if classes > exact_classes {
                Size::Many(ManyClasses {
                    inverse_counts: counts.iter().map(|count| 1.0 / count).collect(),
                    noise: ReadingNoise::new(&inverse),
                    descent: SimplexDescent::new(&conditional),
                })
            } else {
                Size::Few(ReadingLanes::new(&inverse))
            },
            confusion,
            conditional,
            inverse,
            counts,
        };
        match &unmixing.size {
            Size::Few(_) => unmixing.measure_noise(held_out, labels, &resolution),
            Size::Many(many) => {
                unmixing.variances = many.noise.of_classes(held_out, labels, &resolution);
            }
        }
        Ok(unmixing)
    }

    /// Variance of each reading over each class, from deviations from the class's mean reading.
    fn measure_noise(&mut self, held_out: &Probabilities, labels: &[u32], means: &DMatrix<f64>) {
        let mut reading = vec![0.0; self.classes()];
        for (row, label) in held_out.rows().zip(labels) {
            let class = *label as usize;
            self.read_row(row, &mut reading);
            for (k, value) in reading.iter().enumerate() {
                self.variances[(class, k)] += (value - means[(k, class)]).powi(2);
            }
        }
        for (class, count) in self.counts.iter().enumerate() {
            // Unbiased: deviations are from the class's own mean. One row alone shows no noise.
            let freedom = (count - 1.0).max(1.0);
            self.variances.row_mut(class).unscale_mut(freedom);
        }
    }

    pub(crate) fn classes(&self) -> usize {
        self.counts.len()
    }

    /// C of the predictions that are read.
    pub(crate) fn confusion(&self) -> &Confusion {
        &self.confusion
    }

    /// How many held-out rows each class has.
    pub(crate) fn counts(&self) -> &[f64] {
        &self.counts
    }

    /// One over the held-out rows of each class; with many classes alone.
    pub(crate) fn inverse_counts(&self) -> Option<&[f64]> {
        match &self.size {
            Size::Few(_) => None,
            Size::Many(many) => Some(&many.inverse_counts),
        }
    }

    /// Whether the classifier tells this class from the mixtures of the others at all.
    pub(crate) fn identifies(&self, class: usize) -> bool {
        self.identified[class]
    }

    /// Variance of the reading of `class` over held-out rows of each class.
    pub(crate) fn variances(&self, class: usize) -> &[f64] {
        let classes = self.classes();
        // The matrix is stored by columns, and column k holds the variances of reading k.
        &self.variances.as_slice()[class * classes..][..classes]
    }

    /// G times a row. Column by column in plain loops: nalgebra's product costs three times as much at these sizes.
    #[inline(always)]
    fn read_row(&self, row: &[f64], reading: &mut [f64]) {
        reading.fill(0.0);
        let columns = self.inverse.as_slice().chunks_exact(self.classes());
        for (column, value) in columns.zip(row) {
            for (sum, factor) in reading.iter_mut().zip(column) {
                *sum += factor * value;
            }
        }
    }

    /// Mean and variance of the readings of `rows`.
    pub(crate) fn read(&self, rows: &Probabilities) -> Readings {
        let classes = self.classes();
        let mut mean = vec![0.0; classes];
        // Reading is linear: the reading of the mean is the mean of the readings.
        self.read_row(&rows.mean(), &mut mean);
        let variance = match &self.size {
            Size::Few(lanes) => lanes.variance(rows, &mean),
            Size::Many(many) => many.noise.of_group(rows, &mean),
        };
        Readings {
            mean,
            variance,
            adjustment: vec![0.0; classes],
        }
    }

    /// What to add to readings of predictions that were corrected for `reference`, r.
    ///
    /// If the classifier is calibrated, the mean prediction of a population with the shares r is r itself. Its
    /// reading G r differs from r for two reasons: miscalibration, which readings are there to remove, and noise of
    /// the held-out rows. The part of the difference that noise explains is added back, scaled by `trust` in the
    /// classifier's calibration. With all of the difference, readings are r + G (q - r), a step from r towards the
    /// maximum of the likelihood. With none of it, they are unbiased.
    pub(crate) fn adjustment(&self, reference: &LabelProportions, trust: f64) -> Vec<f64> {
        let proportions = DVector::from_column_slice(reference.as_ref());
        let mut unexplained = &self.inverse * (&self.conditional * &proportions - &proportions);
        let noise = |class: usize| -> f64 {
            let rows = self.variances(class).iter().zip(&self.counts);
            rows.zip(reference.as_ref())
                .map(|((variance, count), proportion)| proportion * proportion * variance / count)
                .sum()
        };
        let scores = unexplained
            .iter()
            .enumerate()
            .map(|(class, value)| (value * value, noise(class)))
            // A class without noise would divide by 0.
            .filter(|(_, noise)| *noise > 0.0)
            .map(|(square, noise)| square / noise);
        let squared_score = scores.sum::<f64>() / self.classes() as f64;
        unexplained *= trust * noise_share(squared_score, self.classes() - 1);
        unexplained.as_slice().to_vec()
    }

    /// The shares whose mean prediction is nearest to that of `reading`. The same as least squares on the
    /// prediction itself: what M cannot express adds a constant.
    pub(crate) fn on_simplex(&self, reading: &[f64]) -> LabelProportions {
        // If M has an inverse, a reading on the simplex is its own solution. Most are, and solving for them took
        // longer than everything else that is done with a group of 50 rows.
        let is_solution = || {
            let sum: f64 = reading.iter().sum();
            self.identified.iter().all(|class| *class)
                && reading.iter().all(|share| *share >= 0.0)
                && (sum - 1.0).abs() < READING_TOLERANCE
        };
        match &self.size {
            _ if is_solution() => LabelProportions::rescaled(reading.to_vec()),
            Size::Few(_) => {
                simplex::nearest_on_simplex(&self.conditional, &self.prediction(reading))
            }
            Size::Many(many) => many.descent.nearest(reading),
        }
    }

    /// M times `reading`: the mean prediction that it stands for.
    pub(crate) fn prediction(&self, reading: &[f64]) -> Vec<f64> {
        let reading = DVector::from_column_slice(reading);
        (&self.conditional * reading).as_slice().to_vec()
    }

    /// The slopes s with s'f(x) = sum_k weights[k] u[k]: the reading of a weighted sum of shares.
    pub(crate) fn slopes(&self, weights: &[f64]) -> Vec<f64> {
        let weights = DVector::from_column_slice(weights);
        self.inverse.tr_mul(&weights).as_slice().to_vec()
    }
}

fn invert(matrix: &DMatrix<f64>) -> DMatrix<f64> {
    let norm = |matrix: &DMatrix<f64>| {
        let sums = matrix.column_iter().map(|column| column.lp_norm(1));
        sums.fold(0.0, f64::max)
    };
    match matrix.clone().try_inverse() {
        Some(inverse) if norm(matrix) * norm(&inverse) < ILL_CONDITIONED => inverse,
        _ => {
            let svd = matrix.clone().svd(true, true);
            let smallest = RANK_TOLERANCE * svd.singular_values.max();
            // Fails only without both factors, and both were computed.
            svd.pseudo_inverse(smallest)
                .unwrap_or_else(|_| matrix.transpose())
        }
    }
}
