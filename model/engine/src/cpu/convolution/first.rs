//! The first convolution: one channel, 25 numbers in a window. The product is cheap compared with the memory that its
//! results need, so an image's values are computed, measured, pooled and discarded while they are in the cache.
//!
//! The backward pass does not need them either. The gradient at the convolution's output is scale / deviation * (g -
//! mean g - x^ mean(g x^)), where g is 0 except at the winners of pooling and x^ = (W window - mean) / deviation. The
//! sum over all windows then needs only the sum of g times its window, the sum of windows, and their Gram matrix of 25
//! x 25 numbers.

use super::pool::Pooled;
use crate::{
    architecture::{IMAGE_SIDE, KERNEL_SIDE},
    cpu::{
        buffers::zero,
        gemm::{Epilogue, Left},
        layer::{LayerGradient, LayerWorkspace, Mode, SharedLayer, column_sums},
    },
};

const PIXELS: usize = IMAGE_SIDE * IMAGE_SIDE;
/// Positions of a window in a row of an image.
const SIDE: usize = IMAGE_SIDE - KERNEL_SIDE + 1;
const PLACES: usize = SIDE * SIDE;
const WINDOW: usize = KERNEL_SIDE * KERNEL_SIDE;
const POOLED_SIDE: usize = SIDE / 2;

/// Values of the stage's forward pass, and its buffers.
#[derive(Debug, Default)]
pub(super) struct First {
    pooled: Pooled,
    /// All windows of one image, and their products with the filters.
    windows: Vec<f32>,
    raw: Vec<f32>,
    backward: Backward,
}

/// Sums over windows: of one image, and of all.
#[derive(Debug, Default)]
struct Backward {
    of_gradient: Vec<f32>,
    of_windows: Vec<f32>,
    gram: Vec<f32>,
    all_of_gradient: Vec<f64>,
    all_of_windows: Vec<f64>,
    whole_gram: Vec<f64>,
}

impl First {
    pub(super) fn forward(
        &mut self,
        mode: Mode,
        layer: &SharedLayer,
        images: &[f32],
        workspace: &mut LayerWorkspace,
    ) {
        {
            let weights = layer.weights.read();
            let filters = weights.spec.outputs;
            let affine = weights.affine().expect("convolutions are normalised");
            let count = images.len() / PIXELS;
            self.pooled
                .begin(count * POOLED_SIDE * POOLED_SIDE * filters, affine);
            self.raw.resize(PLACES * filters, 0.0);
            workspace.statistics.begin(filters);
            // The bias cancels in the normalised value. Only the running mean needs it.
            let epilogue = match mode {
                Mode::Training => Epilogue::Set,
                Mode::Evaluation => Epilogue::Bias(&weights.bias.value),
            };
            for (number, image) in images.chunks_exact(PIXELS).enumerate() {
                gather_windows(image, &mut self.windows);
                let (left, right) = (Left::Rows(&self.windows), &weights.forward);
                let multiplier = &mut workspace.multiplier;
                multiplier.multiply(PLACES, left, right, epilogue, &mut self.raw);
                if mode == Mode::Training {
                    workspace.statistics.add(workspace.arch, &self.raw);
                }
                self.pooled
                    .pool_image(workspace.arch, number, &self.raw, SIDE);
            }
        }
        self.pooled.normalise(mode, layer, workspace);
    }

    pub(super) fn output(&self) -> &[f32] {
        self.pooled.output()
    }

    pub(super) fn padded_output(&self) -> &[f32] {
        self.pooled.padded_output()
    }

    /// `gradient` is that at the stage's output; it is overwritten.
    pub(super) fn backward(
        &mut self,
        layer: &SharedLayer,
        images: &[f32],
        gradient: &mut [f32],
        part: &mut LayerGradient,
        workspace: &mut LayerWorkspace,
    ) {
        let weights = layer.weights.read();
        let filters = weights.spec.outputs;
        part.fit(&weights.spec);
        let (sums, member) = (&mut workspace.sums, &workspace.member);
        let (along, mean) = self
            .pooled
            .backward(gradient, part, workspace.arch, sums, member);
        let sums = &mut self.backward;
        sums.begin(filters);
        let values = POOLED_SIDE * POOLED_SIDE * filters;
        let gradients = gradient.chunks_exact(values);
        let winners = self.pooled.winners.chunks_exact(values);
        for (image, (gradient, winners)) in images.chunks_exact(PIXELS).zip(gradients.zip(winners))
        {
            gather_windows(image, &mut self.windows);
            sums.of_gradient.fill(0.0);
            add_winners(gradient, winners, &self.windows, &mut sums.of_gradient);
            column_sums(workspace.arch, &self.windows, &mut sums.of_windows);
            workspace.left.pack(&self.windows, PLACES, WINDOW);
            workspace.right.pack_rows(&self.windows, PLACES, WINDOW);
            let (left, right) = (Left::Transposed(&workspace.left), &workspace.right);
            let multiplier = &mut workspace.multiplier;
            multiplier.multiply(WINDOW, left, right, Epilogue::Set, &mut sums.gram);
            sums.add_image();
        }
        let affine = weights.affine().expect("convolutions are normalised");
        let scale = affine.scale;
        let rows = part.weight.chunks_exact_mut(WINDOW);
        let filter_rows = weights.weight.value.chunks_exact(WINDOW);
        for (filter, (out, weight)) in rows.zip(filter_rows).enumerate() {
            let inverse = f64::from(self.pooled.inverse_deviations[filter]);
            let factor = f64::from(scale[filter]) * inverse;
            let centre = f64::from(self.pooled.mean[filter]);
            let (along, mean) = (f64::from(along[filter]), f64::from(mean[filter]));
            let of_gradient = &sums.all_of_gradient[filter * WINDOW..];
            for (entry, out) in out.iter_mut().enumerate() {
                let of_window = sums.all_of_windows[entry];
                let gram = sums.whole_gram[entry * WINDOW..].iter().zip(weight);
                let of_product: f64 = gram.map(|(gram, weight)| gram * f64::from(*weight)).sum();
                let of_normalised = inverse * (of_product - centre * of_window);
                let slope = of_gradient[entry] - mean * of_window - along * of_normalised;
                *out = (factor * slope) as f32;
            }
        }
    }
}

impl Backward {
    fn begin(&mut self, filters: usize) {
        self.of_gradient.resize(filters * WINDOW, 0.0);
        self.of_windows.resize(WINDOW, 0.0);
        self.gram.resize(WINDOW * WINDOW, 0.0);
        for (sums, length) in [
            (&mut self.all_of_gradient, filters * WINDOW),
            (&mut self.all_of_windows, WINDOW),
            (&mut self.whole_gram, WINDOW * WINDOW),
        ] {
            zero(sums, length);
        }
    }

    fn add_image(&mut self) {
        for (sums, image) in [
            (&mut self.all_of_gradient, &self.of_gradient),
            (&mut self.all_of_windows, &self.of_windows),
            (&mut self.whole_gram, &self.gram),
        ] {
            for (sum, value) in sums.iter_mut().zip(image) {
                *sum += f64::from(*value);
            }
        }
    }
}

/// Copies the 25 numbers of every window, in the order of places.
fn gather_windows(image: &[f32], windows: &mut Vec<f32>) {
    windows.resize(PLACES * WINDOW, 0.0);
    let (windows, _) = windows.as_chunks_mut::<WINDOW>();
    for (row, windows) in windows.chunks_exact_mut(SIDE).enumerate() {
        for (line, pixels) in image[row * IMAGE_SIDE..]
            .chunks_exact(IMAGE_SIDE)
            .take(KERNEL_SIDE)
            .enumerate()
        {
            for (window, from) in windows.iter_mut().zip(pixels.windows(KERNEL_SIDE)) {
                window[line * KERNEL_SIDE..][..KERNEL_SIDE].copy_from_slice(from);
            }
        }
    }
}

/// Adds every pooled gradient times the window of the place that won.
fn add_winners(gradient: &[f32], winners: &[u8], windows: &[f32], sums: &mut [f32]) {
    let filters = sums.len() / WINDOW;
    let (windows, _) = windows.as_chunks::<WINDOW>();
    let squares = gradient
        .chunks_exact(filters)
        .zip(winners.chunks_exact(filters));
    for (square, (gradient, winners)) in squares.enumerate() {
        let corner = square / POOLED_SIDE * 2 * SIDE + square % POOLED_SIDE * 2;
        let (sums, _) = sums.as_chunks_mut::<WINDOW>();
        for ((gradient, winner), sums) in gradient.iter().zip(winners).zip(sums) {
            if *gradient == 0.0 {
                continue;
            }
            let window =
                &windows[corner + usize::from(winner / 2) * SIDE + usize::from(winner % 2)];
            for (sum, value) in sums.iter_mut().zip(window) {
                *sum += gradient * value;
            }
        }
    }
}
