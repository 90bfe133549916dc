//! Batch and layer normalisation of one member's rows, forward and backward, each with its ReLU.

use pulp::Arch;

use super::team::Member;

/// Added to a variance before its root, as in the paper.
pub(crate) const EPSILON: f64 = 1e-5;
/// Weight of the newest batch in running statistics.
pub(crate) const MOMENTUM: f64 = 0.1;

/// Statistics of a batch over all members, and what combining them needs.
#[derive(Debug, Default)]
pub(crate) struct BatchStatistics {
    /// Mean of each column.
    pub(crate) mean: Vec<f64>,
    /// Sum of squared deviations of each column.
    pub(crate) squares: Vec<f64>,
    /// Rows of all members.
    pub(crate) count: f64,
    /// What this member brings to the exchange.
    local: Vec<f64>,
    /// Mean and squared deviations in single precision, of this member and then of all.
    narrow: Vec<f32>,
}

/// A normalisation's scale and shift.
#[derive(Clone, Copy)]
pub(crate) struct Affine<'a> {
    pub(crate) scale: &'a [f32],
    pub(crate) shift: &'a [f32],
}

/// Gradients of a normalisation's scale and shift: this member's part.
pub(crate) struct AffineGradient<'a> {
    pub(crate) scale: &'a mut [f32],
    pub(crate) shift: &'a mut [f32],
}

impl BatchStatistics {
    /// Mean and squared deviations of each column over the rows of all members. Members' parts are
    /// merged by Chan's formula, which does not cancel as a difference of squares would.
    pub(crate) fn measure(
        &mut self,
        arch: Arch,
        values: &[f32],
        width: usize,
        member: &Member<'_>,
    ) {
        let rows = values.len() / width;
        self.narrow.clear();
        self.narrow.resize(2 * width, 0.0);
        let (mean, squares) = self.narrow.split_at_mut(width);
        arch.dispatch(
            #[inline(always)]
            || column_moments(values, width, mean, squares),
        );
        self.local.clear();
        self.local.push(rows as f64);
        self.local.extend(self.narrow.iter().map(|v| f64::from(*v)));

        self.count = 0.0;
        self.mean.clear();
        self.mean.resize(width, 0.0);
        self.squares.clear();
        self.squares.resize(width, 0.0);
        let (mean, squares, count) = (&mut self.mean, &mut self.squares, &mut self.count);
        member.gather(&self.local, |part| {
            if part[0] == 0.0 {
                return;
            }
            let total = *count + part[0];
            let (moves, spreads) = (part[0] / total, *count * part[0] / total);
            let columns = mean.iter_mut().zip(squares.iter_mut());
            let parts = part[1..=width].iter().zip(&part[1 + width..]);
            for ((mean, squares), (part_mean, part_squares)) in columns.zip(parts) {
                let delta = part_mean - *mean;
                *mean += delta * moves;
                *squares += part_squares + delta * delta * spreads;
            }
            *count = total;
        });
        for (narrow, mean) in self.narrow.iter_mut().zip(&self.mean) {
            *narrow = *mean as f32;
        }
    }

    /// Takes running statistics in place of a batch's. (A batch of one row has squares equal to its
    /// variance.)
    pub(crate) fn recall(&mut self, mean: &[f32], variance: &[f32]) {
        self.count = 1.0;
        self.narrow.clear();
        self.narrow.extend_from_slice(mean);
        self.mean.clear();
        self.mean.extend(mean.iter().map(|v| f64::from(*v)));
        self.squares.clear();
        self.squares.extend(variance.iter().map(|v| f64::from(*v)));
    }

    /// One over the deviation of each column.
    pub(crate) fn inverse_deviations(&self, out: &mut Vec<f32>) {
        out.clear();
        out.extend(
            self.squares
                .iter()
                .map(|squares| (1.0 / (squares / self.count + EPSILON).sqrt()) as f32),
        );
    }

    /// Mean of each column, in single precision.
    fn narrow_mean(&self) -> &[f32] {
        &self.narrow[..self.mean.len()]
    }

    /// Moves running statistics towards this batch's. `bias` belongs to the layer in front, whose
    /// output was measured without it. A batch of one row says nothing about the variance.
    pub(crate) fn move_running(
        &self,
        bias: &[f32],
        running_mean: &mut [f32],
        running_variance: &mut [f32],
    ) {
        let towards = |old: &mut f32, new: f64| {
            *old = ((1.0 - MOMENTUM) * f64::from(*old) + MOMENTUM * new) as f32;
        };
        for ((old, mean), bias) in running_mean.iter_mut().zip(&self.mean).zip(bias) {
            towards(old, mean + f64::from(*bias));
        }
        if self.count > 1.0 {
            for (old, squares) in running_variance.iter_mut().zip(&self.squares) {
                towards(old, squares / (self.count - 1.0));
            }
        }
    }
}

#[inline(always)]
fn column_moments(values: &[f32], width: usize, mean: &mut [f32], squares: &mut [f32]) {
    let rows = (values.len() / width).max(1) as f32;
    for row in values.chunks_exact(width) {
        for (sum, value) in mean.iter_mut().zip(row) {
            *sum += value;
        }
    }
    mean.iter_mut().for_each(|sum| *sum /= rows);
    for row in values.chunks_exact(width) {
        for ((sum, value), mean) in squares.iter_mut().zip(row).zip(&*mean) {
            let deviation = value - mean;
            *sum += deviation * deviation;
        }
    }
}

/// values <- (values - mean) * inverse deviation, column by column; output <- relu(affine(values)).
pub(crate) fn batch_forward(
    arch: Arch,
    values: &mut [f32],
    statistics: &BatchStatistics,
    inverse_deviations: &[f32],
    affine: Affine<'_>,
    output: &mut [f32],
) {
    let width = inverse_deviations.len();
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
                    *out = (*value * scale + shift).max(0.0);
                }
            }
        },
    );
}

/// What the members' sums of a backward pass need: in double precision, and narrowed.
#[derive(Debug, Default)]
pub(crate) struct BackwardSums {
    wide: Vec<f64>,
    scratch: Vec<f64>,
    narrow: Vec<f32>,
}

/// What the forward pass kept for the backward pass.
#[derive(Clone, Copy)]
pub(crate) struct Kept<'a> {
    pub(crate) normalised: &'a [f32],
    pub(crate) inverse_deviations: &'a [f32],
    pub(crate) scale: &'a [f32],
}

/// `gradient` enters as the gradient at the ReLU's input and leaves as that of the normalisation's.
/// `rows` counts those of all members.
pub(crate) fn batch_backward(
    arch: Arch,
    gradient: &mut [f32],
    kept: Kept<'_>,
    parts: AffineGradient<'_>,
    rows: usize,
    member: &Member<'_>,
    sums: &mut BackwardSums,
) {
    let width = kept.scale.len();
    affine_gradient(arch, gradient, kept.normalised, parts.scale, parts.shift);
    let BackwardSums {
        wide,
        scratch,
        narrow,
    } = sums;
    wide.clear();
    wide.extend(
        parts
            .scale
            .iter()
            .chain(&*parts.shift)
            .map(|v| f64::from(*v)),
    );
    member.sum(wide, scratch);
    narrow.clear();
    narrow.extend(wide.iter().map(|sum| (sum / rows as f64) as f32));
    let (along, mean) = narrow.split_at(width);
    arch.dispatch(
        #[inline(always)]
        || {
            let normalised = kept.normalised.chunks_exact(width);
            for (row, normalised) in gradient.chunks_exact_mut(width).zip(normalised) {
                let means = along.iter().zip(mean);
                let factors = kept.scale.iter().zip(kept.inverse_deviations);
                for (((value, normalised), (along, mean)), (scale, inverse)) in
                    row.iter_mut().zip(normalised).zip(means).zip(factors)
                {
                    *value = scale * inverse * (*value - mean - normalised * along);
                }
            }
        },
    );
}

/// As [`batch_backward`], with statistics that do not depend on the batch.
pub(crate) fn frozen_backward(
    arch: Arch,
    gradient: &mut [f32],
    kept: Kept<'_>,
    parts: AffineGradient<'_>,
) {
    let width = kept.scale.len();
    affine_gradient(arch, gradient, kept.normalised, parts.scale, parts.shift);
    arch.dispatch(
        #[inline(always)]
        || {
            for row in gradient.chunks_exact_mut(width) {
                let factors = kept.scale.iter().zip(kept.inverse_deviations);
                for (value, (scale, inverse)) in row.iter_mut().zip(factors) {
                    *value *= scale * inverse;
                }
            }
        },
    );
}

/// Each row by its own mean and deviation; otherwise as [`batch_forward`].
pub(crate) fn layer_forward(
    arch: Arch,
    values: &mut [f32],
    inverse_deviations: &mut Vec<f32>,
    affine: Affine<'_>,
    output: &mut [f32],
) {
    let width = affine.scale.len();
    inverse_deviations.clear();
    inverse_deviations.resize(values.len() / width, 0.0);
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

/// As [`batch_backward`], row by row.
pub(crate) fn layer_backward(
    arch: Arch,
    gradient: &mut [f32],
    kept: Kept<'_>,
    parts: AffineGradient<'_>,
) {
    let width = kept.scale.len();
    affine_gradient(arch, gradient, kept.normalised, parts.scale, parts.shift);
    arch.dispatch(
        #[inline(always)]
        || {
            let rows = gradient
                .chunks_exact_mut(width)
                .zip(kept.normalised.chunks_exact(width));
            for ((row, normalised), inverse) in rows.zip(kept.inverse_deviations) {
                for (value, scale) in row.iter_mut().zip(kept.scale) {
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

fn affine_gradient(
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

/// Sum of products in eight lanes, which the compiler turns into vector instructions.
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

/// Sum in eight lanes.
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
