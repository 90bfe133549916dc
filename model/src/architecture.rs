//! The shapes of the five networks, and the names, sizes and roles of their parameters.
//!
//! Names and layouts are those a PyTorch module of the same form gives (`phi.blocks.0.fc1.weight`,
//! linear weights as `[out, in]`), so that weights travel between the two unchanged.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Everything that fixes the networks' shapes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Architecture {
    /// How many classes there are (K).
    pub classes: usize,
    /// Width of the latent space (d).
    pub latent: usize,
    /// From inputs to latents (g).
    pub encoder: EncoderShape,
    /// From source latents to target latents (phi).
    pub map: MapShape,
    /// The Wasserstein critic (v).
    pub critic: CriticShape,
    /// Source and target classifier (f_S and f_N).
    pub classifier: ClassifierShape,
}

/// What normalises a hidden layer before its ReLU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Norm {
    /// Batch normalisation: batch statistics in training, running ones in evaluation.
    Batch,
    /// Layer normalisation: each row by its own mean and deviation.
    Layer,
    /// None.
    None,
}

/// Encoder g.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EncoderShape {
    /// Events carry latents already.
    Identity,
    /// ReLU layers on dense features.
    Mlp {
        /// Width of the features.
        inputs: usize,
        /// Widths of the hidden layers.
        hidden: Vec<usize>,
        /// Whether the latent itself passes a ReLU.
        final_relu: bool,
    },
    /// Numbers and the mean embedding of each bag of hashed tokens, side by side, then ReLU layers.
    Fields {
        /// How many number fields a row has.
        numbers: usize,
        /// How many category and text fields a row has.
        bags: usize,
        /// Rows of the one embedding table that all bags share.
        buckets: usize,
        /// Width of an embedding.
        embedding: usize,
        /// Widths of the hidden layers.
        hidden: Vec<usize>,
        /// Whether the latent itself passes a ReLU.
        final_relu: bool,
    },
}

/// Transport map phi: x <- x + fc2(relu(norm(fc1(x)))), block after block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MapShape {
    /// How many residual blocks; 0 is the identity.
    pub blocks: usize,
    /// What normalises inside a block.
    pub norm: Norm,
}

/// Critic v: a ReLU network with a scalar output and no normalisation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CriticShape {
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
}

/// Classifier on latents; without hidden layers it is one linear layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassifierShape {
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// What normalises them.
    pub norm: Norm,
    /// Share of hidden units dropped in training, in [0, 1).
    pub dropout: f64,
}

/// One of the five networks; its prefix starts the names of its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Network {
    /// g
    Encoder,
    /// f_S
    SourceClassifier,
    /// phi
    Map,
    /// v
    Critic,
    /// f_N
    TargetClassifier,
}

/// What a parameter is, which decides how it starts and whether it is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Weight of a linear layer, `[out, in]`.
    Weight,
    /// Bias of a linear layer or of a normalisation.
    Bias,
    /// Scale of a normalisation.
    Scale,
    /// Embedding table, `[buckets, width]`.
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
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// What it is.
    pub role: Role,
    /// Whose it is.
    pub network: Network,
}

/// A linear layer and what follows it, as both engines build it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerSpec {
    /// Prefix of the linear layer's parameters, such as `f_n.fc1`.
    pub linear: String,
    /// Prefix of the normalisation's parameters; unused without one.
    pub normalisation: String,
    /// Input width.
    pub inputs: usize,
    /// Output width.
    pub outputs: usize,
    /// What normalises the output.
    pub norm: Norm,
    /// Whether a ReLU ends the layer.
    pub relu: bool,
    /// Whether training drops units of the layer's output.
    pub dropout: bool,
}

// === impl Architecture ===

impl Architecture {
    /// Checks every size; the first problem is the error.
    pub fn validate(&self) -> Result<()> {
        if self.classes < 2 {
            return Err(Error::setting(
                "classes",
                format!("is {}, expected at least 2", self.classes),
            ));
        }
        let dropout = self.classifier.dropout;
        if !(0.0..1.0).contains(&dropout) {
            return Err(Error::setting(
                "classifier.dropout",
                format!("is {dropout}, expected a share in [0, 1)"),
            ));
        }
        if let EncoderShape::Fields { numbers, bags, .. } = self.encoder
            && numbers + bags == 0
        {
            return Err(Error::setting(
                "encoder",
                "has no fields, expected at least one number or bag",
            ));
        }
        let zero_width = self.parameters().into_iter().find(|p| p.shape.contains(&0));
        if let Some(parameter) = zero_width {
            return Err(Error::setting(
                format!("width of `{}`", parameter.name),
                format!(
                    "shape {:?} has a 0, every width must be at least 1",
                    parameter.shape
                ),
            ));
        }
        Ok(())
    }

    /// Every parameter of every network, in a fixed order.
    pub fn parameters(&self) -> Vec<ParameterSpec> {
        let mut specs = Vec::new();
        if let EncoderShape::Fields {
            buckets, embedding, ..
        } = self.encoder
        {
            specs.push(ParameterSpec {
                name: "g.embedding.weight".into(),
                shape: vec![buckets, embedding],
                role: Role::Embedding,
                network: Network::Encoder,
            });
        }
        for network in Network::ALL {
            for layer in self.layers(network) {
                layer.push_parameters(network, &mut specs);
            }
        }
        specs
    }

    /// Width of what enters the encoder's first layer.
    pub fn encoder_inputs(&self) -> usize {
        match &self.encoder {
            EncoderShape::Identity => self.latent,
            EncoderShape::Mlp { inputs, .. } => *inputs,
            EncoderShape::Fields {
                numbers,
                bags,
                embedding,
                ..
            } => numbers + bags * embedding,
        }
    }

    /// The layers of a network in order; for the map, two of them make a block.
    pub fn layers(&self, network: Network) -> Vec<LayerSpec> {
        let prefix = network.prefix();
        match network {
            Network::Encoder => match &self.encoder {
                EncoderShape::Identity => Vec::new(),
                EncoderShape::Mlp {
                    hidden, final_relu, ..
                }
                | EncoderShape::Fields {
                    hidden, final_relu, ..
                } => {
                    let widths = widths(self.encoder_inputs(), hidden, self.latent);
                    let mut layers = stack(prefix, &widths, Norm::None, false);
                    if let Some(last) = layers.last_mut() {
                        last.relu = *final_relu;
                    }
                    layers
                }
            },
            Network::Map => (0..self.map.blocks)
                .flat_map(|block| self.block_layers(prefix, block))
                .collect(),
            Network::Critic => {
                let widths = widths(self.latent, &self.critic.hidden, 1);
                stack(prefix, &widths, Norm::None, false)
            }
            Network::SourceClassifier | Network::TargetClassifier => {
                let shape = &self.classifier;
                let widths = widths(self.latent, &shape.hidden, self.classes);
                stack(prefix, &widths, shape.norm, shape.dropout > 0.0)
            }
        }
    }

    fn block_layers(&self, prefix: &str, block: usize) -> [LayerSpec; 2] {
        let norm = self.map.norm;
        let layer = |name: &str, norm: Norm, relu: bool| LayerSpec {
            linear: format!("{prefix}.blocks.{block}.{name}"),
            normalisation: format!("{prefix}.blocks.{block}.{}", norm.parameter_prefix()),
            inputs: self.latent,
            outputs: self.latent,
            norm,
            relu,
            dropout: false,
        };
        [layer("fc1", norm, true), layer("fc2", Norm::None, false)]
    }
}

fn widths(inputs: usize, hidden: &[usize], outputs: usize) -> Vec<usize> {
    let mut widths = vec![inputs];
    widths.extend_from_slice(hidden);
    widths.push(outputs);
    widths
}

/// Hidden layers with `norm`, ReLU and dropout, then one plain linear layer.
fn stack(prefix: &str, widths: &[usize], norm: Norm, dropout: bool) -> Vec<LayerSpec> {
    let last = widths.len() - 1;
    (1..=last)
        .map(|i| {
            let hidden = i < last;
            let norm = if hidden { norm } else { Norm::None };
            LayerSpec {
                linear: format!("{prefix}.fc{i}"),
                normalisation: format!("{prefix}.{}{i}", norm.parameter_prefix()),
                inputs: widths[i - 1],
                outputs: widths[i],
                norm,
                relu: hidden,
                dropout: hidden && dropout,
            }
        })
        .collect()
}

// === impl Norm ===

impl Norm {
    fn parameter_prefix(self) -> &'static str {
        match self {
            Self::Batch => "bn",
            Self::Layer => "ln",
            Self::None => "none",
        }
    }
}

// === impl Network ===

impl Network {
    /// All five.
    pub const ALL: [Self; 5] = [
        Self::Encoder,
        Self::SourceClassifier,
        Self::Map,
        Self::Critic,
        Self::TargetClassifier,
    ];

    /// What its parameters' names start with.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Encoder => "g",
            Self::SourceClassifier => "f_s",
            Self::Map => "phi",
            Self::Critic => "critic",
            Self::TargetClassifier => "f_n",
        }
    }
}

// === impl LayerSpec ===

impl LayerSpec {
    fn push_parameters(&self, network: Network, specs: &mut Vec<ParameterSpec>) {
        let mut push = |prefix: &str, name: &str, shape: Vec<usize>, role: Role| {
            specs.push(ParameterSpec {
                name: format!("{prefix}.{name}"),
                shape,
                role,
                network,
            });
        };
        let width = self.outputs;
        push(
            &self.linear,
            "weight",
            vec![width, self.inputs],
            Role::Weight,
        );
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

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an optimiser moves it.
    pub fn is_trained(&self) -> bool {
        !matches!(self.role, Role::RunningMean | Role::RunningVariance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn architecture() -> Architecture {
        Architecture {
            classes: 4,
            latent: 16,
            encoder: EncoderShape::Mlp {
                inputs: 10,
                hidden: vec![18],
                final_relu: false,
            },
            map: MapShape {
                blocks: 1,
                norm: Norm::Batch,
            },
            critic: CriticShape { hidden: vec![20] },
            classifier: ClassifierShape {
                hidden: vec![],
                norm: Norm::Batch,
                dropout: 0.0,
            },
        }
    }

    #[test]
    fn parameters_have_the_names_of_a_pytorch_module() {
        let names: Vec<String> = architecture()
            .parameters()
            .into_iter()
            .map(|p| p.name)
            .collect();
        let expected = [
            "g.fc1.weight",
            "g.fc1.bias",
            "g.fc2.weight",
            "g.fc2.bias",
            "f_s.fc1.weight",
            "f_s.fc1.bias",
            "phi.blocks.0.fc1.weight",
            "phi.blocks.0.fc1.bias",
            "phi.blocks.0.bn.weight",
            "phi.blocks.0.bn.bias",
            "phi.blocks.0.bn.running_mean",
            "phi.blocks.0.bn.running_var",
            "phi.blocks.0.fc2.weight",
            "phi.blocks.0.fc2.bias",
            "critic.fc1.weight",
            "critic.fc1.bias",
            "critic.fc2.weight",
            "critic.fc2.bias",
            "f_n.fc1.weight",
            "f_n.fc1.bias",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn impossible_sizes_are_refused_by_name() {
        let mut one_class = architecture();
        one_class.classes = 1;
        assert_eq!(
            one_class.validate().unwrap_err().to_string(),
            "classes: is 1, expected at least 2"
        );
        let mut flat = architecture();
        flat.critic.hidden = vec![0];
        let message = flat.validate().unwrap_err().to_string();
        assert!(message.contains("critic.fc1.weight"), "{message}");
    }
}
