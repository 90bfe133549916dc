//! Inputs of the encoder's first layer for one member's rows: dense rows unchanged, fields with their embeddings.

use std::ops::Range;

use super::networks::Networks;
use crate::{
    Architecture,
    inputs::{Inputs, add_mean_embedding},
};

/// An owned [`Inputs`], so that members can read it.
#[derive(Debug, Default)]
pub(crate) struct OwnedInputs {
    rows: usize,
    /// Dense rows, or the number fields of field rows.
    dense: Vec<f32>,
    tokens: Vec<u32>,
    offsets: Vec<u32>,
}

impl OwnedInputs {
    /// Copies inputs of the encoder, or latents. They must have been checked.
    pub(crate) fn copy(&mut self, inputs: &Inputs<'_>, architecture: &Architecture) {
        self.rows = inputs.count(architecture);
        self.dense.resize(inputs.numbers().len(), 0.0);
        inputs.numbers().copy_f32(0, &mut self.dense);
        self.tokens.clear();
        self.offsets.clear();
        if let Inputs::Fields(fields) = inputs {
            self.tokens.extend_from_slice(fields.tokens);
            self.offsets.extend_from_slice(fields.offsets);
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Appends dense rows of `width` to `out`.
    pub(crate) fn copy_rows(&self, rows: Range<usize>, width: usize, out: &mut Vec<f32>) {
        out.extend_from_slice(&self.dense[rows.start * width..rows.end * width]);
    }

    /// Appends the encoder's first-layer inputs of `rows` to `out`.
    pub(crate) fn assemble(
        &self,
        rows: Range<usize>,
        architecture: &Architecture,
        networks: &Networks,
        out: &mut Vec<f32>,
    ) {
        let fields = architecture.fields().zip(networks.embedding.as_ref());
        let Some(([numbers, bags, width], embedding)) = fields else {
            return self.copy_rows(rows, architecture.encoder_inputs(), out);
        };
        let table = embedding.read();
        for row in rows {
            out.extend_from_slice(&self.dense[row * numbers..(row + 1) * numbers]);
            for bag in 0..bags {
                let start = out.len();
                out.resize(start + width, 0.0);
                let tokens = self.bag(row * bags + bag);
                add_mean_embedding(&table.value, tokens, &mut out[start..]);
            }
        }
    }

    /// Adds to the embedding table's gradient, given the gradient at what [`OwnedInputs::assemble`] appended.
    pub(crate) fn embedding_gradient(
        &self,
        rows: Range<usize>,
        architecture: &Architecture,
        gradient: &[f32],
        table_gradient: &mut [f32],
    ) {
        let Some([numbers, bags, width]) = architecture.fields() else {
            return;
        };
        let inputs = architecture.encoder_inputs();
        for (row, gradient) in rows.zip(gradient.chunks_exact(inputs)) {
            for (bag, gradient) in gradient[numbers..].chunks_exact(width).enumerate() {
                let tokens = self.bag(row * bags + bag);
                let weight = 1.0 / tokens.len().max(1) as f32;
                for token in tokens {
                    let sums = &mut table_gradient[*token as usize * width..][..width];
                    for (sum, value) in sums.iter_mut().zip(gradient) {
                        *sum += weight * value;
                    }
                }
            }
        }
    }

    fn bag(&self, number: usize) -> &[u32] {
        let (start, end) = (self.offsets[number], self.offsets[number + 1]);
        &self.tokens[start as usize..end as usize]
    }
}
