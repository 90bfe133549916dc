//! Matrix products on packed panels, without allocation and without unsafe code.
//!
//! The `gemm` crate allocates in every call and packs weights again that have not changed. Here weights are packed once
//! per update, and the epilogue of a product (bias, ReLU, mask) runs while the tile is in registers. `pulp` selects the
//! SIMD instructions at run time. docs/BENCHMARKS.md has the measurements.

use pulp::{Arch, Simd, WithSimd};

use super::epilogue::TilePosition;
pub(crate) use super::{
    epilogue::Epilogue,
    packing::{Packed, PackedLeft},
};

/// Columns of a tile: two AVX2 registers, or four NEON registers.
pub(crate) const TILE_COLUMNS: usize = 16;
/// Rows of a tile: with two registers of columns each, 12 accumulators in AVX2's 16 registers.
pub(crate) const TILE_ROWS: usize = 6;
/// Numbers of the left factor in a block. A block is multiplied with all panels before the next one, so that it stays
/// in the L2 cache.
const LEFT_BLOCK: usize = 32 * 1024;

/// The left factor of a product.
#[derive(Clone, Copy)]
pub(crate) enum Left<'a> {
    /// A row-major matrix.
    Rows(&'a [f32]),
    /// Rows that start at these indices of one slice and may overlap: windows of a convolution.
    Windows(&'a [f32], &'a [usize]),
    /// The transpose of the matrix that was packed.
    Transposed(&'a PackedLeft),
}

/// Sizes of a product: `rows` x `depth` times `depth` x `width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Product {
    /// Rows of the left factor and of the result.
    pub rows: usize,
    /// Columns of the right factor and of the result.
    pub width: usize,
    /// Columns of the left factor and rows of the right one.
    pub depth: usize,
    /// Whether the left factor is stored transposed.
    pub transposed: bool,
}

/// Multiplies matrices, and records the sizes while `record` is set.
#[derive(Debug)]
pub(crate) struct Multiplier {
    pub(crate) arch: Arch,
    pub(crate) record: bool,
    pub(crate) products: Vec<Product>,
}

// === impl Multiplier ===

impl Multiplier {
    pub(crate) fn new(arch: Arch) -> Self {
        Self {
            arch,
            record: false,
            products: Vec::new(),
        }
    }

    /// out = epilogue(left * right), row-major with `rows` rows.
    pub(crate) fn multiply(
        &mut self,
        rows: usize,
        left: Left<'_>,
        right: &Packed,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
    ) {
        if self.record {
            self.products.push(Product {
                rows,
                width: right.width,
                depth: right.depth,
                transposed: matches!(left, Left::Transposed(_)),
            });
        }
        multiply(self.arch, rows, left, right, epilogue, out);
    }

    /// Adds row r of left * right to `out`, starting at `starts[r]`.
    pub(crate) fn add_windows(
        &mut self,
        left: &[f32],
        right: &Packed,
        starts: &[usize],
        out: &mut [f32],
    ) {
        self.arch.dispatch(MultiplyTask {
            rows: starts.len(),
            left: Left::Rows(left),
            right,
            epilogue: Epilogue::Add,
            starts: Some(starts),
            out,
        });
    }
}

/// out = epilogue(left * right), row-major with `rows` rows.
pub(crate) fn multiply(
    arch: Arch,
    rows: usize,
    left: Left<'_>,
    right: &Packed,
    epilogue: Epilogue<'_>,
    out: &mut [f32],
) {
    arch.dispatch(MultiplyTask {
        rows,
        left,
        right,
        epilogue,
        starts: None,
        out,
    });
}

struct MultiplyTask<'a> {
    rows: usize,
    left: Left<'a>,
    right: &'a Packed,
    epilogue: Epilogue<'a>,
    /// Where each row of the result starts in `out`; `None` when rows are contiguous.
    starts: Option<&'a [usize]>,
    out: &'a mut [f32],
}

impl WithSimd for MultiplyTask<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Registers that hold a tile's columns, and half of them for a panel that is at most half used.
        match S::F32_LANES {
            4 => self.run::<S, 4, 2>(simd),
            8 => self.run::<S, 2, 1>(simd),
            16 => self.run::<S, 1, 1>(simd),
            _ => self.run::<S, 16, 8>(simd),
        }
    }
}

impl MultiplyTask<'_> {
    #[inline(always)]
    fn run<S: Simd, const V: usize, const HALF: usize>(self, simd: S) {
        let Packed {
            depth,
            width,
            ref panels,
        } = *self.right;
        if depth * TILE_COLUMNS == 0 {
            return;
        }
        let block = (LEFT_BLOCK / depth).max(TILE_ROWS) / TILE_ROWS * TILE_ROWS;
        for first in (0..self.rows).step_by(block) {
            let end = self.rows.min(first + block);
            for (number, panel) in panels.chunks_exact(depth * TILE_COLUMNS).enumerate() {
                let column = number * TILE_COLUMNS;
                let (lanes, _) = S::as_simd_f32s(panel);
                let (panel, _) = lanes.as_chunks::<V>();
                let position = TilePosition {
                    row: first,
                    column,
                    width,
                    used: TILE_COLUMNS.min(width - column),
                };
                let input = TileInput {
                    left: self.left,
                    depth,
                    epilogue: self.epilogue,
                    starts: self.starts,
                };
                if position.used > TILE_COLUMNS / 2 {
                    tiles::<S, V, V>(simd, input, panel, position, end, self.out);
                } else {
                    tiles::<S, V, HALF>(simd, input, panel, position, end, self.out);
                }
            }
        }
    }
}

/// What all tiles of a panel have in common, besides the panel.
#[derive(Clone, Copy)]
struct TileInput<'a> {
    left: Left<'a>,
    depth: usize,
    epilogue: Epilogue<'a>,
    starts: Option<&'a [usize]>,
}

/// Computes all rows of a panel from `position` to `end`, using `W` of its `V` registers of columns.
#[inline(always)]
fn tiles<S: Simd, const V: usize, const W: usize>(
    simd: S,
    input: TileInput<'_>,
    panel: &[[S::f32s; V]],
    mut position: TilePosition,
    end: usize,
    out: &mut [f32],
) {
    while position.row < end {
        match end - position.row {
            TILE_ROWS.. => tile::<S, 6, V, W>(simd, input, panel, &mut position, out),
            4.. => tile::<S, 4, V, W>(simd, input, panel, &mut position, out),
            2.. => tile::<S, 2, V, W>(simd, input, panel, &mut position, out),
            _ => tile::<S, 1, V, W>(simd, input, panel, &mut position, out),
        }
    }
}

/// Computes and stores `R` rows of a panel, and advances `position` by as many.
#[inline(always)]
fn tile<S: Simd, const R: usize, const V: usize, const W: usize>(
    simd: S,
    input: TileInput<'_>,
    panel: &[[S::f32s; V]],
    position: &mut TilePosition,
    out: &mut [f32],
) {
    let TileInput {
        left,
        depth,
        epilogue,
        starts,
    } = input;
    let mut sums = [[simd.splat_f32s(0.0); W]; R];
    match left {
        Left::Transposed(packed) => {
            // Tiles start at multiples of TILE_ROWS except in the last, partly filled panel.
            let (number, inside) = (position.row / TILE_ROWS, position.row % TILE_ROWS);
            let from = &packed.panels[number * TILE_ROWS * depth..][..TILE_ROWS * depth];
            let (lines, _) = from.as_chunks::<TILE_ROWS>();
            for (line, right) in lines.iter().zip(panel) {
                let factors: &[f32; R] = line[inside..]
                    .first_chunk()
                    .expect("a tile's rows lie in one panel");
                accumulate(simd, factors, first::<_, V, W>(right), &mut sums);
            }
        }
        Left::Rows(matrix) => {
            let row = |r: usize| &matrix[(position.row + r) * depth..][..depth];
            add_rows::<S, R, V, W>(simd, row, panel, &mut sums);
        }
        Left::Windows(values, windows) => {
            let row = |r: usize| &values[windows[position.row + r]..][..depth];
            add_rows::<S, R, V, W>(simd, row, panel, &mut sums);
        }
    }
    for (r, lanes) in sums.iter().enumerate() {
        let row = position.row + r;
        let begin = starts.map_or_else(|| row * position.width, |starts| starts[row]);
        let start = begin + position.column;
        let here = &mut out[start..start + position.used];
        epilogue.store_row(simd, row, position, lanes, here);
    }
    position.row += R;
}

/// Adds the products of up to six rows with a panel. Six zipped iterators need no bounds checks; a smaller tile reads
/// its last row more than once and ignores the copies.
#[inline(always)]
fn add_rows<'r, S: Simd, const R: usize, const V: usize, const W: usize>(
    simd: S,
    row: impl Fn(usize) -> &'r [f32],
    panel: &[[S::f32s; V]],
    sums: &mut [[S::f32s; W]; R],
) {
    let row = |r: usize| row(r.min(R - 1)).iter();
    let pairs = row(0).zip(row(1)).zip(row(2).zip(row(3)));
    let rows = pairs.zip(row(4).zip(row(5)));
    for ((((a, b), (c, d)), (e, f)), right) in rows.zip(panel) {
        let factors = [*a, *b, *c, *d, *e, *f];
        let factors = factors.first_chunk().expect("a tile has at most six rows");
        accumulate::<S, R, W>(simd, factors, first::<_, V, W>(right), sums);
    }
}

/// The first `W` registers of a line, which are used.
#[inline(always)]
fn first<T, const V: usize, const W: usize>(line: &[T; V]) -> &[T; W] {
    line.first_chunk().expect("a part of the registers")
}

#[inline(always)]
pub(crate) fn accumulate<S: Simd, const R: usize, const V: usize>(
    simd: S,
    factors: &[f32; R],
    right: &[S::f32s; V],
    sums: &mut [[S::f32s; V]; R],
) {
    for r in 0..R {
        let factor = simd.splat_f32s(factors[r]);
        for v in 0..V {
            sums[r][v] = simd.mul_add_e_f32s(factor, right[v], sums[r][v]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Generator;

    fn matrix(count: usize, generator: &mut Generator) -> Vec<f32> {
        (0..count).map(|_| generator.normal() as f32).collect()
    }

    fn naive(
        m: usize,
        n: usize,
        k: usize,
        a: impl Fn(usize, usize) -> f32,
        b: impl Fn(usize, usize) -> f32,
    ) -> Vec<f32> {
        let entry = |i: usize, j: usize| {
            (0..k)
                .map(|l| f64::from(a(i, l)) * f64::from(b(l, j)))
                .sum::<f64>() as f32
        };
        (0..m * n).map(|p| entry(p / n, p % n)).collect()
    }

    fn assert_close(found: &[f32], expected: &[f32]) {
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn products_of_any_size_equal_the_plain_sum(m in 1usize..40, n in 1usize..40, k in 1usize..40, seed: u64) {
            let mut generator = Generator::new(seed);
            let (a, b) = (matrix(m * k, &mut generator), matrix(k * n, &mut generator));
            let (mut right, mut left) = (Packed::default(), PackedLeft::default());
            let arch = Arch::new();
            let mut out = vec![f32::NAN; m * n];

            right.pack_rows(&b, k, n);
            multiply(arch, m, Left::Rows(&a), &right, Epilogue::Set, &mut out);
            let expected = naive(m, n, k, |i, l| a[i * k + l], |l, j| b[l * n + j]);
            assert_close(&out, &expected);

            // The same numbers read as transposed factors.
            left.pack(&a, k, m);
            right.pack_columns(&b, k, n);
            multiply(arch, m, Left::Transposed(&left), &right, Epilogue::Set, &mut out);
            let expected = naive(m, n, k, |i, l| a[l * m + i], |l, j| b[j * k + l]);
            assert_close(&out, &expected);

            // Every epilogue, on the product in `expected`.
            let (bias, factors) = (matrix(n, &mut generator), matrix(m, &mut generator));
            let activations = matrix(m * n, &mut generator);
            let plain = |p: usize, sum: f32, epilogue: &Epilogue<'_>| match epilogue {
                Epilogue::Set => sum,
                Epilogue::Add => 1.0 + sum,
                Epilogue::AddBias(_) => 1.0 + sum + bias[p % n],
                Epilogue::Bias(_) => sum + bias[p % n],
                Epilogue::BiasRelu(_) => (sum + bias[p % n]).max(0.0),
                Epilogue::Mask(_) => if activations[p] > 0.0 { sum } else { 0.0 },
                Epilogue::MaskScaledBias { .. } => if activations[p] > 0.0 { sum + factors[p / n] * bias[p % n] } else { 0.0 },
            };
            for epilogue in [
                Epilogue::Add,
                Epilogue::AddBias(&bias),
                Epilogue::Bias(&bias),
                Epilogue::BiasRelu(&bias),
                Epilogue::Mask(&activations),
                Epilogue::MaskScaledBias { activations: &activations, bias: &bias, factors: &factors },
            ] {
                out.fill(1.0);
                multiply(arch, m, Left::Transposed(&left), &right, epilogue, &mut out);
                let finished: Vec<f32> = expected.iter().enumerate().map(|(p, sum)| plain(p, *sum, &epilogue)).collect();
                assert_close(&out, &finished);
            }
        }
    }
}
