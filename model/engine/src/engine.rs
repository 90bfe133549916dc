//! [`Engine`]: the interface of both engines. One call is one training step.

mod saved;

pub use saved::{HostCopies, Saved, restarted};
pub(crate) use saved::{first_non_finite, of_network};

use crate::{
    Architecture, Generator, Inputs, NamedTensors, Result, Rows, architecture::Network,
    optimiser::Adam,
};

/// Holds the networks, their optimisers and the two buffers that batches are drawn from, all on one
/// device. A step takes row numbers and settings and returns scalars.
///
/// Every method checks its arguments first. A call that returns an error has not changed the state.
pub trait Engine: Send {
    /// The shapes of the networks; fixed when the engine is made.
    fn architecture(&self) -> &Architecture;

    /// Replaces the source buffer: latents, and one label for each.
    fn set_source(&mut self, latents: Rows<'_>, labels: &[u32]) -> Result<()>;

    /// Writes target latents to the target buffer, starting at row `first`. `first` may be at most the number of
    /// rows held, so that no gap appears; the buffer grows as needed.
    fn set_target(&mut self, first: usize, latents: Rows<'_>) -> Result<()>;

    /// Replaces `latents` by the target buffer, row after row: a copy from the device, so not for every step.
    fn read_target(&self, latents: &mut Vec<f32>) -> Result<()>;

    /// One step of the critic with the map fixed: minimises -W(v) + gamma GP(v). The map runs in training
    /// mode, so its running statistics change.
    fn critic_step(&mut self, batch: Batch<'_>, step: &CriticStep<'_>) -> Result<CriticReport>;

    /// One step of the map with the critic fixed: minimises W(phi) + lambda_OT times the transport cost.
    fn map_step(&mut self, batch: Batch<'_>, step: &MapStep<'_>) -> Result<MapReport>;

    /// One step of the target classifier on mapped source rows and, with information maximisation, on
    /// target rows. `generator` draws the dropout masks.
    fn classifier_step(
        &mut self,
        batch: Batch<'_>,
        step: &ClassifierStep<'_>,
        generator: &mut Generator,
    ) -> Result<ClassifierReport>;

    /// One step of encoder and target classifier together (the paper's stage SSg): the classifier's objective
    /// plus the source classifier's cross-entropy on source rows. The map and the source classifier are fixed and
    /// run in evaluation mode.
    fn encoder_step(
        &mut self,
        batch: RawBatch<'_>,
        step: &EncoderStep<'_>,
        generator: &mut Generator,
    ) -> Result<EncoderReport>;

    /// One step of encoder and source classifier by cross-entropy on labelled inputs.
    fn pretrain_step(
        &mut self,
        inputs: Inputs<'_>,
        labels: &[u32],
        step: &PretrainStep<'_>,
        generator: &mut Generator,
    ) -> Result<PretrainReport>;

    /// Replaces `out` by what a network makes of rows, which were checked, in evaluation mode.
    fn evaluate(&mut self, what: Evaluation, rows: Inputs<'_>, out: &mut Vec<f32>) -> Result<()>;

    /// Replaces `latents` by those of `inputs`, row by row, in evaluation mode.
    fn encode(&mut self, inputs: Inputs<'_>, latents: &mut Vec<f32>) -> Result<()> {
        inputs.check(self.architecture())?;
        self.evaluate(Evaluation::Encode, inputs, latents)
    }

    /// Replaces `mapped` by phi of `latents`, row by row, in evaluation mode.
    fn transport(&mut self, latents: Rows<'_>, mapped: &mut Vec<f32>) -> Result<()> {
        latents.check("latents", self.architecture().latent)?;
        self.evaluate(Evaluation::Transport, Inputs::Dense(latents), mapped)
    }

    /// Replaces `probabilities` by the class probabilities of `latents`, row by row, in evaluation mode.
    fn score(&mut self, head: Head, latents: Rows<'_>, probabilities: &mut Vec<f32>) -> Result<()> {
        latents.check("latents", self.architecture().latent)?;
        self.evaluate(
            Evaluation::Score(head),
            Inputs::Dense(latents),
            probabilities,
        )
    }

    /// Parameters and optimiser state as they are now. They stay on the device.
    fn save(&self) -> Result<Saved>;

    /// Goes back to what this engine has saved.
    fn restore(&mut self, saved: &Saved) -> Result<()>;

    /// Tensors as something saved; the engine itself stays as it is. A network without optimiser state in `tensors` starts with a
    /// fresh optimiser.
    fn to_saved(&self, tensors: &NamedTensors) -> Result<Saved>;

    /// What was saved, by name: all parameters, and for every network that has been trained the optimiser's moments
    /// (`adam.first.*`, `adam.second.*`) and step count (`adam.steps.*`). Of one network, its parameters alone.
    fn saved_tensors(&self, saved: &Saved, network: Option<Network>) -> Result<NamedTensors>;

    /// The first saved tensor that holds NaN or an infinity.
    fn first_non_finite(&self, saved: &Saved) -> Result<Option<String>>;

    /// All that [`Engine::save`] saves, by name.
    fn export(&self) -> Result<NamedTensors> {
        self.saved_tensors(&self.save()?, None)
    }

    /// Replaces all parameters and optimisers.
    fn import(&mut self, tensors: &NamedTensors) -> Result<()> {
        self.restore(&self.to_saved(tensors)?)
    }

    /// Copies from the device to the host so far; none where both are the same.
    fn host_copies(&self) -> HostCopies {
        HostCopies::default()
    }
}

/// What [`Engine::evaluate`] computes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Evaluation {
    /// Latents of inputs (g).
    #[default]
    Encode,
    /// Mapped latents (phi).
    Transport,
    /// Class probabilities of latents.
    Score(Head),
}

/// A batch as row numbers of the engine's two buffers: as many of the source as of the target.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Row numbers in the source buffer.
    pub source: &'a [u32],
    /// Row numbers in the target buffer.
    pub target: &'a [u32],
}

/// A batch as encoder inputs: as many rows of the source as of the target.
#[derive(Debug, Clone, Copy)]
pub struct RawBatch<'a> {
    /// Inputs that have labels.
    pub source: Inputs<'a>,
    /// One class for each row of `source`.
    pub labels: &'a [u32],
    /// Inputs of the stream, without labels.
    pub target: Inputs<'a>,
}

/// Selects the classifier that [`Engine::score`] uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// f_S, trained on source rows.
    Source,
    /// f_N, trained on mapped source rows.
    Target,
}

/// Settings of a critic step.
#[derive(Debug, Clone, Copy)]
pub struct CriticStep<'a> {
    /// Target label proportions (p_N), one for each class.
    pub proportions: &'a [f64],
    /// Where each interpolate lies between its mapped source row (0) and its target row (1), one for each row.
    pub positions: &'a [f64],
    /// Weight of the gradient penalty (gamma).
    pub penalty_weight: f64,
    /// Whether a map step on the same batch is next. The CPU engine then keeps phi of the batch for it.
    pub map_follows: bool,
    /// Optimiser settings for this step of the critic.
    pub adam: Adam,
}

/// Settings of a map step.
#[derive(Debug, Clone, Copy)]
pub struct MapStep<'a> {
    /// Target label proportions (p_N), one for each class.
    pub proportions: &'a [f64],
    /// Weight of the transport cost (lambda_OT).
    pub transport_weight: f64,
    /// Optimiser settings for this step of the map.
    pub adam: Adam,
}

/// What a step of the target classifier minimises.
#[derive(Debug, Clone, Copy)]
pub struct ClassifierObjective<'a> {
    /// Class weights of the cross-entropy (p_N / s); the engine normalises them over the batch.
    pub class_weights: &'a [f64],
    /// Weight of the cross-entropy (c).
    pub cross_entropy_weight: f64,
    /// Weight of the mean entropy of target predictions (a).
    pub entropy_weight: f64,
    /// Keeps target predictions from falling into one class.
    pub diversity: Diversity<'a>,
}

/// A term on the mean target prediction. Minimising entropy alone would put every row into one class.
#[derive(Debug, Clone, Copy)]
pub enum Diversity<'a> {
    /// No such term.
    None,
    /// Minus `weight` times the entropy of the mean prediction, as in the paper.
    MarginalEntropy {
        /// Weight of the term (b), 0 or more.
        weight: f64,
    },
    /// `weight` times the divergence KL(mean prediction || proportions).
    Divergence {
        /// Weight of the term (b), 0 or more.
        weight: f64,
        /// The proportions that the mean prediction should have (p_N).
        proportions: &'a [f64],
    },
}

/// Settings of a target classifier step.
#[derive(Debug, Clone, Copy)]
pub struct ClassifierStep<'a> {
    /// Terms of the loss and their weights.
    pub objective: ClassifierObjective<'a>,
    /// Optimiser settings for this step of the target classifier.
    pub adam: Adam,
}

/// Settings of an encoder step.
#[derive(Debug, Clone, Copy)]
pub struct EncoderStep<'a> {
    /// The target classifier's terms of the loss.
    pub objective: ClassifierObjective<'a>,
    /// Whether the cross-entropy of mapped source rows trains the encoder, too, through the map. Otherwise it trains
    /// the target classifier alone.
    pub through_map: bool,
    /// Optimiser settings for this step of the encoder.
    pub encoder_adam: Adam,
    /// Optimiser settings for this step of the target classifier.
    pub classifier_adam: Adam,
}

/// Settings of a pretraining step.
#[derive(Debug, Clone, Copy)]
pub struct PretrainStep<'a> {
    /// Class weights of the cross-entropy; the engine normalises them over the batch.
    pub class_weights: &'a [f64],
    /// Optimiser settings for this step of the encoder.
    pub encoder_adam: Adam,
    /// Optimiser settings for this step of the source classifier.
    pub classifier_adam: Adam,
}

/// Scalars of a critic step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CriticReport {
    /// What the step minimised: -W + gamma GP.
    pub loss: f64,
    /// The critic's estimate of the Wasserstein distance between mapped source and target rows (W).
    pub distance: f64,
    /// The gradient penalty before its weight (GP).
    pub penalty: f64,
}

/// Scalars of a map step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MapReport {
    /// What the step minimised: W + lambda_OT times the transport cost.
    pub loss: f64,
    /// The critic's estimate of the Wasserstein distance between mapped source and target rows (W).
    pub distance: f64,
    /// Sum over residual blocks and classes of the class mean of the squared residual.
    pub transport_cost: f64,
}

/// Scalars of a classifier step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassifierReport {
    /// What the step minimised: the weighted sum of the other three.
    pub loss: f64,
    /// Weighted cross-entropy on mapped source rows.
    pub cross_entropy: f64,
    /// Mean entropy of target predictions; 0 without information maximisation.
    pub entropy: f64,
    /// Entropy of the mean prediction, or its divergence from the proportions; 0 without [`Diversity`].
    pub diversity: f64,
}

/// Scalars of an encoder step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncoderReport {
    /// What the step minimised: the classifier's loss plus the source cross-entropy.
    pub loss: f64,
    /// Terms of the target classifier's objective.
    pub classifier: ClassifierReport,
    /// Cross-entropy of the fixed source classifier on source rows.
    pub source_cross_entropy: f64,
}

/// Scalars of a pretraining step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PretrainReport {
    /// What the step minimised: the weighted cross-entropy.
    pub loss: f64,
}

/// Added inside the logarithm of the marginal entropy, as in the paper's code.
pub(crate) const MARGINAL_EPSILON: f64 = 1e-5;

// === impl Diversity ===

impl Diversity<'_> {
    /// The term's weight with the sign that it has in the loss.
    pub(crate) fn signed_weight(&self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::MarginalEntropy { weight } => -weight,
            Self::Divergence { weight, .. } => *weight,
        }
    }

    /// The term's value at the mean prediction `marginal`. `slopes` receives its derivative.
    pub(crate) fn value(&self, marginal: &[f64], slopes: &mut [f64]) -> f64 {
        slopes.fill(0.0);
        let mut value = 0.0;
        for (class, (proportion, slope)) in marginal.iter().zip(slopes).enumerate() {
            let inside = proportion + MARGINAL_EPSILON;
            let (log, sign) = match self {
                Self::None => return 0.0,
                Self::MarginalEntropy { .. } => (inside.ln(), -1.0),
                Self::Divergence { proportions, .. } => (
                    inside.ln() - (proportions[class] + MARGINAL_EPSILON).ln(),
                    1.0,
                ),
            };
            value += sign * proportion * log;
            *slope = sign * (log + proportion / inside);
        }
        value
    }
}

// === impl ClassifierObjective ===

impl ClassifierObjective<'_> {
    /// Whether the objective has a term on target predictions.
    pub(crate) fn uses_target(&self) -> bool {
        self.entropy_weight != 0.0 || self.diversity.signed_weight() != 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize)]
    struct Case {
        proportions: Vec<f64>,
        mean_prediction: Vec<f64>,
        divergence: f64,
    }

    #[test]
    fn the_divergence_matches_the_worked_cases_and_its_slopes_are_its_derivative() {
        let text = include_str!("../../worked/cases.json");
        let cases: Vec<Case> = serde_json::from_str(text).unwrap();
        for case in cases {
            let term = Diversity::Divergence {
                weight: 1.0,
                proportions: &case.proportions,
            };
            let mut slopes = vec![0.0; case.proportions.len()];
            let value = term.value(&case.mean_prediction, &mut slopes);
            assert!((value - case.divergence).abs() < 1e-12, "{value}");
            for (class, slope) in slopes.iter().enumerate() {
                let at = |change: f64| {
                    let mut marginal = case.mean_prediction.clone();
                    marginal[class] += change;
                    term.value(&marginal, &mut vec![0.0; marginal.len()])
                };
                let difference = (at(1e-6) - at(-1e-6)) / 2e-6;
                assert!((slope - difference).abs() < 1e-6, "class {class}");
            }
        }
    }
}
