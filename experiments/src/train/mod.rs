//! Training: pretraining on the source, then a method's adaptation to the target.

mod alignment;
mod batches;
mod checkpoints;
mod invariant;
mod pretraining;
mod proportions;
mod trace;

pub use checkpoints::Checkpoints;
pub use pretraining::{Pretrained, pretrain};
pub use trace::EpochTrace;

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use anyhow::Result;
use ostar_engine::{Engine, Generator, cpu::CpuEngine, engine::Head};

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

/// Called with the measures of an epoch. An error ends the training.
pub type TellEpoch<'w> = Box<dyn FnMut(&EpochTrace) -> Result<()> + 'w>;

/// Where a training saves itself, and what it tells while it runs.
pub struct Watch<'w> {
    /// Called with the fraction that is done, from 0 to 1.
    pub progress: Box<dyn FnMut(f64) + 'w>,
    /// Called after each epoch of OSTAR's alignment. Measuring for it takes time.
    pub epochs: Option<TellEpoch<'w>>,
    /// The file to continue from.
    pub checkpoints: Checkpoints,
}

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

impl Watch<'_> {
    /// Tells and saves nothing.
    pub fn none() -> Self {
        Self {
            progress: Box::new(|_| ()),
            epochs: None,
            checkpoints: Checkpoints::none(),
        }
    }
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let checkpoints = &self.checkpoints;
        formatter
            .debug_struct("Watch")
            .field("checkpoints", checkpoints)
            .finish_non_exhaustive()
    }
}

impl Setup<'_> {
    /// Equal for two setups whose trainings give the same bytes.
    pub fn identity(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for domain in [&self.task.source, &self.task.target] {
            domain.width.hash(&mut hasher);
            domain.labels.hash(&mut hasher);
            for value in &domain.rows {
                value.to_bits().hash(&mut hasher);
            }
        }
        let (protocol, data) = (self.protocol, hasher.finish());
        format!(
            "data {data:016x}, seed {}, {} threads, {protocol:?}",
            self.seed, self.threads
        )
    }
}

/// Runs a method, starting from the pretrained weights.
pub fn run(
    setup: &Setup<'_>,
    method: Method,
    pretrained: &Pretrained,
    watch: &mut Watch<'_>,
) -> Result<Outcome> {
    // A generator of its own: a method's batches do not depend on the methods that ran before it.
    let generator = Generator::new(setup.seed ^ 0x05_7a_12);
    match method {
        Method::Source => {
            let mut engine = pretrained.engine(setup)?;
            finish(setup, &mut engine, Head::Source, None, 0.0)
        }
        Method::Ostar(stage) => alignment::run(setup, stage, pretrained, generator, watch),
        Method::Dann | Method::Wasserstein { .. } | Method::Reweighted(_) => {
            invariant::run(setup, method, pretrained, generator, watch)
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
    let rows = ostar_engine::Rows::new(&encoded[..], width)?;
    match head {
        Head::Target => engine.transport(rows, &mut latents.source)?,
        Head::Source => latents.source = encoded,
    }
    engine.encode(task.target.inputs()?, &mut latents.target)?;
    let mut probabilities = Vec::new();
    let rows = ostar_engine::Rows::new(&latents.target[..], width)?;
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
