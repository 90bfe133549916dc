//! Sliced Wasserstein distance: the mean, over fixed directions, of the exact distance on a line.

use pulp::Arch;
use serde::{Deserialize, Serialize};

use super::count_rows;
use crate::{
    Error, Generator, Result, checks,
    cpu::gemm::{Finish, Left, Packed, multiply},
};

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

/// How many unweighted rows are as noisy as rows with these weights: (sum w)^2 / sum w^2. A weighted
/// sample's distance is to be held against a floor for so many rows.
pub fn effective_rows(weights: &[f64]) -> f64 {
    let sum: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    match squares > 0.0 {
        true => sum * sum / squares,
        false => 0.0,
    }
}

// === impl Directions ===

impl Directions {
    /// `count` directions, uniform on the unit sphere of `width` dimensions.
    pub fn new(width: usize, count: usize, generator: &mut Generator) -> Result<Self> {
        let mut vectors = Vec::with_capacity(width * count);
        for _ in 0..count {
            let normals: Vec<f64> = (0..width).map(|_| generator.normal()).collect();
            let norm = normals
                .iter()
                .map(|value| value * value)
                .sum::<f64>()
                .sqrt();
            vectors.extend(normals.into_iter().map(|value| (value / norm) as f32));
        }
        Self::try_from(UncheckedDirections { width, vectors })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.vectors.len() / self.width
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

        let rows = masses.len();
        let mut projections = vec![0.0; self.count() * rows];
        self.project(left, &mut projections, rows, 0);
        self.project(right, &mut projections, rows, left_rows);
        let mut order = Vec::with_capacity(rows);
        let mut sum = 0.0;
        for line in projections.chunks_exact(rows) {
            sort_line(line, &mut order);
            sum += area_between(&order, &masses);
        }
        finite(sum / self.count() as f64)
    }

    /// What sampling alone makes of the distance: the `quantile` of it between random disjoint parts of
    /// `target`, of `rows_left` and `rows_right` rows, over `repeats` draws. If the target has
    /// fewer rows than both together, parts are smaller in proportion and the distance, which falls with
    /// the root of the size, is scaled to the sizes asked for.
    pub fn floor(
        &self,
        target: &[f32],
        rows_left: usize,
        rows_right: usize,
        repeats: usize,
        quantile: f64,
        generator: &mut Generator,
    ) -> Result<f64> {
        let rows = count_rows("target", target, self.width)?;
        let parts = Parts::within(rows, rows_left, rows_right)?;
        if repeats == 0 {
            return Err(Error::setting("repeats", "is 0, expected at least 1"));
        }
        if !(0.0..=1.0).contains(&quantile) {
            let problem = format!("is {quantile}, expected a number in [0, 1]");
            return Err(Error::setting("quantile", problem));
        }

        // Sorted once: a draw only changes which side each row counts for.
        let mut projections = vec![0.0; self.count() * rows];
        self.project(target, &mut projections, rows, 0);
        let mut lines = vec![Vec::new(); self.count()];
        for (line, order) in projections.chunks_exact(rows).zip(&mut lines) {
            sort_line(line, order);
        }
        let mut drawn: Vec<usize> = (0..rows).collect();
        let mut masses = vec![0.0; rows];
        let mut distances = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            generator.shuffle(&mut drawn);
            parts.assign(&drawn, &mut masses);
            let areas = lines.iter().map(|order| area_between(order, &masses));
            distances.push(areas.sum::<f64>() / self.count() as f64);
        }
        distances.sort_unstable_by(f64::total_cmp);
        let rank = (quantile * repeats as f64).ceil() as usize;
        finite(parts.scale * distances[rank.clamp(1, repeats) - 1])
    }

    /// Writes the projections of `latents` from column `first` of a matrix with one line of `rows` a
    /// direction.
    fn project(&self, latents: &[f32], projections: &mut [f32], rows: usize, first: usize) {
        let points = latents.len() / self.width;
        let mut packed = Packed::default();
        packed.pack_columns(latents, self.width, points);
        let mut product = vec![0.0; self.count() * points];
        multiply(
            Arch::new(),
            self.count(),
            Left::Rows(&self.vectors),
            &packed,
            Finish::Set,
            &mut product,
        );
        let lines = projections.chunks_exact_mut(rows);
        for (line, projected) in lines.zip(product.chunks_exact(points)) {
            line[first..first + points].copy_from_slice(projected);
        }
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

/// Sizes of two disjoint parts of a sample.
struct Parts {
    left: usize,
    right: usize,
    scale: f64,
}

// === impl Parts ===

impl Parts {
    fn within(rows: usize, left: usize, right: usize) -> Result<Self> {
        if left == 0 || right == 0 || rows < 2 {
            return Err(Error::shape(
                "parts of the target",
                "two parts of at least one row each",
                format!("{left} and {right} of {rows} rows"),
            ));
        }
        if left + right <= rows {
            let scale = 1.0;
            return Ok(Self { left, right, scale });
        }
        let share = left as f64 / (left + right) as f64;
        let fewer_left = ((rows as f64 * share).round() as usize).clamp(1, rows - 1);
        let fewer_right = rows - fewer_left;
        let noise = |left: usize, right: usize| 1.0 / left as f64 + 1.0 / right as f64;
        Ok(Self {
            left: fewer_left,
            right: fewer_right,
            scale: (noise(left, right) / noise(fewer_left, fewer_right)).sqrt(),
        })
    }

    /// Masses by which the first rows `drawn` make the left part, and the next the right one.
    fn assign(&self, drawn: &[usize], masses: &mut [f64]) {
        masses.fill(0.0);
        let (left, rest) = drawn.split_at(self.left);
        left.iter()
            .for_each(|row| masses[*row] = 1.0 / self.left as f64);
        rest[..self.right]
            .iter()
            .for_each(|row| masses[*row] = -1.0 / self.right as f64);
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
    match allowed {
        true => Ok(weights.iter().map(|weight| weight / sum).collect()),
        false => Err(Error::setting(
            format!("{what} weights"),
            "expected finite numbers, 0 or more, not all 0",
        )),
    }
}

fn finite(distance: f64) -> Result<f64> {
    match distance.is_finite() {
        true => Ok(distance),
        false => Err(Error::setting(
            "latents",
            "are so large that their projections overflow, expected about unit scale",
        )),
    }
}

/// Sorts a line's points. Each becomes one integer, ordered as its value, with its row in the low half:
/// integers sort several times faster than pairs.
fn sort_line(line: &[f32], order: &mut Vec<u64>) {
    order.clear();
    order.extend(line.iter().zip(0u64..).map(|(value, row)| {
        let bits = value.to_bits();
        let negative = bits >> 31 == 1;
        let key = if negative { !bits } else { bits | 1 << 31 };
        u64::from(key) << 32 | row
    }));
    order.sort_unstable();
}

/// The value of a sorted point.
fn value(point: u64) -> f64 {
    let key = (point >> 32) as u32;
    let negative = key >> 31 == 0;
    f64::from(f32::from_bits(if negative {
        !key
    } else {
        key & !(1 << 31)
    }))
}

/// W1 on a line: the area between the two distribution functions. `masses` are positive for rows of the
/// one and negative for rows of the other.
fn area_between(order: &[u64], masses: &[f64]) -> f64 {
    let mut area = 0.0;
    let mut gap: f64 = 0.0;
    let mut previous = order.first().map_or(0.0, |point| value(*point));
    for point in order {
        let here = value(*point);
        area += gap.abs() * (here - previous);
        gap += masses[(*point & u64::from(u32::MAX)) as usize];
        previous = here;
    }
    area
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normals(rows: usize, width: usize, generator: &mut Generator) -> Vec<f32> {
        (0..rows * width)
            .map(|_| generator.normal() as f32)
            .collect()
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
    fn the_floor_holds_for_equal_distributions_and_not_for_shifted_ones() {
        let directions = directions(8, 64);
        let mut generator = Generator::new(4);
        let target = normals(800, 8, &mut generator);
        let floor = directions
            .floor(&target, 400, 400, 100, 0.95, &mut generator)
            .unwrap();
        let distances = |shift: f32, generator: &mut Generator| -> Vec<f64> {
            let draw = |generator: &mut Generator| normals(400, 8, generator);
            let pair = |_| {
                let left = draw(generator);
                let moved: Vec<f32> = draw(generator).iter().map(|v| v + shift).collect();
                directions.distance(&left, None, &moved, None).unwrap()
            };
            (0..100).map(pair).collect()
        };
        let above = |distances: Vec<f64>| distances.into_iter().filter(|d| *d > floor).count();
        let equal = above(distances(0.0, &mut generator));
        assert!(equal <= 15, "{equal} of 100 above the floor {floor}");
        assert_eq!(above(distances(0.2, &mut generator)), 100);
    }

    #[test]
    fn the_floor_of_a_small_target_is_scaled_to_the_sizes_asked_for() {
        let directions = directions(4, 32);
        let mut generator = Generator::new(6);
        let target = normals(2_000, 4, &mut generator);
        let mut floor = |rows: usize| {
            directions
                .floor(&target[..rows * 4], 600, 300, 200, 0.5, &mut generator)
                .unwrap()
        };
        let (whole, part) = (floor(2_000), floor(300));
        assert!((part / whole - 1.0).abs() < 0.15, "{part} {whole}");
    }

    #[test]
    fn equal_weights_are_worth_all_rows_and_one_weight_is_worth_one() {
        assert_eq!(effective_rows(&[2.0; 5]), 5.0);
        assert_eq!(effective_rows(&[0.0, 3.0, 0.0]), 1.0);
        assert_eq!(effective_rows(&[]), 0.0);
    }

    #[test]
    fn what_cannot_be_compared_is_an_error() {
        let line = line();
        assert!(line.distance(&[], None, &[1.0], None).is_err());
        assert!(line.distance(&[1.0], None, &[f32::NAN], None).is_err());
        for weights in [
            &[0.0][..],
            &[-1.0],
            &[f64::NAN],
            &[f64::INFINITY],
            &[1.0; 2],
        ] {
            let refused = line.distance(&[1.0], Some(weights), &[1.0], None);
            let message = refused.unwrap_err().to_string();
            assert!(message.starts_with("left weights"), "{message}");
        }
        let steep = Directions {
            width: 1,
            vectors: vec![2.0],
        };
        assert!(steep.distance(&[f32::MAX], None, &[0.0], None).is_err());
        let mut generator = Generator::new(1);
        let mut floor = |target: &[f32], left, repeats, quantile| {
            line.floor(target, left, 1, repeats, quantile, &mut generator)
        };
        assert!(floor(&[1.0, 2.0], 1, 1, 1.0).is_ok());
        assert!(floor(&[1.0], 1, 1, 1.0).is_err());
        assert!(floor(&[1.0, 2.0], 0, 1, 1.0).is_err());
        assert!(floor(&[1.0, 2.0], 1, 0, 1.0).is_err());
        assert!(floor(&[1.0, 2.0], 1, 1, f64::NAN).is_err());
        assert!(Directions::new(0, 3, &mut Generator::new(1)).is_err());
        assert!(Directions::new(3, 0, &mut Generator::new(1)).is_err());
    }
}
