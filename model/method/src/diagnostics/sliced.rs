//! Sliced Wasserstein distance: the mean, over fixed directions, of the exact distance on a line.

use ostar_engine::{Error, Generator, Result, checks, linear::Packed};
use serde::{Deserialize, Serialize};

use super::{count_rows, line::SortedLine};

/// Fixed random unit vectors onto which latents are projected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedDirections")]
pub struct Directions {
    width: usize,
    vectors: Vec<f32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UncheckedDirections {
    width: usize,
    vectors: Vec<f32>,
}

// === impl Directions ===

impl Directions {
    /// `count` directions, uniform on the unit sphere of `width` dimensions.
    pub fn new(width: usize, count: usize, generator: &mut Generator) -> Result<Self> {
        let mut vectors = Vec::with_capacity(width * count);
        for _ in 0..count {
            let normals: Vec<f64> = (0..width).map(|_| generator.normal()).collect();
            let square: f64 = normals.iter().map(|value| value * value).sum();
            let norm = square.sqrt();
            vectors.extend(normals.into_iter().map(|value| (value / norm) as f32));
        }
        Self::try_from(UncheckedDirections { width, vectors })
    }

    /// Width of the latents that can be projected.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many directions there are; at least 1.
    pub fn count(&self) -> usize {
        self.vectors.len() / self.width
    }

    /// The unit vectors, one after the other.
    pub(crate) fn vectors(&self) -> &[f32] {
        &self.vectors
    }

    /// Sliced W1 between two sets of latents, whose rows weigh alike unless weights are given.
    pub fn distance(
        &self,
        left: &[f32],
        left_weights: Option<&[f64]>,
        right: &[f32],
        right_weights: Option<&[f64]>,
    ) -> Result<f64> {
        let left_rows = count_rows("left", left, self.width)?;
        let right_rows = count_rows("right", right, self.width)?;
        let mut masses = shares("left", left_rows, left_weights)?;
        let right_shares = shares("right", right_rows, right_weights)?;
        masses.extend(right_shares.into_iter().map(|share| -share));

        let (left, right) = (self.project(left), self.project(right));
        let lines = left
            .chunks_exact(left_rows)
            .zip(right.chunks_exact(right_rows));
        let mut line = SortedLine::default();
        let mut sum = 0.0;
        for (left, right) in lines {
            line.sort(left.iter().chain(right));
            sum += line.area_between(&masses);
        }
        finite(sum / self.count() as f64)
    }

    /// Projections of `latents`, one line of all rows for each direction.
    pub(super) fn project(&self, latents: &[f32]) -> Vec<f32> {
        let rows = latents.len() / self.width;
        let mut projections = vec![0.0; self.count() * rows];
        let packed = Packed::new(latents, self.width, rows);
        packed.multiply(self.count(), &self.vectors, &mut projections);
        projections
    }
}

impl TryFrom<UncheckedDirections> for Directions {
    type Error = Error;

    fn try_from(unchecked: UncheckedDirections) -> Result<Self> {
        let UncheckedDirections { width, vectors } = unchecked;
        let count = count_rows("directions", &vectors, width)?;
        checks::at_least_one_row("directions", count)?;
        Ok(Self { width, vectors })
    }
}

/// Weights as shares of their sum; the same for every row without weights.
fn shares(what: &'static str, rows: usize, weights: Option<&[f64]>) -> Result<Vec<f64>> {
    checks::at_least_one_row(what, rows)?;
    let Some(weights) = weights else {
        return Ok(vec![1.0 / rows as f64; rows]);
    };
    checks::length(&format!("{what} weights"), weights.len(), rows)?;
    let sum: f64 = weights.iter().sum();
    let allowed = weights.iter().all(|weight| *weight >= 0.0) && sum.is_finite() && sum > 0.0;
    if allowed {
        Ok(weights.iter().map(|weight| weight / sum).collect())
    } else {
        Err(Error::setting(
            format!("{what} weights"),
            "expected finite numbers, 0 or more, not all 0",
        ))
    }
}

pub(super) fn finite(distance: f64) -> Result<f64> {
    if distance.is_finite() {
        Ok(distance)
    } else {
        Err(Error::setting(
            "latents",
            "are so large that their projections overflow, expected about unit scale",
        ))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normals(rows: usize, width: usize, generator: &mut Generator) -> Vec<f32> {
        let values = (0..rows * width).map(|_| generator.normal() as f32);
        values.collect()
    }

    fn directions(width: usize, count: usize) -> Directions {
        Directions::new(width, count, &mut Generator::new(5)).unwrap()
    }

    /// One direction of length 1 on a line.
    fn line() -> Directions {
        Directions {
            width: 1,
            vectors: vec![1.0],
        }
    }

    #[test]
    fn directions_have_unit_length_and_survive_serialisation() {
        let directions = directions(7, 20);
        assert_eq!(directions.count(), 20);
        for vector in directions.vectors.chunks_exact(7) {
            let square: f32 = vector.iter().map(|value| value * value).sum();
            assert!((square - 1.0).abs() < 1e-5, "{square}");
        }
        let saved = serde_json::to_string(&directions).unwrap();
        let restored: Directions = serde_json::from_str(&saved).unwrap();
        assert_eq!(restored, directions);
        let torn = r#"{"width": 2, "vectors": [1.0]}"#;
        assert!(serde_json::from_str::<Directions>(torn).is_err());
    }

    #[test]
    fn a_shifted_set_is_as_far_as_the_mean_projection_of_its_shift() {
        let directions = directions(5, 64);
        let left = normals(300, 5, &mut Generator::new(1));
        let shift = [0.5f32, -1.0, 2.0, 0.0, 0.25];
        let right: Vec<f32> = left
            .chunks_exact(5)
            .flat_map(|row| row.iter().zip(shift).map(|(value, by)| value + by))
            .collect();
        let projected = directions.vectors.chunks_exact(5).map(|vector| {
            let along: f32 = vector.iter().zip(shift).map(|(v, by)| v * by).sum();
            f64::from(along.abs())
        });
        let expected = projected.sum::<f64>() / 64.0;
        let distance = directions.distance(&left, None, &right, None).unwrap();
        assert!((distance - expected).abs() < 1e-5, "{distance} {expected}");
        assert_eq!(directions.distance(&left, None, &left, None).unwrap(), 0.0);
    }

    #[test]
    fn a_whole_number_weight_counts_as_that_many_rows() {
        let directions = directions(2, 16);
        let right = normals(9, 2, &mut Generator::new(2));
        let left = [0.0, 1.0, 2.0, -1.0];
        let repeated = [0.0, 1.0, 2.0, -1.0, 2.0, -1.0, 2.0, -1.0];
        let weighted = directions
            .distance(&left, Some(&[1.0, 3.0]), &right, None)
            .unwrap();
        let plain = directions.distance(&repeated, None, &right, None).unwrap();
        assert!((weighted - plain).abs() < 1e-12, "{weighted} {plain}");
    }

    /// A set of points of the line with their weights, not all 0.
    fn weighted_points() -> impl Strategy<Value = (Vec<f32>, Vec<f64>)> {
        let weight = prop_oneof![Just(0.0), 0.1..3.0f64];
        let point = prop_oneof![-5.0..5.0f32, (-2..2i8).prop_map(f32::from)];
        prop::collection::vec((point, weight), 1..12)
            .prop_filter("weights are all 0", |set| set.iter().any(|(_, w)| *w > 0.0))
            .prop_map(|set| set.into_iter().unzip())
    }

    /// Integrates |F - G| by evaluating both functions between every two neighbouring points.
    fn brute_force(left: &(Vec<f32>, Vec<f64>), right: &(Vec<f32>, Vec<f64>)) -> f64 {
        let mut points: Vec<f32> = left.0.iter().chain(&right.0).copied().collect();
        points.sort_by(f32::total_cmp);
        let share_up_to = |set: &(Vec<f32>, Vec<f64>), end: f32| {
            let below = set.0.iter().zip(&set.1).filter(|(point, _)| **point <= end);
            below.map(|(_, weight)| weight).sum::<f64>() / set.1.iter().sum::<f64>()
        };
        let pieces = points.windows(2).map(|pair| {
            let gap = share_up_to(left, pair[0]) - share_up_to(right, pair[0]);
            gap.abs() * (f64::from(pair[1]) - f64::from(pair[0]))
        });
        pieces.sum()
    }

    proptest! {
        #[test]
        fn the_distance_on_a_line_is_the_area_between_the_distribution_functions(
            left in weighted_points(),
            right in weighted_points(),
        ) {
            let distance = line()
                .distance(&left.0, Some(&left.1), &right.0, Some(&right.1))
                .unwrap();
            let expected = brute_force(&left, &right);
            prop_assert!((distance - expected).abs() < 1e-9, "{distance} {expected}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_an_error() {
        let line = line();
        assert!(line.distance(&[], None, &[1.0], None).is_err());
        assert!(line.distance(&[1.0], None, &[f32::NAN], None).is_err());
        let wrong = [
            vec![0.0],
            vec![-1.0],
            vec![f64::NAN],
            vec![f64::INFINITY],
            vec![1.0; 2],
        ];
        for weights in &wrong {
            let refused = line.distance(&[1.0], Some(weights), &[1.0], None);
            let message = refused.unwrap_err().to_string();
            assert!(message.starts_with("left weights"), "{message}");
        }
        let steep = Directions {
            width: 1,
            vectors: vec![2.0],
        };
        assert!(steep.distance(&[f32::MAX], None, &[0.0], None).is_err());
        assert!(Directions::new(0, 3, &mut Generator::new(1)).is_err());
        assert!(Directions::new(3, 0, &mut Generator::new(1)).is_err());
    }
}
