//! The shapes of the five networks, and the names, sizes and roles of their parameters.
//!
//! Names and layouts are those a PyTorch module of the same form gives (`phi.blocks.0.fc1.weight`,
//! linear weights as `[out, in]`), so that weights travel between the two unchanged.

mod layer;
mod onnx;

use serde::{Deserialize, Serialize};

pub use layer::{LayerSpec, ParameterSpec, Role};
pub use onnx::{Gives, OnnxShape};

use crate::{Error, Result};

/// Height and width of the images that a convolution encoder takes; they have one channel.
pub const IMAGE_SIDE: usize = 32;
/// Height and width of a convolution's filters.
pub const KERNEL_SIDE: usize = 5;

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
    /// Wasserstein critic on latents (v).
    pub critic: CriticShape,
    /// Shape of both classifiers (f_S and f_N).
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
    /// No normalisation.
    None,
}

/// Shape of the encoder g, from inputs to latents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EncoderShape {
    /// No encoder: events carry latents.
    Identity,
    /// ReLU layers on dense features.
    Mlp {
        /// Numbers in a row of features.
        inputs: usize,
        /// Widths of the hidden layers.
        hidden: Vec<usize>,
        /// Whether the last layer ends in a ReLU, so that latents are not negative.
        final_relu: bool,
    },
    /// Numbers and the mean embedding of each bag of hashed tokens, concatenated, then ReLU layers.
    Fields {
        /// How many number fields a row has.
        numbers: usize,
        /// How many category and text fields a row has.
        bags: usize,
        /// Rows of the embedding table, which all bags share.
        buckets: usize,
        /// Numbers in a row of the embedding table.
        embedding: usize,
        /// Widths of the hidden layers.
        hidden: Vec<usize>,
        /// Whether the last layer ends in a ReLU, so that latents are not negative.
        final_relu: bool,
    },
    /// The bundle's `encoder.onnx`. It is run and not trained.
    Onnx(OnnxShape),
    /// Three 5x5 convolutions without padding on images of 1x32x32, each with batch normalisation. The first two end
    /// in 2x2 max-pooling and ReLU. The third has as many filters as a latent has numbers.
    Convolution {
        /// How many filters the first two have.
        filters: [usize; 2],
    },
}

/// Transport map phi: x <- x + fc2(relu(norm(fc1(x)))), block after block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MapShape {
    /// How many residual blocks; 0 is the identity.
    pub blocks: usize,
    /// Normalisation between a block's two linear layers.
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
    /// Normalisation of the hidden layers.
    pub norm: Norm,
    /// Fraction of hidden units dropped in training, in [0, 1).
    pub dropout: f64,
}

/// One of the five networks; its prefix starts the names of its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Network {
    /// Encoder (g).
    Encoder,
    /// Classifier of source latents (f_S).
    SourceClassifier,
    /// Transport map (phi).
    Map,
    /// Wasserstein critic (v).
    Critic,
    /// Classifier of target latents (f_N).
    TargetClassifier,
}

// === impl Architecture ===

impl Architecture {
    /// Checks every size and returns the first problem.
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
                format!("is {dropout}, expected a fraction in [0, 1)"),
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

    /// Input width of the encoder's first layer.
    pub fn encoder_inputs(&self) -> usize {
        match &self.encoder {
            EncoderShape::Identity | EncoderShape::Onnx(_) => self.latent,
            EncoderShape::Mlp { inputs, .. } => *inputs,
            EncoderShape::Fields {
                numbers,
                bags,
                embedding,
                ..
            } => numbers + bags * embedding,
            EncoderShape::Convolution { .. } => IMAGE_SIDE * IMAGE_SIDE,
        }
    }

    /// How many inputs are plain numbers: all but the embeddings of categories and texts.
    pub fn numeric_inputs(&self) -> usize {
        let encoder_inputs = || self.encoder_inputs();
        self.fields()
            .map_or_else(encoder_inputs, |[numbers, ..]| numbers)
    }

    /// Numbers, bags and width of the embeddings, if the encoder takes named fields.
    pub fn fields(&self) -> Option<[usize; 3]> {
        match self.encoder {
            EncoderShape::Fields {
                numbers,
                bags,
                embedding,
                ..
            } => Some([numbers, bags, embedding]),
            _ => None,
        }
    }

    /// The layers of a network, in order. Two layers of the map make a residual block.
    pub fn layers(&self, network: Network) -> Vec<LayerSpec> {
        let prefix = network.prefix();
        match network {
            Network::Encoder => match &self.encoder {
                EncoderShape::Identity | EncoderShape::Onnx(_) => Vec::new(),
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
                EncoderShape::Convolution { filters } => convolutions(prefix, filters, self.latent),
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
            channels: None,
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
                channels: None,
            }
        })
        .collect()
}

/// Convolutions, each followed by batch normalisation; all but the last end in a ReLU.
fn convolutions(prefix: &str, filters: &[usize; 2], latent: usize) -> Vec<LayerSpec> {
    let widths = widths(1, filters, latent);
    let mut layers = stack(prefix, &widths, Norm::Batch, false);
    for (number, layer) in layers.iter_mut().enumerate() {
        layer.linear = format!("{prefix}.conv{}", number + 1);
        layer.normalisation = format!("{prefix}.bn{}", number + 1);
        layer.norm = Norm::Batch;
        layer.channels = Some(widths[number]);
        layer.inputs = KERNEL_SIDE * KERNEL_SIDE * widths[number];
    }
    layers
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
    /// All networks, in the order in which [`Architecture::parameters`] lists them.
    pub const ALL: [Self; 5] = [
        Self::Encoder,
        Self::SourceClassifier,
        Self::Map,
        Self::Critic,
        Self::TargetClassifier,
    ];

    /// First part of its parameters' names.
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
