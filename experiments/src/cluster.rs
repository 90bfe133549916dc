//! Target proportions from clusters of latents that are matched with source classes (MARS).

use anyhow::{Result, anyhow};
use kodama::{Method, linkage};
use ostar_engine::Generator;
use ostar_method::diagnostics::optimal_assignment;

use crate::mixture::Mixture;

/// Most rows that Ward's linkage clusters: its memory grows with their square.
const MOST_LINKED: usize = 2_000;
/// Random starts of a mixture's fit; the best is kept.
const STARTS: usize = 20;

/// Proportions of Ward's clusters, in the order of the classes they are matched with.
pub fn ward_proportions(
    source: (&[f32], &[u32]),
    target: &[f32],
    width: usize,
    classes: usize,
    seed: u64,
) -> Result<Vec<f64>> {
    let rows = sample(target, width, MOST_LINKED, seed);
    let clusters = ward(&rows, width, classes);
    let mut centres = vec![vec![0.0; width]; classes];
    let mut proportions = vec![0.0f64; classes];
    for (row, cluster) in rows.chunks_exact(width).zip(&clusters) {
        proportions[*cluster] += 1.0;
        for (sum, value) in centres[*cluster].iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
    }
    for (centre, count) in centres.iter_mut().zip(&mut proportions) {
        centre
            .iter_mut()
            .for_each(|sum| *sum /= f64::max(*count, 1.0));
        *count /= clusters.len() as f64;
    }
    Ok(matched(
        &centres,
        &proportions,
        &class_means(source, width, classes),
    ))
}

/// Weights of a Gaussian mixture, in the order of the classes that its means are matched with.
pub fn mixture_proportions(
    source: (&[f32], &[u32]),
    target: &[f32],
    width: usize,
    classes: usize,
    seed: u64,
) -> Result<Vec<f64>> {
    let mixture = Mixture::fit(target, width, classes, STARTS, seed)
        .ok_or_else(|| anyhow!("cannot fit a mixture to the target's latents"))?;
    Ok(matched(
        &mixture.means,
        &mixture.weights,
        &class_means(source, width, classes),
    ))
}

/// Which of `count` clusters each row belongs to, by Ward's linkage.
fn ward(rows: &[f32], width: usize, count: usize) -> Vec<usize> {
    let rows: Vec<&[f32]> = rows.chunks_exact(width).collect();
    let mut distances = Vec::with_capacity(rows.len() * rows.len().saturating_sub(1) / 2);
    for (number, left) in rows.iter().enumerate() {
        for right in &rows[number + 1..] {
            let squares = left.iter().zip(*right).map(|(a, b)| (a - b) * (a - b));
            distances.push(f64::from(squares.sum::<f32>()).sqrt());
        }
    }
    let dendrogram = linkage(&mut distances, rows.len(), Method::Ward);
    // Each step joins two clusters into one with the next number. Stopping early leaves `count` clusters.
    let steps = rows.len().saturating_sub(count);
    let mut joined: Vec<usize> = (0..rows.len() + steps).collect();
    for (number, step) in dendrogram.steps().iter().take(steps).enumerate() {
        joined[step.cluster1] = rows.len() + number;
        joined[step.cluster2] = rows.len() + number;
    }
    let root = |mut cluster: usize| {
        while joined[cluster] != cluster {
            cluster = joined[cluster];
        }
        cluster
    };
    let roots: Vec<usize> = (0..rows.len()).map(root).collect();
    let mut known: Vec<usize> = roots.clone();
    known.sort_unstable();
    known.dedup();
    let place = |root: &usize| known.binary_search(root).expect("every root is known");
    roots.iter().map(place).collect()
}

/// Assigns clusters to classes by the least squared distance of their centres, and reorders the clusters' proportions.
fn matched(centres: &[Vec<f64>], of_clusters: &[f64], means: &[Vec<f64>]) -> Vec<f64> {
    let size = means.len();
    let squared = |left: &[f64], right: &[f64]| -> f64 {
        left.iter().zip(right).map(|(a, b)| (a - b).powi(2)).sum()
    };
    let costs: Vec<f64> = centres
        .iter()
        .flat_map(|centre| means.iter().map(|mean| squared(centre, mean)))
        .collect();
    let mut proportions = vec![0.0; size];
    for (cluster, class) in optimal_assignment(&costs, size).into_iter().enumerate() {
        proportions[class] = of_clusters[cluster];
    }
    proportions
}

fn class_means((latents, labels): (&[f32], &[u32]), width: usize, classes: usize) -> Vec<Vec<f64>> {
    let mut means = vec![vec![0.0; width]; classes];
    let mut counts = vec![0.0; classes];
    for (row, label) in latents.chunks_exact(width).zip(labels) {
        counts[*label as usize] += 1.0;
        for (sum, value) in means[*label as usize].iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
    }
    for (mean, count) in means.iter_mut().zip(&counts) {
        mean.iter_mut()
            .for_each(|sum| *sum /= f64::max(*count, 1.0));
    }
    means
}

/// At most `most` rows, at random.
fn sample(rows: &[f32], width: usize, most: usize, seed: u64) -> Vec<f32> {
    let count = rows.len() / width;
    let mut numbers: Vec<usize> = (0..count).collect();
    Generator::new(seed).shuffle(&mut numbers);
    let chosen = numbers.iter().take(most);
    chosen
        .flat_map(|number| rows[number * width..][..width].iter().copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three clouds of 20, 10 and 10 points around corners, and classes near other corners.
    fn clouds() -> (Vec<f32>, Vec<f32>, Vec<u32>) {
        let corners = [[0.0f32, 0.0], [10.0, 0.0], [0.0, 10.0]];
        let mut generator = Generator::new(1);
        let mut cloud = |corner: [f32; 2], count: usize, shift: f32| -> Vec<f32> {
            (0..count)
                .flat_map(|_| {
                    let noise = [generator.normal() as f32, generator.normal() as f32];
                    [corner[0] + shift + noise[0], corner[1] + shift + noise[1]]
                })
                .collect()
        };
        let target = [
            cloud(corners[0], 20, 0.5),
            cloud(corners[1], 10, 0.5),
            cloud(corners[2], 10, 0.5),
        ]
        .concat();
        // Classes in another order than the clouds.
        let source = [
            cloud(corners[2], 5, 0.0),
            cloud(corners[0], 5, 0.0),
            cloud(corners[1], 5, 0.0),
        ]
        .concat();
        let labels = [[0; 5], [1; 5], [2; 5]].concat();
        (target, source, labels)
    }

    #[test]
    fn clusters_are_given_to_the_classes_they_lie_next_to() {
        let (target, source, labels) = clouds();
        let source = (&source[..], &labels[..]);
        let ward = ward_proportions(source, &target, 2, 3, 1).unwrap();
        assert_eq!(ward, [0.25, 0.5, 0.25]);
        let mixture = mixture_proportions(source, &target, 2, 3, 1).unwrap();
        for (found, expected) in mixture.iter().zip([0.25, 0.5, 0.25]) {
            assert!((found - expected).abs() < 0.02, "{mixture:?}");
        }
    }

    #[test]
    fn ward_joins_the_pairs_whose_union_grows_least() {
        // On a line: 0, 1 and 10, 11 belong together; 5 is nearer to the second pair's mean.
        let rows = [0.0, 1.0, 10.0, 11.0, 7.0];
        let clusters = ward(&rows, 1, 2);
        assert_eq!(clusters[0], clusters[1]);
        assert!(clusters[2] == clusters[3] && clusters[3] == clusters[4]);
        assert_ne!(clusters[0], clusters[2]);
    }
}
