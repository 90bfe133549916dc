//! Bounds on the numbers that enter the encoder.

use serde::{Deserialize, Serialize};

use crate::{Error, Result, checks};

/// The lowest and highest value of every numeric input: latents or dense features as they stand in the event, number
/// fields after standardising. A value beyond a bound is replaced by the bound, so that one wild value cannot
/// decide a prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clip {
    /// Lowest value of each column.
    pub lower: Vec<f32>,
    /// Highest value of each column, not below `lower`.
    pub upper: Vec<f32>,
}

impl Clip {
    /// Refuses another width than `width`, bounds that are not finite and bounds that cross.
    pub fn check(&self, width: usize) -> Result<()> {
        checks::length("clip.lower", self.lower.len(), width)?;
        checks::length("clip.upper", self.upper.len(), width)?;
        let usable =
            |(lower, upper): (&f32, &f32)| lower.is_finite() && upper.is_finite() && lower <= upper;
        match self.lower.iter().zip(&self.upper).position(|b| !usable(b)) {
            None => Ok(()),
            Some(column) => Err(Error::setting(
                "clip",
                format!(
                    "of column {column} is from {} to {}, expected finite numbers in ascending order",
                    self.lower[column], self.upper[column]
                ),
            )),
        }
    }

    /// Clips finite rows in place and returns how many values were beyond a bound. All others keep their bytes.
    pub fn apply(&self, rows: &mut [f32]) -> usize {
        let mut clipped = 0;
        for row in rows.chunks_exact_mut(self.lower.len().max(1)) {
            let bounds = self.lower.iter().zip(&self.upper);
            let beyond = row.iter_mut().zip(bounds).map(|(value, (lower, upper))| {
                let (bounded, beyond) = bounded(*value, *lower, *upper);
                *value = bounded;
                beyond
            });
            clipped += beyond.sum::<u32>() as usize;
        }
        clipped
    }

    /// Replaces `out` by clipped rows and returns how many values were clipped. One pass: a copy that is clipped
    /// afterwards took several times as long.
    pub(crate) fn copy(&self, rows: &[f32], out: &mut Vec<f32>) -> usize {
        let width = self.lower.len().max(1);
        out.resize(rows.len(), 0.0);
        let mut clipped = 0;
        for (row, out) in rows.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
            let bounds = self.lower.iter().zip(&self.upper);
            let columns = row.iter().zip(out).zip(bounds);
            let beyond = columns.map(|((value, out), (lower, upper))| {
                let (bounded, beyond) = bounded(*value, *lower, *upper);
                *out = bounded;
                beyond
            });
            clipped += beyond.sum::<u32>() as usize;
        }
        clipped
    }
}

/// The value within the bounds, and 1 if it was beyond one. Selections compile to vector instructions without a
/// branch. `f32::clamp` and `f32::max` would not do: the first panics on crossed bounds, and of -0 and 0 the second may
/// return either, while values within the bounds must keep their bytes.
#[inline]
fn bounded(value: f32, lower: f32, upper: f32) -> (f32, u32) {
    let raised = if value < lower { lower } else { value };
    let bounded = if raised > upper { upper } else { raised };
    (bounded, u32::from(value < lower) + u32::from(value > upper))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bounds_that_cannot_work_are_refused_by_column() {
        let clip = |lower: [f32; 2], upper: [f32; 2]| {
            let (lower, upper) = (lower.into(), upper.into());
            Clip { lower, upper }.check(2)
        };
        clip([-1.0, 3.0], [1.0, 3.0]).unwrap();
        assert_eq!(
            clip([-1.0, 3.0], [1.0, 2.0]).unwrap_err().to_string(),
            "clip: of column 1 is from 3 to 2, expected finite numbers in ascending order"
        );
        assert!(clip([f32::NAN, 3.0], [1.0, 3.0]).is_err());
        assert!(clip([-1.0, 3.0], [f32::INFINITY, 3.0]).is_err());
        let narrow = Clip {
            lower: vec![0.0],
            upper: vec![1.0],
        };
        assert!(narrow.check(2).is_err());
    }

    proptest! {
        #[test]
        fn values_within_the_bounds_keep_their_bytes_and_the_others_are_counted(
            bounds in prop::collection::vec((-10f32..=0.0, 0f32..10.0), 1..20),
            seeds in prop::collection::vec(prop_oneof![-12f32..12.0, Just(0.0), Just(-0.0)], 0..200),
        ) {
            let (lower, upper): (Vec<f32>, Vec<f32>) = bounds.into_iter().unzip();
            let width = lower.len();
            let clip = Clip { lower, upper };
            let before = &seeds[..seeds.len() / width * width];
            let mut after = before.to_vec();
            let clipped = clip.apply(&mut after);
            let mut copy = vec![1.0; 7];
            prop_assert_eq!(clip.copy(before, &mut copy), clipped);
            prop_assert_eq!(&copy, &after);
            let mut expected = 0;
            for (number, (before, after)) in before.iter().zip(&after).enumerate() {
                let (lower, upper) = (clip.lower[number % width], clip.upper[number % width]);
                if (lower..=upper).contains(before) {
                    prop_assert_eq!(before.to_bits(), after.to_bits());
                } else {
                    prop_assert_eq!(*after, before.clamp(lower, upper));
                    expected += 1;
                }
            }
            prop_assert_eq!(clipped, expected);
        }
    }
}
