//! How an encoder is run that is no network of the engines.

use serde::{Deserialize, Serialize};

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
