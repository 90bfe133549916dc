//! Inputs of the encoder: dense rows, or numbers and bags of hashed tokens.

use crate::{
    Error, Result, Rows,
    architecture::{Architecture, EncoderShape},
    tensors::Scalars,
};

/// A borrowed block of encoder inputs.
#[derive(Debug, Clone, Copy)]
pub enum Inputs<'a> {
    /// Latents (identity encoder) or dense features.
    Dense(Rows<'a>),
    /// Named fields after hashing.
    Fields(FieldRows<'a>),
}

/// Rows of numbers and bags of tokens.
#[derive(Debug, Clone, Copy)]
pub struct FieldRows<'a> {
    /// Standardised numbers, row by row.
    pub numbers: Scalars<'a>,
    /// Tokens of all bags, in the order of rows and bags: row numbers of the embedding table.
    pub tokens: &'a [u32],
    /// Where each bag starts in `tokens`, and where the last one ends: rows x bags + 1 entries.
    pub offsets: &'a [u32],
}

// === impl Inputs ===

impl<'a> Inputs<'a> {
    /// Dense rows, or the numbers of fields.
    pub fn numbers(&self) -> Scalars<'a> {
        match self {
            Self::Dense(rows) => rows.values(),
            Self::Fields(rows) => rows.numbers,
        }
    }

    /// How many rows there are.
    pub fn count(&self, architecture: &Architecture) -> usize {
        match (self, architecture.fields()) {
            (Self::Dense(rows), _) => rows.count(),
            (Self::Fields(rows), Some([numbers, bags, _])) => rows.count(numbers, bags),
            (Self::Fields(_), None) => 0,
        }
    }

    /// Checks that kind and size are the architecture's and that every number is finite.
    pub fn check(&self, architecture: &Architecture) -> Result<()> {
        match (self, &architecture.encoder) {
            // Whoever runs it checks its own.
            (_, EncoderShape::Onnx(_)) => Err(Error::Unsupported {
                engine: "training",
                what: "an ONNX encoder".into(),
            }),
            (Self::Dense(rows), EncoderShape::Identity) => {
                rows.check("latents", architecture.latent)
            }
            (Self::Dense(rows), EncoderShape::Mlp { inputs, .. }) => {
                rows.check("features", *inputs)
            }
            (Self::Dense(rows), EncoderShape::Convolution { .. }) => {
                rows.check("images", architecture.encoder_inputs())
            }
            (
                Self::Fields(rows),
                EncoderShape::Fields {
                    numbers,
                    bags,
                    buckets,
                    ..
                },
            ) => rows.check(self.count(architecture), *numbers, *bags, *buckets),
            (Self::Dense(_), EncoderShape::Fields { .. }) => {
                Err(Error::shape("inputs", "named fields", "dense rows"))
            }
            (Self::Fields(_), _) => Err(Error::shape("inputs", "dense rows", "named fields")),
        }
    }
}

// === impl FieldRows ===

impl FieldRows<'_> {
    /// Tokens of bag `number`. The bags of row r start at r times the number of bags.
    pub fn bag(&self, number: usize) -> &[u32] {
        let (start, end) = (self.offsets[number], self.offsets[number + 1]);
        &self.tokens[start as usize..end as usize]
    }

    /// How many rows there are of so many numbers and bags each.
    pub fn count(&self, numbers: usize, bags: usize) -> usize {
        match bags {
            0 => self.numbers.len() / numbers.max(1),
            _ => self.offsets.len().saturating_sub(1) / bags,
        }
    }

    /// Checks that there are so many rows of so many numbers and bags, with finite numbers and tokens below `buckets`.
    pub fn check(&self, rows: usize, numbers: usize, bags: usize, buckets: usize) -> Result<()> {
        if self.numbers.len() != rows * numbers {
            return Err(Error::shape(
                "numbers",
                format!("{rows} rows of {numbers}"),
                format!("{} numbers", self.numbers.len()),
            ));
        }
        if numbers > 0 {
            Rows::new_unchecked(self.numbers, numbers).check("numbers", numbers)?;
        }
        let ends = self.offsets.last().map_or(0, |end| *end as usize);
        let ascending = self.offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let starts_at_zero = self.offsets.first().is_none_or(|start| *start == 0);
        if bags > 0
            && (self.offsets.len() != rows * bags + 1
                || !ascending
                || !starts_at_zero
                || ends != self.tokens.len())
        {
            return Err(Error::shape(
                "offsets",
                format!(
                    "{} ascending offsets from 0 to {}",
                    rows * bags + 1,
                    self.tokens.len()
                ),
                format!("{} offsets ending at {ends}", self.offsets.len()),
            ));
        }
        match self.tokens.iter().find(|t| **t as usize >= buckets) {
            None => Ok(()),
            Some(token) => Err(Error::shape(
                "tokens",
                format!("numbers below {buckets}"),
                token,
            )),
        }
    }
}

/// Whether a number stands for a missing value, which is written as -0: computations do not tell it from 0, the mean.
pub fn is_missing(value: f32) -> bool {
    value == 0.0 && value.is_sign_negative()
}

/// Adds the mean of the tokens' embeddings to `sums`. An empty bag adds nothing. A row of `table` has as many numbers
/// as `sums`.
pub(crate) fn add_mean_embedding(table: &[f32], tokens: &[u32], sums: &mut [f32]) {
    let width = sums.len();
    let weight = 1.0 / tokens.len().max(1) as f32;
    for token in tokens {
        let vector = &table[*token as usize * width..][..width];
        for (sum, value) in sums.iter_mut().zip(vector) {
            *sum += weight * value;
        }
    }
}
