//! A forward pass of the encoder over one member's rows, and its way back.

use super::{
    convolution::Convolution,
    layer::{Gradient, LayerCell, Mode, Tools},
    stack::StackTrace,
    team::Member,
};
use crate::architecture::EncoderShape;

/// What a forward pass leaves behind: pooled convolutions where the encoder has them, then plain layers.
#[derive(Debug)]
pub(crate) struct EncoderTrace {
    convolution: Option<Box<Convolution>>,
    stack: StackTrace,
}

/// Layers that the pooled convolutions take.
const POOLED_LAYERS: usize = 2;

impl EncoderTrace {
    pub(crate) fn new(shape: &EncoderShape) -> Self {
        let convolution = matches!(shape, EncoderShape::Convolution { .. });
        Self {
            convolution: convolution.then(Box::default),
            stack: StackTrace::default(),
        }
    }

    /// Forward of one member's rows.
    pub(crate) fn forward(
        &mut self,
        mode: Mode,
        layers: &[LayerCell],
        input: &[f32],
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        match &mut self.convolution {
            None => {
                self.stack
                    .forward(mode, layers, input, |_| None, tools, member);
            }
            Some(convolution) => {
                let (pooled, rest) = layers.split_at(POOLED_LAYERS);
                convolution.forward(mode, pooled, input, tools, member);
                let features = convolution.output();
                self.stack
                    .forward(mode, rest, features, |_| None, tools, member);
            }
        }
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
        layers: &[LayerCell],
        input: &[f32],
        parts: &mut [Gradient],
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        let stack = &mut self.stack;
        match &mut self.convolution {
            None => stack.backward(layers, input, |_| None, parts, tools, member),
            Some(convolution) => {
                let (pooled, rest) = layers.split_at(POOLED_LAYERS);
                let (pooled_parts, rest_parts) = parts.split_at_mut(POOLED_LAYERS);
                let features = convolution.output();
                stack.backward(rest, features, |_| None, rest_parts, tools, member);
                stack.backward_input(rest, tools);
                let gradient = &mut stack.gradient;
                convolution.backward(pooled, input, gradient, pooled_parts, tools, member);
            }
        }
    }

    /// After [`EncoderTrace::backward`] of plain layers: the gradient at their input.
    pub(crate) fn input_gradient(&mut self, layers: &[LayerCell], tools: &mut Tools) -> &[f32] {
        self.stack.backward_input(layers, tools);
        &self.stack.gradient
    }
}
