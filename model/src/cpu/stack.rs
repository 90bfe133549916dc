//! A stack of layers over one member's rows: classifiers and encoders.

use super::{
    gemm::Finish,
    layer::{Gradient, Keep, LayerCell, Mode, Tools, Trace, multiply_by},
    team::Member,
};

/// What a forward pass leaves behind, and the working space of the backward pass.
#[derive(Debug, Default)]
pub(crate) struct StackTrace {
    layers: Vec<Trace>,
    /// Gradient at the output, to be filled before [`StackTrace::backward`]; the gradient at the input
    /// after [`StackTrace::backward_input`].
    pub(crate) gradient: Vec<f32>,
    spare: Vec<f32>,
}

impl StackTrace {
    /// Forward of one member's rows; `keep(layer)` gives the units that dropout keeps.
    pub(crate) fn forward<'k>(
        &mut self,
        mode: Mode,
        layers: &[LayerCell],
        input: &[f32],
        keep: impl Fn(usize) -> Keep<'k>,
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        self.layers.resize_with(layers.len(), Trace::default);
        for (number, layer) in layers.iter().enumerate() {
            let (before, after) = self.layers.split_at_mut(number);
            let input = before.last().map_or(input, |trace| trace.output.as_slice());
            layer.forward(mode, input, keep(number), &mut after[0], tools, member);
        }
    }

    /// The last forward's output; `input` itself for a stack without layers.
    pub(crate) fn output<'a>(&'a self, input: &'a [f32]) -> &'a [f32] {
        self.layers
            .last()
            .map_or(input, |trace| trace.output.as_slice())
    }

    /// Backward from `self.gradient`. `keep` must be that of the forward.
    pub(crate) fn backward<'k>(
        &mut self,
        layers: &[LayerCell],
        input: &[f32],
        keep: impl Fn(usize) -> Keep<'k>,
        parts: &mut [Gradient],
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        if let (Some(layer), Some(trace)) = (layers.last(), self.layers.last())
            && layer.weights.read().spec.relu
        {
            for (gradient, output) in self.gradient.iter_mut().zip(&trace.output) {
                *gradient = if *output > 0.0 { *gradient } else { 0.0 };
            }
        }
        for (number, layer) in layers.iter().enumerate().rev() {
            let (before, after) = self.layers.split_at(number);
            let previous = before.last().map(|trace| &trace.output);
            let layer_input = previous.map_or(input, Vec::as_slice);
            let part = &mut parts[number];
            layer.backward(
                layer_input,
                &mut self.gradient,
                &after[0],
                part,
                tools,
                member,
            );
            let Some(output) = previous else {
                return;
            };
            let mask = Finish::Mask(output);
            layer.backward_input(&self.gradient, mask, &mut self.spare, tools);
            std::mem::swap(&mut self.gradient, &mut self.spare);
            if let Some(keep) = keep(number - 1) {
                multiply_by(tools.arch, &mut self.gradient, keep);
            }
        }
    }

    /// After [`StackTrace::backward`]: through the first layer, to the gradient at the input.
    pub(crate) fn backward_input(&mut self, layers: &[LayerCell], tools: &mut Tools) {
        if let Some(first) = layers.first() {
            first.backward_input(&self.gradient, Finish::Set, &mut self.spare, tools);
            std::mem::swap(&mut self.gradient, &mut self.spare);
        }
    }
}
