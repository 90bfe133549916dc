//! Recipes that choose rows by their inputs or scores, or move them.

use anyhow::Result;

use super::{compose::Cook, recipe::Twist};

/// Tilts see numbers within so many deviations, so that a pool has rows enough for a stream.
const CLIP: f32 = 1.5;
/// Rows that a segment must have.
const SEGMENT_ROWS: usize = 1_500;

impl Cook<'_> {
    pub(super) fn covariate(&mut self, number: usize) -> Result<()> {
        if let (Some(_), 1) = (&self.world.gaussian, number / 2 % 2) {
            let length = self.between(0.2, 1.0);
            let by = self.direction(self.world.pools[0].rows.width);
            let by = by.iter().map(|value| value * length as f32).collect();
            self.recipe.twist = Twist::Moved(by);
            self.what.push(format!("mean moved by {length:.2}"));
            return Ok(());
        }
        let has_codes = self
            .world
            .real
            .as_ref()
            .is_some_and(|real| !real.codes.is_empty());
        match number / 2 % 3 {
            0 => self.tilt_by_score(),
            1 if has_codes => {
                let segments = self.segments(0);
                let chosen = segments[self.generator.below(segments.len())];
                self.segment(0, chosen, 0.1);
                Ok(())
            }
            _ => {
                self.tilt_by_feature();
                Ok(())
            }
        }
    }

    fn direction(&mut self, width: usize) -> Vec<f32> {
        let values: Vec<f64> = (0..width).map(|_| self.generator.normal()).collect();
        let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
        values.iter().map(|value| (value / norm) as f32).collect()
    }

    /// By a random direction of made rows, by a column of real ones.
    fn tilt_by_feature(&mut self) {
        let rows = &self.world.pools[0].rows;
        let direction = if self.world.gaussian.is_some() {
            self.direction(rows.width)
        } else {
            // A column of zeros tilts nothing.
            let columns: Vec<usize> = (0..rows.width).collect();
            let varies = |column: &usize| {
                let ones = rows.rows.iter().skip(*column).step_by(rows.width);
                let first = rows.rows[*column];
                20 * ones.filter(|value| **value != first).count() > rows.count()
            };
            let varying: Vec<usize> = columns.into_iter().filter(varies).collect();
            let column = varying[self.generator.below(varying.len())];
            let mut direction = vec![0.0; rows.width];
            direction[column] = 1.0;
            direction
        };
        let values = rows.rows.chunks_exact(rows.width);
        let along = values.map(|row| row.iter().zip(&direction).map(|(x, d)| x * d).sum());
        self.tilt("feature", along.collect());
    }

    pub(super) fn tilt_by_score(&mut self) -> Result<()> {
        let logits = self.logits()?;
        self.tilt("score", logits);
        Ok(())
    }

    /// Log-odds of a class, by the model.
    fn logits(&mut self) -> Result<Vec<f32>> {
        let classes = self.world.classes;
        let class = self.generator.below(classes);
        let probabilities = self.world.probabilities(&self.world.pools[0].rows)?;
        let of_class = probabilities.iter().skip(class).step_by(classes);
        let logit = |p: &f32| {
            let p = p.clamp(1e-6, 1.0 - 1e-6);
            (p / (1.0 - p)).ln()
        };
        Ok(of_class.map(logit).collect())
    }

    /// Rows in proportion to the exponential of a number.
    fn tilt(&mut self, name: &str, numbers: Vec<f32>) {
        let strength = self.between(0.3, 1.2);
        let sign = if self.generator.uniform() < 0.5 {
            -1.0
        } else {
            1.0
        };
        let count = numbers.len() as f32;
        let mean = numbers.iter().sum::<f32>() / count;
        let square: f32 = numbers.iter().map(|v| (v - mean).powi(2)).sum();
        let deviation = (square / count).sqrt().max(1e-6);
        let weight = |value: &f32| {
            let standard = ((value - mean) / deviation).clamp(-CLIP, CLIP);
            ((sign * strength) as f32 * standard).exp()
        };
        let mut weights: Vec<f32> = numbers.iter().map(weight).collect();
        let largest = weights.iter().copied().fold(0.0, f32::max);
        weights.iter_mut().for_each(|weight| *weight /= largest);
        self.recipe.twist = Twist::Chosen(0, weights);
        self.what
            .push(format!("tilt {:.2} by {name}", sign * strength));
    }

    /// Scores above (or below) a quantile, and few others.
    pub(super) fn selection(&mut self) -> Result<()> {
        let logits = self.logits()?;
        let kept = self.between(0.3, 0.8);
        let leak = 0.3 * self.generator.uniform();
        let above = self.generator.uniform() < 0.5;
        let mut sorted: Vec<f32> = logits.clone();
        sorted.sort_by(f32::total_cmp);
        let quantile = if above { 1.0 - kept } else { kept };
        let limit = sorted[(quantile * (sorted.len() - 1) as f64) as usize];
        let weight = |logit: &f32| {
            if (*logit >= limit) == above {
                1.0
            } else {
                leak as f32
            }
        };
        self.recipe.twist = Twist::Chosen(0, logits.iter().map(weight).collect());
        self.what
            .push(format!("{kept:.2} pass, {leak:.2} of others"));
        Ok(())
    }

    pub(super) fn line(&mut self) {
        let rows = &self.world.pools[0].rows;
        let class = self.generator.below(self.world.classes) as u32;
        let step = 1 + self.generator.below(self.world.classes - 1) as u32;
        let to = (class + step) % self.world.classes as u32;
        let part = self.between(0.1, 0.7);
        let mean = |class: u32| {
            let mut sums = vec![0.0f64; rows.width];
            let mut count = 0.0;
            for (row, label) in rows.labels.iter().enumerate().take(20_000) {
                if *label == class {
                    count += 1.0;
                    let values = sums.iter_mut().zip(rows.row(row));
                    values.for_each(|(sum, value)| *sum += f64::from(*value));
                }
            }
            sums.iter()
                .map(|sum| sum / f64::max(count, 1.0))
                .collect::<Vec<_>>()
        };
        let both = mean(class).into_iter().zip(mean(to));
        let by = both.map(|(from, to)| (part * (to - from)) as f32).collect();
        self.recipe.twist = Twist::Line(class, by);
        self.what
            .push(format!("class {class} {part:.2} of the way to {to}"));
    }

    /// Columns of codes and their values with enough rows in a pool.
    pub(super) fn segments(&self, pool: usize) -> Vec<(usize, u8)> {
        let Some(real) = &self.world.real else {
            return Vec::new();
        };
        let mut segments = Vec::new();
        for (column, codes) in real.codes.iter().enumerate() {
            let mut counts = [0usize; 256];
            for row in &self.world.pools[pool].numbers {
                counts[usize::from(codes[*row])] += 1;
            }
            let enough = |count: usize| {
                // Nearly everybody is no segment.
                count >= SEGMENT_ROWS && 10 * count < 9 * self.world.pools[pool].numbers.len()
            };
            segments.extend(
                (0..=255u8)
                    .filter(|code| enough(counts[usize::from(*code)]))
                    .map(|code| (column, code)),
            );
        }
        segments
    }

    pub(super) fn segment(&mut self, pool: usize, (column, code): (usize, u8), others: f32) {
        let Some(real) = &self.world.real else {
            return;
        };
        let codes = real.codes[column].iter();
        let weights = codes.map(|other| if *other == code { 1.0 } else { others });
        self.recipe.twist = Twist::Chosen(pool, weights.collect());
        self.what.push(format!("segment {column}={code}"));
    }
}
