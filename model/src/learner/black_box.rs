//! Events of a model that gives nothing but its predictions.

use crate::{
    Error, Inputs, Result,
    bundle::{Bundle, Input},
    cpu::objective::softmax_rows,
};

/// How predictions stand in events.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlackBox {
    classes: usize,
    logits: bool,
}

impl BlackBox {
    pub(crate) fn new(bundle: &Bundle) -> Self {
        Self {
            classes: bundle.classes(),
            logits: matches!(bundle.description().input, Input::Logits),
        }
    }

    /// Replaces `probabilities` by those of the events, row after row.
    pub(crate) fn read(&self, inputs: &Inputs<'_>, probabilities: &mut Vec<f32>) -> Result<()> {
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
