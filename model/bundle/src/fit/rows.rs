//! Some rows of a block of inputs, gathered.

use ostar_engine::{Architecture, FieldRows, Inputs, Rows, tensors::Scalars};

/// Memory for batches, used again and again.
#[derive(Debug, Default)]
pub(crate) struct GatheredRows {
    /// Dense rows, or the numbers of field rows.
    dense: Vec<f32>,
    tokens: Vec<u32>,
    offsets: Vec<u32>,
    labels: Vec<u32>,
}

impl GatheredRows {
    /// The given rows of checked `inputs` with their labels.
    pub(crate) fn gather(
        &mut self,
        inputs: &Inputs<'_>,
        labels: &[u32],
        architecture: &Architecture,
        rows: &[u32],
    ) -> (Inputs<'_>, &[u32]) {
        self.labels.clear();
        self.labels
            .extend(rows.iter().map(|row| labels[*row as usize]));
        match inputs {
            Inputs::Dense(dense) => {
                let width = dense.width();
                self.gather_dense(dense.values(), width, rows);
                let gathered = Rows::new_unchecked(Scalars::F32(&self.dense), width);
                (Inputs::Dense(gathered), &self.labels)
            }
            Inputs::Fields(fields) => {
                let [numbers, bags, _] = architecture.fields().unwrap_or_default();
                self.gather_dense(fields.numbers, numbers, rows);
                self.tokens.clear();
                self.offsets.clear();
                self.offsets.push(0);
                for bag in rows.iter().flat_map(|row| {
                    let first = *row as usize * bags;
                    first..first + bags
                }) {
                    self.tokens.extend_from_slice(fields.bag(bag));
                    self.offsets.push(self.tokens.len() as u32);
                }
                let gathered = FieldRows {
                    numbers: Scalars::F32(&self.dense),
                    tokens: &self.tokens,
                    offsets: &self.offsets,
                };
                (Inputs::Fields(gathered), &self.labels)
            }
        }
    }

    fn gather_dense(&mut self, values: Scalars<'_>, width: usize, rows: &[u32]) {
        self.dense.resize(rows.len() * width, 0.0);
        for (row, to) in rows.iter().zip(self.dense.chunks_exact_mut(width.max(1))) {
            values.copy_f32(*row as usize * width, to);
        }
    }
}
