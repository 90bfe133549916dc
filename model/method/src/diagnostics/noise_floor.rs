//! The floor of the sliced distance: below it two samples cannot be told apart.

use ostar_engine::{Error, Generator, Result};

use super::{Directions, count_rows, line::SortedLine, sliced::finite};

/// How many unweighted rows are as noisy as rows with these weights: (sum w)^2 / sum w^2. A weighted
/// sample's distance is to be held against a floor for so many rows.
pub fn effective_rows(weights: &[f64]) -> f64 {
    let sum: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    if squares > 0.0 {
        sum * sum / squares
    } else {
        0.0
    }
}

impl Directions {
    /// What sampling alone makes of the distance: the `quantile` of it between random disjoint parts of
    /// `target`, of `rows_left` and `rows_right` rows, over `repeats` draws. If the target has
    /// fewer rows than both together, parts are smaller in proportion and the distance, which falls with
    /// the root of the size, is scaled to the sizes asked for.
    pub fn noise_floor(
        &self,
        target: &[f32],
        rows_left: usize,
        rows_right: usize,
        repeats: usize,
        quantile: f64,
        generator: &mut Generator,
    ) -> Result<f64> {
        let rows = count_rows("target", target, self.width())?;
        let parts = SplitSizes::within(rows, rows_left, rows_right)?;
        if repeats == 0 {
            return Err(Error::setting("repeats", "is 0, expected at least 1"));
        }
        if !(0.0..=1.0).contains(&quantile) {
            let problem = format!("is {quantile}, expected a number in [0, 1]");
            return Err(Error::setting("quantile", problem));
        }

        // Sorted once: a draw only changes which side each row counts for.
        let projections = self.project(target);
        let mut lines = vec![SortedLine::default(); self.count()];
        for (line, points) in lines.iter_mut().zip(projections.chunks_exact(rows)) {
            line.sort(points.iter());
        }
        let mut drawn: Vec<usize> = (0..rows).collect();
        let mut masses = vec![0.0; rows];
        let mut distances = Vec::with_capacity(repeats);
        for _ in 0..repeats {
            generator.shuffle(&mut drawn);
            parts.assign(&drawn, &mut masses);
            let areas = lines.iter().map(|line| line.area_between(&masses));
            distances.push(areas.sum::<f64>() / self.count() as f64);
        }
        distances.sort_unstable_by(f64::total_cmp);
        let rank = (quantile * repeats as f64).ceil() as usize;
        finite(parts.scale * distances[rank.clamp(1, repeats) - 1])
    }
}

/// Sizes of two disjoint parts of a sample.
struct SplitSizes {
    left: usize,
    right: usize,
    scale: f64,
}

// === impl SplitSizes ===

impl SplitSizes {
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
        for row in left {
            masses[*row] = 1.0 / self.left as f64;
        }
        for row in &rest[..self.right] {
            masses[*row] = -1.0 / self.right as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normals(rows: usize, width: usize, generator: &mut Generator) -> Vec<f32> {
        let values = (0..rows * width).map(|_| generator.normal() as f32);
        values.collect()
    }

    fn directions(width: usize, count: usize) -> Directions {
        Directions::new(width, count, &mut Generator::new(5)).unwrap()
    }

    #[test]
    fn the_floor_holds_for_equal_distributions_and_not_for_shifted_ones() {
        let directions = directions(8, 64);
        let mut generator = Generator::new(4);
        let target = normals(800, 8, &mut generator);
        let floor = directions
            .noise_floor(&target, 400, 400, 100, 0.95, &mut generator)
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
                .noise_floor(&target[..rows * 4], 600, 300, 200, 0.5, &mut generator)
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
    fn impossible_sizes_repeats_and_quantiles_are_errors() {
        let line = directions(1, 1);
        let mut generator = Generator::new(1);
        let mut floor = |target: &[f32], left, repeats, quantile| {
            line.noise_floor(target, left, 1, repeats, quantile, &mut generator)
        };
        assert!(floor(&[1.0, 2.0], 1, 1, 1.0).is_ok());
        assert!(floor(&[1.0], 1, 1, 1.0).is_err());
        assert!(floor(&[1.0, 2.0], 0, 1, 1.0).is_err());
        assert!(floor(&[1.0, 2.0], 1, 0, 1.0).is_err());
        assert!(floor(&[1.0, 2.0], 1, 1, f64::NAN).is_err());
    }
}
