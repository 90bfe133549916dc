//! Epilogues of a product: what is done with a tile of sums before it is written to memory.

use pulp::Simd;

use super::gemm::TILE_COLUMNS;

/// How a sum is combined with what `out` holds at the same place.
#[derive(Clone, Copy)]
pub(crate) enum Epilogue<'a> {
    /// `out = sum`; ignores what `out` held.
    Set,
    /// `out += sum`, to accumulate products.
    Add,
    /// `out += sum + bias`, for a residual block.
    AddBias(&'a [f32]),
    /// `out = sum + bias`, for a linear layer.
    Bias(&'a [f32]),
    /// `out = max(sum + bias, 0)`, for a layer with a ReLU.
    BiasRelu(&'a [f32]),
    /// `out = sum` where the activation at the same place is above 0, else 0: backward through a ReLU.
    Mask(&'a [f32]),
    /// `out = sum + factor * bias` where the activation is above 0, else 0; one factor for each row.
    MaskScaledBias {
        activations: &'a [f32],
        bias: &'a [f32],
        factors: &'a [f32],
    },
}

/// Position of a tile in the result.
#[derive(Clone, Copy)]
pub(crate) struct TilePosition {
    pub(crate) row: usize,
    pub(crate) column: usize,
    /// Columns of the whole result.
    pub(crate) width: usize,
    /// Columns of the tile that are in the result; the last panel may be padded.
    pub(crate) used: usize,
}

impl Epilogue<'_> {
    /// Stores one row of a tile, of which `out` has the columns that are in the result.
    #[inline(always)]
    pub(crate) fn store_row<S: Simd, const V: usize>(
        &self,
        simd: S,
        row: usize,
        position: &TilePosition,
        sums: &[S::f32s; V],
        out: &mut [f32],
    ) {
        match out.first_chunk_mut() {
            Some(full) => self.store_tile(simd, row, position, sums, full),
            None => {
                let mut line = [0.0; TILE_COLUMNS];
                S::as_mut_simd_f32s(&mut line).0[..V].copy_from_slice(sums);
                self.store(row, position, &line[..position.used], out);
            }
        }
    }

    /// Stores one row of a tile with all its columns in the result, from registers.
    #[inline(always)]
    fn store_tile<S: Simd, const V: usize>(
        &self,
        simd: S,
        row: usize,
        position: &TilePosition,
        sums: &[S::f32s; V],
        out: &mut [f32; TILE_COLUMNS],
    ) {
        let lanes = |values: &[f32], start: usize| -> [S::f32s; V] {
            let (lanes, _) = S::as_simd_f32s(&values[start..start + TILE_COLUMNS]);
            std::array::from_fn(|v| lanes[v])
        };
        let start = row * position.width + position.column;
        let (out, _) = S::as_mut_simd_f32s(out);
        let zero = simd.splat_f32s(0.0);
        match *self {
            Self::Set => (0..V).for_each(|v| out[v] = sums[v]),
            Self::Add => (0..V).for_each(|v| out[v] = simd.add_f32s(out[v], sums[v])),
            Self::AddBias(bias) => {
                let bias = lanes(bias, position.column);
                for v in 0..V {
                    out[v] = simd.add_f32s(out[v], simd.add_f32s(sums[v], bias[v]));
                }
            }
            Self::Bias(bias) => {
                let bias = lanes(bias, position.column);
                (0..V).for_each(|v| out[v] = simd.add_f32s(sums[v], bias[v]));
            }
            Self::BiasRelu(bias) => {
                let bias = lanes(bias, position.column);
                for v in 0..V {
                    out[v] = simd.max_f32s(simd.add_f32s(sums[v], bias[v]), zero);
                }
            }
            Self::Mask(activations) => {
                let activations = lanes(activations, start);
                for v in 0..V {
                    let above = simd.greater_than_f32s(activations[v], zero);
                    out[v] = simd.select_f32s(above, sums[v], zero);
                }
            }
            Self::MaskScaledBias {
                activations,
                bias,
                factors,
            } => {
                let (activations, bias) = (lanes(activations, start), lanes(bias, position.column));
                let factor = simd.splat_f32s(factors[row]);
                for v in 0..V {
                    let above = simd.greater_than_f32s(activations[v], zero);
                    let value = simd.add_f32s(sums[v], simd.mul_f32s(factor, bias[v]));
                    out[v] = simd.select_f32s(above, value, zero);
                }
            }
        }
    }

    /// Stores one row of a tile whose last columns are not in the result.
    #[inline(always)]
    fn store(&self, row: usize, position: &TilePosition, sums: &[f32], out: &mut [f32]) {
        let columns = position.column..position.column + sums.len();
        let here = row * position.width + position.column;
        let here = here..here + sums.len();
        match *self {
            Self::Set => out.copy_from_slice(sums),
            Self::Add => {
                for (to, sum) in out.iter_mut().zip(sums) {
                    *to += sum;
                }
            }
            Self::AddBias(bias) => {
                for ((to, sum), bias) in out.iter_mut().zip(sums).zip(&bias[columns]) {
                    *to += sum + bias;
                }
            }
            Self::Bias(bias) => {
                for ((to, sum), bias) in out.iter_mut().zip(sums).zip(&bias[columns]) {
                    *to = sum + bias;
                }
            }
            Self::BiasRelu(bias) => {
                for ((to, sum), bias) in out.iter_mut().zip(sums).zip(&bias[columns]) {
                    *to = (sum + bias).max(0.0);
                }
            }
            Self::Mask(activations) => {
                let values = out.iter_mut().zip(sums).zip(&activations[here]);
                for ((to, sum), activation) in values {
                    *to = if *activation > 0.0 { *sum } else { 0.0 };
                }
            }
            Self::MaskScaledBias {
                activations,
                bias,
                factors,
            } => {
                let factor = factors[row];
                let values = out.iter_mut().zip(sums);
                let places = activations[here].iter().zip(&bias[columns]);
                for ((to, sum), (activation, bias)) in values.zip(places) {
                    *to = if *activation > 0.0 {
                        sum + factor * bias
                    } else {
                        0.0
                    };
                }
            }
        }
    }
}
