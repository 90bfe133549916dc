//! Labelled rows, and the pairs of them that methods adapt between.

use anyhow::{Result, ensure};
use ostar_engine::{Generator, Inputs, Rows};

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

    /// The same rows in random order.
    pub fn shuffled(&self, seed: u64) -> Self {
        let mut numbers: Vec<usize> = (0..self.count()).collect();
        Generator::new(seed ^ 0x0b5f).shuffle(&mut numbers);
        self.select(&numbers)
    }

    /// As many rows as possible of which `share` are of the second of two classes, without replacement.
    pub fn with_positive_share(&self, share: f64, seed: u64) -> Self {
        let positive = self.labels.iter().filter(|label| **label == 1).count() as f64;
        let negative = self.count() as f64 - positive;
        let total = (positive / share).min(negative / (1.0 - share));
        let mut left = [((1.0 - share) * total) as usize, (share * total) as usize];
        let kept = (0..self.count()).filter(|row| {
            let room = &mut left[self.labels[*row] as usize];
            let keep = *room > 0;
            *room -= usize::from(keep);
            keep
        });
        let kept: Vec<usize> = kept.collect();
        self.select(&kept).shuffled(seed)
    }

    /// The first rows, or all if there are fewer.
    pub fn first(&self, rows: usize) -> Self {
        let numbers: Vec<usize> = (0..self.count().min(rows)).collect();
        self.select(&numbers)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_as_many_rows_as_the_share_allows() {
        let labels: Vec<u32> = (0..100).map(|row| u32::from(row % 2 == 0)).collect();
        let domain = Domain {
            width: 1,
            rows: (0..100u8).map(f32::from).collect(),
            labels,
        };
        for (share, rows) in [(0.2, 62), (0.5, 100), (0.8, 62)] {
            let thinned = domain.with_positive_share(share, 1);
            assert_eq!(thinned.count(), rows, "{share}");
            let found = thinned.proportions(2)[1];
            assert!((found - share).abs() < 0.01, "{share}: {found}");
            for (row, label) in thinned.rows.iter().zip(&thinned.labels) {
                assert_eq!(*label, u32::from(row % 2.0 == 0.0), "labels stay with rows");
            }
        }
    }
}
