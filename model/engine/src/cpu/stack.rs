//! A stack of layers over one member's rows: classifiers and encoders.

use super::{
    gemm::Epilogue,
    layer::{
        DropoutMask, LayerGradient, LayerTrace, LayerWorkspace, Mode, SharedLayer, multiply_by,
    },
    sparse::{LayerInput, SparseInput},
};

/// Values of a forward pass that the backward pass needs, and its buffers.
#[derive(Debug, Default)]
pub(crate) struct StackTrace {
    layers: Vec<LayerTrace>,
    /// Of a stack whose input may be mostly zeros.
    sparse_input: Option<SparseInput>,
    /// Gradient at the output, to be filled before [`StackTrace::backward`]. After [`StackTrace::backward_input`] the
    /// gradient at the input.
    pub(crate) gradient: Vec<f32>,
    spare: Vec<f32>,
}

impl StackTrace {
    /// A trace that looks in every forward pass whether the input is mostly zeros.
    pub(crate) fn of_sparse_inputs() -> Self {
        Self {
            sparse_input: Some(SparseInput::default()),
            ..Self::default()
        }
    }

    /// Forward of one member's rows. `dropout_mask` returns the mask of a layer.
    pub(crate) fn forward<'k>(
        &mut self,
        mode: Mode,
        layers: &[SharedLayer],
        input: &[f32],
        dropout_mask: impl Fn(usize) -> DropoutMask<'k>,
        workspace: &mut LayerWorkspace,
    ) {
        self.layers.resize_with(layers.len(), LayerTrace::default);
        if let (Some(sparse), Some(first)) = (&mut self.sparse_input, layers.first()) {
            let width = first.weights.read().spec.inputs;
            sparse.look_at(workspace.arch, input, width);
        }
        let first_input = first_input(&self.sparse_input, input);
        for (number, layer) in layers.iter().enumerate() {
            let (before, after) = self.layers.split_at_mut(number);
            let previous = before.last().map(|trace| trace.output.as_slice());
            let input = previous.map_or(first_input, LayerInput::Dense);
            layer.forward(mode, input, dropout_mask(number), &mut after[0], workspace);
        }
    }

    /// The last forward's output; `input` itself for a stack without layers.
    pub(crate) fn output<'a>(&'a self, input: &'a [f32]) -> &'a [f32] {
        self.layers
            .last()
            .map_or(input, |trace| trace.output.as_slice())
    }

    /// Fills `self.gradient` by what `loss` makes of the last forward's output. Returns what `loss` does.
    pub(crate) fn differentiate<T>(
        &mut self,
        input: &[f32],
        loss: impl FnOnce(&[f32], &mut Vec<f32>) -> T,
    ) -> T {
        let mut gradient = std::mem::take(&mut self.gradient);
        let value = loss(self.output(input), &mut gradient);
        self.gradient = gradient;
        value
    }

    /// Backward from `self.gradient`, with the dropout masks of the forward.
    pub(crate) fn backward<'k>(
        &mut self,
        layers: &[SharedLayer],
        input: &[f32],
        dropout_mask: impl Fn(usize) -> DropoutMask<'k>,
        parts: &mut [LayerGradient],
        workspace: &mut LayerWorkspace,
    ) {
        if let (Some(layer), Some(trace)) = (layers.last(), self.layers.last())
            && layer.weights.read().spec.relu
        {
            for (gradient, output) in self.gradient.iter_mut().zip(&trace.output) {
                *gradient = if *output > 0.0 { *gradient } else { 0.0 };
            }
        }
        let first_input = first_input(&self.sparse_input, input);
        for (number, layer) in layers.iter().enumerate().rev() {
            let (before, after) = self.layers.split_at(number);
            let previous = before.last().map(|trace| &trace.output);
            let layer_input = previous.map_or(first_input, |output| LayerInput::Dense(output));
            let part = &mut parts[number];
            layer.backward(layer_input, &mut self.gradient, &after[0], part, workspace);
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

/// The input of a stack's first layer: its entries, if the forward pass has found few of them.
fn first_input<'a>(sparse: &'a Option<SparseInput>, input: &'a [f32]) -> LayerInput<'a> {
    let sparse = sparse.as_ref().and_then(SparseInput::rows);
    sparse.map_or(LayerInput::Dense(input), LayerInput::Sparse)
}
