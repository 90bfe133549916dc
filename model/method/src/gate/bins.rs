//! Bins of the frozen model's scores, fixed by the held-out rows.

use ostar_engine::argmax;

use crate::proportions::Probabilities;

/// Bins of the logit for two classes.
const TWO_CLASS_BINS: usize = 10;
/// Bins of the largest probability for each predicted class of three or more.
const TERCILES: usize = 3;

/// Which bin a row of probabilities falls in. For two classes: quantile bins of the logit. For more: the
/// predicted class, and the tercile of its probability.
#[derive(Debug, Clone)]
pub(crate) struct ScoreBins {
    classes: usize,
    /// Inner edges, `TWO_CLASS_BINS - 1` for two classes, else `TERCILES - 1` for each predicted class.
    edges: Vec<f64>,
}

impl ScoreBins {
    /// Quantiles of held-out rows, every class weighing alike: bins must be right for any proportions.
    pub(crate) fn new(held_out: &Probabilities, labels: &[u32]) -> Self {
        let classes = held_out.classes();
        let mut counts = vec![0.0; classes];
        ostar_engine::weights::class_counts(labels.iter().copied(), &mut counts);
        let weight = |label: &u32| 1.0 / counts[*label as usize];
        let rows = held_out.rows().zip(labels);
        let edges = if classes == 2 {
            let values: Vec<(f64, f64)> = rows.map(|(row, l)| (logit(row), weight(l))).collect();
            quantiles(values, TWO_CLASS_BINS)
        } else {
            let mut by_class = vec![Vec::new(); classes];
            for (row, label) in rows {
                let predicted = argmax(row);
                by_class[predicted].push((row[predicted], weight(label)));
            }
            let edges = by_class.into_iter().flat_map(|of| quantiles(of, TERCILES));
            edges.collect()
        };
        Self { classes, edges }
    }

    pub(crate) fn count(&self) -> usize {
        if self.classes == 2 {
            TWO_CLASS_BINS
        } else {
            self.classes * TERCILES
        }
    }

    pub(crate) fn bin(&self, row: &[f64]) -> usize {
        if self.classes == 2 {
            place(logit(row), &self.edges)
        } else {
            let predicted = argmax(row);
            let edges = &self.edges[predicted * (TERCILES - 1)..][..TERCILES - 1];
            predicted * TERCILES + place(row[predicted], edges)
        }
    }
}

/// ln(p1 / p0), finite also where a softmax rounded to 0.
fn logit(row: &[f64]) -> f64 {
    row[1].max(f64::MIN_POSITIVE).ln() - row[0].max(f64::MIN_POSITIVE).ln()
}

fn place(value: f64, edges: &[f64]) -> usize {
    edges.iter().filter(|edge| value > **edge).count()
}

/// Inner edges of `bins` bins of equal weight. Without values all edges are the same.
fn quantiles(mut values: Vec<(f64, f64)>, bins: usize) -> Vec<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut edges = Vec::with_capacity(bins - 1);
    let mut passed = 0.0;
    for (value, weight) in &values {
        passed += weight;
        // Sums of weights are rounded: an edge must not move to the next value by that.
        let reached = passed + 1e-9 * total;
        while edges.len() < bins - 1 && reached >= total * (edges.len() + 1) as f64 / bins as f64 {
            edges.push(*value);
        }
    }
    edges.resize(bins - 1, 0.5);
    edges
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Rows;

    fn probabilities(values: &[f32], classes: usize) -> Probabilities {
        Probabilities::new("test", Rows::new(values, classes).unwrap()).unwrap()
    }

    #[test]
    fn two_classes_have_bins_of_equal_weight_whatever_their_counts() {
        // 90 rows of class 0 with low scores, 10 of class 1 with high ones.
        let scores = (0..100).map(|row| {
            if row < 90 {
                row as f32 / 200.0
            } else {
                row as f32 / 101.0
            }
        });
        let values: Vec<f32> = scores.flat_map(|score| [1.0 - score, score]).collect();
        let labels: Vec<u32> = (0..100).map(|row| u32::from(row >= 90)).collect();
        let held_out = probabilities(&values, 2);
        let bins = ScoreBins::new(&held_out, &labels);
        let mut counts = [0; 10];
        held_out.rows().for_each(|row| counts[bins.bin(row)] += 1);
        assert_eq!(counts[..5].iter().sum::<i32>(), 90, "{counts:?}");
        assert_eq!(counts[5..].iter().sum::<i32>(), 10, "{counts:?}");
    }

    #[test]
    fn more_classes_are_binned_by_prediction_and_how_sure_it_is() {
        let mut values = Vec::new();
        let mut labels = Vec::new();
        for row in 0..9u8 {
            let sure = 0.5 + f32::from(row) / 20.0;
            values.extend([sure, (1.0 - sure) / 2.0, (1.0 - sure) / 2.0]);
            labels.push(u32::from(row) % 3);
        }
        let held_out = probabilities(&values, 3);
        let bins = ScoreBins::new(&held_out, &labels);
        assert_eq!(bins.count(), 9);
        let found: Vec<usize> = held_out.rows().map(|row| bins.bin(row)).collect();
        assert_eq!(found, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
        // A class that was never predicted has bins, too.
        assert!((3..6).contains(&bins.bin(&[0.1, 0.8, 0.1])));
    }

    #[test]
    fn certain_predictions_have_a_bin() {
        let held_out = probabilities(&[1.0, 0.0, 0.0, 1.0, 0.5, 0.5, 0.5, 0.5], 2);
        let bins = ScoreBins::new(&held_out, &[0, 1, 0, 1]);
        assert_eq!(bins.bin(&[1.0, 0.0]), 0);
        assert!(bins.bin(&[0.0, 1.0]) > bins.bin(&[0.5, 0.5]));
    }
}
