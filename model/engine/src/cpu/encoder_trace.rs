//! A forward pass of the encoder over one member's rows, and its backward pass.

use super::{
    convolution::Convolution,
    layer::{LayerGradient, LayerWorkspace, Mode, SharedLayer},
    stack::StackTrace,
};
use crate::architecture::EncoderShape;

/// Trace of the encoder: of pooled convolutions if it has them, then of plain layers.
#[derive(Debug)]
pub(crate) struct EncoderTrace {
    convolution: Option<Box<Convolution>>,
    stack: StackTrace,
}

/// The first layers of a convolution encoder, which end in pooling. The third convolution is a plain layer: it sees one
/// window of each image.
const POOLED_LAYERS: usize = 2;

impl EncoderTrace {
    pub(crate) fn new(shape: &EncoderShape) -> Self {
        Self {
            convolution: matches!(shape, EncoderShape::Convolution { .. }).then(Box::default),
            stack: match shape {
                // Counts of words, one-hot columns.
                EncoderShape::Mlp { .. } => StackTrace::of_sparse_inputs(),
                _ => StackTrace::default(),
            },
        }
    }

    /// Forward of one member's rows.
    pub(crate) fn forward(
        &mut self,
        mode: Mode,
        layers: &[SharedLayer],
        input: &[f32],
        workspace: &mut LayerWorkspace,
    ) {
        if let Some(convolution) = &mut self.convolution {
            let (pooled, rest) = layers.split_at(POOLED_LAYERS);
            convolution.forward(mode, pooled, input, workspace);
            let features = convolution.output();
            self.stack
                .forward(mode, rest, features, |_| None, workspace);
            return;
        }
        self.stack.forward(mode, layers, input, |_| None, workspace);
    }

    /// The last forward's output; `input` itself for an encoder without layers.
    pub(crate) fn output<'a>(&'a self, input: &'a [f32]) -> &'a [f32] {
        self.stack.output(input)
    }

    /// The gradient at the output, to be filled before [`EncoderTrace::backward`].
    pub(crate) fn gradient_mut(&mut self) -> &mut Vec<f32> {
        &mut self.stack.gradient
    }

    /// Backward to the parameters' gradients.
    pub(crate) fn backward(
        &mut self,
        layers: &[SharedLayer],
        input: &[f32],
        parts: &mut [LayerGradient],
        workspace: &mut LayerWorkspace,
    ) {
        let stack = &mut self.stack;
        if let Some(convolution) = &mut self.convolution {
            let (pooled, rest) = layers.split_at(POOLED_LAYERS);
            let (pooled_parts, rest_parts) = parts.split_at_mut(POOLED_LAYERS);
            let features = convolution.output();
            stack.backward(rest, features, |_| None, rest_parts, workspace);
            stack.backward_input(rest, workspace);
            let gradient = &mut stack.gradient;
            convolution.backward(pooled, input, gradient, pooled_parts, workspace);
            return;
        }
        stack.backward(layers, input, |_| None, parts, workspace);
    }

    /// After [`EncoderTrace::backward`] of plain layers: the gradient at their input.
    pub(crate) fn input_gradient(
        &mut self,
        layers: &[SharedLayer],
        workspace: &mut LayerWorkspace,
    ) -> &[f32] {
        self.stack.backward_input(layers, workspace);
        &self.stack.gradient
    }
}
