//! The target's proportions as the paper estimates them: the mean of all estimates so far.

use anyhow::Result;
use ostar_engine::{Engine, Rows, cpu::CpuEngine, engine::Head};
use ostar_method::proportions::{Confusion, Probabilities};
use serde::{Deserialize, Serialize};

use super::{Latents, Setup};
use crate::{cluster, method::Reweighting};

/// Least proportion of a class: at 0 the class would have no weight in any later step.
const LEAST_PROPORTION: f64 = 1e-3;

/// Running mean of estimates: p <- p (k - 1) / k + estimate / k.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RunningProportions {
    mean: Vec<f64>,
    count: f64,
}

impl RunningProportions {
    /// Uniform until the first estimate.
    pub(super) fn new(classes: usize) -> Self {
        Self {
            mean: vec![1.0 / classes as f64; classes],
            count: 0.0,
        }
    }

    pub(super) fn add(&mut self, estimate: &[f64]) {
        self.count += 1.0;
        for (mean, value) in self.mean.iter_mut().zip(estimate) {
            *mean += (value - *mean) / self.count;
        }
    }

    /// The mean of the estimates.
    pub(super) fn value(&self) -> &[f64] {
        &self.mean
    }

    /// The mean with every class at [`LEAST_PROPORTION`] or above, scaled to sum to 1.
    pub(super) fn floored(&self) -> Vec<f64> {
        let floored = self.mean.iter().map(|mean| mean.max(LEAST_PROPORTION));
        let sum: f64 = floored.clone().sum();
        floored.map(|mean| mean / sum).collect()
    }
}

/// Solves for the target's proportions from a classifier's confusion matrix on labelled latents and its mean prediction
/// on the target.
fn confusion(
    engine: &mut CpuEngine,
    head: Head,
    latents: &Latents,
    labels: &[u32],
) -> Result<Vec<f64>> {
    let (width, classes) = {
        let architecture = engine.architecture();
        (architecture.latent, architecture.classes)
    };
    let mut score = |latents: &[f32]| -> Result<Probabilities> {
        let mut probabilities = Vec::new();
        engine.score(head, Rows::new(latents, width)?, &mut probabilities)?;
        let rows = Rows::new(&probabilities[..], classes)?;
        Ok(Probabilities::new("predictions", rows)?)
    };
    let confusion = Confusion::new(&score(&latents.source)?, labels)?;
    let estimate = confusion.solve(&score(&latents.target)?.mean())?;
    Ok(estimate.as_ref().to_vec())
}

/// The target's proportions by one of the estimators, from latents of both domains that `head` classifies.
pub(super) fn estimate(
    setup: &Setup<'_>,
    reweighting: Reweighting,
    engine: &mut CpuEngine,
    head: Head,
    latents: &Latents,
) -> Result<Vec<f64>> {
    let (task, seed) = (setup.task, setup.seed);
    let (width, classes) = (engine.architecture().latent, task.classes);
    let source = (&latents.source[..], &task.source.labels[..]);
    match reweighting {
        Reweighting::Truth => Ok(task.target.proportions(classes)),
        Reweighting::Ward => {
            cluster::ward_proportions(source, &latents.target, width, classes, seed)
        }
        Reweighting::Mixture => {
            cluster::mixture_proportions(source, &latents.target, width, classes, seed)
        }
        Reweighting::Confusion => confusion(engine, head, latents, &task.source.labels),
    }
}
