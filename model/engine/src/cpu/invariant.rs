//! The steps of the methods that OSTAR is compared with, all behind [`CpuEngine::invariant_step`]: they look for latents
//! in which source and target cannot be told apart. The encoder is trained against an adversary, the critic's network.
//! There is no map.

use super::{
    CpuEngine,
    buffers::refill,
    chain::{Chain, gather},
    state::{Arguments, Scratch},
};
use crate::{
    Engine, Generator, Result,
    architecture::Network,
    checks,
    engine::{Batch, CriticStep, PretrainStep, RawBatch},
    optimiser::Adam,
    weights,
};

/// What [`CpuEngine::invariant_step`] does with a batch of both domains.
#[derive(Debug, Clone, Copy)]
pub enum InvariantStep<'a> {
    /// Replaces both buffers by the batch's latents and trains nothing: steps of [`Engine`] may follow.
    Encode,
    /// The same, and a step of the critic on them.
    Critic {
        /// Settings of the step.
        step: CriticStep<'a>,
        /// Factor of the target's mean (1 + beta).
        target_weight: f64,
    },
    /// The same, and a step of the critic's network as a domain discriminator: the logistic loss of v, positive on the
    /// source.
    Discriminator(Adam),
    /// A step of encoder and source classifier: the source's cross-entropy and the adversary's term.
    Encoder {
        /// Settings of the cross-entropy and the optimisers.
        step: PretrainStep<'a>,
        /// What the encoder is trained against, in addition to the cross-entropy.
        adversary: Adversary,
        /// p_N of a critic's omega. With the batch's own proportions all its rows have the same weight.
        proportions: &'a [f64],
    },
}

/// What the encoder is trained against.
#[derive(Debug, Clone, Copy, Default)]
pub enum Adversary {
    /// No adversary: the source's cross-entropy alone.
    #[default]
    None,
    /// A Wasserstein critic: sum of omega v(z_S) - (1 + beta) mean v(z_T).
    Critic {
        /// Weight of the distance in the encoder's loss.
        weight: f64,
        /// Factor of the target's mean (1 + beta).
        target_weight: f64,
    },
    /// A domain discriminator behind a gradient reversal.
    Discriminator {
        /// Weight of the reversed loss.
        weight: f64,
    },
}

impl CpuEngine {
    /// One step of a method that looks for invariant latents. Both domains are encoded in one batch, in training mode:
    /// normalised by the batch's statistics, which also update the running ones. Returns the loss that the step
    /// minimised, 0 for [`InvariantStep::Encode`]. `generator` draws the dropout masks.
    ///
    /// After an error of a critic's or discriminator's step the buffers may hold the batch.
    pub fn invariant_step(
        &mut self,
        batch: RawBatch<'_>,
        step: &InvariantStep<'_>,
        generator: &mut Generator,
    ) -> Result<f64> {
        let all = checks::raw_batch(&batch, self.architecture())?;
        let state = self.team.state();
        state
            .arguments
            .write()
            .set_raw_batch(&batch, &state.architecture);
        let rows: Vec<u32> = (0..all as u32).collect();
        let resident = Batch {
            source: &rows,
            target: &rows,
        };
        match *step {
            InvariantStep::Encode => {
                self.encode_into_buffers(batch.labels);
                Ok(0.0)
            }
            InvariantStep::Critic {
                step,
                target_weight,
            } => {
                checks::weight("target_weight", target_weight)?;
                self.encode_into_buffers(batch.labels);
                let report = self.critic_step_at_target_weight(resident, &step, target_weight)?;
                Ok(report.loss)
            }
            InvariantStep::Discriminator(adam) => {
                adam.validate()?;
                self.encode_into_buffers(batch.labels);
                self.discriminator_step(resident, adam)
            }
            InvariantStep::Encoder {
                step,
                adversary,
                proportions,
            } => {
                weights::class_counts(batch.labels.iter().copied(), &mut self.counts);
                self.set_adversary(adversary, proportions)?;
                self.source_step(
                    "invariant",
                    |chain| chain.invariant(),
                    batch.labels,
                    &step,
                    generator,
                )
            }
        }
    }

    /// Latents of both domains of the batch in the arguments.
    fn encode_into_buffers(&mut self, labels: &[u32]) {
        self.run_chain(|chain| chain.encode_both());
        let state = self.team.state();
        let Arguments { source, target, .. } = &mut *state.arguments.write();
        source.latents.clear();
        target.latents.clear();
        for scratch in &state.scratch {
            let scratch = scratch.lock();
            let (of_source, of_target) = scratch.output.split_at(scratch.output.len() / 2);
            source.latents.extend_from_slice(of_source);
            target.latents.extend_from_slice(of_target);
        }
        refill(&mut source.labels, labels.iter().copied());
    }

    fn discriminator_step(&mut self, batch: Batch<'_>, adam: Adam) -> Result<f64> {
        self.set_batch(&batch)?;
        let loss = self
            .run_chain(|chain| chain.discriminator())
            .discriminator_loss;
        self.check_loss("discriminator", loss)?;
        self.update(&[(Network::Critic, adam)]);
        Ok(loss)
    }

    fn set_adversary(&mut self, adversary: Adversary, proportions: &[f64]) -> Result<()> {
        match adversary {
            Adversary::None => {}
            Adversary::Critic {
                weight,
                target_weight,
            } => {
                checks::per_class("proportion", proportions, self.counts.len())?;
                checks::weight("adversary.weight", weight)?;
                checks::weight("adversary.target_weight", target_weight)?;
                self.set_source_weights(proportions)?;
            }
            Adversary::Discriminator { weight } => checks::weight("adversary.weight", weight)?,
        }
        self.team.state().arguments.write().adversary = adversary;
        Ok(())
    }
}

impl Chain<'_> {
    /// Latents of both domains, for the buffers.
    fn encode_both(mut self) {
        let arguments = self.arguments;
        self.encode(&[&arguments.inputs, &arguments.target_inputs]);
        let scratch = &mut *self.scratch;
        let latents = scratch.encoder.output(&scratch.encoder_input);
        latents.clone_into(&mut scratch.output);
    }

    /// Encoder and source classifier against the adversary.
    fn invariant(mut self) {
        let (arguments, width) = (self.arguments, self.width());
        self.encode(&[&arguments.inputs, &arguments.target_inputs]);
        self.source_classifier();
        let (count, all) = (self.rows.len(), arguments.labels.len());
        let Scratch {
            workspace,
            encoder,
            encoder_input,
            classifiers: [classifier, ..],
            critic,
            factors,
            ..
        } = &mut *self.scratch;
        factors.clear();
        if !matches!(arguments.adversary, Adversary::None) {
            let layers = self.state.networks.layers(Network::Critic);
            critic.forward(layers, encoder.output(encoder_input), workspace);
            critic.input_gradient(layers, workspace);
        }
        match arguments.adversary {
            Adversary::None => {}
            Adversary::Critic {
                weight,
                target_weight,
            } => {
                let labels = arguments.labels[self.rows.clone()].iter();
                let omega = |label: &u32| arguments.source_weights[*label as usize];
                factors.extend(labels.map(|label| (weight * omega(label)) as f32));
                let target = -weight * target_weight / all as f64;
                factors.resize(2 * count, target as f32);
            }
            // Gradient reversal: the encoder maximises the discriminator's loss.
            Adversary::Discriminator { weight } => {
                logistic(&critic.values, -weight / (2 * all) as f64, factors);
            }
        }
        let gradient = encoder.gradient_mut();
        classifier.gradient.clone_into(gradient);
        gradient.resize(2 * count * width, 0.0);
        let slopes = critic.gradient.chunks_exact(width).zip(&*factors);
        for (row, (slope, factor)) in gradient.chunks_exact_mut(width).zip(slopes) {
            for (value, slope) in row.iter_mut().zip(slope) {
                *value += factor * slope;
            }
        }
        self.encoder_backward();
    }

    /// Logistic loss of v on source and target rows of the resident buffers.
    fn discriminator(mut self) {
        let (arguments, width) = (self.arguments, self.width());
        let rows = &arguments.source_rows[self.rows.clone()];
        let points = &mut self.scratch.points;
        points.clear();
        gather(&arguments.source, rows, width, points);
        self.gather_target();
        let Scratch {
            workspace,
            points,
            critic,
            factors,
            sums,
            ..
        } = &mut *self.scratch;
        let layers = self.state.networks.layers(Network::Critic);
        critic.forward(layers, points, workspace);
        critic.input_gradient(layers, workspace);
        factors.clear();
        let each = 1.0 / (2 * arguments.labels.len()) as f64;
        sums.discriminator_loss = logistic(&critic.values, each, factors);
        critic.tangent.clear();
        for (point, factor) in points.chunks_exact(width).zip(&*factors) {
            let tangent = point.iter().map(|value| factor * value);
            critic.tangent.extend(tangent);
        }
        let parts = self.gradients.of_mut(Network::Critic);
        critic.backward(layers, factors, parts, workspace);
    }
}

/// `factor` times the sum of log(1 + exp(-s v)), with s = 1 in the first half (the source) and -1 in the second.
/// `slopes` receives its derivative by each v.
fn logistic(values: &[f32], factor: f64, slopes: &mut Vec<f32>) -> f64 {
    let mut loss = 0.0;
    for (number, value) in values.iter().enumerate() {
        let sign = if number < values.len() / 2 { 1.0 } else { -1.0 };
        let margin = sign * f64::from(*value);
        loss += factor * ((-margin.abs()).exp().ln_1p() + (-margin).max(0.0));
        slopes.push((-factor * sign / (1.0 + margin.exp())) as f32);
    }
    loss
}
