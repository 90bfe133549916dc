//! What happened in an epoch of OSTAR's alignment: how far the map moves rows, and how the latents lie.

use anyhow::Result;
use ostar_engine::{
    Engine, Rows,
    cpu::CpuEngine,
    engine::{Head, MapReport},
};

use super::Setup;
use crate::{
    score::{Score, l1},
    task::Domain,
};

/// Measures at the end of an epoch. Latents are those of evaluation mode; squared distances are per row, in the latent
/// space of that epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochTrace {
    /// Counted from 1, pretraining included.
    pub epoch: usize,
    /// The critic's distance between mapped source and target (W), mean over the epoch's map steps.
    pub distance: f64,
    /// Squared distance that the map moves a row by, summed over its blocks: mean over classes and map steps.
    pub transport_cost: f64,
    /// Squared distance between a row and phi of it: mean over source rows.
    pub displacement: f64,
    /// Squared distance of source rows to the mean of their class.
    pub source_spread: f64,
    /// Squared distance of target rows to the mean of their class.
    pub target_spread: f64,
    /// Squared distance between a class's mean in the source and in the target: mean over classes.
    pub class_gap: f64,
    /// The same after the map.
    pub mapped_class_gap: f64,
    /// Squared distance of a class's mean to the nearest other in the source: mean over classes.
    pub class_distance: f64,
    /// Of the target classifier on the target, in percent.
    pub balanced_accuracy: f64,
    /// l1 error of the proportions in use.
    pub proportion_error: f64,
}

impl EpochTrace {
    pub(super) fn measure(
        setup: &Setup<'_>,
        epoch: usize,
        engine: &mut CpuEngine,
        map_reports: &[MapReport],
        proportions: &[f64],
    ) -> Result<Self> {
        let task = setup.task;
        let (width, classes) = (engine.architecture().latent, task.classes);
        let (mut source, mut target) = (Vec::new(), Vec::new());
        engine.encode(task.source.inputs()?, &mut source)?;
        engine.encode(task.target.inputs()?, &mut target)?;
        let (mut mapped, mut probabilities) = (Vec::new(), Vec::new());
        engine.transport(Rows::new(&source[..], width)?, &mut mapped)?;
        let rows = Rows::new(&target[..], width)?;
        engine.score(Head::Target, rows, &mut probabilities)?;
        let displacement = pairs(&source, &mapped, width);
        let of_source = Means::new(&source, &task.source, width, classes);
        let of_mapped = Means::new(&mapped, &task.source, width, classes);
        let of_target = Means::new(&target, &task.target, width, classes);
        let mean = |of: fn(&MapReport) -> f64| {
            map_reports.iter().map(of).sum::<f64>() / map_reports.len().max(1) as f64
        };
        Ok(Self {
            epoch,
            distance: mean(|report| report.distance),
            transport_cost: mean(|report| report.transport_cost) / classes as f64,
            displacement: displacement / task.source.count() as f64,
            source_spread: of_source.spread,
            target_spread: of_target.spread,
            class_gap: of_source.gap(&of_target),
            mapped_class_gap: of_mapped.gap(&of_target),
            class_distance: of_source.nearest(),
            balanced_accuracy: Score::new(&probabilities, &task.target.labels, classes)
                .balanced_accuracy,
            proportion_error: l1(proportions, &task.target.proportions(classes)),
        })
    }
}

/// Means of the classes, and the mean squared distance of rows to them.
struct Means {
    means: Vec<Vec<f32>>,
    spread: f64,
}

impl Means {
    fn new(latents: &[f32], domain: &Domain, width: usize, classes: usize) -> Self {
        let mut sums = vec![vec![0.0f64; width]; classes];
        let mut counts = vec![0.0f64; classes];
        let rows = || latents.chunks_exact(width).zip(&domain.labels);
        for (row, label) in rows() {
            counts[*label as usize] += 1.0;
            for (sum, value) in sums[*label as usize].iter_mut().zip(row) {
                *sum += f64::from(*value);
            }
        }
        let means: Vec<Vec<f32>> = sums
            .iter()
            .zip(&counts)
            .map(|(sum, count)| sum.iter().map(|s| (s / count.max(1.0)) as f32).collect())
            .collect();
        let spread: f64 = rows()
            .map(|(row, label)| squared(row, &means[*label as usize]))
            .sum();
        Self {
            means,
            spread: spread / domain.count() as f64,
        }
    }

    fn gap(&self, other: &Self) -> f64 {
        let gaps = self.means.iter().zip(&other.means);
        gaps.map(|(a, b)| squared(a, b)).sum::<f64>() / self.means.len() as f64
    }

    fn nearest(&self) -> f64 {
        let nearest = |class: usize| {
            let others = self.means.iter().enumerate().filter(|(n, _)| *n != class);
            others
                .map(|(_, mean)| squared(mean, &self.means[class]))
                .fold(f64::INFINITY, f64::min)
        };
        (0..self.means.len()).map(nearest).sum::<f64>() / self.means.len() as f64
    }
}

fn pairs(left: &[f32], right: &[f32], width: usize) -> f64 {
    let rows = left.chunks_exact(width).zip(right.chunks_exact(width));
    rows.map(|(a, b)| squared(a, b)).sum()
}

fn squared(left: &[f32], right: &[f32]) -> f64 {
    let pairs = left.iter().zip(right);
    pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum()
}
