//! The one interface of both engines, at the level of a training step.

use crate::{Architecture, Generator, Inputs, NamedTensors, Result, Rows, optimiser::Adam};

/// Holds the networks, their optimisers and the two buffers that batches are drawn from, all on one
/// device. A step takes row numbers and settings and gives back scalars.
///
/// Every method checks its arguments first: after an error the state is what it was before the call.
pub trait Engine: Send {
    /// The shapes of the networks.
    fn architecture(&self) -> &Architecture;

    /// Replaces the labelled source latents.
    fn set_source(&mut self, latents: Rows<'_>, labels: &[u32]) -> Result<()>;

    /// Writes target latents from row `first` on, which is held already or the next; the buffer grows
    /// as far as it must.
    fn set_target(&mut self, first: usize, latents: Rows<'_>) -> Result<()>;

    /// One step of the critic, the map fixed: minimises -W(v) + gamma GP(v). The map runs in training
    /// mode, so its running statistics move.
    fn critic_step(&mut self, batch: Batch<'_>, step: &CriticStep<'_>) -> Result<CriticReport>;

    /// One step of the map, the critic fixed: minimises W(phi) + lambda_OT times the transport cost.
    fn map_step(&mut self, batch: Batch<'_>, step: &MapStep<'_>) -> Result<MapReport>;

    /// One step of the target classifier on mapped source rows and, with information maximisation, on
    /// target rows. `generator` draws the dropped units.
    fn classifier_step(
        &mut self,
        batch: Batch<'_>,
        step: &ClassifierStep<'_>,
        generator: &mut Generator,
    ) -> Result<ClassifierReport>;

    /// One step of encoder and target classifier together (stage SSg): the classifier's objective plus
    /// the frozen source classifier's cross-entropy. Map and source classifier in evaluation mode.
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

    /// Latents of `inputs` in evaluation mode, row after row.
    fn encode(&mut self, inputs: Inputs<'_>, latents: &mut Vec<f32>) -> Result<()>;

    /// phi of `latents` in evaluation mode, row after row.
    fn transport(&mut self, latents: Rows<'_>, mapped: &mut Vec<f32>) -> Result<()>;

    /// Class probabilities of `latents` in evaluation mode, row after row.
    fn score(&mut self, head: Head, latents: Rows<'_>, probabilities: &mut Vec<f32>) -> Result<()>;

    /// All parameters by name, and of every network that has been trained the optimiser's moments
    /// (`adam.first.*`, `adam.second.*`) and step count (`adam.steps.*`).
    fn export(&self) -> Result<NamedTensors>;

    /// Replaces all parameters. Optimiser state that is not among `tensors` starts anew.
    fn import(&mut self, tensors: &NamedTensors) -> Result<()>;

    /// Gradients of the parameters that the last step moved, by name.
    fn gradients(&self) -> Result<NamedTensors>;
}

/// Rows of the resident buffers: as many of the source as of the target.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    /// Rows of the source buffer.
    pub source: &'a [u32],
    /// Rows of the target buffer.
    pub target: &'a [u32],
}

/// Encoder inputs of a source and a target batch of the same size.
#[derive(Debug, Clone, Copy)]
pub struct RawBatch<'a> {
    /// Source inputs.
    pub source: Inputs<'a>,
    /// Their labels.
    pub labels: &'a [u32],
    /// Target inputs.
    pub target: Inputs<'a>,
}

/// Which classifier scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// f_S
    Source,
    /// f_N
    Target,
}

/// Settings of a critic step.
#[derive(Debug, Clone, Copy)]
pub struct CriticStep<'a> {
    /// Target label proportions (p_N), one a class.
    pub proportions: &'a [f64],
    /// Where each interpolate lies between its source (0) and target (1) row.
    pub positions: &'a [f64],
    /// Weight of the gradient penalty (gamma).
    pub penalty_weight: f64,
    /// The critic's optimiser.
    pub adam: Adam,
}

/// Settings of a map step.
#[derive(Debug, Clone, Copy)]
pub struct MapStep<'a> {
    /// Target label proportions (p_N), one a class.
    pub proportions: &'a [f64],
    /// Weight of the transport cost (lambda_OT).
    pub transport_weight: f64,
    /// The map's optimiser.
    pub adam: Adam,
}

/// The target classifier's objective.
#[derive(Debug, Clone, Copy)]
pub struct ClassifierObjective<'a> {
    /// Class weights of the cross-entropy (p_N / s), normalised over the batch by the engine.
    pub class_weights: &'a [f64],
    /// Weight of the cross-entropy (c).
    pub cross_entropy_weight: f64,
    /// Weight of the mean entropy of target predictions (a).
    pub entropy_weight: f64,
    /// What keeps target predictions diverse.
    pub diversity: Diversity<'a>,
}

/// The term that keeps the mean target prediction from falling into one class.
#[derive(Debug, Clone, Copy)]
pub enum Diversity<'a> {
    /// None.
    None,
    /// Minus `weight` times the entropy of the mean prediction, as in the paper.
    MarginalEntropy {
        /// Its weight (b).
        weight: f64,
    },
    /// `weight` times the divergence KL(mean prediction || proportions).
    Divergence {
        /// Its weight (b).
        weight: f64,
        /// The proportions that the mean prediction should have (p_N).
        proportions: &'a [f64],
    },
}

/// Settings of a target classifier step.
#[derive(Debug, Clone, Copy)]
pub struct ClassifierStep<'a> {
    /// What is minimised.
    pub objective: ClassifierObjective<'a>,
    /// The target classifier's optimiser.
    pub adam: Adam,
}

/// Settings of an encoder step.
#[derive(Debug, Clone, Copy)]
pub struct EncoderStep<'a> {
    /// The target classifier's part of the objective.
    pub objective: ClassifierObjective<'a>,
    /// The encoder's optimiser.
    pub encoder_adam: Adam,
    /// The target classifier's optimiser.
    pub classifier_adam: Adam,
}

/// Settings of a pretraining step.
#[derive(Debug, Clone, Copy)]
pub struct PretrainStep<'a> {
    /// Class weights of the cross-entropy, normalised over the batch by the engine.
    pub class_weights: &'a [f64],
    /// The encoder's optimiser.
    pub encoder_adam: Adam,
    /// The source classifier's optimiser.
    pub classifier_adam: Adam,
}

/// Scalars of a critic step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CriticReport {
    /// -W + gamma GP.
    pub loss: f64,
    /// The critic's estimate of the distance (W).
    pub distance: f64,
    /// The gradient penalty (GP).
    pub penalty: f64,
}

/// Scalars of a map step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MapReport {
    /// W + lambda_OT times the transport cost.
    pub loss: f64,
    /// The critic's estimate of the distance (W).
    pub distance: f64,
    /// Sum over blocks and classes of the class mean of the squared residual.
    pub transport_cost: f64,
}

/// Scalars of a classifier step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassifierReport {
    /// The weighted sum of what follows.
    pub loss: f64,
    /// Weighted cross-entropy on mapped source rows.
    pub cross_entropy: f64,
    /// Mean entropy of target predictions; 0 without information maximisation.
    pub entropy: f64,
    /// Entropy of the mean prediction or its divergence from the proportions; 0 without.
    pub diversity: f64,
}

/// Scalars of an encoder step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EncoderReport {
    /// Target classifier's loss plus source cross-entropy.
    pub loss: f64,
    /// The target classifier's part.
    pub classifier: ClassifierReport,
    /// The frozen source classifier's cross-entropy on source rows.
    pub source_cross_entropy: f64,
}

/// Scalars of a pretraining step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PretrainReport {
    /// Weighted cross-entropy.
    pub loss: f64,
}

/// Added inside the logarithm of the marginal entropy, as in the paper's code.
pub(crate) const MARGINAL_EPSILON: f64 = 1e-5;

// === impl Diversity ===

impl Diversity<'_> {
    /// The term's weight, signed as it enters the loss.
    pub(crate) fn signed_weight(&self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::MarginalEntropy { weight } => -weight,
            Self::Divergence { weight, .. } => *weight,
        }
    }

    /// The term's value at the mean prediction `marginal`; `slopes` gets its derivative.
    pub(crate) fn value(&self, marginal: &[f64], slopes: &mut [f64]) -> f64 {
        slopes.fill(0.0);
        let mut value = 0.0;
        for (class, (share, slope)) in marginal.iter().zip(slopes).enumerate() {
            let inside = share + MARGINAL_EPSILON;
            let (log, sign) = match self {
                Self::None => return 0.0,
                Self::MarginalEntropy { .. } => (inside.ln(), -1.0),
                Self::Divergence { proportions, .. } => (
                    inside.ln() - (proportions[class] + MARGINAL_EPSILON).ln(),
                    1.0,
                ),
            };
            value += sign * share * log;
            *slope = sign * (log + share / inside);
        }
        value
    }
}

// === impl ClassifierObjective ===

impl ClassifierObjective<'_> {
    /// Whether target predictions enter the objective at all.
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
        let text = include_str!("../tests/worked/cases.json");
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
