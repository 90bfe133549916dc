//! A stack of layers over one member's rows: classifiers and encoders.

use super::{
    gemm::Epilogue,
    layer::{
        DropoutMask, LayerGradient, LayerTrace, LayerWorkspace, Mode, SharedLayer, multiply_by,
    },
    team::Member,
};

/// Values of a forward pass that the backward pass needs, and its buffers.
#[derive(Debug, Default)]
pub(crate) struct StackTrace {
    layers: Vec<LayerTrace>,
    /// Gradient at the output, to be filled before [`StackTrace::backward`]. After [`StackTrace::backward_input`] the
    /// gradient at the input.
    pub(crate) gradient: Vec<f32>,
    spare: Vec<f32>,
}

impl StackTrace {
    /// Forward of one member's rows. `dropout_mask` returns the mask of a layer.
    pub(crate) fn forward<'k>(
        &mut self,
        mode: Mode,
        layers: &[SharedLayer],
        input: &[f32],
        dropout_mask: impl Fn(usize) -> DropoutMask<'k>,
        workspace: &mut LayerWorkspace,
        member: &Member<'_>,
    ) {
        self.layers.resize_with(layers.len(), LayerTrace::default);
        for (number, layer) in layers.iter().enumerate() {
            let (before, after) = self.layers.split_at_mut(number);
            let input = before.last().map_or(input, |trace| trace.output.as_slice());
            layer.forward(
                mode,
                input,
                dropout_mask(number),
                &mut after[0],
                workspace,
                member,
            );
        }
    }

    /// The last forward's output; `input` itself for a stack without layers.
    pub(crate) fn output<'a>(&'a self, input: &'a [f32]) -> &'a [f32] {
        self.layers
            .last()
            .map_or(input, |trace| trace.output.as_slice())
    }

    /// Backward from `self.gradient`, with the dropout masks of the forward.
    pub(crate) fn backward<'k>(
        &mut self,
        layers: &[SharedLayer],
        input: &[f32],
        dropout_mask: impl Fn(usize) -> DropoutMask<'k>,
        parts: &mut [LayerGradient],
        workspace: &mut LayerWorkspace,
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
                workspace,
                member,
            );
            let Some(output) = previous else {
                return;
            };
            let mask = Epilogue::Mask(output);
            layer.backward_input(&self.gradient, mask, &mut self.spare, workspace);
            std::mem::swap(&mut self.gradient, &mut self.spare);
            if let Some(mask) = dropout_mask(number - 1) {
                multiply_by(workspace.arch, &mut self.gradient, mask);
            }
        }
    }

    /// After [`StackTrace::backward`]: backward through the first layer, to the gradient at the input.
    pub(crate) fn backward_input(
        &mut self,
        layers: &[SharedLayer],
        workspace: &mut LayerWorkspace,
    ) {
        if let Some(first) = layers.first() {
            first.backward_input(&self.gradient, Epilogue::Set, &mut self.spare, workspace);
            std::mem::swap(&mut self.gradient, &mut self.spare);
        }
    }
}
