//! Methods that train an encoder whose latents do not tell source from target, with and without reweighting.

use anyhow::Result;
use ostar_model::{
    Engine, Generator,
    cpu::{Adversary, CpuEngine, InvariantStep},
    engine::{Batch, CriticStep, Head},
    optimiser::{Adam, RateSchedule},
    weights::class_ratios,
};

use super::{
    Latents, Outcome, Pretrained, Progress, Setup,
    alignment::{PENALTY_WEIGHT, encode_into_buffers, is_refreshed},
    batches::{Batches, Gathered},
    finish,
    proportions::{RunningProportions, confusion},
};
use crate::{
    cluster,
    method::{Method, Reweighting},
    task,
};

struct Invariant<'s, 'g> {
    setup: &'s Setup<'s>,
    method: Method,
    engine: CpuEngine,
    generator: &'g mut Generator,
    /// Batches of the critic's steps, and of the others.
    critic_batches: Batches,
    batches: Batches,
    gathered: Gathered,
    source_proportions: Vec<f64>,
    /// Rate multiplier of this step.
    decay: f64,
}

pub(super) fn run(
    setup: &Setup<'_>,
    method: Method,
    pretrained: &Pretrained,
    generator: &mut Generator,
    progress: Progress<'_>,
) -> Result<Outcome> {
    let (task, protocol) = (setup.task, setup.protocol);
    let mut training = Invariant {
        setup,
        method,
        engine: pretrained.engine(setup)?,
        generator,
        critic_batches: Batches::new(task, protocol.batch),
        batches: Batches::new(task, protocol.batch),
        gathered: Gathered::default(),
        source_proportions: task.source.proportions(task.classes),
        decay: 1.0,
    };
    let mut running = RunningProportions::new(task.classes);
    let epoch_steps = task.source.count() / protocol.batch;
    let all = (protocol.epochs - protocol.alignment_epoch + 1) * epoch_steps;
    let schedule = RateSchedule::Decaying { steps: all as u64 };
    let mut done = 0;
    for epoch in protocol.alignment_epoch..=protocol.epochs {
        if let Method::Reweighted(reweighting) = method
            && is_refreshed(setup, epoch)
        {
            running.add(&estimate(setup, reweighting, &mut training.engine)?);
        }
        let proportions = match method {
            Method::Reweighted(_) => running.floored(),
            _ => training.source_proportions.clone(),
        };
        for _ in 0..epoch_steps {
            training.decay = schedule.rate(1.0, done as u64);
            for _ in 0..protocol.invariant_critic_steps {
                training.critic_step(&proportions)?;
            }
            training.step(&proportions)?;
            done += 1;
            progress(done as f64 / all as f64);
        }
    }
    let proportions = match method {
        Method::Reweighted(_) => Some(running.value().to_vec()),
        _ => None,
    };
    finish(setup, &mut training.engine, Head::Source, proportions, 0.0)
}

impl Invariant<'_, '_> {
    fn adam(&self, part: usize) -> Adam {
        let protocol = self.setup.protocol;
        Adam::with_rate(protocol.base_rate * protocol.multipliers[part] * self.decay)
    }

    /// One step of the critic, or of DANN's discriminator, on a fresh batch.
    fn critic_step(&mut self, proportions: &[f64]) -> Result<()> {
        let task = self.setup.task;
        let numbers = self.critic_batches.draw(self.generator);
        self.gathered.gather(task, &numbers);
        encode_into_buffers(&mut self.engine, &self.gathered)?;
        let all_rows: Vec<u32> = (0..self.setup.protocol.batch as u32).collect();
        let batch = Batch {
            source: &all_rows,
            target: &all_rows,
        };
        // Drawn for DANN as well, which does not use them: all methods see the same batches.
        let positions: Vec<f64> = all_rows.iter().map(|_| self.generator.uniform()).collect();
        if self.method == Method::Dann {
            self.engine.discriminator_step(batch, self.adam(2))?;
            return Ok(());
        }
        let own = task::proportions(self.gathered.labels(), task.classes);
        let step = CriticStep {
            proportions: weighting(self.method, proportions, &own),
            positions: &positions,
            penalty_weight: PENALTY_WEIGHT,
            map_follows: false,
            adam: self.adam(2),
        };
        let target_weight = target_weight(self.method);
        self.engine
            .weighted_critic_step(batch, &step, target_weight)?;
        Ok(())
    }

    /// One step of encoder and classifier against the critic, on a fresh batch.
    fn step(&mut self, proportions: &[f64]) -> Result<()> {
        let task = self.setup.task;
        let numbers = self.batches.draw(self.generator);
        self.gathered.gather(task, &numbers);
        let own = task::proportions(self.gathered.labels(), task.classes);
        let weight = self.setup.protocol.domain_weight;
        let adversary = match self.method {
            Method::Dann => Adversary::Discriminator { weight },
            _ => Adversary::Critic {
                weight,
                proportions: weighting(self.method, proportions, &own),
                target_weight: target_weight(self.method),
            },
        };
        let class_weights = class_ratios(proportions, &self.source_proportions, f64::INFINITY);
        let step = InvariantStep {
            class_weights: &class_weights,
            adversary,
            encoder_adam: self.adam(0),
            classifier_adam: self.adam(1),
        };
        self.engine
            .invariant_step(self.gathered.borrow()?, &step, self.generator)?;
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

fn estimate(
    setup: &Setup<'_>,
    reweighting: Reweighting,
    engine: &mut CpuEngine,
) -> Result<Vec<f64>> {
    let task = setup.task;
    let truth = task.target.proportions(task.classes);
    if reweighting == Reweighting::Truth {
        return Ok(truth);
    }
    let mut latents = Latents::default();
    engine.encode(task.source.inputs()?, &mut latents.source)?;
    engine.encode(task.target.inputs()?, &mut latents.target)?;
    let width = engine.architecture().latent;
    let source = (&latents.source[..], &task.source.labels[..]);
    match reweighting {
        Reweighting::Ward => {
            cluster::ward_proportions(source, &latents.target, width, task.classes, setup.seed)
        }
        Reweighting::Mixture => {
            cluster::mixture_proportions(source, &latents.target, width, task.classes, setup.seed)
        }
        Reweighting::Confusion | Reweighting::Truth => {
            confusion(engine, Head::Source, &latents, &task.source.labels)
        }
    }
}
