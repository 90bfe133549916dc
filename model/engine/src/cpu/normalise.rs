//! Batch and layer normalisation of one member's rows, forward and backward, each together with the ReLU after it.

use pulp::Arch;

use super::{
    buffers::{refill, zero},
    statistics::BatchStatistics,
    team::Member,
};

/// Added to a variance before its root, as in the paper.
pub(crate) const EPSILON: f64 = 1e-5;

/// A normalisation's scale and shift.
#[derive(Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
}

/// Gradients of a normalisation's scale and shift from one member's rows.
pub(crate) struct AffineGradient<'a> {
    pub(crate) scale: &'a mut [f32],
    pub(crate) shift: &'a mut [f32],
}

/// values = (values - mean) * inverse deviation, column by column; output = scale * values + shift, with or without a
/// ReLU.
pub(crate) fn batch_forward(
    arch: Arch,
    values: &mut [f32],
    statistics: &BatchStatistics,
    inverse_deviations: &[f32],
    affine: Affine<'_>,
    relu: bool,
    output: &mut [f32],
) {
    let width = inverse_deviations.len();
    let lowest = if relu { 0.0 } else { f32::NEG_INFINITY };
    arch.dispatch(
        #[inline(always)]
        || {
            let rows = values
                .chunks_exact_mut(width)
                .zip(output.chunks_exact_mut(width));
            for (row, out) in rows {
                let columns = statistics.narrow_mean().iter().zip(inverse_deviations);
                let affine = affine.scale.iter().zip(affine.shift);
                for (((value, out), (mean, inverse)), (scale, shift)) in
                    row.iter_mut().zip(out).zip(columns).zip(affine)
                {
                    *value = (*value - mean) * inverse;
                    *out = (*value * scale + shift).max(lowest);
                }
            }
        },
    );
}

/// Buffers in which members add up their sums of a backward pass: in double precision, then rounded to single.
#[derive(Debug, Default)]
pub(crate) struct BackwardSums {
    wide: Vec<f64>,
    scratch: Vec<f64>,
    narrow: Vec<f32>,
}

impl BackwardSums {
    /// Adds up the members' gradients of scale and shift and divides them by `rows`: the means over all rows of
    /// gradient times normalised value, and of the gradient, column by column.
    pub(crate) fn exchange(
        &mut self,
        scale: &[f32],
        shift: &[f32],
        rows: usize,
        member: &Member,
    ) -> (&[f32], &[f32]) {
        let parts = scale.iter().chain(shift);
        refill(&mut self.wide, parts.map(|part| f64::from(*part)));
        member.sum(&mut self.wide, &mut self.scratch);
        let means = self.wide.iter().map(|sum| (sum / rows as f64) as f32);
        refill(&mut self.narrow, means);
        self.narrow.split_at(scale.len())
    }
}

/// Values of a normalisation's forward pass that the backward pass needs.
#[derive(Clone, Copy)]
pub(crate) struct NormTrace<'a> {
    pub(crate) normalised: &'a [f32],
    pub(crate) inverse_deviations: &'a [f32],
    pub(crate) scale: &'a [f32],
}

/// On entry `gradient` is the gradient at the ReLU's input, on return that at the normalisation's input. `rows` is the
/// number of rows of all members.
pub(crate) fn batch_backward(
    arch: Arch,
    gradient: &mut [f32],
    trace: NormTrace<'_>,
    parts: AffineGradient<'_>,
    rows: usize,
    member: &Member,
    sums: &mut BackwardSums,
) {
    let width = trace.scale.len();
    affine_gradient(arch, gradient, trace.normalised, parts.scale, parts.shift);
    let (along, mean) = sums.exchange(parts.scale, parts.shift, rows, member);
    arch.dispatch(
        #[inline(always)]
        || {
            let normalised = trace.normalised.chunks_exact(width);
            for (row, normalised) in gradient.chunks_exact_mut(width).zip(normalised) {
                let means = along.iter().zip(mean);
                let factors = trace.scale.iter().zip(trace.inverse_deviations);
                for (((value, normalised), (along, mean)), (scale, inverse)) in
                    row.iter_mut().zip(normalised).zip(means).zip(factors)
                {
                    *value = scale * inverse * (*value - mean - normalised * along);
                }
            }
        },
    );
}

/// Like [`batch_backward`], for running statistics, which do not depend on the batch.
pub(crate) fn batch_evaluation_backward(
    arch: Arch,
    gradient: &mut [f32],
    trace: NormTrace<'_>,
    parts: AffineGradient<'_>,
) {
    let width = trace.scale.len();
    affine_gradient(arch, gradient, trace.normalised, parts.scale, parts.shift);
    arch.dispatch(
        #[inline(always)]
        || {
            for row in gradient.chunks_exact_mut(width) {
                let factors = trace.scale.iter().zip(trace.inverse_deviations);
                for (value, (scale, inverse)) in row.iter_mut().zip(factors) {
                    *value *= scale * inverse;
                }
            }
        },
    );
}

/// Like [`batch_forward`] with a ReLU, but each row is normalised by its own mean and deviation.
pub(crate) fn layer_forward(
    arch: Arch,
    values: &mut [f32],
    inverse_deviations: &mut Vec<f32>,
    affine: Affine<'_>,
    output: &mut [f32],
) {
    let width = affine.scale.len();
    zero(inverse_deviations, values.len() / width);
    arch.dispatch(
        #[inline(always)]
        || {
            let rows = values
                .chunks_exact_mut(width)
                .zip(output.chunks_exact_mut(width));
            for ((row, out), inverse) in rows.zip(&mut *inverse_deviations) {
                let mean = sum(row) / width as f32;
                row.iter_mut().for_each(|value| *value -= mean);
                let variance = dot(row, row) / width as f32;
                *inverse = (1.0 / (f64::from(variance) + EPSILON).sqrt()) as f32;
                let affine = affine.scale.iter().zip(affine.shift);
                for ((value, out), (scale, shift)) in row.iter_mut().zip(out).zip(affine) {
                    *value *= *inverse;
                    *out = (*value * scale + shift).max(0.0);
                }
            }
        },
    );
}

/// Like [`batch_backward`], for [`layer_forward`].
pub(crate) fn layer_backward(
    arch: Arch,
    gradient: &mut [f32],
    trace: NormTrace<'_>,
    parts: AffineGradient<'_>,
) {
    let width = trace.scale.len();
    affine_gradient(arch, gradient, trace.normalised, parts.scale, parts.shift);
    arch.dispatch(
        #[inline(always)]
        || {
            let rows = gradient
                .chunks_exact_mut(width)
                .zip(trace.normalised.chunks_exact(width));
            for ((row, normalised), inverse) in rows.zip(trace.inverse_deviations) {
                for (value, scale) in row.iter_mut().zip(trace.scale) {
                    *value *= scale;
                }
                let mean = sum(row) / width as f32;
                let along = dot(row, normalised) / width as f32;
                for (value, normalised) in row.iter_mut().zip(normalised) {
                    *value = inverse * (*value - mean - normalised * along);
                }
            }
        },
    );
}

/// Sums over rows of gradient times normalised value, and of the gradient.
pub(crate) fn affine_gradient(
    arch: Arch,
    gradient: &[f32],
    normalised: &[f32],
    scale: &mut [f32],
    shift: &mut [f32],
) {
    let width = scale.len();
    scale.fill(0.0);
    shift.fill(0.0);
    arch.dispatch(
        #[inline(always)]
        || {
            let rows = gradient
                .chunks_exact(width)
                .zip(normalised.chunks_exact(width));
            for (row, normalised) in rows {
                let columns = scale.iter_mut().zip(shift.iter_mut());
                for ((value, normalised), (scale, shift)) in row.iter().zip(normalised).zip(columns)
                {
                    *scale += value * normalised;
                    *shift += value;
                }
            }
        },
    );
}

/// Dot product in eight lanes, which the compiler vectorises. It must not reorder a plain sum of floats.
#[inline(always)]
pub(crate) fn dot(left: &[f32], right: &[f32]) -> f32 {
    let (left, left_rest) = left.as_chunks::<8>();
    let (right, right_rest) = right.as_chunks::<8>();
    let mut lanes = [0.0f32; 8];
    for (left, right) in left.iter().zip(right) {
        for lane in 0..8 {
            lanes[lane] += left[lane] * right[lane];
        }
    }
    let rest = left_rest.iter().zip(right_rest);
    lanes.iter().sum::<f32>() + rest.map(|(a, b)| a * b).sum::<f32>()
}

/// Sum in eight lanes, for the same reason as [`dot`].
#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let (chunks, rest) = values.as_chunks::<8>();
    let mut lanes = [0.0f32; 8];
    for chunk in chunks {
        for lane in 0..8 {
            lanes[lane] += chunk[lane];
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().sum::<f32>()
}
