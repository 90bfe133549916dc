//! A pair of domains.

use anyhow::{Result, ensure};
use ostar_model::{Inputs, Rows};

/// Rows of one domain with their labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain {
    /// Numbers of a row.
    pub width: usize,
    /// Row after row.
    pub rows: Vec<f32>,
    /// One a row. A target's are looked at for the score (and by the oracle) alone.
    pub labels: Vec<u32>,
}

/// A labelled source, a target, and how many classes they share.
#[derive(Debug, Clone)]
pub struct Task {
    /// How many classes there are.
    pub classes: usize,
    /// Where labels are.
    pub source: Domain,
    /// Where they are wanted.
    pub target: Domain,
}

impl Domain {
    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.labels.len()
    }

    /// One row.
    pub fn row(&self, number: usize) -> &[f32] {
        &self.rows[number * self.width..][..self.width]
    }

    /// All rows, as encoders take them.
    pub fn inputs(&self) -> Result<Inputs<'_>> {
        Ok(Inputs::Dense(Rows::new(&self.rows[..], self.width)?))
    }

    /// These rows alone, in this order.
    pub fn select(&self, numbers: &[usize]) -> Self {
        Self {
            width: self.width,
            rows: numbers
                .iter()
                .flat_map(|number| self.row(*number).iter().copied())
                .collect(),
            labels: numbers.iter().map(|number| self.labels[*number]).collect(),
        }
    }

    /// The share of each class.
    pub fn proportions(&self, classes: usize) -> Vec<f64> {
        let mut shares = vec![0.0; classes];
        for label in &self.labels {
            shares[*label as usize] += 1.0 / self.count() as f64;
        }
        shares
    }
}

impl Task {
    /// Refuses domains that training could not use.
    pub fn check(&self, batch: usize) -> Result<()> {
        ensure!(
            self.source.width == self.target.width,
            "source rows have {} numbers and target rows {}",
            self.source.width,
            self.target.width
        );
        for (name, domain) in [("source", &self.source), ("target", &self.target)] {
            ensure!(
                domain.count() >= batch,
                "the {name} has {} rows, a batch needs {batch}",
                domain.count()
            );
        }
        let shares = self.source.proportions(self.classes);
        if let Some(class) = shares.iter().position(|share| *share == 0.0) {
            anyhow::bail!("the source has no row of class {class}");
        }
        Ok(())
    }
}
