//! The convolution encoder's two stages of convolution, batch normalisation, pooling and ReLU, over one
//! member's images. (Its third convolution sees one window an image: a plain layer.)
//!
//! Images lie in memory pixel by pixel, channels side by side, so that a batch normalisation's rows are
//! positions, and a row of a filter's window is one run of numbers that a product reads where it is.

mod first;
mod pool;
mod second;
mod windows;

use super::{
    layer::{Gradient, LayerCell, Mode, Tools},
    team::Member,
};
use first::First;
use second::Second;

/// What a forward pass leaves behind, and the working space of the backward pass.
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
        layers: &[LayerCell],
        images: &[f32],
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        let [first, second] = layers else {
            unreachable!("two convolutions are followed by pooling");
        };
        self.first.forward(mode, first, images, tools, member);
        let input = self.first.output();
        self.second.forward(mode, second, input, tools, member);
    }

    /// The second stage's output, image after image.
    pub(crate) fn output(&self) -> &[f32] {
        self.second.output()
    }

    /// Backward of the last forward, which was in training mode; `gradient` is that at the output and is
    /// used up.
    pub(crate) fn backward(
        &mut self,
        layers: &[LayerCell],
        images: &[f32],
        gradient: &mut [f32],
        parts: &mut [Gradient],
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        let ([first, second], [first_part, second_part]) = (layers, parts) else {
            unreachable!("two convolutions are followed by pooling");
        };
        let input = self.first.padded_output();
        let gradient = self
            .second
            .backward(second, input, gradient, second_part, tools, member);
        self.first
            .backward(first, images, gradient, first_part, tools, member);
    }
}
