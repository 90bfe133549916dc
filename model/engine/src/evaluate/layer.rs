//! Layers in evaluation mode, and the space they work in.

use pulp::Arch;

use crate::{
    Architecture, NamedTensors, Result,
    architecture::{LayerSpec, Network, Norm},
    cpu::{
        gemm::{Epilogue, Left, Packed, multiply},
        normalise::{Affine, EPSILON, layer_forward},
    },
    parameters::{finite, not_negative},
};

/// Rows that pass through all layers before the next do: what lies between two layers stays in the cache,
/// and the scratch does not grow with the call.
pub(crate) const BLOCK_ROWS: usize = 96;

/// Working space of evaluations. Any network may use any scratch; each thread wants its own.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Input of the next layer; swapped with `next` after it.
    current: Vec<f32>,
    next: Vec<f32>,
    spare: Spare,
    /// Embedded fields or clipped rows, before the first layer.
    pub(super) input: Vec<f32>,
}

#[derive(Debug, Default)]
struct Spare {
    /// What leaves a layer before layer normalisation.
    product: Vec<f32>,
    inverse_deviations: Vec<f32>,
}

/// A linear layer with what follows it.
#[derive(Debug)]
pub(crate) struct PackedLayer {
    weights: Packed,
    bias: Vec<f32>,
    /// Scale and shift of a layer normalisation.
    normalisation: Option<(Vec<f32>, Vec<f32>)>,
    inputs: usize,
    relu: bool,
}

/// Layers one after the other.
#[derive(Debug)]
pub(crate) struct LayerStack {
    arch: Arch,
    layers: Vec<PackedLayer>,
}

// === impl PackedLayer ===

impl PackedLayer {
    fn new(spec: &LayerSpec, tensors: &NamedTensors) -> Result<Self> {
        let (inputs, outputs) = (spec.inputs, spec.outputs);
        let read = |prefix: &str, name: &str, shape: &[usize]| {
            finite(tensors, &format!("{prefix}.{name}"), shape)
        };
        let mut weight = read(&spec.linear, "weight", &[outputs, inputs])?.to_f64();
        let mut bias = read(&spec.linear, "bias", &[outputs])?.to_f64();
        let of_norm = |name: &str| read(&spec.normalisation, name, &[outputs]);
        let mut normalisation = None;
        match spec.norm {
            Norm::None => (),
            Norm::Layer => {
                normalisation = Some((of_norm("weight")?.to_f32(), of_norm("bias")?.to_f32()));
            }
            Norm::Batch => {
                let (scale, shift) = (of_norm("weight")?.to_f64(), of_norm("bias")?.to_f64());
                let mean = of_norm("running_mean")?.to_f64();
                let variance = of_norm("running_var")?;
                not_negative(&format!("{}.running_var", spec.normalisation), variance)?;
                let variance = variance.to_f64();
                for (unit, row) in weight.chunks_exact_mut(inputs).enumerate() {
                    let factor = scale[unit] / (variance[unit] + EPSILON).sqrt();
                    row.iter_mut().for_each(|value| *value *= factor);
                    bias[unit] = (bias[unit] - mean[unit]) * factor + shift[unit];
                }
            }
        }
        let narrow = |values: Vec<f64>| -> Vec<f32> { values.iter().map(|v| *v as f32).collect() };
        let mut weights = Packed::default();
        weights.pack_columns(&narrow(weight), inputs, outputs);
        Ok(Self {
            weights,
            bias: narrow(bias),
            normalisation,
            inputs,
            relu: spec.relu,
        })
    }

    /// Takes `input` through the layer, into `out`.
    fn forward(&self, arch: Arch, input: &[f32], out: &mut Vec<f32>, spare: &mut Spare) {
        let rows = input.len() / self.inputs;
        let left = Left::Rows(input);
        out.resize(rows * self.bias.len(), 0.0);
        match &self.normalisation {
            None => {
                let finish = if self.relu {
                    Epilogue::BiasRelu(&self.bias)
                } else {
                    Epilogue::Bias(&self.bias)
                };
                multiply(arch, rows, left, &self.weights, finish, out);
            }
            Some((scale, shift)) => {
                spare.product.resize(rows * self.bias.len(), 0.0);
                let finish = Epilogue::Bias(&self.bias);
                multiply(arch, rows, left, &self.weights, finish, &mut spare.product);
                layer_forward(
                    arch,
                    &mut spare.product,
                    &mut spare.inverse_deviations,
                    Affine { scale, shift },
                    out,
                );
            }
        }
    }
}

// === impl LayerStack ===

impl LayerStack {
    pub(crate) fn new(
        architecture: &Architecture,
        network: Network,
        tensors: &NamedTensors,
    ) -> Result<Self> {
        let layers = architecture.layers(network);
        Ok(Self {
            arch: Arch::new(),
            layers: layers
                .iter()
                .map(|layer| PackedLayer::new(layer, tensors))
                .collect::<Result<_>>()?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Takes `input` through all layers; gives what leaves the last.
    pub(crate) fn forward<'a>(&self, input: &'a [f32], scratch: &'a mut Scratch) -> &'a mut [f32] {
        let Some((first, others)) = self.layers.split_first() else {
            input.clone_into(&mut scratch.next);
            return &mut scratch.next;
        };
        let Scratch {
            current,
            next,
            spare,
            ..
        } = scratch;
        first.forward(self.arch, input, next, spare);
        for layer in others {
            std::mem::swap(current, next);
            layer.forward(self.arch, current, next, spare);
        }
        next
    }
}
