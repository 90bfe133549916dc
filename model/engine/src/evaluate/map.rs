//! The transport map from source latents to target latents.

use super::{
    Scratch,
    layer::{BLOCK_ROWS, LayerStack},
};
use crate::{Architecture, NamedTensors, Result, Rows, architecture::Network};

/// The transport map phi in evaluation mode: running statistics instead of the batch's.
#[derive(Debug)]
pub struct MapNetwork {
    latent: usize,
    layers: LayerStack,
}

impl MapNetwork {
    /// The map of `tensors`, which may hold other networks too.
    pub fn new(architecture: &Architecture, tensors: &NamedTensors) -> Result<Self> {
        architecture.validate()?;
        Ok(Self {
            latent: architecture.latent,
            layers: LayerStack::new(architecture, Network::Map, tensors)?,
        })
    }

    /// Replaces `mapped` by phi of every row, row after row.
    pub fn transport(
        &self,
        latents: Rows<'_>,
        scratch: &mut Scratch,
        mapped: &mut Vec<f32>,
    ) -> Result<()> {
        latents.check("latents", self.latent)?;
        mapped.resize(latents.values().len(), 0.0);
        latents.values().copy_f32(0, mapped);
        for block in mapped.chunks_mut(BLOCK_ROWS * self.latent) {
            self.layers.forward_residual(scratch, block);
        }
        Ok(())
    }
}
