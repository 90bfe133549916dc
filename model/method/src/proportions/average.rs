//! A weighted average of blocks of readings, which knows how many rows it is worth.

use serde::{Deserialize, Serialize};

use super::{Evidence, unmixing::Readings};

/// Mean over rows of weights that may fade.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Average {
    readings: Readings,
    /// Sum of the rows' weights.
    weight: f64,
    /// Sum of the squared weights.
    squared_weight: f64,
}

impl Average {
    pub(crate) fn readings(&self) -> &Readings {
        &self.readings
    }

    /// The number of equally weighted rows whose mean would have the same variance (Kish).
    pub(crate) fn effective_rows(&self) -> f64 {
        self.weight * self.weight / self.squared_weight
    }

    pub(crate) fn decay(&mut self, factor: f64) {
        self.weight *= factor;
        self.squared_weight *= factor * factor;
    }

    /// Takes in rows of weight 1.
    pub(crate) fn add(&mut self, readings: &Readings, rows: f64) {
        if self.weight == 0.0 {
            self.readings = readings.clone();
        }
        self.weight += rows;
        self.squared_weight += rows;
        self.readings.move_towards(readings, rows / self.weight);
    }

    /// The weighted mean of averages. They share most of their rows, so their errors are taken to go
    /// together: the standard deviations are averaged, not the variances.
    pub(crate) fn mixture<'a>(parts: impl Iterator<Item = (f64, &'a Self)>) -> Self {
        let (mut mixed, mut total, mut deviation) = (Self::default(), 0.0, 0.0);
        for (weight, part) in parts {
            if total == 0.0 {
                mixed.readings = part.readings.clone();
            }
            total += weight;
            mixed.readings.move_towards(&part.readings, weight / total);
            deviation += weight / part.effective_rows().sqrt();
        }
        mixed.weight = (total / deviation).powi(2);
        mixed.squared_weight = mixed.weight;
        mixed
    }

    /// Log-likelihood of a block, up to a constant, when its proportions are those of this average, known as
    /// well as from so many `rows`. The normal approximation class by class, scaled to the K - 1 numbers
    /// that are free.
    pub(crate) fn log_likelihood(&self, evidence: &Evidence, rows: f64) -> f64 {
        let classes = self.readings.mean.len() as f64;
        let scale = 1.0 / evidence.rows + 1.0 / rows;
        let block = &evidence.readings;
        let squared: f64 = (block.mean.iter().zip(&block.variance))
            .zip(self.readings.mean.iter().zip(&self.readings.variance))
            .map(|((value, own), (expected, usual))| {
                // One row more or less is never a surprise, however quiet the class has been.
                let variance = own.max(*usual).max(1.0 / evidence.rows);
                (value - expected).powi(2) / variance
            })
            .sum();
        -0.5 * (classes - 1.0) * (scale.ln() + squared / (classes * scale))
    }
}

impl Readings {
    fn move_towards(&mut self, other: &Self, share: f64) {
        let step = |(value, goal): (&mut f64, &f64)| *value += share * (goal - *value);
        self.mean.iter_mut().zip(&other.mean).for_each(step);
        self.variance.iter_mut().zip(&other.variance).for_each(step);
        self.adjustment
            .iter_mut()
            .zip(&other.adjustment)
            .for_each(step);
    }
}
