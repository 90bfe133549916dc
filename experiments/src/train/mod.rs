//! Training: one classifier for the source, then whatever a method does about the target.

mod alignment;
mod batches;
mod invariant;
mod pretraining;
mod proportions;

pub use pretraining::{Pretrained, pretrain};

use anyhow::Result;
use ostar_model::{Engine, Generator, cpu::CpuEngine, engine::Head};

use crate::{
    method::Method,
    protocol::Protocol,
    score::{Score, l1},
    task::Task,
};

/// A task, its protocol and what all of its runs share.
#[derive(Debug)]
pub struct Setup<'t> {
    /// The domains.
    pub task: &'t Task,
    /// Sizes and schedule.
    pub protocol: &'t Protocol,
    /// Threads of the engine.
    pub threads: usize,
    /// Seed of all randomness.
    pub seed: u64,
}

/// Told how much of the work of a run is done, from 0 to 1.
pub type Progress<'p> = &'p mut dyn FnMut(f64);

/// What a run gives beside its score, for ablations.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The measures.
    pub score: Score,
    /// Mean over classes and samples of what the map moves a source latent by, squared and over all blocks;
    /// 0 without a map.
    pub transport_cost: f64,
    /// The estimated target proportions, if the method has any.
    pub proportions: Option<Vec<f64>>,
    /// Latents of the target, and of the (mapped) source, at the end.
    pub latents: Latents,
}

/// Latents of both domains, row after row.
#[derive(Debug, Clone, Default)]
pub struct Latents {
    /// Of the source, mapped where there is a map.
    pub source: Vec<f32>,
    /// Of the target.
    pub target: Vec<f32>,
}

/// Runs a method from what pretraining gave.
pub fn run(
    setup: &Setup<'_>,
    method: Method,
    pretrained: &Pretrained,
    progress: Progress<'_>,
) -> Result<Outcome> {
    // Every method draws the same batches, whatever was run before it.
    let mut generator = Generator::new(setup.seed ^ 0x05_7a_12);
    match method {
        Method::Source => {
            let mut engine = pretrained.engine(setup)?;
            finish(setup, &mut engine, Head::Source, None, 0.0)
        }
        Method::Ostar(stage) => alignment::run(setup, stage, pretrained, &mut generator, progress),
        Method::Dann | Method::Wasserstein { .. } | Method::Reweighted(_) => {
            invariant::run(setup, method, pretrained, &mut generator, progress)
        }
    }
}

/// Scores the target by a classifier in evaluation mode.
fn finish(
    setup: &Setup<'_>,
    engine: &mut CpuEngine,
    head: Head,
    proportions: Option<Vec<f64>>,
    transport_cost: f64,
) -> Result<Outcome> {
    let task = setup.task;
    let mut latents = Latents::default();
    let mut encoded = Vec::new();
    engine.encode(task.source.inputs()?, &mut encoded)?;
    let width = engine.architecture().latent;
    let rows = ostar_model::Rows::new(&encoded[..], width)?;
    match head {
        Head::Target => engine.transport(rows, &mut latents.source)?,
        Head::Source => latents.source = encoded,
    }
    engine.encode(task.target.inputs()?, &mut latents.target)?;
    let mut probabilities = Vec::new();
    let rows = ostar_model::Rows::new(&latents.target[..], width)?;
    engine.score(head, rows, &mut probabilities)?;
    let mut score = Score::new(&probabilities, &task.target.labels, task.classes);
    let truth = task.target.proportions(task.classes);
    score.proportion_error = proportions.as_ref().map(|found| l1(found, &truth));
    Ok(Outcome {
        score,
        transport_cost,
        proportions,
        latents,
    })
}
