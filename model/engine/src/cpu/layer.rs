//! A linear layer with its normalisation, ReLU and dropout: forward and backward over one member's rows.

use parking_lot::RwLock;
use pulp::Arch;

use super::{
    gemm::{Epilogue, Left, Multiplier, Packed, PackedLeft},
    normalise::{
        Affine, AffineGradient, BackwardSums, NormTrace, batch_backward, batch_evaluation_backward,
        batch_forward, layer_backward, layer_forward,
    },
    parameter::Parameter,
    sparse::{LayerInput, SparseWorkspace},
    statistics::{BatchMoments, BatchStatistics},
    team::Member,
    weights::Weights,
};
use crate::{
    NamedTensors,
    architecture::{LayerSpec, Norm, ParameterSpec, Role},
    optimiser::AdamCoefficients,
    parameters::ImportedParameter,
};

/// A layer that members share. Running statistics have a lock of their own: they change in forward passes, while the
/// weights are being read.
#[derive(Debug)]
pub(crate) struct SharedLayer {
    pub(crate) weights: RwLock<Weights>,
    pub(crate) running: RwLock<Option<RunningStatistics>>,
}

/// Running mean and variance of a batch normalisation. They are exported with the parameters but not trained.
#[derive(Debug)]
pub(crate) struct RunningStatistics {
    pub(crate) mean: Parameter,
    pub(crate) variance: Parameter,
    /// Mean and variance before the current step, to restore if it fails.
    saved: [Vec<f32>; 2],
}

/// Whether batch normalisation uses the batch's statistics or the running ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Training,
    Evaluation,
}

/// Values of a forward pass that the backward pass needs, for one member's rows.
#[derive(Debug, Default)]
pub(crate) struct LayerTrace {
    pub(crate) output: Vec<f32>,
    mode: Mode,
    normalised: Vec<f32>,
    inverse_deviations: Vec<f32>,
    /// Rows of all members, over which batch statistics were taken.
    rows_of_all: usize,
    /// The batch's statistics, in training mode.
    moments: BatchMoments,
}

/// A layer's gradients from one member's rows.
#[derive(Debug, Default)]
pub(crate) struct LayerGradient {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
    pub(crate) scale: Vec<f32>,
    pub(crate) shift: Vec<f32>,
}

/// What a member computes layers with: its place in the team, the instruction set, the multiplier, and buffers that every
/// layer reuses.
#[derive(Debug)]
pub(crate) struct LayerWorkspace {
    pub(crate) member: Member,
    pub(crate) arch: Arch,
    pub(crate) multiplier: Multiplier,
    pub(crate) left: PackedLeft,
    pub(crate) right: Packed,
    pub(crate) sparse: SparseWorkspace,
    pub(crate) statistics: BatchStatistics,
    pub(crate) sums: BackwardSums,
}

/// Factors of a layer's outputs, for one member's rows: 0 for a dropped unit, else 1 / (1 - dropout). `None` without
/// dropout.
pub(crate) type DropoutMask<'a> = Option<&'a [f32]>;

// === impl SharedLayer ===

impl SharedLayer {
    /// A layer with all parameters 0. Takes its parameters' specs from the front of `specs`.
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
        let running = (spec.norm == Norm::Batch).then(|| RunningStatistics {
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

    /// Forward of one member's rows, to `trace.output`. In training mode member 0 updates the running statistics.
    pub(crate) fn forward(
        &self,
        mode: Mode,
        input: LayerInput<'_>,
        dropout_mask: DropoutMask<'_>,
        trace: &mut LayerTrace,
        workspace: &mut LayerWorkspace,
    ) {
        let weights = self.weights.read();
        let (inputs, outputs) = (weights.spec.inputs, weights.spec.outputs);
        let rows = input.rows(inputs);
        trace.mode = mode;
        trace.output.resize(rows * outputs, 0.0);
        let bias = &weights.bias.value;
        let (epilogue, normalised) = match (weights.spec.norm, weights.spec.relu) {
            // The bias cancels in the normalised value. Only the running mean needs it.
            (Norm::Batch, _) if mode == Mode::Training => (Epilogue::Set, true),
            (Norm::Batch | Norm::Layer, _) => (Epilogue::Bias(bias), true),
            (Norm::None, true) => (Epilogue::BiasRelu(bias), false),
            (Norm::None, false) => (Epilogue::Bias(bias), false),
        };
        let product = if normalised {
            trace.normalised.resize(rows * outputs, 0.0);
            &mut trace.normalised
        } else {
            &mut trace.output
        };
        let multiplier = &mut workspace.multiplier;
        input.multiply(multiplier, rows, &weights.forward, epilogue, product);
        if let Some(affine) = weights.affine() {
            match weights.spec.norm {
                Norm::Batch => {
                    let relu = weights.spec.relu;
                    self.normalise_batch(affine, relu, bias, trace, workspace);
                }
                Norm::Layer | Norm::None => layer_forward(
                    workspace.arch,
                    &mut trace.normalised,
                    &mut trace.inverse_deviations,
                    affine,
                    &mut trace.output,
                ),
            }
        }
        if let Some(mask) = dropout_mask {
            multiply_by(workspace.arch, &mut trace.output, mask);
        }
    }

    fn normalise_batch(
        &self,
        affine: Affine<'_>,
        relu: bool,
        bias: &[f32],
        trace: &mut LayerTrace,
        workspace: &mut LayerWorkspace,
    ) {
        let statistics = &mut workspace.statistics;
        match trace.mode {
            Mode::Training => {
                statistics.measure(
                    workspace.arch,
                    &trace.normalised,
                    bias.len(),
                    &workspace.member,
                );
                self.update_running(bias, &statistics.moments, &workspace.member);
                trace.moments.copy(&statistics.moments);
            }
            Mode::Evaluation => self.load_running(statistics),
        }
        statistics.inverse_deviations(&mut trace.inverse_deviations);
        trace.rows_of_all = statistics.moments.count as usize;
        batch_forward(
            workspace.arch,
            &mut trace.normalised,
            statistics,
            &trace.inverse_deviations,
            affine,
            relu,
            &mut trace.output,
        );
    }

    /// Updates the running statistics by a batch's. Only member 0 does: all members call it with the same statistics.
    pub(crate) fn update_running(&self, bias: &[f32], moments: &BatchMoments, member: &Member) {
        if member.rank == 0
            && let Some(running) = self.running.write().as_mut()
        {
            let (mean, variance) = (&mut running.mean, &mut running.variance);
            moments.update_running(bias, &mut mean.value, &mut variance.value);
        }
    }

    /// [`SharedLayer::update_running`] by the statistics of an earlier forward pass.
    pub(crate) fn repeat_running(&self, trace: &LayerTrace, member: &Member) {
        let weights = self.weights.read();
        if weights.spec.norm == Norm::Batch {
            self.update_running(&weights.bias.value, &trace.moments, member);
        }
    }

    /// Loads the running statistics in place of a batch's.
    pub(crate) fn load_running(&self, statistics: &mut BatchStatistics) {
        if let Some(running) = &*self.running.read() {
            statistics.load_running(&running.mean.value, &running.variance.value);
        }
    }

    /// Backward of one member's rows. On entry `gradient` is the gradient at the ReLU's input (the mask is applied
    /// already), on return that at the linear layer's output. `part` receives the parameters' gradients.
    pub(crate) fn backward(
        &self,
        input: LayerInput<'_>,
        gradient: &mut [f32],
        trace: &LayerTrace,
        part: &mut LayerGradient,
        workspace: &mut LayerWorkspace,
    ) {
        let weights = self.weights.read();
        let spec = &weights.spec;
        part.fit(spec);
        let arch = workspace.arch;
        if let Some(affine) = weights.affine() {
            let norm_trace = NormTrace {
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
                    batch_backward(
                        arch,
                        gradient,
                        norm_trace,
                        parts,
                        rows,
                        &workspace.member,
                        &mut workspace.sums,
                    );
                }
                (Norm::Batch, Mode::Evaluation) => {
                    batch_evaluation_backward(arch, gradient, norm_trace, parts)
                }
                (Norm::Layer | Norm::None, _) => layer_backward(arch, gradient, norm_trace, parts),
            }
        }
        match (spec.norm, trace.mode) {
            // Exactly 0: a shift of all rows cancels in the normalised value.
            (Norm::Batch, Mode::Training) => part.bias.fill(0.0),
            _ => column_sums(arch, gradient, &mut part.bias),
        }
        input.weight_gradient(gradient, spec, &mut part.weight, workspace);
    }

    /// The gradient at the layer's input, from that at the linear layer's output.
    pub(crate) fn backward_input(
        &self,
        gradient: &[f32],
        epilogue: Epilogue<'_>,
        input_gradient: &mut Vec<f32>,
        workspace: &mut LayerWorkspace,
    ) {
        let weights = self.weights.read();
        let rows = gradient.len() / weights.spec.outputs;
        input_gradient.resize(rows * weights.spec.inputs, 0.0);
        let left = Left::Rows(gradient);
        let multiplier = &mut workspace.multiplier;
        multiplier.multiply(rows, left, &weights.backward, epilogue, input_gradient);
    }

    /// One optimiser step by the sum of the members' gradients.
    pub(crate) fn update<'p>(
        &self,
        arch: Arch,
        parts: impl Iterator<Item = &'p LayerGradient> + Clone,
        adam: &AdamCoefficients,
    ) {
        let mut guard = self.weights.write();
        let weights = &mut *guard;
        let slices =
            |of: fn(&LayerGradient) -> &Vec<f32>| parts.clone().map(move |p| of(p).as_slice());
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

    /// Imports this layer's parameters from the front of `imported`, in the order of [`SharedLayer::new`].
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

// === impl RunningStatistics ===

impl RunningStatistics {
    pub(crate) fn save(&mut self) {
        for (saved, parameter) in self.saved.iter_mut().zip([&self.mean, &self.variance]) {
            parameter.value.clone_into(saved);
        }
    }

    pub(crate) fn restore(&mut self) {
        self.mean.value.copy_from_slice(&self.saved[0]);
        self.variance.value.copy_from_slice(&self.saved[1]);
    }
}

// === impl LayerGradient ===

impl LayerGradient {
    pub(crate) fn fit(&mut self, spec: &LayerSpec) {
        self.weight.resize(spec.outputs * spec.inputs, 0.0);
        self.bias.resize(spec.outputs, 0.0);
        if spec.norm != Norm::None {
            self.scale.resize(spec.outputs, 0.0);
            self.shift.resize(spec.outputs, 0.0);
        }
    }
}

// === impl LayerWorkspace ===

impl LayerWorkspace {
    pub(crate) fn new(arch: Arch, member: Member) -> Self {
        Self {
            member,
            arch,
            multiplier: Multiplier::new(arch),
            left: PackedLeft::default(),
            right: Packed::default(),
            sparse: SparseWorkspace::default(),
            statistics: BatchStatistics::default(),
            sums: BackwardSums::default(),
        }
    }
}

/// Gradient of a linear layer's weights: gradient^T * input.
pub(crate) fn weight_gradient(
    input: &[f32],
    gradient: &[f32],
    spec: &LayerSpec,
    out: &mut [f32],
    workspace: &mut LayerWorkspace,
) {
    let rows = input.len() / spec.inputs;
    if rows == 0 {
        out.fill(0.0);
        return;
    }
    workspace.left.pack(gradient, rows, spec.outputs);
    workspace.right.pack_rows(input, rows, spec.inputs);
    let left = Left::Transposed(&workspace.left);
    let multiplier = &mut workspace.multiplier;
    multiplier.multiply(spec.outputs, left, &workspace.right, Epilogue::Set, out);
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
