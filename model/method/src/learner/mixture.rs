//! Where classes of a known shape are in unlabelled rows.

use crate::diagnostics::move_to_clusters;

/// Rounds of expectation and maximisation at most.
const MOST_ROUNDS: usize = 100;
/// Centres are found when none of their coordinates moves by more than this share of a deviation.
const TOLERANCE: f64 = 1e-4;

/// Centres of Gaussian classes with the given `variances`, one a coordinate and the same for all, that make
/// `rows` most likely, whatever the classes' shares. K-means from `centres` on finds the clusters. Expectation
/// maximisation then removes its bias: k-means splits halfway between centres, however unequal the classes are.
pub(super) fn find_centres(rows: &[f32], variances: &[f64], centres: &mut [Vec<f64>]) {
    let width = variances.len();
    let scales: Vec<f64> = variances
        .iter()
        .map(|variance| 1.0 / variance.sqrt())
        .collect();
    let scale = |row: &mut [f64]| row.iter_mut().zip(&scales).for_each(|(v, s)| *v *= s);
    let scaled: Vec<f32> = rows
        .chunks_exact(width)
        .flat_map(|row| row.iter().zip(&scales).map(|(v, s)| v * *s as f32))
        .collect();
    centres.iter_mut().for_each(|centre| scale(centre));
    move_to_clusters(&scaled, centres, width);
    let mut proportions = vec![1.0 / centres.len() as f64; centres.len()];
    for _ in 0..MOST_ROUNDS {
        if improve(&scaled, centres, &mut proportions) < TOLERANCE {
            break;
        }
    }
    for centre in centres {
        centre.iter_mut().zip(&scales).for_each(|(v, s)| *v /= s);
    }
}

/// One round for unit variances; gives the largest move of a coordinate.
fn improve(rows: &[f32], centres: &mut [Vec<f64>], proportions: &mut [f64]) -> f64 {
    let width = centres[0].len();
    let mut sums = vec![vec![0.0; width]; centres.len()];
    let mut masses = vec![0.0; centres.len()];
    let mut chances = vec![0.0; centres.len()];
    for row in rows.chunks_exact(width) {
        for ((chance, centre), proportion) in chances.iter_mut().zip(&*centres).zip(&*proportions) {
            let squares = row
                .iter()
                .zip(centre)
                .map(|(a, b)| (f64::from(*a) - b).powi(2));
            *chance = proportion.ln() - 0.5 * squares.sum::<f64>();
        }
        let largest = chances.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        chances
            .iter_mut()
            .for_each(|chance| *chance = (*chance - largest).exp());
        let total: f64 = chances.iter().sum();
        for ((chance, sum), mass) in chances.iter().zip(&mut sums).zip(&mut masses) {
            let weight = chance / total;
            *mass += weight;
            sum.iter_mut()
                .zip(row)
                .for_each(|(s, v)| *s += weight * f64::from(*v));
        }
    }
    let all: f64 = masses.iter().sum();
    let mut largest_move: f64 = 0.0;
    for (((centre, sum), mass), proportion) in
        centres.iter_mut().zip(sums).zip(masses).zip(proportions)
    {
        *proportion = mass / all;
        // A class that has lost all its rows stays where it is.
        if mass < 1.0 {
            continue;
        }
        for (value, sum) in centre.iter_mut().zip(sum) {
            largest_move = largest_move.max((sum / mass - *value).abs());
            *value = sum / mass;
        }
    }
    largest_move
}

#[cfg(test)]
mod tests {
    use super::*;
    use ostar_engine::Generator;

    /// Two Gaussians of deviations 2 and 1 along the axes, nine rows in ten around the first centre.
    fn rows(centres: [[f64; 2]; 2]) -> Vec<f32> {
        let mut generator = Generator::new(1);
        let mut rows = Vec::new();
        for number in 0..4000 {
            let centre = centres[usize::from(number % 10 == 0)];
            rows.push((centre[0] + 2.0 * generator.normal()) as f32);
            rows.push((centre[1] + generator.normal()) as f32);
        }
        rows
    }

    #[test]
    fn centres_of_unequal_overlapping_classes_are_found_from_starts_that_are_off() {
        let truth = [[1.0, 0.0], [6.0, 2.0]];
        let mut centres = [vec![-1.0, 1.0], vec![4.0, 4.0]];
        find_centres(&rows(truth), &[4.0, 1.0], &mut centres);
        for (centre, truth) in centres.iter().zip(truth) {
            for (found, truth) in centre.iter().zip(truth) {
                assert!((found - truth).abs() < 0.3, "{centres:?}");
            }
        }
    }

    #[test]
    fn a_class_without_rows_stays_where_it_is() {
        let mut centres = [vec![0.0, 0.0], vec![100.0, 100.0]];
        find_centres(&rows([[0.0, 0.0]; 2]), &[4.0, 1.0], &mut centres);
        assert_eq!(centres[1], [100.0, 100.0]);
    }
}
