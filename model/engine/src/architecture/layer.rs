//! A layer of a network, and the names, sizes and roles of its parameters.

use super::{KERNEL_SIDE, Network, Norm};

/// Kind of a parameter. It decides the initial values and whether the parameter is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Weight of a linear layer, `[out, in]`, or of a convolution, `[out, in, height, width]`.
    Weight,
    /// Bias of a linear layer or of a normalisation.
    Bias,
    /// Scale of a normalisation, one number for each output.
    Scale,
    /// Embedding table of hashed tokens, `[buckets, width]`.
    Embedding,
    /// Running mean of a batch normalisation; not trained.
    RunningMean,
    /// Running variance of a batch normalisation; not trained.
    RunningVariance,
}

/// Name, size and role of one parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterSpec {
    /// Full name, such as `critic.fc1.weight`.
    pub name: String,
    /// Size of each dimension, outermost first.
    pub shape: Vec<usize>,
    /// Decides the initial values and whether an optimiser updates it.
    pub role: Role,
    /// The network that it belongs to.
    pub network: Network,
}

/// A linear layer with its normalisation, ReLU and dropout. Both engines build their layers from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    /// Prefix of the linear layer's parameters, such as `f_n.fc1`.
    pub linear: String,
    /// Prefix of the normalisation's parameters; unused when `norm` is `None`.
    pub normalisation: String,
    /// Numbers in an input row.
    pub inputs: usize,
    /// Numbers in an output row.
    pub outputs: usize,
    /// Normalisation between the linear layer and the ReLU.
    pub norm: Norm,
    /// Whether the layer ends in a ReLU.
    pub relu: bool,
    /// Whether training drops units of the layer's output.
    pub dropout: bool,
    /// Input channels of a convolution, whose `inputs` are the numbers of one window; `None` for a linear layer.
    pub channels: Option<usize>,
}

// === impl LayerSpec ===

impl LayerSpec {
    pub(super) fn push_parameters(&self, network: Network, specs: &mut Vec<ParameterSpec>) {
        let mut push = |prefix: &str, name: &str, shape: Vec<usize>, role: Role| {
            specs.push(ParameterSpec {
                name: format!("{prefix}.{name}"),
                shape,
                role,
                network,
            });
        };
        let width = self.outputs;
        let weight = match self.channels {
            None => vec![width, self.inputs],
            Some(channels) => vec![width, channels, KERNEL_SIDE, KERNEL_SIDE],
        };
        push(&self.linear, "weight", weight, Role::Weight);
        push(&self.linear, "bias", vec![width], Role::Bias);
        if self.norm != Norm::None {
            push(&self.normalisation, "weight", vec![width], Role::Scale);
            push(&self.normalisation, "bias", vec![width], Role::Bias);
        }
        if self.norm == Norm::Batch {
            let prefix = &self.normalisation;
            push(prefix, "running_mean", vec![width], Role::RunningMean);
            push(prefix, "running_var", vec![width], Role::RunningVariance);
        }
    }
}

// === impl ParameterSpec ===

impl ParameterSpec {
    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether a dimension of the shape is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an optimiser updates it. Running statistics are not trained.
    pub fn is_trained(&self) -> bool {
        !matches!(self.role, Role::RunningMean | Role::RunningVariance)
    }
}
