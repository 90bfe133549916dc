//! ONNX networks that are run in process, as an encoder (g) or as a black box.
//!
//! The rest of the crate sees [`OnnxNetwork`]: rows of inputs go in, rows of numbers come out. What is behind it (the
//! graph, the rewriting of operators, tract) is in this module and nowhere else, and only in builds with the feature `onnx`.
//! [`import`](import()) makes a bundle from a model and labelled rows.

#[cfg(not(feature = "onnx"))]
mod absent;
#[cfg(feature = "onnx")]
mod constants;
#[cfg(feature = "onnx")]
mod graph;
#[cfg(feature = "onnx")]
mod head;
#[cfg(feature = "onnx")]
mod import;
#[cfg(feature = "onnx")]
mod network;
#[cfg(feature = "onnx")]
mod plan;
#[cfg(feature = "onnx")]
mod rewrite;
#[cfg(all(test, feature = "onnx"))]
mod tests;
#[cfg(feature = "onnx")]
mod tree_operator;
#[cfg(feature = "onnx")]
mod trees;

use serde::{Deserialize, Serialize};

#[cfg(not(feature = "onnx"))]
pub use absent::{Model, OnnxNetwork, import};
#[cfg(feature = "onnx")]
pub use import::{Model, import};
#[cfg(feature = "onnx")]
pub use network::OnnxNetwork;

use crate::{Bundle, fields::FieldSchema, fit::Labelled, proportions::LabelProportions};

/// How the bundle's `encoder.onnx` is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnnxShape {
    /// Tensor that is taken: latents, or what a black box predicts.
    pub output: String,
    /// What the tensor holds.
    #[serde(default)]
    pub gives: Gives,
    /// Rows of one run; fewer are filled up, so that a row's numbers do not depend on the rows beside it.
    pub rows: usize,
    /// What stands for a missing number, field by field; null is NaN, for models that know missing values. Empty if
    /// events carry vectors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Option<f32>>,
}

/// What the tensor of an ONNX network holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gives {
    /// Latent vectors.
    #[default]
    Latents,
    /// A probability for each class.
    Probabilities,
    /// A logit for each class.
    Logits,
    /// The second of two classes' probability.
    Probability,
    /// The second of two classes' logit.
    Logit,
}

/// What an ONNX model takes, which decides how its labelled file is read.
#[derive(Debug, Clone, PartialEq)]
pub enum Takes {
    /// Vectors of so many numbers: all inputs side by side. `None` if the model leaves it open.
    Vector(Option<usize>),
    /// Named fields, one an input.
    Fields(FieldSchema),
}

/// How a model is imported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportSettings {
    /// What the model is called in logs and metrics.
    pub name: String,
    /// Tensor that is taken as latent. By default the input of the last linear layer.
    pub latent: Option<String>,
    /// Take the predictions alone, although there are layers.
    pub black_box: bool,
    /// Share of each class's rows that is held out.
    pub held_out_share: f64,
    /// Seed of the draw of held-out rows.
    pub seed: u64,
    /// Class shares in training; by default those of the labelled rows.
    pub training_proportions: Option<LabelProportions>,
}

/// An imported model.
#[derive(Debug, Clone)]
pub struct Imported {
    /// What is served.
    pub bundle: Bundle,
    /// Tensors at which the model can be cut, and the width of each; the first is the last of the network.
    pub candidates: Vec<(String, usize)>,
    /// The one that was taken; `None` for a black box.
    pub latent: Option<String>,
    /// Why that one, in words.
    pub reason: String,
    /// Largest difference between what the bundle and the whole model predict for the labelled rows. `None` for a black
    /// box: it is the whole model.
    pub difference: Option<f32>,
    /// What the whole model predicts for the labelled rows.
    pub probabilities: Vec<f32>,
}

/// Labelled rows in the order of the model's classes.
pub type ImportRows<'a> = Labelled<'a>;
