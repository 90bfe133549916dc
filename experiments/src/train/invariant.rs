//! Methods that look for latents in which source and target are alike, with and without reweighting.

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
};

pub(super) fn run(
    setup: &Setup<'_>,
    method: Method,
    pretrained: &Pretrained,
    generator: &mut Generator,
    progress: Progress<'_>,
) -> Result<Outcome> {
    let (task, protocol) = (setup.task, setup.protocol);
    let mut engine = pretrained.engine(setup)?;
    let mut critic_batches = Batches::new(task, protocol.batch);
    let mut batches = Batches::new(task, protocol.batch);
    let mut gathered = Gathered::default();
    let shares = task.source.proportions(task.classes);
    let mut running = RunningProportions::new(task.classes);
    let iterations = task.source.count() / protocol.batch;
    let all = (protocol.epochs - protocol.alignment_epoch + 1) * iterations;
    let schedule = RateSchedule::Decaying { steps: all as u64 };
    let whole: Vec<u32> = (0..protocol.batch as u32).collect();
    let mut done = 0;
    for epoch in protocol.alignment_epoch..=protocol.epochs {
        if let Method::Reweighted(reweighting) = method
            && is_refreshed(setup, epoch)
        {
            let estimate = estimate(setup, reweighting, &mut engine)?;
            running.add(&estimate);
        }
        let proportions = match method {
            Method::Reweighted(_) => running.floored(),
            _ => shares.clone(),
        };
        for _ in 0..iterations {
            let decay = schedule.rate(1.0, done as u64);
            let adam = |part: usize| {
                Adam::with_rate(protocol.base_rate * protocol.multipliers[part] * decay)
            };
            for _ in 0..protocol.invariant_critic_steps {
                let numbers = critic_batches.draw(generator);
                gathered.gather(task, &numbers);
                encode_into_buffers(&mut engine, &gathered)?;
                let batch = Batch {
                    source: &whole,
                    target: &whole,
                };
                let positions: Vec<f64> = whole.iter().map(|_| generator.uniform()).collect();
                let own = batch_shares(gathered.labels(), task.classes);
                let step = CriticStep {
                    proportions: weighting(method, &proportions, &own),
                    positions: &positions,
                    penalty_weight: PENALTY_WEIGHT,
                    adam: adam(2),
                };
                match method {
                    Method::Dann => {
                        engine.discriminator_step(batch, adam(2))?;
                    }
                    _ => {
                        engine.weighted_critic_step(batch, &step, target_weight(method))?;
                    }
                }
            }
            let numbers = batches.draw(generator);
            gathered.gather(task, &numbers);
            let own = batch_shares(gathered.labels(), task.classes);
            let weight = protocol.domain_weight;
            let adversary = match method {
                Method::Dann => Adversary::Discriminator { weight },
                _ => Adversary::Critic {
                    weight,
                    proportions: weighting(method, &proportions, &own),
                    target_weight: target_weight(method),
                },
            };
            let class_weights = class_ratios(&proportions, &shares, f64::INFINITY);
            let step = InvariantStep {
                class_weights: &class_weights,
                adversary,
                encoder_adam: adam(0),
                classifier_adam: adam(1),
            };
            engine.invariant_step(gathered.borrow()?, &step, generator)?;
            done += 1;
            progress(done as f64 / all as f64);
        }
    }
    let proportions = match method {
        Method::Reweighted(_) => Some(running.value().to_vec()),
        _ => None,
    };
    finish(setup, &mut engine, Head::Source, proportions, 0.0)
}

/// p_N of omega: a batch's own shares weight all its rows alike.
fn weighting<'p>(method: Method, proportions: &'p [f64], own: &'p [f64]) -> &'p [f64] {
    match method {
        Method::Reweighted(_) => proportions,
        _ => own,
    }
}

/// 1 + beta.
fn target_weight(method: Method) -> f64 {
    match method {
        Method::Wasserstein { beta } => 1.0 + f64::from(beta),
        _ => 1.0,
    }
}

fn batch_shares(labels: &[u32], classes: usize) -> Vec<f64> {
    let mut shares = vec![0.0; classes];
    for label in labels {
        shares[*label as usize] += 1.0 / labels.len() as f64;
    }
    shares
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
