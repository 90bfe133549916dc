//! Events of a model that gives nothing but its predictions, and such a model that is run here.

use std::sync::Arc;

use ostar_engine::{Error, Inputs, Result, Rows, evaluate::ExternalNetwork, linear::softmax_rows};

/// Where a black box's predictions come from.
#[derive(Debug, Clone)]
pub enum BlackBox {
    /// Events carry probabilities.
    Probabilities,
    /// Events carry logits.
    Logits,
    /// A network gives probabilities for what events carry.
    Network(Arc<dyn ExternalNetwork>),
}

impl BlackBox {
    /// Replaces `probabilities` by those of the events, row after row.
    pub(super) fn read(
        &self,
        classes: usize,
        inputs: &Inputs<'_>,
        probabilities: &mut Vec<f32>,
    ) -> Result<()> {
        if let Self::Network(network) = self {
            probabilities.clear();
            network.run(inputs, probabilities)?;
            return Rows::new(&probabilities[..], classes)?
                .check("the model's probabilities", classes);
        }
        let Inputs::Dense(rows) = inputs else {
            return Err(Error::shape(
                "inputs",
                "rows of one number a class",
                "named fields",
            ));
        };
        rows.check("predictions", classes)?;
        probabilities.resize(rows.values().len(), 0.0);
        rows.values().copy_f32(0, probabilities);
        if matches!(self, Self::Logits) {
            softmax_rows(probabilities, classes);
        }
        Ok(())
    }
}
