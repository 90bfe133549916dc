//! Batch normalisation, 2x2 max-pooling and ReLU, fused.
//!
//! Normalisation is monotone in every channel; the sign of its scale decides the direction. The largest normalised
//! value of a 2x2 square therefore belongs to the largest or smallest value before it, and only a quarter of the
//! numbers has to be kept and normalised.

use pulp::Arch;

use crate::cpu::{
    buffers::refill,
    layer::{LayerGradient, LayerWorkspace, Mode, SharedLayer},
    normalise::{Affine, BackwardSums, affine_gradient, batch_forward},
    team::Member,
};

/// Numbers after the output that a product may read: it reads whole tiles of columns and ignores the excess.
const PADDING: usize = 16;

/// Values of pooling a member's images that the backward pass needs.
#[derive(Debug, Default)]
pub(super) struct Pooled {
    /// Sign of each channel's scale: 1 or -1.
    signs: Vec<f32>,
    /// The convolution's value at the winning place of each square, then normalised.
    normalised: Vec<f32>,
    /// Which place of each square won: 0 to 3, row by row.
    pub(super) winners: Vec<u8>,
    output: Vec<f32>,
    /// The batch's mean and one over its deviation, by channel.
    pub(super) mean: Vec<f32>,
    pub(super) inverse_deviations: Vec<f32>,
    /// Places of all members that the batch's statistics were taken over.
    places: usize,
    sums: Vec<f32>,
}

impl Pooled {
    /// Makes room for `values` pooled values.
    pub(super) fn begin(&mut self, values: usize, affine: Affine<'_>) {
        let sign = |scale: &f32| if *scale < 0.0 { -1.0 } else { 1.0 };
        refill(&mut self.signs, affine.scale.iter().map(sign));
        self.normalised.resize(values, 0.0);
        self.winners.resize(values, 0);
        self.output.resize(values + PADDING, 0.0);
    }

    /// Pools one image of `side` x `side` places.
    pub(super) fn pool_image(&mut self, arch: Arch, image: usize, raw: &[f32], side: usize) {
        let channels = self.signs.len();
        let values = side / 2 * (side / 2) * channels;
        let all = image * values..(image + 1) * values;
        let signs = self.signs.as_slice();
        let normalised = &mut self.normalised[all.clone()];
        let winners = &mut self.winners[all];
        arch.dispatch(
            #[inline(always)]
            || {
                let squares = normalised
                    .chunks_exact_mut(channels)
                    .zip(winners.chunks_exact_mut(channels));
                for (number, (values, winners)) in squares.enumerate() {
                    let (row, column) = (number / (side / 2), number % (side / 2));
                    let pair = |row: usize| {
                        let start = (row * side + 2 * column) * channels;
                        raw[start..start + 2 * channels].split_at(channels)
                    };
                    let ((a, b), (c, d)) = (pair(2 * row), pair(2 * row + 1));
                    let places = a.iter().zip(b).zip(c.iter().zip(d)).zip(signs);
                    let results = values.iter_mut().zip(winners);
                    for ((value, winner), (((a, b), (c, d)), sign)) in results.zip(places) {
                        let mut best = (sign * a, 0u32);
                        for (place, next) in [(1, sign * b), (2, sign * c), (3, sign * d)] {
                            best = if next > best.0 { (next, place) } else { best };
                        }
                        *value = sign * best.0;
                        *winner = best.1 as u8;
                    }
                }
            },
        );
    }

    /// Normalises the pooled values, by the statistics measured in `workspace` or by running ones.
    pub(super) fn normalise(
        &mut self,
        mode: Mode,
        layer: &SharedLayer,
        workspace: &mut LayerWorkspace,
    ) {
        let weights = layer.weights.read();
        let statistics = &mut workspace.statistics;
        match mode {
            Mode::Training => {
                statistics.exchange(&workspace.member);
                layer.update_running(&weights.bias.value, &statistics.moments, &workspace.member);
            }
            Mode::Evaluation => layer.load_running(statistics),
        }
        statistics.inverse_deviations(&mut self.inverse_deviations);
        self.places = statistics.moments.count as usize;
        statistics.narrow_mean().clone_into(&mut self.mean);
        let affine = weights.affine().expect("convolutions are normalised");
        let values = self.normalised.len();
        batch_forward(
            workspace.arch,
            &mut self.normalised,
            statistics,
            &self.inverse_deviations,
            affine,
            true,
            &mut self.output[..values],
        );
    }

    pub(super) fn output(&self) -> &[f32] {
        &self.output[..self.normalised.len()]
    }

    /// The output, and [`PADDING`] numbers after it.
    pub(super) fn padded_output(&self) -> &[f32] {
        &self.output
    }

    /// Backward through the ReLU, and the gradients of scale, shift and bias. Returns what the backward pass of the
    /// normalisation needs: by channel, the means over all places of gradient times normalised value and of the
    /// gradient.
    pub(super) fn backward<'s>(
        &mut self,
        gradient: &mut [f32],
        part: &mut LayerGradient,
        arch: Arch,
        sums: &'s mut BackwardSums,
        member: &Member,
    ) -> (&'s [f32], &'s [f32]) {
        let channels = self.signs.len();
        arch.dispatch(
            #[inline(always)]
            || {
                for (gradient, output) in gradient.iter_mut().zip(&self.output) {
                    *gradient = if *output > 0.0 { *gradient } else { 0.0 };
                }
            },
        );
        // Exactly 0: a shift of all places cancels in the normalised value.
        part.bias.fill(0.0);
        part.scale.fill(0.0);
        part.shift.fill(0.0);
        // Blocks are summed first: one single-precision sum over all places would lose digits.
        const PLACES_AT_ONCE: usize = 256;
        self.sums.resize(2 * channels, 0.0);
        let (scale, shift) = self.sums.split_at_mut(channels);
        let blocks = gradient.chunks(PLACES_AT_ONCE * channels);
        let normalised = self.normalised.chunks(PLACES_AT_ONCE * channels);
        for (gradient, normalised) in blocks.zip(normalised) {
            affine_gradient(arch, gradient, normalised, scale, shift);
            for (to, from) in part.scale.iter_mut().zip(&*scale) {
                *to += from;
            }
            for (to, from) in part.shift.iter_mut().zip(&*shift) {
                *to += from;
            }
        }
        sums.exchange(&part.scale, &part.shift, self.places, member)
    }
}
