//! The whole model, run on the labelled rows.

use ostar_engine::{Inputs, Result, architecture::Gives, evaluate::ExternalNetwork as _};

use super::{Model, from_onnx::wrong};
use crate::{input::Input, onnx::OnnxNetwork};

/// What the whole model predicts for the labelled rows.
pub(super) struct Whole {
    pub(super) gives: Gives,
    pub(super) rows: usize,
    pub(super) probabilities: Vec<f32>,
}

impl Whole {
    pub(super) fn run(
        model: &Model,
        input: &Input,
        inputs: &Inputs<'_>,
        missing: &[Option<f32>],
        names: &[String],
    ) -> Result<Self> {
        // Its numbers as they are, to see what they mean.
        let network = OnnxNetwork::new(model.graph.clone(), Gives::Latents, input, None, missing)?;
        let mut raw = Vec::new();
        network.run(inputs, &mut raw)?;
        let width = network.width();
        let classes = width.max(2);
        if classes != names.len() {
            return Err(wrong(format!(
                "predicts {classes} classes, expected {}: {}",
                names.len(),
                names.join(", ")
            )));
        }
        if let Some(value) = raw.iter().find(|value| !value.is_finite()) {
            return Err(wrong(format!(
                "gives {value} for a labelled row, expected finite numbers"
            )));
        }
        // tract's logistic function leaves the range by a last bit.
        let is_share = raw.iter().all(|value| (-1e-5..=1.0 + 1e-5).contains(value));
        let sums_to_one = |row: &[f32]| (row.iter().sum::<f32>() - 1.0).abs() < 1e-3;
        let gives = match (width, is_share) {
            (1, true) => Gives::Probability,
            (1, false) => Gives::Logit,
            (_, true) if raw.chunks_exact(width).all(sums_to_one) => Gives::Probabilities,
            (_, true) => {
                return Err(wrong(
                    "gives numbers between 0 and 1 whose sum is not 1, expected probabilities or logits",
                ));
            }
            (_, false) => Gives::Logits,
        };
        let rows = network.rows();
        let network = OnnxNetwork::new(model.graph.clone(), gives, input, Some(rows), missing)?;
        let mut probabilities = Vec::new();
        network.run(inputs, &mut probabilities)?;
        Ok(Self {
            gives,
            rows,
            probabilities,
        })
    }
}
