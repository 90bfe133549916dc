//! Linear algebra on rows, for whoever works on latents or probabilities: the engine's own matrix product and softmax.

use pulp::Arch;

use crate::cpu::gemm::{self, Epilogue, Left};
pub use crate::cpu::objective::softmax_rows;

/// Vectors of the same width, packed once, for their products with many rows.
#[derive(Debug, Clone)]
pub struct Packed(gemm::Packed);

impl Packed {
    /// Packs `count` vectors of `width` numbers, one after the other.
    pub fn new(vectors: &[f32], width: usize, count: usize) -> Self {
        let mut packed = gemm::Packed::default();
        packed.pack_columns(vectors, width, count);
        Self(packed)
    }

    /// Replaces `products` by those of every one of so many rows with every vector, row after row.
    pub fn multiply(&self, count: usize, rows: &[f32], products: &mut [f32]) {
        let (arch, rows) = (Arch::new(), Left::Rows(rows));
        gemm::multiply(arch, count, rows, &self.0, Epilogue::Set, products);
    }
}
