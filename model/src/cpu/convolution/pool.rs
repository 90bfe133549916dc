//! Batch normalisation, 2x2 max-pooling and ReLU, fused.
//!
//! Normalisation is monotone in every channel: rising or falling with the sign of its scale. So the largest
//! normalised value of a 2x2 square belongs to the largest or smallest value before it, and a quarter of the
//! numbers has to be kept and normalised.

use pulp::Arch;

use crate::cpu::{
    layer::{Gradient, LayerCell, Mode, Tools},
    normalise::{Affine, BackwardSums, affine_gradient, batch_forward},
    team::Member,
};

/// Numbers behind the output that a product may read, and drops: it takes columns in tiles.
const PADDING: usize = 16;

/// What pooling a member's images leaves behind.
#[derive(Debug, Default)]
pub(super) struct Pooled {
    /// Of each channel's scale.
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
        self.signs.clear();
        let signs = affine.scale.iter().map(|scale| match *scale < 0.0 {
            true => -1.0,
            false => 1.0,
        });
        self.signs.extend(signs);
        self.normalised.resize(values, 0.0);
        self.winners.resize(values, 0);
        self.output.resize(values + PADDING, 0.0);
    }

    /// Pools one image of `side` x `side` places.
    pub(super) fn take(&mut self, arch: Arch, image: usize, raw: &[f32], side: usize) {
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
                            best = match next > best.0 {
                                true => (next, place),
                                false => best,
                            };
                        }
                        *value = sign * best.0;
                        *winner = best.1 as u8;
                    }
                }
            },
        );
    }

    /// Normalises what was taken, by the statistics that `tools` have measured or by running ones.
    pub(super) fn normalise(
        &mut self,
        mode: Mode,
        cell: &LayerCell,
        tools: &mut Tools,
        member: &Member<'_>,
    ) {
        let weights = cell.weights.read();
        let statistics = &mut tools.statistics;
        match mode {
            Mode::Training => {
                statistics.exchange(member);
                cell.move_running(&weights.bias.value, statistics, member);
            }
            Mode::Evaluation => cell.recall(statistics),
        }
        statistics.inverse_deviations(&mut self.inverse_deviations);
        self.places = statistics.count as usize;
        self.mean.clear();
        self.mean.extend_from_slice(statistics.narrow_mean());
        let affine = weights.affine().expect("convolutions are normalised");
        let values = self.normalised.len();
        batch_forward(
            tools.arch,
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

    /// The output and the numbers behind it.
    pub(super) fn padded_output(&self) -> &[f32] {
        &self.output
    }

    /// Takes the gradient at the output back through the ReLU and gives scale, shift and bias theirs.
    /// Returns what the normalisation's own backward needs: by channel, the means over all places of
    /// gradient times normalised value and of the gradient.
    pub(super) fn backward<'s>(
        &mut self,
        gradient: &mut [f32],
        part: &mut Gradient,
        arch: Arch,
        sums: &'s mut BackwardSums,
        member: &Member<'_>,
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
        // Exactly zero: what shifts every place alike cancels in the normalised value.
        part.bias.fill(0.0);
        part.scale.fill(0.0);
        part.shift.fill(0.0);
        // Sums of sums: a single one over so many places would lose digits.
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
