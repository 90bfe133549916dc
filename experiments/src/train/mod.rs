//! Training: pretraining on the source, then a method's adaptation to the target.

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
    /// Source and target rows.
    pub task: &'t Task,
    /// Networks, rates and epochs.
    pub protocol: &'t Protocol,
    /// Of the CPU engine; another number changes results in the last bits.
    pub threads: usize,
    /// Of initial weights, batches and dropout.
    pub seed: u64,
}

/// Called with the fraction of a run that is done, from 0 to 1.
pub type Progress<'p> = &'p mut dyn FnMut(f64);

/// The result of a run; ablations use more of it than the score.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Measured on the whole target.
    pub score: Score,
    /// Squared distance that the map moves a source latent by, summed over its blocks: mean over classes and samples.
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
    /// Source latents, after the map if there is one.
    pub source: Vec<f32>,
    /// Target latents; the map does not apply to them.
    pub target: Vec<f32>,
}

/// Runs a method, starting from the pretrained weights.
pub fn run(
    setup: &Setup<'_>,
    method: Method,
    pretrained: &Pretrained,
    progress: Progress<'_>,
) -> Result<Outcome> {
    // A generator of its own: a method's batches do not depend on the methods that ran before it.
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

/// Scores the target with one of the classifiers, in evaluation mode.
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
