//! Rows that are mostly zeros, such as counts of words: the first layer of an encoder multiplies their other entries only.
//!
//! A product with 0 leaves a sum as it is, and both paths add up in the same order. So the results are those of the dense
//! products, bit by bit.

use pulp::{Arch, Simd, WithSimd};

use super::{
    epilogue::TilePosition,
    gemm::{Epilogue, Left, Multiplier, Packed, TILE_COLUMNS, accumulate},
    layer::{LayerWorkspace, weight_gradient},
};
use crate::architecture::LayerSpec;

/// Rows are worth the detour if less than one entry in this many is not zero.
const ENTRIES_FOR_ONE: usize = 10;
/// Entries that are looked at together when most of them are zero: one AVX2 register.
const GROUP: usize = 8;
/// Side of the squares that a matrix is transposed in, so that a square's lines stay in the L1 cache.
const SQUARE: usize = 16;

/// The entries of a matrix that are not zero, row by row.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SparseRows {
    /// Where each row's entries start, and at the end where the last row's end.
    starts: Vec<usize>,
    /// Column and value, by ascending column in each row.
    entries: Vec<(u32, f32)>,
}

/// Input of a layer, row by row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LayerInput<'a> {
    Dense(&'a [f32]),
    Sparse(&'a SparseRows),
}

/// The entries of an input, if they were found to be few.
#[derive(Debug, Default)]
pub(crate) struct SparseInput {
    rows: SparseRows,
    is_sparse: bool,
}

/// Buffers of the backward pass over sparse rows.
#[derive(Debug, Default)]
pub(crate) struct SparseWorkspace {
    by_column: SparseRows,
    /// The weights' gradient, inputs x outputs.
    product: Vec<f32>,
}

// === impl SparseRows ===

impl SparseRows {
    /// Takes the entries of a row-major matrix, if few enough of them are not zero. Else it says so and stays as it was.
    pub(crate) fn take_if_sparse(&mut self, arch: Arch, matrix: &[f32], width: usize) -> bool {
        arch.dispatch(
            #[inline(always)]
            || {
                let count: usize = matrix.iter().map(|value| usize::from(*value != 0.0)).sum();
                let is_sparse = count * ENTRIES_FOR_ONE < matrix.len();
                if is_sparse {
                    self.take(matrix, width);
                }
                is_sparse
            },
        )
    }

    #[inline(always)]
    fn take(&mut self, matrix: &[f32], width: usize) {
        self.starts.clear();
        self.entries.clear();
        // The most that can come with so many rows: later batches of the same size allocate nothing.
        self.entries.reserve(matrix.len() / ENTRIES_FOR_ONE);
        self.starts.push(0);
        for row in matrix.chunks_exact(width) {
            for (number, group) in row.chunks(GROUP).enumerate() {
                let has_entries = group.iter().fold(false, |any, value| any | (*value != 0.0));
                if has_entries {
                    let first = number * GROUP;
                    let entries = group.iter().enumerate().filter(|(_, value)| **value != 0.0);
                    let entries = entries.map(|(place, value)| ((first + place) as u32, *value));
                    self.entries.extend(entries);
                }
            }
            self.starts.push(self.entries.len());
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    #[inline(always)]
    pub(crate) fn row(&self, number: usize) -> &[(u32, f32)] {
        &self.entries[self.starts[number]..self.starts[number + 1]]
    }

    /// out = epilogue(self * right), row-major.
    fn multiply(&self, arch: Arch, right: &Packed, epilogue: Epilogue<'_>, out: &mut [f32]) {
        arch.dispatch(SparseTask {
            left: self,
            right,
            epilogue,
            out,
        });
    }

    /// The transpose of these rows, which are `width` wide, to `out`.
    fn transpose(&self, width: usize, out: &mut SparseRows) {
        // First how many entries each column has, two places further on; then where they start, one place further on,
        // which moves to where they end as entries are put there.
        out.starts.clear();
        out.starts.resize(width + 2, 0);
        for (column, _) in &self.entries {
            out.starts[*column as usize + 2] += 1;
        }
        for column in 2..out.starts.len() {
            out.starts[column] += out.starts[column - 1];
        }
        out.entries.clear();
        out.entries.reserve(self.entries.capacity());
        out.entries.resize(self.entries.len(), (0, 0.0));
        for number in 0..self.rows() {
            for (column, value) in self.row(number) {
                let end = &mut out.starts[*column as usize + 1];
                out.entries[*end] = (number as u32, *value);
                *end += 1;
            }
        }
        out.starts.pop();
    }
}

/// A product, panel by panel as in [`gemm`](super::gemm): a panel of the right factor stays in the cache for all rows.
struct SparseTask<'a> {
    left: &'a SparseRows,
    right: &'a Packed,
    epilogue: Epilogue<'a>,
    out: &'a mut [f32],
}

impl WithSimd for SparseTask<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Registers that hold a tile's columns.
        match S::F32_LANES {
            4 => self.run::<S, 4>(simd),
            8 => self.run::<S, 2>(simd),
            16 => self.run::<S, 1>(simd),
            _ => self.run::<S, 16>(simd),
        }
    }
}

impl SparseTask<'_> {
    #[inline(always)]
    fn run<S: Simd, const V: usize>(self, simd: S) {
        let Packed { depth, width, .. } = *self.right;
        if depth == 0 {
            return;
        }
        let panels = self.right.panels.chunks_exact(depth * TILE_COLUMNS);
        for (number, panel) in panels.enumerate() {
            let (lanes, _) = S::as_simd_f32s(panel);
            let (panel, _) = lanes.as_chunks::<V>();
            let column = number * TILE_COLUMNS;
            for row in 0..self.left.rows() {
                let mut sums = [[simd.splat_f32s(0.0); V]];
                for (place, value) in self.left.row(row) {
                    accumulate(simd, &[*value], &panel[*place as usize], &mut sums);
                }
                let position = TilePosition {
                    row,
                    column,
                    width,
                    used: TILE_COLUMNS.min(width - column),
                };
                let here = &mut self.out[row * width + column..][..position.used];
                let [sums] = &sums;
                self.epilogue.store_row(simd, row, &position, sums, here);
            }
        }
    }
}

// === impl SparseInput ===

impl SparseInput {
    /// Looks at the rows of a forward pass.
    pub(crate) fn look_at(&mut self, arch: Arch, input: &[f32], width: usize) {
        self.is_sparse = self.rows.take_if_sparse(arch, input, width);
    }

    /// The rows that were looked at, if they are sparse.
    pub(crate) fn rows(&self) -> Option<&SparseRows> {
        self.is_sparse.then_some(&self.rows)
    }
}

// === impl LayerInput ===

impl<'a> LayerInput<'a> {
    /// Number of rows that are `width` wide.
    pub(crate) fn rows(self, width: usize) -> usize {
        match self {
            Self::Dense(values) => values.len() / width,
            Self::Sparse(rows) => rows.rows(),
        }
    }

    /// out = epilogue(input * right). The multiplier does not record sparse products: what they cost does not follow from
    /// their sizes.
    pub(crate) fn multiply(
        self,
        multiplier: &mut Multiplier,
        rows: usize,
        right: &Packed,
        epilogue: Epilogue<'_>,
        out: &mut [f32],
    ) {
        match self {
            Self::Dense(left) => multiplier.multiply(rows, Left::Rows(left), right, epilogue, out),
            Self::Sparse(left) => left.multiply(multiplier.arch, right, epilogue, out),
        }
    }

    /// Gradient of a linear layer's weights: gradient^T * input.
    pub(crate) fn weight_gradient(
        self,
        gradient: &[f32],
        spec: &LayerSpec,
        out: &mut [f32],
        workspace: &mut LayerWorkspace,
    ) {
        match self {
            Self::Dense(input) => weight_gradient(input, gradient, spec, out, workspace),
            Self::Sparse(input) => sparse_weight_gradient(input, gradient, spec, out, workspace),
        }
    }
}

/// The transpose of input^T * gradient, where input^T is sparse.
fn sparse_weight_gradient(
    input: &SparseRows,
    gradient: &[f32],
    spec: &LayerSpec,
    out: &mut [f32],
    workspace: &mut LayerWorkspace,
) {
    let SparseWorkspace { by_column, product } = &mut workspace.sparse;
    input.transpose(spec.inputs, by_column);
    workspace
        .right
        .pack_rows(gradient, input.rows(), spec.outputs);
    product.resize(spec.inputs * spec.outputs, 0.0);
    by_column.multiply(workspace.arch, &workspace.right, Epilogue::Set, product);
    transpose(workspace.arch, product, spec.outputs, out);
}

/// The transpose of a row-major matrix that is `width` wide.
fn transpose(arch: Arch, matrix: &[f32], width: usize, out: &mut [f32]) {
    let height = matrix.len() / width;
    arch.dispatch(
        #[inline(always)]
        || {
            for (band, columns) in out.chunks_mut(SQUARE * height).enumerate() {
                let left = band * SQUARE;
                for (number, rows) in matrix.chunks(SQUARE * width).enumerate() {
                    let top = number * SQUARE;
                    for (place, line) in columns.chunks_exact_mut(height).enumerate() {
                        let line = &mut line[top..];
                        for (to, row) in line.iter_mut().zip(rows.chunks_exact(width)) {
                            *to = row[left + place];
                        }
                    }
                }
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Generator,
        architecture::Norm,
        cpu::{gemm::Packed, team::Member},
    };

    fn normal(count: usize, generator: &mut Generator) -> Vec<f32> {
        (0..count).map(|_| generator.normal() as f32).collect()
    }

    /// A matrix with so many entries in each row, at random places.
    fn rows_with(entries: &[usize], width: usize, generator: &mut Generator) -> Vec<f32> {
        let mut matrix = Vec::new();
        for count in entries {
            let mut columns: Vec<usize> = (0..width).collect();
            generator.shuffle(&mut columns);
            let mut row = vec![0.0; width];
            for column in &columns[..*count] {
                row[*column] = generator.normal() as f32;
            }
            matrix.extend(row);
        }
        matrix
    }

    fn spec(inputs: usize, outputs: usize) -> LayerSpec {
        LayerSpec {
            linear: "g.fc1".into(),
            normalisation: String::new(),
            inputs,
            outputs,
            norm: Norm::None,
            relu: true,
            dropout: false,
            channels: None,
        }
    }

    proptest! {
        #[test]
        fn sparse_rows_give_the_bits_of_dense_ones(
            entries in prop::collection::vec(0usize..4, 1..30),
            inputs in 50usize..120,
            outputs in 1usize..40,
            seed: u64,
        ) {
            let mut generator = Generator::new(seed);
            let arch = Arch::new();
            let matrix = rows_with(&entries, inputs, &mut generator);
            let mut sparse = SparseRows::default();
            prop_assert!(sparse.take_if_sparse(arch, &matrix, inputs));
            prop_assert_eq!(sparse.rows(), entries.len());
            let both = [LayerInput::Dense(&matrix), LayerInput::Sparse(&sparse)];

            let (weights, bias) = (normal(inputs * outputs, &mut generator), normal(outputs, &mut generator));
            let mut right = Packed::default();
            right.pack_columns(&weights, inputs, outputs);
            let [dense, found] = both.map(|input| {
                let mut out = vec![f32::NAN; entries.len() * outputs];
                let mut multiplier = Multiplier::new(arch);
                input.multiply(&mut multiplier, entries.len(), &right, Epilogue::BiasRelu(&bias), &mut out);
                out
            });
            prop_assert_eq!(dense, found);

            let gradient = normal(entries.len() * outputs, &mut generator);
            let [dense, found] = both.map(|input| {
                let mut workspace = LayerWorkspace::new(arch, Member::all(1).remove(0));
                let mut out = vec![f32::NAN; inputs * outputs];
                input.weight_gradient(&gradient, &spec(inputs, outputs), &mut out, &mut workspace);
                out
            });
            prop_assert_eq!(dense, found);
        }
    }

    #[test]
    fn rows_with_a_tenth_of_entries_are_dense() {
        let mut generator = Generator::new(1);
        let mut sparse = SparseRows::default();
        let mut is_sparse = |entries: &[usize]| {
            let matrix = rows_with(entries, 20, &mut generator);
            sparse.take_if_sparse(Arch::new(), &matrix, 20)
        };
        assert!(is_sparse(&[2, 1]));
        assert!(!is_sparse(&[2, 2]));
        assert!(is_sparse(&[0, 0]));
        // All rows together count, not each.
        assert!(is_sparse(&[3, 0]));
        assert!(!is_sparse(&[]));
    }

    #[test]
    fn entries_are_found_in_their_rows_and_columns() {
        let mut sparse = SparseRows::default();
        let mut matrix = vec![0.0; 3 * 21];
        (matrix[4], matrix[20], matrix[2 * 21 + 4]) = (1.0, 2.0, 3.0);
        assert!(sparse.take_if_sparse(Arch::new(), &matrix, 21));
        assert_eq!(sparse.row(0), [(4, 1.0), (20, 2.0)]);
        assert_eq!(sparse.row(1), []);
        assert_eq!(sparse.row(2), [(4, 3.0)]);
        let mut transposed = SparseRows::default();
        sparse.transpose(21, &mut transposed);
        assert_eq!(transposed.rows(), 21);
        assert_eq!(transposed.row(4), [(0, 1.0), (2, 3.0)]);
        assert_eq!(transposed.row(20), [(0, 2.0)]);
        assert_eq!(transposed.row(3), []);
    }
}
