//! The convolution encoder's two stages of convolution, batch normalisation, pooling and ReLU, over one member's
//! images. Its third convolution sees one window of each image and is a plain layer.
//!
//! Images are stored pixel by pixel, with their channels next to each other. A row of batch normalisation is then a
//! pixel, and a row of a filter's window is contiguous, so that a product reads it in place.

mod first;
mod pool;
mod second;
mod windows;

use super::layer::{LayerGradient, LayerWorkspace, Mode, SharedLayer};
use first::First;
use second::Second;

/// Values of a forward pass that the backward pass needs, and its buffers.
#[derive(Debug, Default)]
pub(crate) struct Convolution {
    first: First,
    second: Second,
}

impl Convolution {
    /// Forward of one member's images.
    pub(crate) fn forward(
        &mut self,
        mode: Mode,
        layers: &[SharedLayer],
        images: &[f32],
        workspace: &mut LayerWorkspace,
    ) {
        let [first, second] = layers else {
            unreachable!("two convolutions are followed by pooling");
        };
        self.first.forward(mode, first, images, workspace);
        let input = self.first.output();
        self.second.forward(mode, second, input, workspace);
    }

    /// The second stage's output, image by image.
    pub(crate) fn output(&self) -> &[f32] {
        self.second.output()
    }

    /// Backward of the last forward, which must have been in training mode. `gradient` is that at the output; it is
    /// overwritten.
    pub(crate) fn backward(
        &mut self,
        layers: &[SharedLayer],
        images: &[f32],
        gradient: &mut [f32],
        parts: &mut [LayerGradient],
        workspace: &mut LayerWorkspace,
    ) {
        let ([first, second], [first_part, second_part]) = (layers, parts) else {
            unreachable!("two convolutions are followed by pooling");
        };
        let input = self.first.padded_output();
        let gradient = self
            .second
            .backward(second, input, gradient, second_part, workspace);
        self.first
            .backward(first, images, gradient, first_part, workspace);
    }
}
