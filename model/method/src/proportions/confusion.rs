//! The soft joint confusion matrix and the two estimators that need nothing else.

use nalgebra::{DMatrix, DVector};
use ostar_engine::{Error, Result};

use super::{LabelProportions, Probabilities, simplex};

/// `C[i, j]` = (1/n) sum over held-out source rows of class j of the probability of class i. Column sums
/// (D) are the class shares of those rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Confusion {
    joint: DMatrix<f64>,
    proportions: DVector<f64>,
    /// Variance of a probability among rows of one class, mean over rows and probabilities.
    noise: f64,
}

impl Confusion {
    /// From predictions on labelled rows that the classifier was not trained on: on its training rows C
    /// would be too diagonal. Every class must have a row.
    pub fn new(held_out: &Probabilities, labels: &[u32]) -> Result<Self> {
        let classes = held_out.classes();
        ostar_engine::checks::length("held-out labels", labels.len(), held_out.count())?;
        ostar_engine::checks::labels(labels, classes)?;
        let mut joint = DMatrix::zeros(classes, classes);
        for (row, label) in held_out.rows().zip(labels) {
            let mut column = joint.column_mut(*label as usize);
            column
                .iter_mut()
                .zip(row)
                .for_each(|(sum, value)| *sum += value);
        }
        joint /= held_out.count() as f64;
        let mut confusion = Self::from_joint(joint)?;
        let squares: f64 = held_out.as_slice().iter().map(|value| value * value).sum();
        let between: f64 = confusion
            .joint
            .column_iter()
            .zip(confusion.proportions.iter())
            .map(|(column, proportion)| column.norm_squared() / proportion)
            .sum();
        let within = squares / held_out.count() as f64 - between;
        confusion.noise = within.max(0.0) / classes as f64;
        Ok(confusion)
    }

    /// From the joint matrix itself, row after row. The noise of predictions is then taken to be the largest
    /// that probabilities can have.
    pub fn from_rows(joint: &[f64], classes: usize) -> Result<Self> {
        ostar_engine::checks::length("confusion matrix", joint.len(), classes * classes)?;
        ostar_engine::checks::per_class("confusion matrix entry", joint, joint.len())?;
        Self::from_joint(DMatrix::from_row_slice(classes, classes, joint))
    }

    fn from_joint(joint: DMatrix<f64>) -> Result<Self> {
        let proportions = joint.row_sum_tr();
        match proportions.iter().position(|proportion| *proportion <= 0.0) {
            None => Ok(Self {
                noise: 1.0 / proportions.len() as f64,
                joint,
                proportions,
            }),
            Some(class) => Err(Error::setting(
                "held-out labels",
                format!("have no row of class {class}, expected at least one of every class"),
            )),
        }
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.joint.ncols()
    }

    /// C in row-major order: entry (i, j) is at i * classes + j.
    pub fn to_rows(&self) -> Vec<f64> {
        self.joint.transpose().as_slice().to_vec()
    }

    /// D, the class shares of the held-out rows.
    pub fn proportions(&self) -> &[f64] {
        self.proportions.as_slice()
    }

    /// Mean prediction of each class, one a column: C / D.
    pub(crate) fn conditional(&self) -> DMatrix<f64> {
        let mut conditional = self.joint.clone();
        for (mut column, proportion) in conditional.column_iter_mut().zip(self.proportions.iter()) {
            column /= *proportion;
        }
        conditional
    }

    /// C's conditioning: near 0, two mixtures of classes look alike to the classifier and nothing can
    /// tell their shares apart.
    pub fn smallest_singular_value(&self) -> f64 {
        self.joint.singular_values().min()
    }

    /// The estimator `confusion`: p = D * w for the exact minimiser w of 1/2 ||q - C w||^2 over w >= 0 and
    /// sum_j D_j w_j = 1. `marginal` (q) is the mean prediction on the target.
    pub fn solve(&self, marginal: &[f64]) -> Result<LabelProportions> {
        self.check(marginal)?;
        Ok(simplex::nearest_on_simplex(&self.conditional(), marginal))
    }

    /// The estimator `regularised` (RLLS): w = 1 + argmin_theta ||C theta - (q - C 1)||^2 + rho ||theta||^2,
    /// then the nearest w that meets the constraints of [`solve`](Self::solve), and p = D * w.
    ///
    /// See [`penalty`](Self::penalty) for rho.
    pub fn solve_regularised(&self, marginal: &[f64], rho: f64) -> Result<LabelProportions> {
        self.check(marginal)?;
        ostar_engine::checks::weight("rho", rho)?;
        Ok(self.ridge(marginal, rho))
    }

    pub(crate) fn ridge(&self, marginal: &[f64], rho: f64) -> LabelProportions {
        let unexplained = DVector::from_column_slice(marginal) - self.joint.column_sum();
        // The minimiser through the singular values s: v (s / (s^2 + rho)) u', defined for rho = 0 too.
        let svd = self.joint.clone().svd(true, true);
        let (left, right) = svd
            .u
            .as_ref()
            .zip(svd.v_t.as_ref())
            .expect("both factors are computed");
        let mut along = left.tr_mul(&unexplained);
        for (value, singular) in along.iter_mut().zip(svd.singular_values.iter()) {
            let squared = singular * singular + rho;
            *value = if squared > 0.0 {
                *value * singular / squared
            } else {
                0.0
            };
        }
        let weights = right.tr_mul(&along).add_scalar(1.0);
        let projected = simplex::project(weights.as_slice(), self.proportions());
        let proportions = projected
            .iter()
            .zip(self.proportions())
            .map(|(w, proportion)| w * proportion);
        LabelProportions::rescaled(proportions.collect())
    }

    /// rho of [`solve_regularised`](Self::solve_regularised) from the sample sizes: v (1/n_S + 1/n_T), with v the
    /// variance of a probability among rows of one class.
    ///
    /// It is the ridge of a posterior mean, the variance of the noise over that of what is looked for: an entry
    /// of q - C 1 is a difference of two means of probabilities over n_T and n_S rows, and the weights' distance
    /// theta from 1 is of order 1.
    pub fn penalty(&self, held_out_rows: f64, target_rows: f64) -> f64 {
        self.noise * (1.0 / held_out_rows + 1.0 / target_rows)
    }

    fn check(&self, marginal: &[f64]) -> Result<()> {
        ostar_engine::checks::per_class("mean prediction", marginal, self.classes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Rows;

    #[test]
    fn a_class_without_a_held_out_row_is_named() {
        let values = [0.5f32, 0.3, 0.2, 0.1, 0.1, 0.8];
        let rows = Probabilities::new("held-out", Rows::new(&values[..], 3).unwrap()).unwrap();
        let message = Confusion::new(&rows, &[0, 2]).unwrap_err().to_string();
        assert!(message.contains("no row of class 1"), "{message}");
        let message = Confusion::new(&rows, &[0, 3]).unwrap_err().to_string();
        assert!(message.contains("label of row 1 is 3"), "{message}");
    }

    #[test]
    fn columns_sum_to_the_shares_and_the_source_s_own_marginal_gives_them_back() {
        let values = [0.9, 0.1, 0.7, 0.3, 0.2, 0.8];
        let rows = Probabilities::new("held-out", Rows::new(&values[..], 2).unwrap()).unwrap();
        let confusion = Confusion::new(&rows, &[0, 0, 1]).unwrap();
        assert!((confusion.proportions()[0] - 2.0 / 3.0).abs() < 1e-15);
        let exact = confusion.solve(&rows.mean()).unwrap();
        let regularised = confusion.solve_regularised(&rows.mean(), 0.01).unwrap();
        for estimate in [exact, regularised] {
            assert!((estimate[0] - 2.0 / 3.0).abs() < 1e-12, "{estimate:?}");
        }
    }
}
