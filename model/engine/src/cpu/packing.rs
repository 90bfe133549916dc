//! Factors of matrix products as panels: the order in which [`gemm`](super::gemm) reads them.

use super::gemm::{TILE_COLUMNS, TILE_ROWS};

/// The right factor of products, `depth` x `width`, as panels of `TILE_COLUMNS` columns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Packed {
    pub(super) depth: usize,
    pub(super) width: usize,
    pub(super) panels: Vec<f32>,
}

/// The left factor of products, stored transposed: panels of `TILE_ROWS` rows of the product.
#[derive(Debug, Clone, Default)]
pub(crate) struct PackedLeft {
    pub(crate) panels: Vec<f32>,
}

// === impl Packed ===

impl Packed {
    /// Packs a row-major `depth` x `width` matrix.
    pub(crate) fn pack_rows(&mut self, matrix: &[f32], depth: usize, width: usize) {
        self.pack_part_of_rows(matrix, width, depth, width);
    }

    /// Like [`Packed::pack_rows`], for the first `width` columns of a matrix whose rows are `stride` apart.
    pub(crate) fn pack_part_of_rows(
        &mut self,
        matrix: &[f32],
        stride: usize,
        depth: usize,
        width: usize,
    ) {
        for (first, used, lines) in self.resized(depth, width) {
            for (line, row) in lines.iter_mut().zip(matrix.chunks(stride)) {
                match row[first..width].first_chunk::<TILE_COLUMNS>() {
                    Some(full) => *line = *full,
                    None => {
                        line[..used].copy_from_slice(&row[first..width]);
                        line[used..].fill(0.0);
                    }
                }
            }
        }
    }

    /// Packs the transpose of a row-major `width` x `depth` matrix: a linear layer's weights.
    pub(crate) fn pack_columns(&mut self, matrix: &[f32], depth: usize, width: usize) {
        self.pack_part_of_columns(matrix, depth, depth, width);
    }

    /// Like [`Packed::pack_columns`], for the first `depth` columns of a matrix whose rows are `stride` apart.
    pub(crate) fn pack_part_of_columns(
        &mut self,
        matrix: &[f32],
        stride: usize,
        depth: usize,
        width: usize,
    ) {
        for (first, used, lines) in self.resized(depth, width) {
            for line in lines.iter_mut() {
                line[used..].fill(0.0);
            }
            for column in 0..used {
                let row = &matrix[(first + column) * stride..][..depth];
                for (line, value) in lines.iter_mut().zip(row) {
                    line[column] = *value;
                }
            }
        }
    }

    /// Panels for so many rows and columns: the first column of each, how many columns it has, and its lines.
    fn resized(
        &mut self,
        depth: usize,
        width: usize,
    ) -> impl Iterator<Item = (usize, usize, &mut [[f32; TILE_COLUMNS]])> {
        (self.depth, self.width) = (depth, width);
        let (panels, size) = (width.div_ceil(TILE_COLUMNS), depth * TILE_COLUMNS);
        self.panels.resize(panels * size, 0.0);
        let panels = self.panels.chunks_exact_mut(size).enumerate();
        panels.map(move |(number, panel)| {
            let first = number * TILE_COLUMNS;
            (
                first,
                TILE_COLUMNS.min(width - first),
                panel.as_chunks_mut().0,
            )
        })
    }
}

// === impl PackedLeft ===

impl PackedLeft {
    /// Packs a row-major `depth` x `rows` matrix whose transpose is the left factor.
    pub(crate) fn pack(&mut self, matrix: &[f32], depth: usize, rows: usize) {
        self.panels
            .resize(rows.div_ceil(TILE_ROWS) * depth * TILE_ROWS, 0.0);
        for (number, panel) in self.panels.chunks_exact_mut(depth * TILE_ROWS).enumerate() {
            let first = number * TILE_ROWS;
            let (lines, _) = panel.as_chunks_mut::<TILE_ROWS>();
            for (line, row) in lines.iter_mut().zip(matrix.chunks_exact(rows)) {
                match row[first..].first_chunk::<TILE_ROWS>() {
                    Some(full) => *line = *full,
                    None => line[..rows - first].copy_from_slice(&row[first..]),
                }
            }
        }
    }
}
