//! The transport map phi over one member's rows.

use super::{
    gemm::{Epilogue, Left},
    layer::{LayerGradient, LayerTrace, LayerWorkspace, Mode, SharedLayer},
    sparse::LayerInput,
    team::Member,
};

/// Values of a forward pass of the map that the backward pass needs.
#[derive(Debug, Default)]
pub(crate) struct MapTrace {
    blocks: Vec<BlockTrace>,
    /// phi(z) of each row.
    pub(crate) output: Vec<f32>,
}

#[derive(Debug, Default)]
struct BlockTrace {
    input: Vec<f32>,
    hidden: LayerTrace,
    residual: Vec<f32>,
}

/// Buffers of a backward pass.
#[derive(Debug, Default)]
pub(crate) struct MapBackward {
    /// On entry the gradient at phi's output, on return that behind its first layer or at the latents.
    pub(crate) gradient: Vec<f32>,
    /// Whether to go back to the latents. Only an encoder in training needs it.
    pub(crate) to_latents: bool,
    residual: Vec<f32>,
    hidden: Vec<f32>,
}

/// What a forward pass keeps of the map's blocks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Blocks {
    /// Every block, for [`MapTrace::backward`].
    Kept,
    /// Only phi(z). The critic's and classifier's steps have no backward pass through the map, and one block's memory
    /// stays in the cache.
    Dropped,
}

impl Blocks {
    pub(crate) fn kept_if(is_needed: bool) -> Self {
        if is_needed { Self::Kept } else { Self::Dropped }
    }
}

impl MapTrace {
    /// Forward, to `output`.
    pub(crate) fn forward(
        &mut self,
        blocks: Blocks,
        mode: Mode,
        layers: &[SharedLayer],
        input: &[f32],
        workspace: &mut LayerWorkspace,
    ) {
        let count = match blocks {
            Blocks::Kept => layers.len() / 2,
            Blocks::Dropped => self.blocks.len(),
        };
        self.blocks.resize_with(count.max(1), BlockTrace::default);
        input.clone_into(&mut self.output);
        for (number, (first, second)) in pairs(layers).enumerate() {
            let block = match blocks {
                Blocks::Kept => &mut self.blocks[number],
                Blocks::Dropped => &mut self.blocks[0],
            };
            let (before, hidden) = (LayerInput::Dense(&self.output), &mut block.hidden);
            first.forward(mode, before, None, hidden, workspace);
            let weights = second.weights.read();
            let (bias, multiplier) = (&weights.bias.value, &mut workspace.multiplier);
            let (rows, left) = (
                input.len() / weights.spec.outputs,
                Left::Rows(&hidden.output),
            );
            match blocks {
                Blocks::Dropped => {
                    let (epilogue, out) = (Epilogue::AddBias(bias), &mut self.output);
                    multiplier.multiply(rows, left, &weights.forward, epilogue, out);
                }
                Blocks::Kept => {
                    block.input.clone_from(&self.output);
                    block.residual.resize(input.len(), 0.0);
                    let (epilogue, residual) = (Epilogue::Bias(bias), &mut block.residual);
                    multiplier.multiply(rows, left, &weights.forward, epilogue, residual);
                    for (value, residual) in self.output.iter_mut().zip(residual) {
                        *value += *residual;
                    }
                }
            }
        }
    }

    /// Moves running statistics by those of the batch that was kept, once more.
    pub(crate) fn repeat_running(&self, layers: &[SharedLayer], member: &Member) {
        for ((first, _), block) in pairs(layers).zip(&self.blocks) {
            first.repeat_running(&block.hidden, member);
        }
    }

    /// The dynamical transport cost of this member's rows: sum over blocks and rows of the row's
    /// weight times its squared residual.
    pub(crate) fn transport_cost(&self, blocks: usize, row_weights: &[f32]) -> f64 {
        let mut cost = 0.0;
        for block in &self.blocks[..blocks] {
            // A member of a small batch may have no rows at all.
            let width = (block.residual.len() / row_weights.len().max(1)).max(1);
            for (row, weight) in block.residual.chunks_exact(width).zip(row_weights) {
                let square: f64 = row.iter().map(|r| f64::from(*r) * f64::from(*r)).sum();
                cost += f64::from(*weight) * square;
            }
        }
        cost
    }

    /// Backward through all blocks. `cost_weights` are the derivatives of the cost by half the squared residual, one
    /// for each row.
    pub(crate) fn backward(
        &self,
        layers: &[SharedLayer],
        cost_weights: &[f32],
        space: &mut MapBackward,
        parts: &mut [LayerGradient],
        workspace: &mut LayerWorkspace,
    ) {
        let blocks = pairs(layers)
            .zip(&self.blocks)
            .zip(parts.chunks_exact_mut(2));
        for (number, (((first, second), block), parts)) in blocks.enumerate().rev() {
            let [first_part, second_part] = parts else {
                unreachable!("chunks of two");
            };
            let width = first.weights.read().spec.inputs;
            add_cost_gradient(workspace, space, &block.residual, cost_weights, width);
            let hidden = &block.hidden.output;
            // A plain linear layer needs no trace.
            let trace = LayerTrace::default();
            second.backward(
                LayerInput::Dense(hidden),
                &mut space.residual,
                &trace,
                second_part,
                workspace,
            );
            let mask = Epilogue::Mask(hidden);
            second.backward_input(&space.residual, mask, &mut space.hidden, workspace);
            let (input, trace) = (LayerInput::Dense(&block.input), &block.hidden);
            first.backward(input, &mut space.hidden, trace, first_part, workspace);
            if number > 0 || space.to_latents {
                first.backward_input(&space.hidden, Epilogue::Add, &mut space.gradient, workspace);
            }
        }
    }
}

/// `space.residual = space.gradient + weight * residual`, with one weight for each row.
fn add_cost_gradient(
    workspace: &LayerWorkspace,
    space: &mut MapBackward,
    residual: &[f32],
    cost_weights: &[f32],
    width: usize,
) {
    space.residual.resize(space.gradient.len(), 0.0);
    let (to, from) = (&mut space.residual, &space.gradient);
    workspace.arch.dispatch(
        #[inline(always)]
        || {
            let rows = to.chunks_exact_mut(width).zip(from.chunks_exact(width));
            let residuals = residual.chunks_exact(width).zip(cost_weights);
            for ((to, from), (residual, weight)) in rows.zip(residuals) {
                for ((to, from), residual) in to.iter_mut().zip(from).zip(residual) {
                    *to = from + weight * residual;
                }
            }
        },
    );
}

fn pairs(
    layers: &[SharedLayer],
) -> impl DoubleEndedIterator<Item = (&SharedLayer, &SharedLayer)> + ExactSizeIterator {
    layers.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
}
