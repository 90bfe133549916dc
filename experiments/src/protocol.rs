//! Sizes and schedules of training: those behind the paper's numbers, and smaller ones.

use ostar_engine::{
    Architecture,
    architecture::{ClassifierShape, CriticShape, EncoderShape, MapShape, Norm},
};

use crate::method::Reweighting;

/// Networks, rates and schedule of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct Protocol {
    /// Shapes of encoder, map, critic and classifiers.
    pub architecture: Architecture,
    /// Rows of a batch, of each domain.
    pub batch: usize,
    /// Passes over the source, pretraining included.
    pub epochs: usize,
    /// The first epoch of alignment; those before are pretraining.
    pub alignment_epoch: usize,
    /// The first epoch in which stage SSg trains the encoder.
    pub encoder_epoch: usize,
    /// Learning rate before [`Self::multipliers`].
    pub base_rate: f64,
    /// Pretraining's rates of encoder and source classifier.
    pub pretraining_rates: [f64; 2],
    /// Multipliers of encoder, target classifier, critic and map in alignment.
    pub multipliers: [f64; 4],
    /// Weight of the transport cost (lambda_OT).
    pub transport_weight: f64,
    /// Weight of the target classifier's cross-entropy (c).
    pub cross_entropy_weight: f64,
    /// Weight of the entropy of target predictions (a).
    pub entropy_weight: f64,
    /// Weight of the marginal entropy (b).
    pub diversity_weight: f64,
    /// Critic steps in each alignment step (N_v) of OSTAR.
    pub critic_steps: usize,
    /// The same of the methods that look for invariant latents.
    pub invariant_critic_steps: usize,
    /// Weight of the domain term of those methods.
    pub domain_weight: f64,
    /// Epochs between two estimates of proportions before and after SSg starts.
    pub refresh_epochs: [usize; 2],
    /// Gain of the map's orthogonal weights.
    pub map_gain: f64,
    /// Where OSTAR's proportions come from: the confusion matrix in the paper.
    pub estimator: Reweighting,
    /// Whether stage SSg also trains the encoder by the loss of mapped source rows, through the map, as the paper's
    /// equation has it.
    pub encoder_learns_through_map: bool,
}

/// How large a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Scale {
    /// Fewer filters, samples and epochs: a run takes seconds.
    Quick,
    /// The sizes of the paper: a run takes hours.
    Paper,
}

impl Scale {
    /// Name on the command line and in results files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Paper => "paper",
        }
    }
}

/// The protocol of digits. From USPS to MNIST the schedule is longer and the map's rate lower.
pub fn digits(scale: Scale, from_usps: bool) -> Protocol {
    let map_multiplier = if from_usps { 1.0 } else { 10.0 };
    let paper = Protocol {
        architecture: Architecture {
            classes: 10,
            latent: 128,
            encoder: EncoderShape::Convolution { filters: [64, 64] },
            map: MapShape {
                blocks: 10,
                norm: Norm::Batch,
            },
            critic: CriticShape {
                hidden: vec![500, 100],
            },
            classifier: ClassifierShape {
                hidden: vec![100, 100],
                norm: Norm::Batch,
                dropout: 0.0,
            },
        },
        batch: 200,
        epochs: if from_usps { 50 } else { 30 },
        alignment_epoch: 11,
        encoder_epoch: 20,
        base_rate: 1e-4,
        pretraining_rates: [1e-2, 1e-5],
        multipliers: [10.0, 10.0, 10.0, map_multiplier],
        transport_weight: 1e-2,
        cross_entropy_weight: 0.1,
        entropy_weight: 0.1,
        diversity_weight: 0.0,
        critic_steps: 10,
        invariant_critic_steps: 5,
        domain_weight: 0.01,
        refresh_epochs: [2, 5],
        map_gain: 0.02,
        estimator: Reweighting::Confusion,
        encoder_learns_through_map: false,
    };
    match scale {
        Scale::Paper => paper,
        Scale::Quick => Protocol {
            architecture: Architecture {
                latent: 32,
                encoder: EncoderShape::Convolution { filters: [16, 16] },
                map: MapShape {
                    blocks: 4,
                    norm: Norm::Batch,
                },
                critic: CriticShape {
                    hidden: vec![100, 50],
                },
                ..paper.architecture
            },
            batch: 100,
            epochs: 24,
            alignment_epoch: 9,
            encoder_epoch: 18,
            critic_steps: 5,
            ..paper
        },
    }
}

/// The protocol of a feature file: the paper's for VisDA and Office-Home, that of Office31 for any other name.
pub fn features(name: &str, source: &str, inputs: usize, classes: usize) -> Protocol {
    let visda = name.starts_with("visda");
    let width = if visda { 100 } else { 256 };
    let base_rate = match (name.starts_with("officehome"), source) {
        (true, "clipart") => 1e-4,
        (true, "real") => 5e-3,
        (true, _) => 5e-4,
        _ if visda => 5e-4,
        _ => 1e-3,
    };
    Protocol {
        architecture: Architecture {
            classes,
            latent: width,
            encoder: EncoderShape::Mlp {
                inputs,
                hidden: vec![width],
                final_relu: true,
            },
            map: MapShape {
                blocks: 10,
                norm: Norm::Batch,
            },
            critic: CriticShape {
                hidden: vec![width],
            },
            classifier: ClassifierShape {
                hidden: if visda { vec![100] } else { vec![] },
                norm: Norm::None,
                dropout: if visda { 0.5 } else { 0.0 },
            },
        },
        batch: 200,
        epochs: if visda { 30 } else { 100 },
        alignment_epoch: if visda { 5 } else { 21 },
        encoder_epoch: if visda { 10 } else { 30 },
        base_rate,
        pretraining_rates: [base_rate; 2],
        multipliers: [1.0, 1.0, if visda { 1.0 } else { 10.0 }, 1.0],
        transport_weight: 1e-5,
        cross_entropy_weight: 1.0,
        entropy_weight: 1.0,
        diversity_weight: 1.0,
        critic_steps: 20,
        invariant_critic_steps: 5,
        domain_weight: 0.01,
        refresh_epochs: [2, if visda { 5 } else { 10 }],
        map_gain: 0.02,
        estimator: Reweighting::Confusion,
        encoder_learns_through_map: false,
    }
}
