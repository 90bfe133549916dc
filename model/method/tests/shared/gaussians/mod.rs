//! Pure label shift with known posteriors: one unit Gaussian for each class, with means at the same distance from each
//! other.

use ostar_engine::{Generator, Rows};
use ostar_method::proportions::{LabelProportions, Probabilities};

pub(crate) struct Gaussians {
    /// Proportions that the classifier was trained with.
    pub(crate) prior: LabelProportions,
    /// Distance between any two class means.
    pub(crate) separation: f64,
    /// Factor of the logits. Above 1 the classifier is overconfident.
    pub(crate) sharpness: f64,
}

impl Gaussians {
    /// Posteriors and labels of `rows` rows with the label proportions `proportions`.
    pub(crate) fn draw(
        &self,
        rows: usize,
        proportions: &LabelProportions,
        generator: &mut Generator,
    ) -> (Probabilities, Vec<u32>) {
        let classes = self.prior.classes();
        // Means at r e_k are at the distance r sqrt(2) from each other.
        let radius = self.separation / std::f64::consts::SQRT_2;
        let (mut values, mut labels) = (Vec::with_capacity(rows * classes), Vec::new());
        for _ in 0..rows {
            let label = draw_class(proportions.as_ref(), generator);
            labels.push(label as u32);
            let logits: Vec<f64> = (0..classes)
                .map(|class| {
                    let mean = if class == label { radius } else { 0.0 };
                    let coordinate = mean + generator.normal();
                    self.sharpness * (radius * coordinate + self.prior[class].ln())
                })
                .collect();
            let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = logits.iter().map(|l| (l - largest).exp()).collect();
            let total: f64 = weights.iter().sum();
            values.extend(weights.iter().map(|weight| weight / total));
        }
        let matrix = Rows::new(&values[..], classes).unwrap();
        (Probabilities::new("drawn", matrix).unwrap(), labels)
    }

    /// Held-out rows with at least one of every class, as the estimator requires.
    pub(crate) fn draw_held_out(
        &self,
        rows: usize,
        generator: &mut Generator,
    ) -> (Probabilities, Vec<u32>) {
        loop {
            let (probabilities, labels) = self.draw(rows, &self.prior, generator);
            if (0..self.prior.classes() as u32).all(|class| labels.contains(&class)) {
                return (probabilities, labels);
            }
        }
    }
}

fn draw_class(proportions: &[f64], generator: &mut Generator) -> usize {
    let mut left = generator.uniform();
    for (class, proportion) in proportions.iter().enumerate() {
        left -= proportion;
        if left < 0.0 {
            return class;
        }
    }
    proportions.len() - 1
}
