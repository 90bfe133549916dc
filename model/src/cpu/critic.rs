//! The critic v over one member's points: values, input gradients, and the gradient of its objective.
//!
//! For a ReLU network the input gradient is a product of weight matrices and 0/1 masks. With the masks
//! held constant, the penalty is an ordinary expression of the weights, and its gradient and that of
//! the values need the same deltas. So one pass gives both: with delta_l the derivative of v by layer
//! l's output, and tangents A_0 = dPenalty/dgradient + c * x, A_{l+1} = mask_l * (A_l W_l^T + c b_l),
//! where c is the objective's derivative by the point's value:
//! dW_l = delta_l^T A_l and db_l = sum of c * delta_l.

use pulp::Arch;

use super::{
    gemm::{Finish, Left},
    layer::{Gradient, LayerCell, Tools, weight_gradient},
    normalise::dot,
};

/// What a pass over points leaves behind.
#[derive(Debug, Default)]
pub(crate) struct CriticTrace {
    /// v of each point.
    pub(crate) values: Vec<f32>,
    /// The input gradient of each point.
    pub(crate) gradient: Vec<f32>,
    /// Outputs of the hidden layers.
    activations: Vec<Vec<f32>>,
    /// Derivatives of v by the hidden layers' inputs to ReLU.
    deltas: Vec<Vec<f32>>,
    /// A_l of the module's description.
    tangents: Vec<Vec<f32>>,
}

impl CriticTrace {
    /// Values of row-major `points`.
    pub(crate) fn forward(&mut self, layers: &[LayerCell], points: &[f32], tools: &mut Tools) {
        let hidden = layers.len() - 1;
        self.activations.resize_with(hidden, Vec::new);
        for (number, layer) in layers[..hidden].iter().enumerate() {
            let weights = layer.weights.read();
            let (before, after) = self.activations.split_at_mut(number);
            let input = before.last().map_or(points, Vec::as_slice);
            let rows = input.len() / weights.spec.inputs;
            after[0].resize(rows * weights.spec.outputs, 0.0);
            let (left, finish) = (Left::Rows(input), Finish::BiasRelu(&weights.bias.value));
            let multiplier = &mut tools.multiplier;
            multiplier.multiply(rows, left, &weights.forward, finish, &mut after[0]);
        }
        let weights = layers[hidden].weights.read();
        let last = self.activations.last().map_or(points, Vec::as_slice);
        let (weight, bias) = (&weights.weight.value, weights.bias.value[0]);
        self.values.clear();
        self.values.resize(last.len() / weight.len(), 0.0);
        let values = &mut self.values;
        tools.arch.dispatch(
            #[inline(always)]
            || {
                for (value, row) in values.iter_mut().zip(last.chunks_exact(weight.len())) {
                    *value = dot(row, weight) + bias;
                }
            },
        );
    }

    /// Input gradients of the points of the last forward.
    pub(crate) fn input_gradient(&mut self, layers: &[LayerCell], tools: &mut Tools) {
        let hidden = layers.len() - 1;
        let rows = self.values.len();
        self.deltas.resize_with(hidden, Vec::new);
        {
            let weights = layers[hidden].weights.read();
            let weight = &weights.weight.value;
            match (self.deltas.last_mut(), self.activations.last()) {
                (Some(delta), Some(activations)) => {
                    delta.resize(activations.len(), 0.0);
                    masked_rows(tools.arch, weight, activations, delta);
                }
                _ => {
                    self.gradient.clear();
                    (0..rows).for_each(|_| self.gradient.extend_from_slice(weight));
                }
            }
        }
        for number in (0..hidden).rev() {
            let weights = layers[number].weights.read();
            let (before, after) = self.deltas.split_at_mut(number);
            let (to, finish) = match before.last_mut() {
                Some(delta) => (delta, Finish::Mask(&self.activations[number - 1])),
                None => (&mut self.gradient, Finish::Set),
            };
            to.resize(rows * weights.spec.inputs, 0.0);
            let left = Left::Rows(&after[0]);
            let multiplier = &mut tools.multiplier;
            multiplier.multiply(rows, left, &weights.backward, finish, to);
        }
    }

    /// The objective's gradient by the parameters. `tangent` is A_0 and `factors` is c, both of the
    /// module's description.
    pub(crate) fn backward(
        &mut self,
        layers: &[LayerCell],
        tangent: &[f32],
        factors: &[f32],
        parts: &mut [Gradient],
        tools: &mut Tools,
    ) {
        let hidden = layers.len() - 1;
        let rows = factors.len();
        self.tangents.resize_with(hidden, Vec::new);
        for (number, layer) in layers[..hidden].iter().enumerate() {
            let weights = layer.weights.read();
            let part = &mut parts[number];
            part.fit(&weights.spec);
            let (before, after) = self.tangents.split_at_mut(number);
            let input = before.last().map_or(tangent, Vec::as_slice);
            let delta = &self.deltas[number];
            weight_gradient(input, delta, &weights.spec, &mut part.weight, tools);
            weighted_column_sums(tools.arch, delta, factors, &mut part.bias);
            after[0].resize(rows * weights.spec.outputs, 0.0);
            let finish = Finish::MaskScaledBias {
                activations: &self.activations[number],
                bias: &weights.bias.value,
                factors,
            };
            let left = Left::Rows(input);
            let multiplier = &mut tools.multiplier;
            multiplier.multiply(rows, left, &weights.forward, finish, &mut after[0]);
        }
        let weights = layers[hidden].weights.read();
        let part = &mut parts[hidden];
        part.fit(&weights.spec);
        let last = self.tangents.last().map_or(tangent, Vec::as_slice);
        super::layer::column_sums(tools.arch, last, &mut part.weight);
        part.bias[0] = factors.iter().sum();
    }
}

/// out = row where the activation is above 0, else 0, for every row of activations.
fn masked_rows(arch: Arch, row: &[f32], activations: &[f32], out: &mut [f32]) {
    arch.dispatch(
        #[inline(always)]
        || {
            let lines = out.chunks_exact_mut(row.len());
            for (line, activations) in lines.zip(activations.chunks_exact(row.len())) {
                for ((to, value), activation) in line.iter_mut().zip(row).zip(activations) {
                    *to = if *activation > 0.0 { *value } else { 0.0 };
                }
            }
        },
    );
}

fn weighted_column_sums(arch: Arch, values: &[f32], factors: &[f32], sums: &mut [f32]) {
    sums.fill(0.0);
    arch.dispatch(
        #[inline(always)]
        || {
            for (row, factor) in values.chunks_exact(sums.len()).zip(factors) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += factor * value;
                }
            }
        },
    );
}
