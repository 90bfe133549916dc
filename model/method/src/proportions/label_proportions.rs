//! Shares of the classes: numbers of at least 0 that sum to 1, checked once.

use ostar_engine::{Error, Result};
use serde::{Deserialize, Serialize};

/// How far from 1 a sum may be and still be taken for rounding (of single-precision softmaxes, or of
/// shares written by hand with a few digits); it is then rescaled.
const SUM_TOLERANCE: f64 = 1e-4;

/// Sums this close to 1 are left as they are, so that what was saved is loaded bit for bit.
const ROUNDING: f64 = 1e-12;

/// Label proportions (p_N, or any other p of the classes): a point of the simplex, by construction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<f64>", into = "Vec<f64>")]
pub struct LabelProportions(Vec<f64>);

impl LabelProportions {
    /// Checks that there is a class, that no share is negative or non-finite, and that they sum to 1.
    pub fn new(proportions: Vec<f64>) -> Result<Self> {
        if proportions.is_empty() {
            return Err(Error::shape("label proportions", "at least one class", 0));
        }
        ostar_engine::checks::per_class("label proportion", &proportions, proportions.len())?;
        let sum: f64 = proportions.iter().sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            return Err(Error::setting(
                "label proportions",
                format!("sum to {sum}, expected 1"),
            ));
        }
        Ok(if (sum - 1.0).abs() > ROUNDING {
            Self::rescaled(proportions)
        } else {
            Self(proportions)
        })
    }

    /// The same share for each of `classes`.
    ///
    /// # Panics
    /// When `classes` is 0: there is nothing to share.
    pub fn uniform(classes: usize) -> Self {
        assert!(classes > 0, "proportions need at least one class");
        Self(vec![1.0 / classes as f64; classes])
    }

    /// Shares of counts (or of any weights of at least 0), of which one must be above 0.
    pub fn from_counts(counts: &[f64]) -> Result<Self> {
        ostar_engine::checks::per_class("class count", counts, counts.len())?;
        let total: f64 = counts.iter().sum();
        if !(total.is_finite() && total > 0.0) {
            return Err(Error::setting(
                "class counts",
                format!("sum to {total}, expected a finite number above 0"),
            ));
        }
        Ok(Self::rescaled(counts.to_vec()))
    }

    /// For values that are known to be finite, at least 0 and not all 0.
    pub(crate) fn rescaled(mut proportions: Vec<f64>) -> Self {
        let sum: f64 = proportions.iter().sum();
        debug_assert!(sum.is_finite() && sum > 0.0, "{proportions:?}");
        proportions
            .iter_mut()
            .for_each(|proportion| *proportion /= sum);
        Self(proportions)
    }

    /// Every share at least `floor`, then rescaled: a class at exactly 0 would never come back.
    pub fn floored(&self, floor: f64) -> Self {
        self.floored_by_class(|_| floor)
    }

    /// [`LabelProportions::floored`] with a floor for each class.
    pub(crate) fn floored_by_class(&self, floor: impl Fn(usize) -> f64) -> Self {
        let shares = self.0.iter().enumerate();
        Self::rescaled(
            shares
                .map(|(class, share)| share.max(floor(class)))
                .collect(),
        )
    }

    /// The shares that correction from these to `target` passes at this strength: 0 leaves them as they are, 1 is `target`.
    /// Ratios of shares move in proportion to it in their logarithms, as do the log-odds of corrected predictions.
    pub(crate) fn towards(&self, target: &Self, strength: f64) -> Self {
        let share = |(from, to): (&f64, &f64)| from.powf(1.0 - strength) * to.powf(strength);
        Self::rescaled(self.0.iter().zip(&target.0).map(share).collect())
    }

    /// Every share to the nearest multiple of `step`, at least one, then rescaled.
    pub(crate) fn rounded(&self, step: f64) -> Self {
        let rounded = |proportion: &f64| step * (proportion / step).round().max(1.0);
        Self::rescaled(self.0.iter().map(rounded).collect())
    }

    /// Sum over classes of the absolute differences.
    pub fn l1_distance(&self, other: &Self) -> f64 {
        self.0
            .iter()
            .zip(&other.0)
            .map(|(a, b)| (a - b).abs())
            .sum()
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.0.len()
    }
}

impl TryFrom<Vec<f64>> for LabelProportions {
    type Error = Error;

    fn try_from(proportions: Vec<f64>) -> Result<Self> {
        Self::new(proportions)
    }
}

impl From<LabelProportions> for Vec<f64> {
    fn from(proportions: LabelProportions) -> Self {
        proportions.0
    }
}

impl AsRef<[f64]> for LabelProportions {
    fn as_ref(&self) -> &[f64] {
        &self.0
    }
}

impl std::ops::Index<usize> for LabelProportions {
    type Output = f64;

    fn index(&self, class: usize) -> &f64 {
        &self.0[class]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_on_the_simplex_is_refused_with_the_reason() {
        let message = |proportions: &[f64]| {
            LabelProportions::new(proportions.to_vec())
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            message(&[0.5, 0.4]),
            "label proportions: sum to 0.9, expected 1"
        );
        assert!(message(&[1.5, -0.5]).contains("class 1 is -0.5"));
        assert!(message(&[f64::NAN, 1.0]).contains("class 0 is NaN"));
        assert!(message(&[]).contains("at least one class"));
        assert!(LabelProportions::from_counts(&[0.0, 0.0]).is_err());
    }

    #[test]
    fn saved_and_loaded_they_are_the_same_bits_and_wrong_ones_do_not_load() {
        let proportions = LabelProportions::from_counts(&[1.0, 3.0, 7.0, 0.1]).unwrap();
        let text = serde_json::to_string(&proportions).unwrap();
        assert_eq!(
            serde_json::from_str::<LabelProportions>(&text).unwrap(),
            proportions
        );
        assert!(serde_json::from_str::<LabelProportions>("[0.7, 0.7]").is_err());
    }

    #[test]
    fn a_floor_brings_an_empty_class_back() {
        let floored = LabelProportions::new(vec![1.0, 0.0]).unwrap().floored(1e-3);
        assert!((floored[1] - 1e-3 / 1.001).abs() < 1e-15);
        let uniform = LabelProportions::uniform(2);
        assert!((floored.l1_distance(&uniform) - (1.0 - 2e-3 / 1.001)).abs() < 1e-12);
    }
}
