//! The gradient of a row of filters: gradient^T times windows, which are read in place.

use pulp::{Simd, WithSimd};

use crate::cpu::gemm::{PackedLeft, TILE_COLUMNS, TILE_ROWS, accumulate};

/// Adds packed gradient^T times windows to the weights' gradient.
pub(super) struct WindowProduct<'a> {
    /// The gradient at the convolution's output, places x filters.
    pub(super) gradient: &'a PackedLeft,
    pub(super) filters: usize,
    /// Numbers of all windows, and at least `TILE_COLUMNS` more.
    pub(super) values: &'a [f32],
    /// Where the window of each place starts.
    pub(super) starts: &'a [usize],
    /// How many numbers a window has.
    pub(super) width: usize,
    /// The weights' gradient, starting at this row of the first filter.
    pub(super) out: &'a mut [f32],
    /// Distance in `out` from one filter to the next.
    pub(super) stride: usize,
}

impl WithSimd for WindowProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            4 => self.run::<S, 4>(simd),
            8 => self.run::<S, 2>(simd),
            16 => self.run::<S, 1>(simd),
            _ => self.run::<S, 16>(simd),
        }
    }
}

impl WindowProduct<'_> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let panel_length = self.starts.len() * TILE_ROWS;
        if panel_length == 0 {
            return;
        }
        for column in (0..self.width).step_by(TILE_COLUMNS) {
            let used = TILE_COLUMNS.min(self.width - column);
            let values = &self.values[column..];
            for (number, panel) in self.gradient.panels.chunks_exact(panel_length).enumerate() {
                let (lines, _) = panel.as_chunks::<TILE_ROWS>();
                let mut sums = [[simd.splat_f32s(0.0); V]; TILE_ROWS];
                for (factors, start) in lines.iter().zip(self.starts) {
                    let (lanes, _) = S::as_simd_f32s(&values[*start..*start + TILE_COLUMNS]);
                    let (right, _) = lanes.as_chunks::<V>();
                    accumulate::<S, TILE_ROWS, V>(simd, factors, &right[0], &mut sums);
                }
                let first = number * TILE_ROWS;
                for (filter, lanes) in (first..self.filters).zip(&sums) {
                    let mut line = [0.0; TILE_COLUMNS];
                    S::as_mut_simd_f32s(&mut line).0.copy_from_slice(lanes);
                    let here = &mut self.out[filter * self.stride + column..][..used];
                    for (to, value) in here.iter_mut().zip(&line) {
                        *to += value;
                    }
                }
            }
        }
    }
}
