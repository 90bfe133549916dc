//! Methods that train an encoder whose latents do not tell source from target, with and without reweighting.

use anyhow::Result;
use ostar_engine::{
    Engine, Generator,
    cpu::{Adversary, CpuEngine, InvariantStep},
    engine::{CriticStep, Head, PretrainStep},
    optimiser::{Adam, RateSchedule},
    weights::class_ratios,
};

use super::{
    Latents, Outcome, Pretrained, Setup, Watch,
    alignment::{PENALTY_WEIGHT, is_refreshed},
    batches::Gathered,
    checkpoints::TrainingState,
    finish,
    proportions::estimate,
};
use crate::{
    method::{Method, Reweighting},
    task,
};

struct Invariant<'s> {
    setup: &'s Setup<'s>,
    method: Method,
    engine: CpuEngine,
    state: TrainingState,
    gathered: Gathered,
    source_proportions: Vec<f64>,
    /// Rate multiplier of this step.
    decay: f64,
}

pub(super) fn run(
    setup: &Setup<'_>,
    method: Method,
    pretrained: &Pretrained,
    generator: Generator,
    watch: &mut Watch<'_>,
) -> Result<Outcome> {
    let (task, protocol) = (setup.task, setup.protocol);
    let mut training = Invariant {
        setup,
        method,
        engine: pretrained.engine(setup)?,
        state: TrainingState::new(task, protocol.batch, protocol.alignment_epoch, generator),
        gathered: Gathered::default(),
        source_proportions: task.source.proportions(task.classes),
        decay: 1.0,
    };
    if let Some((tensors, state)) = watch.checkpoints.load()? {
        training.engine.import(&tensors)?;
        training.state = state;
    }
    let epoch_steps = task.source.count() / protocol.batch;
    let all = (protocol.epochs - protocol.alignment_epoch + 1) * epoch_steps;
    let schedule = RateSchedule::Decaying { steps: all as u64 };
    while training.state.epoch <= protocol.epochs {
        training.refresh()?;
        let proportions = match method {
            Method::Reweighted(_) => training.state.proportions.floored(),
            _ => training.source_proportions.clone(),
        };
        let mut done = (training.state.epoch - protocol.alignment_epoch) * epoch_steps;
        for _ in 0..epoch_steps {
            training.decay = schedule.rate(1.0, done as u64);
            for _ in 0..protocol.invariant_critic_steps {
                training.critic_step(&proportions)?;
            }
            training.step(&proportions)?;
            done += 1;
            (watch.progress)(done as f64 / all as f64);
        }
        training.state.epoch += 1;
        let engine = &training.engine;
        watch
            .checkpoints
            .save_if_due(|| engine.export(), &training.state)?;
    }
    let proportions = match method {
        Method::Reweighted(_) => Some(training.state.proportions.value().to_vec()),
        _ => None,
    };
    finish(setup, &mut training.engine, Head::Source, proportions, 0.0)
}

impl Invariant<'_> {
    /// Estimates the proportions, if the method has any and this epoch asks for it.
    fn refresh(&mut self) -> Result<()> {
        let Method::Reweighted(reweighting) = self.method else {
            return Ok(());
        };
        if !is_refreshed(self.setup, self.state.epoch) {
            return Ok(());
        }
        let (task, engine) = (self.setup.task, &mut self.engine);
        let mut latents = Latents::default();
        if reweighting != Reweighting::Truth {
            engine.encode(task.source.inputs()?, &mut latents.source)?;
            engine.encode(task.target.inputs()?, &mut latents.target)?;
        }
        let estimate = estimate(self.setup, reweighting, engine, Head::Source, &latents)?;
        self.state.proportions.add(&estimate);
        Ok(())
    }

    fn adam(&self, part: usize) -> Adam {
        let protocol = self.setup.protocol;
        Adam::with_rate(protocol.base_rate * protocol.multipliers[part] * self.decay)
    }

    /// One step of the critic, or of DANN's discriminator, on a fresh batch.
    fn critic_step(&mut self, proportions: &[f64]) -> Result<()> {
        let task = self.setup.task;
        let numbers = self.state.critic_batches.draw(&mut self.state.generator);
        self.gathered.gather(task, &numbers);
        // Drawn for DANN as well, which does not use them: all methods see the same batches.
        let generator = &mut self.state.generator;
        let rows = 0..self.setup.protocol.batch;
        let positions: Vec<f64> = rows.map(|_| generator.uniform()).collect();
        let own = task::proportions(self.gathered.labels(), task.classes);
        let step = match self.method {
            Method::Dann => InvariantStep::Discriminator(self.adam(2)),
            _ => InvariantStep::Critic {
                step: CriticStep {
                    proportions: weighting(self.method, proportions, &own),
                    positions: &positions,
                    penalty_weight: PENALTY_WEIGHT,
                    map_follows: false,
                    adam: self.adam(2),
                },
                target_weight: target_weight(self.method),
            },
        };
        self.take(&step)
    }

    /// One step of encoder and classifier against the critic, on a fresh batch.
    fn step(&mut self, proportions: &[f64]) -> Result<()> {
        let task = self.setup.task;
        let numbers = self.state.batches.draw(&mut self.state.generator);
        self.gathered.gather(task, &numbers);
        let own = task::proportions(self.gathered.labels(), task.classes);
        let weight = self.setup.protocol.domain_weight;
        let adversary = match self.method {
            Method::Dann => Adversary::Discriminator { weight },
            _ => Adversary::Critic {
                weight,
                target_weight: target_weight(self.method),
            },
        };
        let class_weights = class_ratios(proportions, &self.source_proportions, f64::INFINITY);
        self.take(&InvariantStep::Encoder {
            step: PretrainStep {
                class_weights: &class_weights,
                encoder_adam: self.adam(0),
                classifier_adam: self.adam(1),
            },
            adversary,
            proportions: weighting(self.method, proportions, &own),
        })
    }

    fn take(&mut self, step: &InvariantStep<'_>) -> Result<()> {
        let batch = self.gathered.borrow()?;
        self.engine
            .invariant_step(batch, step, &mut self.state.generator)?;
        Ok(())
    }
}

/// p_N of omega. Without reweighting it is the batch's own proportions, which weight all its rows alike.
fn weighting<'p>(method: Method, proportions: &'p [f64], own: &'p [f64]) -> &'p [f64] {
    match method {
        Method::Reweighted(_) => proportions,
        _ => own,
    }
}

/// The critic's weight of the target, 1 + beta.
fn target_weight(method: Method) -> f64 {
    match method {
        Method::Wasserstein { beta } => 1.0 + f64::from(beta),
        _ => 1.0,
    }
}
