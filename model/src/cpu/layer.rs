//! A linear layer with its normalisation, ReLU and dropout: forward in training mode, and backward.

use parking_lot::RwLock;
use pulp::Arch;

use super::{
    gemm::{Finish, Left, Multiplier, Packed, PackedLeft},
    normalise::{
        Affine, AffineGradient, BackwardSums, Kept, batch_backward, batch_forward, frozen_backward,
        layer_backward, layer_forward,
    },
    parameter::Parameter,
    statistics::BatchStatistics,
    team::Member,
};
use crate::{
    NamedTensors,
    architecture::{KERNEL_SIDE, LayerSpec, Norm, ParameterSpec, Role},
    optimiser::AdamCoefficients,
    parameters::ImportedParameter,
};

/// A layer that members share. Running statistics have a lock of their own: they move in forwards,
/// while the weights are being read.
#[derive(Debug)]
pub(crate) struct LayerCell {
    pub(crate) weights: RwLock<Weights>,
    pub(crate) running: RwLock<Option<Running>>,
}

/// What the optimiser moves, and the weights as products want them.
#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) spec: LayerSpec,
    pub(crate) weight: Parameter,
    pub(crate) bias: Parameter,
    pub(crate) scale: Option<Parameter>,
    pub(crate) shift: Option<Parameter>,
    /// inputs x outputs.
    pub(crate) forward: Packed,
    /// outputs x inputs.
    pub(crate) backward: Packed,
    /// Of a convolution over several channels: the same two for each row of the filters, whose inputs lie
    /// side by side in an image.
    pub(crate) filter_rows: Vec<[Packed; 2]>,
}

/// Running statistics of a batch normalisation.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) mean: Parameter,
    pub(crate) variance: Parameter,
    /// Mean and variance before the step under way.
    saved: [Vec<f32>; 2],
}

/// Whether batch normalisation measures the batch or trusts its running statistics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Training,
    Evaluation,
}

/// What a forward pass leaves for the backward pass, for one member's rows.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) output: Vec<f32>,
    mode: Mode,
    normalised: Vec<f32>,
    inverse_deviations: Vec<f32>,
    /// Rows of all members, which batch statistics were taken over.
    rows_of_all: usize,
}

/// One member's part of a layer's gradients.
#[derive(Debug, Default)]
pub(crate) struct Gradient {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) scale: Vec<f32>,
    pub(crate) shift: Vec<f32>,
}

/// A member's tools: what it multiplies and packs with, reused from layer to layer.
#[derive(Debug)]
pub(crate) struct Tools {
    pub(crate) arch: Arch,
    pub(crate) multiplier: Multiplier,
    pub(crate) left: PackedLeft,
    pub(crate) right: Packed,
    pub(crate) statistics: BatchStatistics,
    pub(crate) sums: BackwardSums,
}

/// Units that dropout keeps, for one member's rows of one layer: 0 or 1 / (1 - dropout).
pub(crate) type Keep<'a> = Option<&'a [f32]>;

// === impl LayerCell ===

impl LayerCell {
    /// A layer of zeros, whose parameters are the next of `specs`.
    pub(crate) fn new(spec: LayerSpec, specs: &mut impl Iterator<Item = ParameterSpec>) -> Self {
        let mut next = |role: Role| {
            let parameter = specs
                .next()
                .expect("the architecture lists every parameter");
            debug_assert_eq!(parameter.role, role, "{}", parameter.name);
            Parameter::new(parameter)
        };
        let (weight, bias) = (next(Role::Weight), next(Role::Bias));
        let (scale, shift) = match spec.norm {
            Norm::None => (None, None),
            Norm::Batch | Norm::Layer => (Some(next(Role::Scale)), Some(next(Role::Bias))),
        };
        let running = (spec.norm == Norm::Batch).then(|| Running {
            mean: next(Role::RunningMean),
            variance: next(Role::RunningVariance),
            saved: Default::default(),
        });
        Self {
            weights: RwLock::new(Weights {
                spec,
                weight,
                bias,
                scale,
                shift,
                forward: Packed::default(),
                backward: Packed::default(),
                filter_rows: Vec::new(),
            }),
            running: RwLock::new(running),
        }
    }

    /// Forward of one member's rows into `trace.output`. In training mode running statistics move,
    /// once, by member 0.
    pub(crate) fn forward(
        &self,
        mode: Mode,
        input: &[f32],
        keep: Keep<'_>,
        trace: &mut Trace,
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        let weights = self.weights.read();
        let (inputs, outputs) = (weights.spec.inputs, weights.spec.outputs);
        let rows = input.len() / inputs;
        trace.mode = mode;
        trace.output.resize(rows * outputs, 0.0);
        let bias = &weights.bias.value;
        let (finish, normalised) = match (weights.spec.norm, weights.spec.relu) {
            // The bias cancels in the normalised value; only the running mean knows it.
            (Norm::Batch, _) if mode == Mode::Training => (Finish::Set, true),
            (Norm::Batch | Norm::Layer, _) => (Finish::Bias(bias), true),
            (Norm::None, true) => (Finish::BiasRelu(bias), false),
            (Norm::None, false) => (Finish::Bias(bias), false),
        };
        let product = match normalised {
            true => {
                trace.normalised.resize(rows * outputs, 0.0);
                &mut trace.normalised
            }
            false => &mut trace.output,
        };
        let left = Left::Rows(input);
        let multiplier = &mut tools.multiplier;
        multiplier.multiply(rows, left, &weights.forward, finish, product);
        if let Some(affine) = weights.affine() {
            match weights.spec.norm {
                Norm::Batch => {
                    let relu = weights.spec.relu;
                    self.normalise_batch(affine, relu, bias, trace, tools, member);
                }
                Norm::Layer | Norm::None => layer_forward(
                    tools.arch,
                    &mut trace.normalised,
                    &mut trace.inverse_deviations,
                    affine,
                    &mut trace.output,
                ),
            }
        }
        if let Some(keep) = keep {
            multiply_by(tools.arch, &mut trace.output, keep);
        }
    }

    fn normalise_batch(
        &self,
        affine: Affine<'_>,
        relu: bool,
        bias: &[f32],
        trace: &mut Trace,
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        let statistics = &mut tools.statistics;
        match trace.mode {
            Mode::Training => {
                statistics.measure(tools.arch, &trace.normalised, bias.len(), member);
                self.move_running(bias, statistics, member);
            }
            Mode::Evaluation => self.recall(statistics),
        }
        statistics.inverse_deviations(&mut trace.inverse_deviations);
        trace.rows_of_all = statistics.count as usize;
        batch_forward(
            tools.arch,
            &mut trace.normalised,
            statistics,
            &trace.inverse_deviations,
            affine,
            relu,
            &mut trace.output,
        );
    }

    /// Moves running statistics towards a batch's, once, by member 0.
    pub(crate) fn move_running(
        &self,
        bias: &[f32],
        statistics: &BatchStatistics,
        member: &Member<'_>,
    ) {
        if member.rank == 0
            && let Some(running) = self.running.write().as_mut()
        {
            let (mean, variance) = (&mut running.mean, &mut running.variance);
            statistics.move_running(bias, &mut mean.value, &mut variance.value);
        }
    }

    /// Takes running statistics in place of a batch's.
    pub(crate) fn recall(&self, statistics: &mut BatchStatistics) {
        if let Some(running) = &*self.running.read() {
            statistics.recall(&running.mean.value, &running.variance.value);
        }
    }

    /// Backward of one member's rows: `gradient` enters as the gradient at the ReLU's input (masked
    /// already) and leaves as that of the linear layer's output; `part` gets the parameters' gradients.
    pub(crate) fn backward(
        &self,
        input: &[f32],
        gradient: &mut [f32],
        trace: &Trace,
        part: &mut Gradient,
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        let weights = self.weights.read();
        let spec = &weights.spec;
        part.fit(spec);
        let arch = tools.arch;
        if let Some(affine) = weights.affine() {
            let kept = Kept {
                normalised: &trace.normalised,
                inverse_deviations: &trace.inverse_deviations,
                scale: affine.scale,
            };
            let parts = AffineGradient {
                scale: &mut part.scale,
                shift: &mut part.shift,
            };
            match (spec.norm, trace.mode) {
                (Norm::Batch, Mode::Training) => {
                    let rows = trace.rows_of_all;
                    batch_backward(arch, gradient, kept, parts, rows, member, &mut tools.sums);
                }
                (Norm::Batch, Mode::Evaluation) => frozen_backward(arch, gradient, kept, parts),
                (Norm::Layer | Norm::None, _) => layer_backward(arch, gradient, kept, parts),
            }
        }
        match (spec.norm, trace.mode) {
            // Exactly zero: what shifts every row alike cancels in the normalised value.
            (Norm::Batch, Mode::Training) => part.bias.fill(0.0),
            _ => column_sums(arch, gradient, &mut part.bias),
        }
        weight_gradient(input, gradient, spec, &mut part.weight, tools);
    }

    /// The gradient at the layer's input, from that at the linear layer's output.
    pub(crate) fn backward_input(
        &self,
        gradient: &[f32],
        finish: Finish<'_>,
        input_gradient: &mut Vec<f32>,
        tools: &mut Tools,
    ) {
        let weights = self.weights.read();
        let rows = gradient.len() / weights.spec.outputs;
        input_gradient.resize(rows * weights.spec.inputs, 0.0);
        let left = Left::Rows(gradient);
        let multiplier = &mut tools.multiplier;
        multiplier.multiply(rows, left, &weights.backward, finish, input_gradient);
    }

    /// One optimiser step along the sum of the members' parts.
    pub(crate) fn update<'p>(
        &self,
        arch: Arch,
        parts: impl Iterator<Item = &'p Gradient> + Clone,
        adam: &AdamCoefficients,
    ) {
        let mut guard = self.weights.write();
        let weights = &mut *guard;
        let slices = |of: fn(&Gradient) -> &Vec<f32>| parts.clone().map(move |p| of(p).as_slice());
        weights.weight.update(arch, slices(|p| &p.weight), adam);
        weights.bias.update(arch, slices(|p| &p.bias), adam);
        if let (Some(scale), Some(shift)) = (&mut weights.scale, &mut weights.shift) {
            scale.update(arch, slices(|p| &p.scale), adam);
            shift.update(arch, slices(|p| &p.shift), adam);
        }
        weights.pack();
    }

    pub(crate) fn export(&self, with_moments: bool, tensors: &mut NamedTensors) {
        let weights = self.weights.read();
        for parameter in weights.parameters() {
            parameter.export(with_moments, tensors);
        }
        if let Some(running) = &*self.running.read() {
            running.mean.export(false, tensors);
            running.variance.export(false, tensors);
        }
    }

    pub(crate) fn export_gradients(&self, tensors: &mut NamedTensors) {
        for parameter in self.weights.read().parameters() {
            parameter.export_gradient(tensors);
        }
    }

    /// Takes the next of `imported` for each of its parameters, in the order it was made in.
    pub(crate) fn import<'i>(
        &self,
        imported: &mut impl Iterator<Item = &'i ImportedParameter<'i>>,
    ) {
        let mut next = |parameter: &mut Parameter| {
            let imported = imported.next();
            parameter.import(imported.expect("a checked import has every parameter"));
        };
        let mut weights = self.weights.write();
        next(&mut weights.weight);
        next(&mut weights.bias);
        weights.scale.iter_mut().for_each(&mut next);
        weights.shift.iter_mut().for_each(&mut next);
        weights.pack();
        if let Some(running) = self.running.write().as_mut() {
            next(&mut running.mean);
            next(&mut running.variance);
        }
    }
}

// === impl Weights ===

impl Weights {
    pub(crate) fn affine(&self) -> Option<Affine<'_>> {
        Some(Affine {
            scale: &self.scale.as_ref()?.value,
            shift: &self.shift.as_ref()?.value,
        })
    }

    fn parameters(&self) -> impl Iterator<Item = &Parameter> {
        let affine = self.scale.iter().chain(&self.shift);
        [&self.weight, &self.bias].into_iter().chain(affine)
    }

    fn pack(&mut self) {
        let (inputs, outputs) = (self.spec.inputs, self.spec.outputs);
        let weight = &self.weight.value;
        if self.spec.channels.is_some_and(|channels| channels > 1) {
            let depth = inputs / KERNEL_SIDE;
            self.filter_rows.resize_with(KERNEL_SIDE, Default::default);
            for (number, [forward, backward]) in self.filter_rows.iter_mut().enumerate() {
                let part = &weight[number * depth..];
                forward.pack_part_of_columns(part, inputs, depth, outputs);
                backward.pack_part_of_rows(part, inputs, outputs, depth);
            }
        }
        self.forward.pack_columns(weight, inputs, outputs);
        self.backward.pack_rows(weight, outputs, inputs);
    }
}

// === impl Running ===

impl Running {
    pub(crate) fn save(&mut self) {
        for (saved, parameter) in self.saved.iter_mut().zip([&self.mean, &self.variance]) {
            saved.clear();
            saved.extend_from_slice(&parameter.value);
        }
    }

    pub(crate) fn restore(&mut self) {
        self.mean.value.copy_from_slice(&self.saved[0]);
        self.variance.value.copy_from_slice(&self.saved[1]);
    }
}

// === impl Gradient ===

impl Gradient {
    pub(crate) fn fit(&mut self, spec: &LayerSpec) {
        self.weight.resize(spec.outputs * spec.inputs, 0.0);
        self.bias.resize(spec.outputs, 0.0);
        if spec.norm != Norm::None {
            self.scale.resize(spec.outputs, 0.0);
            self.shift.resize(spec.outputs, 0.0);
        }
    }
}

// === impl Tools ===

impl Tools {
    pub(crate) fn new(arch: Arch) -> Self {
        Self {
            arch,
            multiplier: Multiplier::new(arch),
            left: PackedLeft::default(),
            right: Packed::default(),
            statistics: BatchStatistics::default(),
            sums: BackwardSums::default(),
        }
    }
}

/// weight gradient = gradient^T * input.
pub(crate) fn weight_gradient(
    input: &[f32],
    gradient: &[f32],
    spec: &LayerSpec,
    out: &mut [f32],
    tools: &mut Tools,
) {
    let rows = input.len() / spec.inputs;
    if rows == 0 {
        out.fill(0.0);
        return;
    }
    tools.left.pack(gradient, rows, spec.outputs);
    tools.right.pack_rows(input, rows, spec.inputs);
    let left = Left::Transposed(&tools.left);
    let multiplier = &mut tools.multiplier;
    multiplier.multiply(spec.outputs, left, &tools.right, Finish::Set, out);
}

/// Sum of each column of row-major `values`.
pub(crate) fn column_sums(arch: Arch, values: &[f32], sums: &mut [f32]) {
    sums.fill(0.0);
    arch.dispatch(
        #[inline(always)]
        || {
            for row in values.chunks_exact(sums.len()) {
                for (sum, value) in sums.iter_mut().zip(row) {
                    *sum += value;
                }
            }
        },
    );
}

pub(crate) fn multiply_by(arch: Arch, values: &mut [f32], factors: &[f32]) {
    arch.dispatch(
        #[inline(always)]
        || {
            for (value, factor) in values.iter_mut().zip(factors) {
                *value *= factor;
            }
        },
    );
}
