//! The critic v over one member's points: values, input gradients, and the gradient of its objective.
//!
//! The input gradient of a ReLU network is a product of weight matrices and 0/1 masks. The masks are constant almost
//! everywhere, so the gradient penalty is a polynomial of the weights, and its gradient needs the same deltas as
//! that of the values. One pass gives both. Let delta_l be the derivative of v by layer l's output, c the loss's
//! derivative by the point's value, and let the tangents be A_0 = dPenalty/dgradient + c * x and
//! A_{l+1} = mask_l * (A_l W_l^T + c b_l). Then dW_l = delta_l^T A_l and db_l is the sum of c * delta_l.

use pulp::Arch;

use super::{
    gemm::{Epilogue, Left},
    layer::{LayerGradient, LayerWorkspace, SharedLayer, weight_gradient},
    normalise::dot,
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
        let hidden = layers.len() - 1;
        self.activations.resize_with(hidden, Vec::new);
        for (number, layer) in layers[..hidden].iter().enumerate() {
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
        self.values.clear();
        self.values.resize(last.len() / weight.len(), 0.0);
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
        let weights = layers[hidden].weights.read();
        let part = &mut parts[hidden];
        part.fit(&weights.spec);
        let last = self
            .tangents
            .last()
            .map_or(&self.tangent[..], Vec::as_slice);
        super::layer::column_sums(workspace.arch, last, &mut part.weight);
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
