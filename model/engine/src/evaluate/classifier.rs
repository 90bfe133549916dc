//! A classifier from latents to probabilities.

use super::{
    Scratch,
    layer::{BLOCK_ROWS, LayerStack},
};
use crate::{
    Architecture, Error, NamedTensors, Result, Rows, architecture::Network, linear::softmax_rows,
};

/// f_S or f_N in evaluation mode.
#[derive(Debug)]
pub struct ClassifierNetwork {
    latent: usize,
    classes: usize,
    layers: LayerStack,
}

impl ClassifierNetwork {
    /// The classifier `network` of `tensors`, which may hold other networks too.
    pub fn new(
        architecture: &Architecture,
        network: Network,
        tensors: &NamedTensors,
    ) -> Result<Self> {
        architecture.validate()?;
        if !matches!(
            network,
            Network::SourceClassifier | Network::TargetClassifier
        ) {
            return Err(Error::setting(
                "network",
                format!("is {network:?}, expected one of the two classifiers"),
            ));
        }
        Ok(Self {
            latent: architecture.latent,
            classes: architecture.classes,
            layers: LayerStack::new(architecture, network, tensors)?,
        })
    }

    /// How many classes there are.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Replaces `probabilities` by those of every class for every row, row after row.
    pub fn score(
        &self,
        latents: Rows<'_>,
        scratch: &mut Scratch,
        probabilities: &mut Vec<f32>,
    ) -> Result<()> {
        latents.check("latents", self.latent)?;
        self.score_finite(latents, scratch, probabilities);
        Ok(())
    }

    /// The same of latents that are known to be of the right width and finite.
    pub fn score_finite(
        &self,
        latents: Rows<'_>,
        scratch: &mut Scratch,
        probabilities: &mut Vec<f32>,
    ) {
        probabilities.clear();
        probabilities.reserve(latents.count() * self.classes);
        for first in (0..latents.count()).step_by(BLOCK_ROWS) {
            let block = latents.block(first, BLOCK_ROWS);
            let logits = self.layers.forward(&block, scratch);
            softmax_rows(logits, self.classes);
            probabilities.extend_from_slice(logits);
        }
    }
}
