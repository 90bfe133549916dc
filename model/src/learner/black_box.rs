//! Events of a model that gives nothing but its predictions, and such a model that is run here.

use std::sync::Arc;

use crate::{
    Error, Inputs, Result, Rows,
    bundle::{Bundle, Input},
    cpu::objective::softmax_rows,
    onnx::OnnxNetwork,
};

/// How predictions stand in events.
#[derive(Debug, Clone)]
pub(crate) struct BlackBox {
    classes: usize,
    logits: bool,
    /// Predicts from what events carry.
    network: Option<Arc<OnnxNetwork>>,
}

impl BlackBox {
    pub(crate) fn new(bundle: &Bundle) -> Self {
        Self {
            classes: bundle.classes(),
            logits: matches!(bundle.description().input, Input::Logits),
            network: bundle.onnx(),
        }
    }

    /// Replaces `probabilities` by those of the events, row after row.
    pub(crate) fn read(&self, inputs: &Inputs<'_>, probabilities: &mut Vec<f32>) -> Result<()> {
        if let Some(network) = &self.network {
            probabilities.clear();
            network.run(inputs, probabilities)?;
            return Rows::new(&probabilities[..], self.classes)?
                .check("the model's probabilities", self.classes);
        }
        let Inputs::Dense(rows) = inputs else {
            return Err(Error::shape(
                "inputs",
                "rows of one number a class",
                "named fields",
            ));
        };
        rows.check("predictions", self.classes)?;
        probabilities.resize(rows.values().len(), 0.0);
        rows.values().copy_f32(0, probabilities);
        if self.logits {
            softmax_rows(probabilities, self.classes);
        }
        Ok(())
    }
}
