//! Labelled rows, and the pairs of them that methods adapt between.

use anyhow::{Result, ensure};
use ostar_model::{Inputs, Rows};

/// Rows of one domain with their labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Domain {
    /// How many numbers a row has.
    pub width: usize,
    /// All rows, one after the other.
    pub rows: Vec<f32>,
    /// One label a row. Methods do not see a target's, except DI-Oracle; they are for the score.
    pub labels: Vec<u32>,
}

/// A labelled source, a target, and how many classes they share.
#[derive(Debug, Clone)]
pub struct Task {
    /// Labels are below this.
    pub classes: usize,
    /// The labelled domain that classifiers are trained on.
    pub source: Domain,
    /// The domain that is predicted.
    pub target: Domain,
}

impl Domain {
    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.labels.len()
    }

    /// The numbers of one row.
    pub fn row(&self, number: usize) -> &[f32] {
        &self.rows[number * self.width..][..self.width]
    }

    /// All rows, as encoders take them.
    pub fn inputs(&self) -> Result<Inputs<'_>> {
        Ok(Inputs::Dense(Rows::new(&self.rows[..], self.width)?))
    }

    /// A domain of the given rows, in the given order.
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

    /// [`proportions`] of the domain's labels.
    pub fn proportions(&self, classes: usize) -> Vec<f64> {
        proportions(&self.labels, classes)
    }
}

/// The share of each class among labels.
pub fn proportions(labels: &[u32], classes: usize) -> Vec<f64> {
    let mut proportions = vec![0.0; classes];
    for label in labels {
        proportions[*label as usize] += 1.0 / labels.len() as f64;
    }
    proportions
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
        let proportions = self.source.proportions(self.classes);
        if let Some(class) = proportions.iter().position(|proportion| *proportion == 0.0) {
            anyhow::bail!("the source has no row of class {class}");
        }
        Ok(())
    }
}
