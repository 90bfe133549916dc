//! A row of hashed fields, carried between processes that have the same bundle.

use ostar_engine::{Error, Result, checks};

use super::{FieldBlock, FieldSchema, LARGEST_NUMBER};

/// One row of a [`FieldBlock`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CarriedRow {
    /// Standardised numbers.
    pub numbers: Vec<f32>,
    /// Tokens of all bags.
    pub tokens: Vec<u32>,
    /// How many of the tokens each bag has.
    pub bags: Vec<u32>,
}

impl FieldBlock {
    /// The row `number` of a block with `rows` rows.
    pub fn row(&self, number: usize, rows: usize) -> CarriedRow {
        let mut alone = Self::default();
        alone.append(self, number..number + 1, rows);
        let sizes = alone.offsets.windows(2).map(|pair| pair[1] - pair[0]);
        CarriedRow {
            bags: sizes.collect(),
            numbers: alone.numbers,
            tokens: alone.tokens,
        }
    }
}

impl FieldSchema {
    /// Appends a row that another process has hashed. Refuses what this schema cannot have given; the block is then
    /// unchanged.
    pub fn push_carried(&self, row: &CarriedRow, block: &mut FieldBlock) -> Result<()> {
        let (numbers, tokens, bags) = (&row.numbers, &row.tokens, &row.bags);
        checks::length("numbers of a carried row", numbers.len(), self.numbers())?;
        checks::length("bags of a carried row", bags.len(), self.bags())?;
        let in_bags: u64 = bags.iter().map(|size| u64::from(*size)).sum();
        let fits = in_bags == tokens.len() as u64
            && tokens.iter().all(|token| (*token as usize) < self.buckets)
            // Also false for NaN.
            && numbers.iter().all(|number| number.abs() <= LARGEST_NUMBER);
        if !fits {
            let problem = "has numbers or tokens that this bundle's fields cannot give";
            return Err(Error::setting("carried row", problem));
        }
        block.numbers.extend_from_slice(numbers);
        let mut rest = &tokens[..];
        for size in bags {
            let (bag, others) = rest.split_at(*size as usize);
            block.tokens.extend_from_slice(bag);
            block.close_bag();
            rest = others;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{Field, FieldKind, FieldValue};

    fn schema() -> FieldSchema {
        let field = |name: &str, kind| Field {
            name: name.into(),
            kind,
        };
        let number = FieldKind::Number {
            mean: 0.0,
            deviation: 1.0,
        };
        FieldSchema {
            fields: vec![
                field("price", number),
                field("country", FieldKind::Category),
                field("subject", FieldKind::Text),
            ],
            buckets: 100,
        }
    }

    #[test]
    fn a_carried_row_is_the_row_and_anything_else_is_refused() {
        let schema = schema();
        let mut block = FieldBlock::default();
        for text in ["one", "", "two more words"] {
            let value = |_: usize, name: &str| match name {
                "price" if text.is_empty() => FieldValue::Missing,
                "price" => FieldValue::Number(2.5),
                _ => FieldValue::Text(text),
            };
            schema.push(value, &mut block).unwrap();
        }
        let mut carried = FieldBlock::default();
        for number in 0..3 {
            schema
                .push_carried(&block.row(number, 3), &mut carried)
                .unwrap();
        }
        assert_eq!(carried, block);
        let bits = |block: &FieldBlock| {
            block
                .numbers
                .iter()
                .map(|n| n.to_bits())
                .collect::<Vec<_>>()
        };
        assert_eq!(bits(&carried), bits(&block), "missing numbers stay missing");

        let good = block.row(2, 3);
        let bad = [
            CarriedRow {
                numbers: vec![],
                ..good.clone()
            },
            CarriedRow {
                numbers: vec![f32::NAN],
                ..good.clone()
            },
            CarriedRow {
                tokens: vec![100; good.tokens.len()],
                ..good.clone()
            },
            CarriedRow {
                tokens: vec![],
                ..good.clone()
            },
            CarriedRow {
                bags: vec![u32::MAX, 5],
                ..good.clone()
            },
            CarriedRow {
                bags: vec![1],
                ..good
            },
        ];
        for row in bad {
            assert!(schema.push_carried(&row, &mut carried).is_err(), "{row:?}");
        }
        assert_eq!(carried, block);
    }
}
