//! Rows of models of known quality.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::Result;
use ostar_bundle::fit::{FitSettings, Labelled, LabelledRows, fit};
use ostar_engine::{Generator, Rows};

/// Labelled predictions of a model that knows its classes.
pub(super) struct DataSet {
    /// In the order of the model's outputs, which is not that of the alphabet.
    pub(super) classes: Vec<String>,
    /// The share of each class.
    pub(super) shares: Vec<f64>,
    pub(super) rows: usize,
    /// Distance between the classes, in deviations.
    separation: f64,
    pub(super) seed: u64,
}

/// Probabilities and the class of each row.
pub(super) type Predicted = Vec<(Vec<f64>, usize)>;

/// 20 of them: 2, 3 and 10 classes, positives from 1 to 50 %, strong and weak models, many and few rows.
pub(super) fn all() -> Vec<DataSet> {
    let mut sets = Vec::new();
    let mut add = |shares: Vec<f64>, rows, separation| {
        let count = shares.len();
        let classes = match count {
            2 => vec!["no_click".into(), "click".into()],
            // 7, 4, 1, 8, 5, 2, 9, 6, 3, 0 and the like.
            _ => (0..count)
                .map(|c| format!("kind {}", (7 + 7 * c) % count))
                .collect(),
        };
        let seed = sets.len() as u64 + 1;
        sets.push(DataSet {
            classes,
            shares,
            rows,
            separation,
            seed,
        });
    };
    for (positives, rows, separation) in [
        (0.01, 4_000, 1.0),
        (0.01, 300, 1.0),
        (0.03, 2_000, 0.7),
        (0.05, 1_000, 1.0),
        (0.10, 1_000, 0.5),
        (0.20, 500, 0.2),
        (0.35, 500, 2.0),
        (0.50, 1_000, 0.5),
    ] {
        add(vec![1.0 - positives, positives], rows, separation);
    }
    for (positives, rows, separation) in [
        (0.01, 3_000, 2.0),
        (0.02, 300, 1.5),
        (0.05, 1_000, 1.5),
        (0.10, 1_000, 0.3),
        (0.25, 600, 1.0),
        (0.50, 600, 1.0),
    ] {
        add(
            vec![0.6 * (1.0 - positives), positives, 0.4 * (1.0 - positives)],
            rows,
            separation,
        );
    }
    for (positives, rows, separation) in [
        (0.01, 4_000, 2.5),
        (0.02, 500, 2.0),
        (0.05, 2_000, 2.0),
        (0.10, 2_000, 0.5),
        (0.10, 60, 4.0),
        (0.50, 2_000, 2.0),
    ] {
        let mut shares = vec![(1.0 - positives) / 9.0; 10];
        shares[3] = positives;
        add(shares, rows, separation);
    }
    sets
}

impl DataSet {
    /// Draws rows with these shares; each class has one at least, as a bundle must have.
    pub(super) fn draw(&self, seed: u64) -> Predicted {
        let mut generator = Generator::new(100 * self.seed + seed);
        let count = self.classes.len();
        let row = |number: usize| {
            let mut left = generator.uniform();
            let drawn = self.shares.iter().position(|share| {
                left -= share;
                left < 0.0
            });
            let class = if number < count {
                number
            } else {
                drawn.unwrap_or(count - 1)
            };
            let weights: Vec<f64> = (0..count)
                .map(|other| {
                    let mean = self.separation * f64::from(u8::from(other == class));
                    let logit = self.separation * (generator.normal() + mean);
                    self.shares[other] * logit.exp()
                })
                .collect();
            let sum: f64 = weights.iter().sum();
            (weights.iter().map(|weight| weight / sum).collect(), class)
        };
        (0..self.rows).map(row).collect()
    }

    /// The right order, and wrong ones with what they displace.
    pub(super) fn wrong_orders(&self) -> Vec<Vec<String>> {
        let mut swapped = self.classes.clone();
        swapped.swap(0, 1);
        let mut turned = self.classes.clone();
        turned.rotate_left(1);
        // Of two classes there is one wrong order; the other is the alphabet's, which is the same.
        let mut sorted = self.classes.clone();
        sorted.sort();
        match self.classes.len() {
            2 => vec![swapped, sorted],
            _ => vec![swapped, turned],
        }
    }

    /// A CSV file of numbered columns.
    pub(super) fn write(&self, path: &Path, rows: &Predicted) -> Result<()> {
        let columns: Vec<_> = (0..self.classes.len())
            .map(|n| format!("probabilities_{n}"))
            .collect();
        let mut text = format!("label,{}\n", columns.join(","));
        for (row, class) in rows {
            let numbers: Vec<_> = row.iter().map(|value| format!("{value:.7}")).collect();
            writeln!(text, "{},{}", self.classes[*class], numbers.join(","))?;
        }
        Ok(fs::write(path, text)?)
    }

    /// A bundle whose classes are in this order, as a script of one's own would write it: nothing is checked.
    pub(super) fn write_bundle(
        &self,
        folder: &Path,
        rows: &Predicted,
        order: &[String],
    ) -> Result<()> {
        let number = |class: usize| order.iter().position(|name| *name == self.classes[class]);
        let labels: Vec<u32> = rows
            .iter()
            .filter_map(|(_, class)| number(*class))
            .map(|n| n as u32)
            .collect();
        let values: Vec<f64> = rows.iter().flat_map(|(row, _)| row.clone()).collect();
        let labelled = Labelled {
            classes: order,
            labels: &labels,
            rows: LabelledRows::Probabilities(Rows::new(&values[..], order.len())?),
        };
        Ok(fit(labelled, &FitSettings::default(), &mut |_| ())?.save(folder)?)
    }
}
