//! What the members of the team share, and what each of them owns.

use parking_lot::{Mutex, RwLock};
use pulp::Arch;

use super::{
    critic::CriticTrace,
    encoder::OwnedInputs,
    encoder_trace::EncoderTrace,
    invariant::Opposition,
    layer::{Gradient, Tools},
    map::{MapBackward, MapTrace},
    networks::Networks,
    stack::StackTrace,
};
use crate::{
    Architecture, Generator,
    architecture::Network,
    engine::{ClassifierObjective, Diversity, Head},
    optimiser::AdamCoefficients,
};

/// Everything a job can reach. Members read the networks and arguments together, and write only what
/// their rank owns; layers are written in updates, each by one member.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) arch: Arch,
    pub(crate) architecture: Architecture,
    pub(crate) networks: Networks,
    /// Written by the engine between jobs, read by members.
    pub(crate) arguments: RwLock<Arguments>,
    /// One a member: its working space.
    pub(crate) scratch: Vec<Mutex<Scratch>>,
    /// One a member: its part of the gradients, written in a step's chain and read in its update.
    pub(crate) gradients: Vec<RwLock<Gradients>>,
}

/// What a job works on.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) source: Buffer,
    pub(crate) target: Buffer,
    /// Rows of the batch in the two buffers.
    pub(crate) source_rows: Vec<u32>,
    pub(crate) target_rows: Vec<u32>,
    /// The batch's labels.
    pub(crate) labels: Vec<u32>,
    /// omega, by class.
    pub(crate) source_weights: Vec<f64>,
    /// 1 / n_k, by class.
    pub(crate) cost_weights: Vec<f64>,
    pub(crate) positions: Vec<f32>,
    pub(crate) penalty_weight: f64,
    /// What the target's mean is multiplied by in the critic's distance.
    pub(crate) target_weight: f64,
    pub(crate) opposition: Opposition,
    pub(crate) transport_weight: f64,
    pub(crate) objective: Objective,
    /// Encoder inputs of the source batch, or of whatever is encoded or evaluated.
    pub(crate) inputs: OwnedInputs,
    pub(crate) target_inputs: OwnedInputs,
    /// Units that dropout keeps: for mapped source rows, and for target rows.
    pub(crate) keep: [Vec<Vec<f32>>; 2],
    /// Which networks the update moves, and how.
    pub(crate) updates: Vec<(Network, AdamCoefficients)>,
    pub(crate) evaluation: Evaluation,
}

/// Resident latents, row after row, and the labels of the source's.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    pub(crate) latents: Vec<f32>,
    pub(crate) labels: Vec<u32>,
}

/// What an evaluation job computes from `Arguments::inputs`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Evaluation {
    #[default]
    Encode,
    Transport,
    Score(Head),
}

/// The target classifier's objective, owned.
#[derive(Debug, Default)]
pub(crate) struct Objective {
    /// Weight of a row in the cross-entropy, by class.
    pub(crate) class_weights: Vec<f64>,
    pub(crate) cross_entropy_weight: f64,
    pub(crate) entropy_weight: f64,
    pub(crate) uses_target: bool,
    diversity: OwnedDiversity,
    /// What a divergence is taken from.
    proportions: Vec<f64>,
}

#[derive(Debug, Default)]
enum OwnedDiversity {
    #[default]
    None,
    MarginalEntropy(f64),
    Divergence(f64),
}

/// A member's working space; everything grows to the largest batch seen and is then reused.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) tools: Tools,
    /// Source latents of this member's rows.
    pub(crate) source: Vec<f32>,
    /// Points the critic sees, or target latents.
    pub(crate) points: Vec<f32>,
    pub(crate) tangent: Vec<f32>,
    pub(crate) factors: Vec<f32>,
    pub(crate) row_weights: Vec<f32>,
    pub(crate) map: MapTrace,
    pub(crate) map_backward: MapBackward,
    pub(crate) critic: CriticTrace,
    pub(crate) encoder: EncoderTrace,
    pub(crate) encoder_input: Vec<f32>,
    /// The classifier on mapped source rows, on target rows, and the frozen one.
    pub(crate) classifiers: [StackTrace; 3],
    pub(crate) frozen_gradients: Vec<Gradient>,
    pub(crate) probabilities: Vec<f32>,
    pub(crate) marginal: Vec<f64>,
    pub(crate) slopes: Vec<f64>,
    pub(crate) sums: Vec<f64>,
    /// Sums for the step's report, to be added over members.
    pub(crate) report: [f64; 4],
    /// Rows of an evaluation.
    pub(crate) output: Vec<f32>,
}

/// A member's part of the gradients.
#[derive(Debug, Default)]
pub(crate) struct Gradients {
    networks: [Vec<Gradient>; 5],
    /// The target classifier's from target rows, beside those from mapped source rows.
    pub(crate) on_target: Vec<Gradient>,
    pub(crate) embedding: Vec<f32>,
}

// === impl State ===

impl State {
    pub(crate) fn new(architecture: Architecture, members: usize) -> Self {
        let arch = Arch::new();
        let gradients = || {
            let parts = |network| {
                let layers = architecture.layers(network).len();
                (0..layers).map(|_| Gradient::default()).collect()
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
            scratch: (0..members)
                .map(|_| Mutex::new(Scratch::new(arch, &architecture)))
                .collect(),
            gradients: (0..members).map(|_| gradients()).collect(),
            architecture,
        }
    }
}

// === impl Scratch ===

impl Scratch {
    fn new(arch: Arch, architecture: &Architecture) -> Self {
        let classes = architecture.classes;
        Self {
            tools: Tools::new(arch),
            source: Vec::new(),
            points: Vec::new(),
            tangent: Vec::new(),
            factors: Vec::new(),
            row_weights: Vec::new(),
            map: MapTrace::default(),
            map_backward: MapBackward::default(),
            critic: CriticTrace::default(),
            encoder: EncoderTrace::new(&architecture.encoder),
            encoder_input: Vec::new(),
            classifiers: Default::default(),
            frozen_gradients: Vec::new(),
            probabilities: Vec::new(),
            marginal: vec![0.0; classes],
            slopes: vec![0.0; classes],
            sums: Vec::new(),
            report: [0.0; 4],
            output: Vec::new(),
        }
    }
}

// === impl Gradients ===

impl Gradients {
    pub(crate) fn of(&self, network: Network) -> &[Gradient] {
        &self.networks[network as usize]
    }

    pub(crate) fn of_mut(&mut self, network: Network) -> &mut [Gradient] {
        &mut self.networks[network as usize]
    }
}

// === impl Arguments ===

impl Arguments {
    /// Draws which units of the classifier's hidden layers are kept, for both forwards.
    pub(crate) fn draw_keep(
        &mut self,
        architecture: &Architecture,
        rows: usize,
        forwards: usize,
        generator: &mut Generator,
    ) {
        let dropout = architecture.classifier.dropout;
        let kept = (1.0 / (1.0 - dropout)) as f32;
        for (number, layers) in self.keep.iter_mut().enumerate() {
            if dropout == 0.0 || number >= forwards {
                layers.clear();
                continue;
            }
            layers.resize_with(architecture.classifier.hidden.len(), Vec::new);
            for (units, width) in layers.iter_mut().zip(&architecture.classifier.hidden) {
                units.clear();
                units.extend(
                    (0..rows * width).map(|_| match generator.uniform() >= dropout {
                        true => kept,
                        false => 0.0,
                    }),
                );
            }
        }
    }
}

// === impl Objective ===

impl Objective {
    /// Takes over `objective`, except its class weights, which the batch normalises.
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
                self.proportions.clear();
                self.proportions.extend_from_slice(proportions);
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
