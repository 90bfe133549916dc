//! Terms of the target-risk bound, by exact optimal transport between samples.

use ostar_engine::Generator;
use ostar_method::diagnostics::optimal_assignment;

use crate::{task::Task, train::Latents};

/// Rows of each sample. The time of the exact assignment grows with their cube.
const SAMPLE: usize = 400;
/// Rows of each sample of one class.
const CLASS_SAMPLE: usize = 100;

/// Two of the terms whose sum bounds the target risk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoundTerms {
    /// (A): W1 of the reweighted (mapped) source and the target.
    pub alignment: f64,
    /// (L): the mean over the target's classes of W1 between their (mapped) source and their target rows.
    pub classes: f64,
}

/// Estimates the terms from samples, with the true target proportions.
pub fn bound_terms(task: &Task, latents: &Latents, width: usize, seed: u64) -> BoundTerms {
    let mut generator = Generator::new(seed);
    let of_class = |labels: &[u32]| -> Vec<Vec<usize>> {
        let mut rows = vec![Vec::new(); task.classes];
        for (number, label) in labels.iter().enumerate() {
            rows[*label as usize].push(number);
        }
        rows
    };
    let (source, target) = (of_class(&task.source.labels), of_class(&task.target.labels));
    // Reweights the source to the target: the sample has as many source rows of a class as target rows.
    let mut chosen: Vec<usize> = (0..task.target.count()).collect();
    generator.shuffle(&mut chosen);
    chosen.truncate(SAMPLE);
    let paired: Vec<usize> = chosen
        .iter()
        .map(|row| {
            let rows = &source[task.target.labels[*row] as usize];
            rows[generator.below(rows.len())]
        })
        .collect();
    let alignment = distance(latents, width, &paired, &chosen);
    let proportions = task.target.proportions(task.classes);
    let mut classes = 0.0;
    for (class, proportion) in proportions.iter().enumerate() {
        let count = CLASS_SAMPLE
            .min(source[class].len())
            .min(target[class].len());
        if count == 0 {
            continue;
        }
        let mut draw = |rows: &[usize]| {
            let mut rows = rows.to_vec();
            generator.shuffle(&mut rows);
            rows.truncate(count);
            rows
        };
        let (from, to) = (draw(&source[class]), draw(&target[class]));
        classes += proportion * distance(latents, width, &from, &to);
    }
    BoundTerms { alignment, classes }
}

/// W1 of two samples of one size: the least mean distance of a one-to-one assignment.
fn distance(latents: &Latents, width: usize, source: &[usize], target: &[usize]) -> f64 {
    let row =
        |rows: &'_ [f32], number: usize| -> Vec<f32> { rows[number * width..][..width].to_vec() };
    let from: Vec<Vec<f32>> = source.iter().map(|n| row(&latents.source, *n)).collect();
    let to: Vec<Vec<f32>> = target.iter().map(|n| row(&latents.target, *n)).collect();
    let between = |left: &[f32], right: &[f32]| -> f64 {
        let squares = left.iter().zip(right).map(|(a, b)| (a - b) * (a - b));
        f64::from(squares.sum::<f32>()).sqrt()
    };
    let size = from.len();
    let costs: Vec<f64> = from
        .iter()
        .flat_map(|left| to.iter().map(|right| between(left, right)))
        .collect();
    let assignment = optimal_assignment(&costs, size);
    let total: f64 = (0..size)
        .map(|row| costs[row * size + assignment[row]])
        .sum();
    total / size.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Domain;

    #[test]
    fn a_shift_of_every_class_is_found_in_both_terms() {
        let mut generator = Generator::new(1);
        let mut domain = |shift: f32| {
            let labels: Vec<u32> = (0..60).map(|row| row % 2).collect();
            let rows = labels
                .iter()
                .map(|label| shift + 20.0 * *label as f32 + 0.01 * generator.normal() as f32);
            Domain {
                width: 1,
                rows: rows.collect(),
                labels: labels.clone(),
            }
        };
        let (source, target) = (domain(0.0), domain(3.0));
        let latents = Latents {
            source: source.rows.clone(),
            target: target.rows.clone(),
        };
        let task = Task {
            classes: 2,
            source,
            target,
        };
        let terms = bound_terms(&task, &latents, 1, 1);
        assert!((terms.alignment - 3.0).abs() < 0.05, "{terms:?}");
        assert!((terms.classes - 3.0).abs() < 0.05, "{terms:?}");
    }
}
