//! The critic v over one member's points: values, input gradients, and the gradient of its objective.
//!
//! The input gradient of a ReLU network is a product of weight matrices and 0/1 masks. The masks are constant almost
//! everywhere, so the gradient penalty is a polynomial of the weights, and its gradient needs the same deltas as
//! that of the values. One pass gives both. Let delta_l be the derivative of v by layer l's output, c the loss's
//! derivative by the point's value, and let the tangents be A_0 = dPenalty/dgradient + c * x and
//! A_{l+1} = mask_l * (A_l W_l^T + c b_l). Then dW_l = delta_l^T A_l and db_l is the sum of c * delta_l.
//!
//! Two products of this are never computed. The last tangent A_L enters only the gradient of the output's weights w, as
//! its sum over rows. As delta_{L-1} = mask * w, that sum is, unit by unit, (W_{L-1} . dW_{L-1} + b_{L-1} db_{L-1}) / w.
//! And the first layer is linear before its ReLU, so an interpolate's values there are interpolated, too.

use pulp::Arch;

use super::{
    buffers::zero,
    gemm::{Epilogue, Left},
    layer::{LayerGradient, LayerWorkspace, SharedLayer, weight_gradient},
    normalise::dot,
    weights::Weights,
};

/// Results of a pass over points, for the backward pass.
#[derive(Debug, Default)]
pub(crate) struct CriticTrace {
    /// v at each point.
    pub(crate) values: Vec<f32>,
    /// Gradient of v at each point, row by row.
    pub(crate) gradient: Vec<f32>,
    /// Outputs of the hidden layers.
    activations: Vec<Vec<f32>>,
    /// Derivatives of v by the hidden layers' values before their ReLU.
    deltas: Vec<Vec<f32>>,
    /// A_0 of the module's description, to be filled before [`CriticTrace::backward`].
    pub(crate) tangent: Vec<f32>,
    /// A_l for l > 0.
    tangents: Vec<Vec<f32>>,
}

impl CriticTrace {
    /// Computes `values` of row-major `points`.
    pub(crate) fn forward(
        &mut self,
        layers: &[SharedLayer],
        points: &[f32],
        workspace: &mut LayerWorkspace,
    ) {
        self.activations.resize_with(layers.len() - 1, Vec::new);
        self.forward_from(0, layers, points, workspace);
    }

    /// [`CriticTrace::forward`] of three sets of as many points, one after the other: the first lies at `positions` on the
    /// lines from the second to the third.
    pub(crate) fn forward_interpolated(
        &mut self,
        layers: &[SharedLayer],
        points: &[f32],
        positions: &[f32],
        workspace: &mut LayerWorkspace,
    ) {
        self.activations.resize_with(layers.len() - 1, Vec::new);
        let Some(first) = self.activations.first_mut() else {
            return self.forward(layers, points, workspace);
        };
        let weights = layers[0].weights.read();
        let width = weights.spec.outputs;
        let count = positions.len();
        first.resize(3 * count * width, 0.0);
        let (interpolates, ends) = first.split_at_mut(count * width);
        let left = Left::Rows(&points[points.len() / 3..]);
        let epilogue = Epilogue::Bias(&weights.bias.value);
        let multiplier = &mut workspace.multiplier;
        multiplier.multiply(2 * count, left, &weights.forward, epilogue, ends);
        interpolate_and_cut(workspace.arch, interpolates, ends, positions, width);
        drop(weights);
        self.forward_from(1, layers, points, workspace);
    }

    /// The layers from this one on, of which the activations before it are known.
    fn forward_from(
        &mut self,
        start: usize,
        layers: &[SharedLayer],
        points: &[f32],
        workspace: &mut LayerWorkspace,
    ) {
        let hidden = layers.len() - 1;
        for (number, layer) in layers[..hidden].iter().enumerate().skip(start) {
            let weights = layer.weights.read();
            let (before, after) = self.activations.split_at_mut(number);
            let input = before.last().map_or(points, Vec::as_slice);
            let rows = input.len() / weights.spec.inputs;
            after[0].resize(rows * weights.spec.outputs, 0.0);
            let (left, epilogue) = (Left::Rows(input), Epilogue::BiasRelu(&weights.bias.value));
            let multiplier = &mut workspace.multiplier;
            multiplier.multiply(rows, left, &weights.forward, epilogue, &mut after[0]);
        }
        let weights = layers[hidden].weights.read();
        let last = self.activations.last().map_or(points, Vec::as_slice);
        let (weight, bias) = (&weights.weight.value, weights.bias.value[0]);
        zero(&mut self.values, last.len() / weight.len());
        let values = &mut self.values;
        workspace.arch.dispatch(
            #[inline(always)]
            || {
                for (value, row) in values.iter_mut().zip(last.chunks_exact(weight.len())) {
                    *value = dot(row, weight) + bias;
                }
            },
        );
    }

    /// Computes `gradient` at the points of the last forward.
    pub(crate) fn input_gradient(
        &mut self,
        layers: &[SharedLayer],
        workspace: &mut LayerWorkspace,
    ) {
        let hidden = layers.len() - 1;
        let rows = self.values.len();
        self.deltas.resize_with(hidden, Vec::new);
        {
            let weights = layers[hidden].weights.read();
            let weight = &weights.weight.value;
            match (self.deltas.last_mut(), self.activations.last()) {
                (Some(delta), Some(activations)) => {
                    delta.resize(activations.len(), 0.0);
                    masked_rows(workspace.arch, weight, activations, delta);
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
            let (to, epilogue) = match before.last_mut() {
                Some(delta) => (delta, Epilogue::Mask(&self.activations[number - 1])),
                None => (&mut self.gradient, Epilogue::Set),
            };
            to.resize(rows * weights.spec.inputs, 0.0);
            let left = Left::Rows(&after[0]);
            let multiplier = &mut workspace.multiplier;
            multiplier.multiply(rows, left, &weights.backward, epilogue, to);
        }
    }

    /// Sets `tangent` (A_0) from the gradient penalty and `factors` (c), after [`CriticTrace::input_gradient`] of the
    /// same points. Returns the sum of (gradient norm - 1)^2; `penalty_factor` is the derivative of the loss by half of
    /// it.
    pub(crate) fn set_tangent(
        &mut self,
        points: &[f32],
        width: usize,
        factors: &[f32],
        penalty_factor: f64,
        arch: Arch,
    ) -> f64 {
        self.tangent.resize(points.len(), 0.0);
        let mut penalty = 0.0;
        arch.dispatch(
            #[inline(always)]
            || {
                let gradients = self.gradient.chunks_exact(width);
                let rows = gradients.zip(points.chunks_exact(width));
                let tangents = self.tangent.chunks_exact_mut(width).zip(factors);
                for ((gradient, point), (tangent, factor)) in rows.zip(tangents) {
                    let norm = f64::from(dot(gradient, gradient)).sqrt();
                    penalty += (norm - 1.0).powi(2);
                    // The norm has no derivative at 0; 0 is a subgradient.
                    let scale = if norm > 0.0 {
                        (penalty_factor * (norm - 1.0) / norm) as f32
                    } else {
                        0.0
                    };
                    for ((to, gradient), point) in tangent.iter_mut().zip(gradient).zip(point) {
                        *to = scale * gradient + factor * point;
                    }
                }
            },
        );
        penalty
    }

    /// The loss's gradient by the parameters, from `tangent` and `factors` (c of the module's description).
    pub(crate) fn backward(
        &mut self,
        layers: &[SharedLayer],
        factors: &[f32],
        parts: &mut [LayerGradient],
        workspace: &mut LayerWorkspace,
    ) {
        let hidden = layers.len() - 1;
        let rows = factors.len();
        self.tangents.resize_with(hidden, Vec::new);
        for (number, layer) in layers[..hidden].iter().enumerate() {
            let weights = layer.weights.read();
            let part = &mut parts[number];
            part.fit(&weights.spec);
            let (before, after) = self.tangents.split_at_mut(number);
            let input = before.last().map_or(&self.tangent[..], Vec::as_slice);
            let delta = &self.deltas[number];
            weight_gradient(input, delta, &weights.spec, &mut part.weight, workspace);
            weighted_column_sums(workspace.arch, delta, factors, &mut part.bias);
            if number + 1 == hidden {
                break;
            }
            after[0].resize(rows * weights.spec.outputs, 0.0);
            let epilogue = Epilogue::MaskScaledBias {
                activations: &self.activations[number],
                bias: &weights.bias.value,
                factors,
            };
            let left = Left::Rows(input);
            let multiplier = &mut workspace.multiplier;
            multiplier.multiply(rows, left, &weights.forward, epilogue, &mut after[0]);
        }
        let output = layers[hidden].weights.read();
        let (parts, last) = parts.split_at_mut(hidden);
        last[0].fit(&output.spec);
        last[0].bias[0] = factors.iter().sum();
        let sums = &mut last[0].weight;
        match (layers[..hidden].last(), parts.last()) {
            (Some(layer), Some(part)) => {
                let units = Units {
                    weights: &layer.weights.read(),
                    part,
                    activations: &self.activations[hidden - 1],
                    input: match hidden {
                        1 => &self.tangent,
                        _ => &self.tangents[hidden - 2],
                    },
                    factors,
                };
                units.sum_tangents(workspace.arch, &output.weight.value, sums);
            }
            _ => super::layer::column_sums(workspace.arch, &self.tangent, sums),
        }
    }
}

/// The last hidden layer, its gradients, and what enters its tangents.
struct Units<'a> {
    weights: &'a Weights,
    part: &'a LayerGradient,
    activations: &'a [f32],
    input: &'a [f32],
    factors: &'a [f32],
}

/// Below this a weight of the output is not divided by.
const LEAST_DIVISOR: f32 = 1e-20;

impl Units<'_> {
    /// Sum over rows of each unit's tangent, which are not computed. `output` are the weights behind the layer.
    fn sum_tangents(&self, arch: Arch, output: &[f32], sums: &mut [f32]) {
        let inputs = self.weights.spec.inputs;
        let (weights, bias) = (&self.weights.weight.value, &self.weights.bias.value);
        arch.dispatch(
            #[inline(always)]
            || {
                let rows = weights.chunks_exact(inputs);
                let gradients = rows.zip(self.part.weight.chunks_exact(inputs));
                for (unit, (row, gradient)) in gradients.enumerate() {
                    let divisor = output[unit];
                    sums[unit] = if divisor.abs() < LEAST_DIVISOR {
                        self.sum_directly(unit, row, bias[unit])
                    } else {
                        (dot(row, gradient) + bias[unit] * self.part.bias[unit]) / divisor
                    };
                }
            },
        );
    }

    fn sum_directly(&self, unit: usize, row: &[f32], bias: f32) -> f32 {
        let inputs = self.input.chunks_exact(row.len()).zip(self.factors);
        let units = self.weights.spec.outputs;
        let rows = inputs.zip(self.activations.chunks_exact(units));
        let active = rows.filter(|(_, activations)| activations[unit] > 0.0);
        active
            .map(|((input, factor), _)| dot(input, row) + factor * bias)
            .sum()
    }
}

/// A ReLU that passes NaN on, so that the loss shows it.
#[inline(always)]
fn cut(value: f32) -> f32 {
    if value < 0.0 { 0.0 } else { value }
}

/// Interpolates between the first and the second half of `ends`, and cuts all of them off below 0.
fn interpolate_and_cut(
    arch: Arch,
    interpolates: &mut [f32],
    ends: &mut [f32],
    positions: &[f32],
    width: usize,
) {
    let (from, to) = ends.split_at_mut(interpolates.len());
    arch.dispatch(
        #[inline(always)]
        || {
            let ends = from.chunks_exact_mut(width).zip(to.chunks_exact_mut(width));
            let rows = interpolates.chunks_exact_mut(width).zip(positions);
            for ((from, to), (between, position)) in ends.zip(rows) {
                for ((from, to), between) in from.iter_mut().zip(to).zip(between) {
                    *between = cut(*from + position * (*to - *from));
                    *from = cut(*from);
                    *to = cut(*to);
                }
            }
        },
    );
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
