//! The second convolution, which takes most of the time. Each row of its filters is a product of its own, whose windows
//! are contiguous in the image, so that nothing is copied.

use super::{pool::Pooled, windows::WindowProduct};
use crate::{
    architecture::{IMAGE_SIDE, KERNEL_SIDE},
    cpu::{
        buffers::{refill, zero},
        gemm::{Epilogue, Left},
        layer::{LayerGradient, LayerWorkspace, Mode, SharedLayer},
    },
};

/// Side of the first convolution's output, and the same after pooling: the side of this stage's input.
const FIRST_SIDE: usize = IMAGE_SIDE - KERNEL_SIDE + 1;
const INPUT_SIDE: usize = FIRST_SIDE / 2;
/// Positions of a window in a row of an image.
const SIDE: usize = INPUT_SIDE - KERNEL_SIDE + 1;
const PLACES: usize = SIDE * SIDE;
const POOLED_SIDE: usize = SIDE / 2;
/// Images whose windows are multiplied before the weights' gradient is written, which does not fit into the L1 cache.
const IMAGES_AT_ONCE: usize = 4;

/// Values of the stage's forward pass, and its buffers.
#[derive(Debug, Default)]
pub(super) struct Second {
    pooled: Pooled,
    /// The convolution's values of all images.
    raw: Vec<f32>,
    /// Where the windows of `IMAGES_AT_ONCE` images start.
    starts: Vec<usize>,
    /// The gradient at the convolution's output, of some images.
    dense: Vec<f32>,
    /// By channel: what `raw` is multiplied by, what is added, and the factor of the pooled gradient.
    slopes: [Vec<f32>; 3],
    input_gradient: Vec<f32>,
}

impl Second {
    pub(super) fn forward(
        &mut self,
        mode: Mode,
        layer: &SharedLayer,
        input: &[f32],
        workspace: &mut LayerWorkspace,
    ) {
        {
            let weights = layer.weights.read();
            let (filters, channels) = (
                weights.spec.outputs,
                weights.spec.inputs / KERNEL_SIDE.pow(2),
            );
            let image_length = INPUT_SIDE * INPUT_SIDE * channels;
            let count = input.len() / image_length;
            let affine = weights.affine().expect("convolutions are normalised");
            self.place_windows(channels);
            self.pooled
                .begin(count * POOLED_SIDE * POOLED_SIDE * filters, affine);
            self.raw.resize(count * PLACES * filters, 0.0);
            workspace.statistics.begin(filters);
            let images = input.chunks_exact(image_length);
            let raw = self.raw.chunks_exact_mut(PLACES * filters);
            for (number, (image, raw)) in images.zip(raw).enumerate() {
                for (row, [forward, _]) in weights.filter_rows.iter().enumerate() {
                    let epilogue = match (row, mode) {
                        (0, Mode::Training) => Epilogue::Set,
                        (0, Mode::Evaluation) => Epilogue::Bias(&weights.bias.value),
                        _ => Epilogue::Add,
                    };
                    let values = &image[row * INPUT_SIDE * channels..];
                    let left = Left::Windows(values, &self.starts);
                    let multiplier = &mut workspace.multiplier;
                    multiplier.multiply(PLACES, left, forward, epilogue, raw);
                }
                if mode == Mode::Training {
                    workspace.statistics.add(workspace.arch, raw);
                }
                self.pooled.pool_image(workspace.arch, number, raw, SIDE);
            }
        }
        self.pooled.normalise(mode, layer, workspace);
    }

    pub(super) fn output(&self) -> &[f32] {
        self.pooled.output()
    }

    /// Returns the gradient at the stage's input, given that at its output, which is overwritten. `input` is padded
    /// after its last image.
    pub(super) fn backward(
        &mut self,
        layer: &SharedLayer,
        input: &[f32],
        gradient: &mut [f32],
        part: &mut LayerGradient,
        workspace: &mut LayerWorkspace,
    ) -> &mut [f32] {
        let weights = layer.weights.read();
        let (filters, channels) = (
            weights.spec.outputs,
            weights.spec.inputs / KERNEL_SIDE.pow(2),
        );
        let image_length = INPUT_SIDE * INPUT_SIDE * channels;
        part.fit(&weights.spec);
        part.weight.fill(0.0);
        let scale = weights.affine().expect("convolutions are normalised").scale;
        let (sums, member) = (&mut workspace.sums, &workspace.member);
        let (along, mean) = self
            .pooled
            .backward(gradient, part, workspace.arch, sums, member);
        slopes(&self.pooled, scale, along, mean, &mut self.slopes);

        let count = self.raw.len() / (PLACES * filters);
        zero(&mut self.input_gradient, count * image_length);
        let pooled_length = POOLED_SIDE * POOLED_SIDE * filters;
        for first in (0..count).step_by(IMAGES_AT_ONCE) {
            let images = first..count.min(first + IMAGES_AT_ONCE);
            let pooled = images.start * pooled_length..images.end * pooled_length;
            let raw = &self.raw[images.start * PLACES * filters..images.end * PLACES * filters];
            self.dense.resize(raw.len(), 0.0);
            spread(workspace, raw, &self.slopes, &mut self.dense);
            let (gradient, winners) = (&gradient[pooled.clone()], &self.pooled.winners[pooled]);
            add_winners(gradient, winners, &self.slopes[2], &mut self.dense);

            let places = images.len() * PLACES;
            workspace.left.pack(&self.dense, places, filters);
            let values = &input[images.start * image_length..];
            for row in 0..KERNEL_SIDE {
                let width = KERNEL_SIDE * channels;
                workspace.arch.dispatch(WindowProduct {
                    gradient: &workspace.left,
                    filters,
                    values: &values[row * INPUT_SIDE * channels..],
                    starts: &self.starts[..places],
                    width,
                    out: &mut part.weight[row * width..],
                    stride: weights.spec.inputs,
                });
            }
            let all = images.start * image_length..images.end * image_length;
            let into = self.input_gradient[all].chunks_exact_mut(image_length);
            for (dense, into) in self.dense.chunks_exact(PLACES * filters).zip(into) {
                for (row, [_, backward]) in weights.filter_rows.iter().enumerate() {
                    let into = &mut into[row * INPUT_SIDE * channels..];
                    let starts = &self.starts[..PLACES];
                    workspace
                        .multiplier
                        .add_windows(dense, backward, starts, into);
                }
            }
        }
        &mut self.input_gradient
    }

    fn place_windows(&mut self, channels: usize) {
        let start = |place: usize| {
            let (image, place) = (place / PLACES, place % PLACES);
            let row = image * INPUT_SIDE + place / SIDE;
            (row * INPUT_SIDE + place % SIDE) * channels
        };
        refill(&mut self.starts, (0..IMAGES_AT_ONCE * PLACES).map(start));
    }
}

/// The gradient at a value before normalisation is scale / deviation * (g - mean g - x^ mean(g x^)), with
/// x^ = (value - mean) / deviation: a multiple of the value, a constant, and a multiple of g.
fn slopes(
    pooled: &Pooled,
    scale: &[f32],
    along: &[f32],
    mean: &[f32],
    [by_value, constant, by_gradient]: &mut [Vec<f32>; 3],
) {
    by_value.clear();
    constant.clear();
    by_gradient.clear();
    for channel in 0..scale.len() {
        let inverse = pooled.inverse_deviations[channel];
        let factor = scale[channel] * inverse;
        let steepness = factor * inverse * along[channel];
        by_value.push(-steepness);
        constant.push(steepness * pooled.mean[channel] - factor * mean[channel]);
        by_gradient.push(factor);
    }
}

/// `dense = raw * slope + constant`, by channel.
fn spread(
    workspace: &LayerWorkspace,
    raw: &[f32],
    [by_value, constant, _]: &[Vec<f32>; 3],
    dense: &mut [f32],
) {
    let channels = by_value.len();
    workspace.arch.dispatch(
        #[inline(always)]
        || {
            let rows = dense
                .chunks_exact_mut(channels)
                .zip(raw.chunks_exact(channels));
            for (dense, raw) in rows {
                let lines = by_value.iter().zip(constant);
                for ((to, raw), (slope, constant)) in dense.iter_mut().zip(raw).zip(lines) {
                    *to = raw * slope + constant;
                }
            }
        },
    );
}

/// Adds the pooled gradient at the winners of pooling.
fn add_winners(gradient: &[f32], winners: &[u8], factors: &[f32], dense: &mut [f32]) {
    let channels = factors.len();
    let squares = gradient
        .chunks_exact(channels)
        .zip(winners.chunks_exact(channels));
    for (square, (gradient, winners)) in squares.enumerate() {
        let (image, square) = (square / POOLED_SIDE.pow(2), square % POOLED_SIDE.pow(2));
        let corner = square / POOLED_SIDE * 2 * SIDE + square % POOLED_SIDE * 2;
        let corner = image * PLACES + corner;
        for (channel, (gradient, winner)) in gradient.iter().zip(winners).enumerate() {
            let place = corner + usize::from(winner / 2) * SIDE + usize::from(winner % 2);
            dense[place * channels + channel] += factors[channel] * gradient;
        }
    }
}
