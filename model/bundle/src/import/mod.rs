//! From an ONNX model and labelled rows to a bundle.

#[cfg(not(feature = "onnx"))]
mod absent;
#[cfg(feature = "onnx")]
mod from_onnx;
#[cfg(feature = "onnx")]
mod model;
#[cfg(feature = "onnx")]
mod part;
#[cfg(all(test, feature = "onnx"))]
mod tests;
#[cfg(feature = "onnx")]
mod whole;

use ostar_method::proportions::LabelProportions;

#[cfg(not(feature = "onnx"))]
pub use absent::{Model, import};
#[cfg(feature = "onnx")]
pub use from_onnx::import;
#[cfg(feature = "onnx")]
pub use model::Model;

use crate::{Bundle, fields::FieldSchema, fit::Labelled};

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
