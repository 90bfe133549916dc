//! State of the CPU engine: what the members of the team share, and what each of them owns.

use std::ops::Range;

use parking_lot::{Mutex, RwLock};
use pulp::Arch;

use super::{
    chain::Chain,
    critic::CriticTrace,
    encoder::OwnedInputs,
    encoder_trace::EncoderTrace,
    invariant::Adversary,
    layer::{DropoutMask, LayerGradient, LayerWorkspace},
    map::{MapBackward, MapTrace},
    networks::Networks,
    stack::StackTrace,
    sums::ChainSums,
    team::Member,
};
use crate::{
    Architecture, Generator,
    architecture::Network,
    engine::{ClassifierObjective, Diversity, Evaluation},
    optimiser::AdamCoefficients,
};

/// Everything that a job can reach. All members read the networks and the arguments. A member writes only what its
/// rank owns, and in updates the layers dealt to it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) arch: Arch,
    pub(crate) architecture: Architecture,
    pub(crate) networks: Networks,
    /// Written by the engine between jobs, read by members during them. Never contended.
    pub(crate) arguments: RwLock<Arguments>,
    /// One for each member. A mutex only because the engine reads results; members lock their own.
    pub(crate) scratch: Vec<Mutex<Scratch>>,
    /// One for each member: written by it in a step's chain, read by all in its update.
    pub(crate) gradients: Vec<RwLock<Gradients>>,
}

/// Input of a job.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    /// The chain of the current step.
    pub(crate) chain: Option<fn(Chain<'_>)>,
    pub(crate) source: Buffer,
    pub(crate) target: Buffer,
    /// The batch: row numbers of the two buffers.
    pub(crate) source_rows: Vec<u32>,
    pub(crate) target_rows: Vec<u32>,
    /// Labels of the batch's source rows.
    pub(crate) labels: Vec<u32>,
    /// omega of a source row, by class.
    pub(crate) source_weights: Vec<f64>,
    /// Weight of a source row in the transport cost, by class: 1 / n_k.
    pub(crate) cost_weights: Vec<f64>,
    /// Where interpolates lie between a mapped source row (0) and a target row (1).
    pub(crate) positions: Vec<f32>,
    /// Whether the critic's chain keeps the map's blocks for a map step on the same batch.
    pub(crate) keep_map: bool,
    /// Whether the last chain has kept them.
    pub(crate) map_is_kept: bool,
    pub(crate) penalty_weight: f64,
    /// Factor of the target's mean in the critic's distance: 1, except in invariant steps.
    pub(crate) target_weight: f64,
    pub(crate) adversary: Adversary,
    pub(crate) transport_weight: f64,
    pub(crate) objective: Objective,
    /// Whether an encoder step's mapped source rows train the encoder.
    pub(crate) through_map: bool,
    /// Encoder inputs of the source batch, or the rows of an evaluation.
    pub(crate) inputs: OwnedInputs,
    pub(crate) target_inputs: OwnedInputs,
    /// By hidden layer of the classifier, for mapped source rows and for target rows; empty without dropout.
    pub(crate) dropout_masks: [Vec<Vec<f32>>; 2],
    /// Networks that the next update changes.
    pub(crate) updates: Vec<(Network, AdamCoefficients)>,
    pub(crate) evaluation: Evaluation,
}

/// A resident buffer: latents row by row, and labels if it is the source's.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) latents: Vec<f32>,
    pub(crate) labels: Vec<u32>,
}

/// An owned [`ClassifierObjective`], so that members can read it.
#[derive(Debug, Default)]
pub(crate) struct Objective {
    /// Weight of a row in the cross-entropy, by class.
    pub(crate) class_weights: Vec<f64>,
    pub(crate) cross_entropy_weight: f64,
    pub(crate) entropy_weight: f64,
    pub(crate) uses_target: bool,
    diversity: OwnedDiversity,
    /// Proportions of [`Diversity::Divergence`].
    proportions: Vec<f64>,
}

#[derive(Debug, Default)]
enum OwnedDiversity {
    #[default]
    None,
    MarginalEntropy(f64),
    Divergence(f64),
}

/// A member's working space. Every buffer grows to the largest batch seen and is then reused.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) workspace: LayerWorkspace,
    /// Latents of this member's source rows.
    pub(crate) source: Vec<f32>,
    /// Inputs of the critic, or latents of this member's target rows.
    pub(crate) points: Vec<f32>,
    /// Derivative of the loss by the critic's value at each point.
    pub(crate) factors: Vec<f32>,
    /// Weight of each source row in the transport cost.
    pub(crate) row_weights: Vec<f32>,
    pub(crate) map: MapTrace,
    pub(crate) map_backward: MapBackward,
    pub(crate) critic: CriticTrace,
    pub(crate) encoder: EncoderTrace,
    pub(crate) encoder_input: Vec<f32>,
    /// Target classifier on mapped source rows, the same on target rows, source classifier in an encoder step.
    pub(crate) classifiers: [StackTrace; 3],
    /// Gradients that the source classifier's backward pass computes on the way to its input. Not used.
    pub(crate) unused_gradients: Vec<LayerGradient>,
    pub(crate) probabilities: Vec<f32>,
    /// Mean target prediction over all members' rows.
    pub(crate) marginal: Vec<f64>,
    /// Derivative of the diversity term by `marginal`.
    pub(crate) slopes: Vec<f64>,
    /// This member's part while members add up `marginal`.
    pub(crate) marginal_part: Vec<f64>,
    pub(crate) sums: ChainSums,
    /// Result of an evaluation of this member's rows.
    pub(crate) output: Vec<f32>,
}

/// A member's part of the gradients.
#[derive(Debug, Default)]
pub(crate) struct Gradients {
    networks: [Vec<LayerGradient>; 5],
    /// The target classifier's gradients from target rows; those from mapped source rows are in `networks`.
    pub(crate) on_target: Vec<LayerGradient>,
    pub(crate) embedding: Vec<f32>,
}

// === impl State ===

impl State {
    pub(crate) fn new(architecture: Architecture, members: &[Member]) -> Self {
        let arch = Arch::new();
        let gradients = || {
            let parts = |network| {
                let layers = architecture.layers(network).len();
                (0..layers).map(|_| LayerGradient::default()).collect()
            };
            RwLock::new(Gradients {
                networks: Network::ALL.map(parts),
                on_target: parts(Network::TargetClassifier),
                embedding: Vec::new(),
            })
        };
        Self {
            arch,
            networks: Networks::new(&architecture),
            arguments: RwLock::default(),
            scratch: members
                .iter()
                .map(|member| Mutex::new(Scratch::new(arch, &architecture, member.clone())))
                .collect(),
            gradients: members.iter().map(|_| gradients()).collect(),
            architecture,
        }
    }
}

// === impl Scratch ===

impl Scratch {
    fn new(arch: Arch, architecture: &Architecture, member: Member) -> Self {
        let classes = architecture.classes;
        Self {
            workspace: LayerWorkspace::new(arch, member),
            source: Vec::new(),
            points: Vec::new(),
            factors: Vec::new(),
            row_weights: Vec::new(),
            map: MapTrace::default(),
            map_backward: MapBackward::default(),
            critic: CriticTrace::default(),
            encoder: EncoderTrace::new(&architecture.encoder),
            encoder_input: Vec::new(),
            classifiers: Default::default(),
            unused_gradients: Vec::new(),
            probabilities: Vec::new(),
            marginal: vec![0.0; classes],
            slopes: vec![0.0; classes],
            marginal_part: Vec::new(),
            sums: ChainSums::default(),
            output: Vec::new(),
        }
    }
}

// === impl Gradients ===

impl Gradients {
    pub(crate) fn of(&self, network: Network) -> &[LayerGradient] {
        &self.networks[network as usize]
    }

    pub(crate) fn of_mut(&mut self, network: Network) -> &mut [LayerGradient] {
        &mut self.networks[network as usize]
    }
}

// === impl Arguments ===

impl Arguments {
    /// The dropout mask of a member's rows in one layer, of the first or second forward pass of a step.
    pub(crate) fn dropout_mask(
        &self,
        forward: usize,
        layer: usize,
        rows: &Range<usize>,
    ) -> DropoutMask<'_> {
        let mask = self.dropout_masks[forward].get(layer)?;
        let width = mask.len() / self.labels.len();
        Some(&mask[rows.start * width..rows.end * width])
    }

    /// Draws the dropout masks of the classifier's hidden layers, for `forwards` passes over `rows` rows. One thread
    /// draws them all: the result does not depend on the number of members.
    pub(crate) fn draw_dropout_masks(
        &mut self,
        architecture: &Architecture,
        rows: usize,
        forwards: usize,
        generator: &mut Generator,
    ) {
        let dropout = architecture.classifier.dropout;
        let kept = (1.0 / (1.0 - dropout)) as f32;
        for (number, layers) in self.dropout_masks.iter_mut().enumerate() {
            if dropout == 0.0 || number >= forwards {
                layers.clear();
                continue;
            }
            layers.resize_with(architecture.classifier.hidden.len(), Vec::new);
            for (units, width) in layers.iter_mut().zip(&architecture.classifier.hidden) {
                units.clear();
                units.extend((0..rows * width).map(|_| {
                    if generator.uniform() >= dropout {
                        kept
                    } else {
                        0.0
                    }
                }));
            }
        }
    }
}

// === impl Objective ===

impl Objective {
    /// Copies `objective` except its class weights, which depend on the batch.
    pub(crate) fn copy(&mut self, objective: &ClassifierObjective<'_>) {
        self.cross_entropy_weight = objective.cross_entropy_weight;
        self.entropy_weight = objective.entropy_weight;
        self.uses_target = objective.uses_target();
        self.diversity = match objective.diversity {
            Diversity::None => OwnedDiversity::None,
            Diversity::MarginalEntropy { weight } => OwnedDiversity::MarginalEntropy(weight),
            Diversity::Divergence {
                weight,
                proportions,
            } => {
                proportions.clone_into(&mut self.proportions);
                OwnedDiversity::Divergence(weight)
            }
        };
    }

    pub(crate) fn diversity(&self) -> Diversity<'_> {
        match self.diversity {
            OwnedDiversity::None => Diversity::None,
            OwnedDiversity::MarginalEntropy(weight) => Diversity::MarginalEntropy { weight },
            OwnedDiversity::Divergence(weight) => Diversity::Divergence {
                weight,
                proportions: &self.proportions,
            },
        }
    }
}
