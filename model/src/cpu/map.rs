//! The transport map phi over one member's rows.

use super::{
    gemm::{Finish, Left},
    layer::{Gradient, LayerCell, Mode, Tools, Trace},
    team::Member,
};

/// What a forward pass of the map leaves behind.
#[derive(Debug, Default)]
pub(crate) struct MapTrace {
    blocks: Vec<BlockTrace>,
    /// phi(z).
    pub(crate) output: Vec<f32>,
}

#[derive(Debug, Default)]
struct BlockTrace {
    input: Vec<f32>,
    hidden: Trace,
    residual: Vec<f32>,
}

/// Working space of a backward pass.
#[derive(Debug, Default)]
pub(crate) struct MapBackward {
    /// Enters as the gradient at phi's output and leaves as that at its input.
    pub(crate) gradient: Vec<f32>,
    residual: Vec<f32>,
    hidden: Vec<f32>,
}

impl MapTrace {
    /// Forward that keeps only phi(z): the critic's and classifier's steps do not go
    /// back through the map, and one block's memory stays in the cache.
    pub(crate) fn forward(
        &mut self,
        mode: Mode,
        layers: &[LayerCell],
        input: &[f32],
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        self.blocks
            .resize_with(self.blocks.len().max(1), BlockTrace::default);
        let hidden = &mut self.blocks[0].hidden;
        self.output.clear();
        self.output.extend_from_slice(input);
        for (first, second) in pairs(layers) {
            first.forward(mode, &self.output, None, hidden, tools, member);
            let weights = second.weights.read();
            let width = weights.spec.outputs;
            let rows = self.output.len() / width;
            let left = Left::Rows(&hidden.output);
            let finish = Finish::AddBias(&weights.bias.value);
            let multiplier = &mut tools.multiplier;
            multiplier.multiply(rows, left, &weights.forward, finish, &mut self.output);
        }
    }

    /// Training-mode forward that keeps every block for [`MapTrace::backward`].
    pub(crate) fn forward_and_keep(
        &mut self,
        layers: &[LayerCell],
        input: &[f32],
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        self.blocks
            .resize_with((layers.len() / 2).max(1), BlockTrace::default);
        self.output.clear();
        self.output.extend_from_slice(input);
        for ((first, second), block) in pairs(layers).zip(&mut self.blocks) {
            block.input.clear();
            block.input.extend_from_slice(&self.output);
            let mode = Mode::Training;
            first.forward(mode, &block.input, None, &mut block.hidden, tools, member);
            let weights = second.weights.read();
            let rows = block.input.len() / weights.spec.inputs;
            block.residual.resize(block.input.len(), 0.0);
            let left = Left::Rows(&block.hidden.output);
            let finish = Finish::Bias(&weights.bias.value);
            let multiplier = &mut tools.multiplier;
            multiplier.multiply(rows, left, &weights.forward, finish, &mut block.residual);
            for (value, residual) in self.output.iter_mut().zip(&block.residual) {
                *value += residual;
            }
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

    /// Backward through all blocks. `cost_weights` are the derivative of the cost by half the squared
    /// residual, row by row.
    pub(crate) fn backward(
        &self,
        layers: &[LayerCell],
        cost_weights: &[f32],
        space: &mut MapBackward,
        parts: &mut [Gradient],
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        let blocks = pairs(layers)
            .zip(&self.blocks)
            .zip(parts.chunks_exact_mut(2));
        for (((first, second), block), parts) in blocks.rev() {
            let [first_part, second_part] = parts else {
                unreachable!("chunks of two");
            };
            let width = first.weights.read().spec.inputs;
            add_cost_gradient(tools, space, &block.residual, cost_weights, width);
            let hidden = &block.hidden.output;
            // A plain linear layer leaves nothing to remember.
            let trace = Trace::default();
            second.backward(
                hidden,
                &mut space.residual,
                &trace,
                second_part,
                tools,
                member,
            );
            let mask = Finish::Mask(hidden);
            second.backward_input(&space.residual, mask, &mut space.hidden, tools);
            let (input, trace) = (&block.input, &block.hidden);
            first.backward(input, &mut space.hidden, trace, first_part, tools, member);
            first.backward_input(&space.hidden, Finish::Add, &mut space.gradient, tools);
        }
    }
}

/// space.residual = space.gradient + weight * residual, row by row.
fn add_cost_gradient(
    tools: &Tools,
    space: &mut MapBackward,
    residual: &[f32],
    cost_weights: &[f32],
    width: usize,
) {
    space.residual.resize(space.gradient.len(), 0.0);
    let (to, from) = (&mut space.residual, &space.gradient);
    tools.arch.dispatch(
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
    layers: &[LayerCell],
) -> impl DoubleEndedIterator<Item = (&LayerCell, &LayerCell)> + ExactSizeIterator {
    layers.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
}
