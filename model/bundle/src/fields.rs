//! Turns named fields into encoder inputs: numbers are standardised, categories and words are hashed.
//!
//! The hash is documented so that a training job in any language can prepare the same inputs: the
//! bucket of a token is `XXH64(field name, 0x1F, token; seed 0) mod buckets`, over UTF-8 bytes. A
//! category is one token, unchanged. A text is split at every character that is not alphanumeric, and
//! each word is lower-cased. Several categories or texts in one field are the bag of all their tokens. A missing number
//! becomes 0 (the mean); it is written as -0, which no computation tells from 0 and no value of an event gives, so that
//! missing values can be counted. A missing category or text is an empty bag, whose embedding is zero.

mod carried;
mod measure;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash64;

pub use carried::CarriedRow;

use ostar_engine::{
    Error, Result,
    inputs::{FieldRows, Inputs},
    tensors::Scalars,
};

/// Hashed between the field's name and the token, so that ("ab", "c") and ("a", "bc") differ.
const SEPARATOR: u8 = 0x1f;

/// Words of a text that are used; the rest is ignored. Bounds the work that one event can cause.
const MAX_WORDS: usize = 4096;

/// One field of the events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Name in the events.
    pub name: String,
    /// How its values become inputs.
    pub kind: FieldKind,
}

/// How a field becomes input.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FieldKind {
    /// A number, standardised by the source's mean and deviation.
    Number {
        /// Mean over the source rows, missing values left out.
        mean: f64,
        /// Standard deviation over the source rows, above 0; 1 for a constant field.
        deviation: f64,
    },
    /// A value that is hashed as one token.
    Category,
    /// A text that is split into words, each hashed as a token.
    Text,
}

/// Largest magnitude of a standardised number. Products and sums of such numbers stay within the range of single
/// precision, so that no event can make predictions infinite.
pub const LARGEST_NUMBER: f32 = 1e15;

/// A field's value in an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FieldValue<'a> {
    /// A value of a number field, before standardising.
    Number(f64),
    /// A value of a category or text field.
    Text(&'a str),
    /// Several values of a category or text field.
    Texts(&'a [Cow<'a, str>]),
    /// The event has no such field, or it is null.
    Missing,
}

/// The fields of a model's events, in order, and the size of its embedding table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSchema {
    /// In the order of the encoder's inputs; names are unique.
    pub fields: Vec<Field>,
    /// Rows of the embedding table; 0 is allowed when all fields are numbers.
    pub buckets: usize,
}

/// Hashed rows, ready for an encoder.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FieldBlock {
    numbers: Vec<f32>,
    tokens: Vec<u32>,
    offsets: Vec<u32>,
}

// === impl FieldSchema ===

impl FieldSchema {
    /// How many number fields there are.
    pub fn numbers(&self) -> usize {
        let is_number = |field: &&Field| matches!(field.kind, FieldKind::Number { .. });
        self.fields.iter().filter(is_number).count()
    }

    /// How many category and text fields there are.
    pub fn bags(&self) -> usize {
        self.fields.len() - self.numbers()
    }

    /// Appends one event. `value` returns the value of the field with a given name. On an error the block is unchanged.
    pub fn push<'v>(
        &self,
        value: impl Fn(&str) -> FieldValue<'v>,
        block: &mut FieldBlock,
    ) -> Result<()> {
        let (numbers, tokens, bags) = block.lengths();
        let pushed = self
            .fields
            .iter()
            .try_for_each(|field| self.push_field(field, value(&field.name), block));
        if pushed.is_err() {
            block.truncate(numbers, tokens, bags);
        }
        pushed
    }

    fn push_field(
        &self,
        field: &Field,
        value: FieldValue<'_>,
        block: &mut FieldBlock,
    ) -> Result<()> {
        match (field.kind, value) {
            (FieldKind::Number { mean, deviation }, FieldValue::Number(number)) => {
                let standardised = ((number - mean) / deviation) as f32;
                // Also false for NaN.
                let usable = standardised.abs() <= LARGEST_NUMBER;
                if !usable {
                    return Err(Error::setting(
                        format!("field `{}`", field.name),
                        format!(
                            "is {number}, expected a number within {LARGEST_NUMBER:e} deviations"
                        ),
                    ));
                }
                // -0 would count as missing.
                block.numbers.push(standardised + 0.0);
            }
            (FieldKind::Number { .. }, FieldValue::Missing) => block.numbers.push(-0.0),
            (FieldKind::Category, FieldValue::Text(text)) => {
                block.tokens.push(self.bucket(&field.name, text));
                block.close_bag();
            }
            (FieldKind::Category, FieldValue::Texts(texts)) => {
                for text in texts.iter().take(MAX_WORDS) {
                    block.tokens.push(self.bucket(&field.name, text));
                }
                block.close_bag();
            }
            (FieldKind::Text, FieldValue::Text(text)) => {
                self.push_words(&field.name, std::iter::once(text), block);
            }
            (FieldKind::Text, FieldValue::Texts(texts)) => {
                self.push_words(&field.name, texts.iter().map(AsRef::as_ref), block);
            }
            (FieldKind::Category | FieldKind::Text, FieldValue::Missing) => block.close_bag(),
            (FieldKind::Number { .. }, FieldValue::Text(text)) => {
                return Err(wrong_kind(field, "a number", &format!("the text {text:?}")));
            }
            (FieldKind::Number { .. }, FieldValue::Texts(texts)) => {
                let found = format!("a list of {}", texts.len());
                return Err(wrong_kind(field, "a number", &found));
            }
            (_, FieldValue::Number(number)) => {
                return Err(wrong_kind(field, "a text", &format!("the number {number}")));
            }
        }
        Ok(())
    }

    /// Closes a bag of the words of some texts.
    fn push_words<'t>(
        &self,
        field: &str,
        texts: impl Iterator<Item = &'t str>,
        block: &mut FieldBlock,
    ) {
        let words = texts.flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
        for word in words.filter(|word| !word.is_empty()).take(MAX_WORDS) {
            let token = self.bucket(field, &word.to_lowercase());
            block.tokens.push(token);
        }
        block.close_bag();
    }

    /// Tokens of a field's categories, in their order. Refuses categories that the hash does not tell apart.
    #[cfg(feature = "onnx")]
    pub(crate) fn tokens(&self, field: &str, categories: &[String]) -> Result<Vec<u32>> {
        let tokens = categories
            .iter()
            .map(|category| self.bucket(field, category));
        let tokens: Vec<u32> = tokens.collect();
        let distinct: std::collections::HashSet<u32> = tokens.iter().copied().collect();
        if distinct.len() < tokens.len() {
            return Err(Error::setting(
                "buckets",
                format!(
                    "is {}, expected more: two categories of `{field}` share one",
                    self.buckets
                ),
            ));
        }
        Ok(tokens)
    }

    fn bucket(&self, field: &str, token: &str) -> u32 {
        use std::hash::Hasher;
        let mut hasher = XxHash64::with_seed(0);
        hasher.write(field.as_bytes());
        hasher.write(&[SEPARATOR]);
        hasher.write(token.as_bytes());
        (hasher.finish() % self.buckets as u64) as u32
    }
}

fn wrong_kind(field: &Field, expected: &str, found: &str) -> Error {
    Error::shape(format!("field `{}`", field.name), expected, found)
}

// === impl FieldBlock ===

impl FieldBlock {
    /// The numbers of all rows; a row that is a vector has nothing else.
    pub fn numbers(&self) -> &[f32] {
        &self.numbers
    }

    /// The same to append to.
    pub fn numbers_mut(&mut self) -> &mut Vec<f32> {
        &mut self.numbers
    }

    /// How many numbers and tokens all rows have together.
    pub fn size(&self) -> usize {
        self.numbers.len() + self.tokens.len()
    }

    /// Borrows the rows as inputs of an encoder.
    pub fn inputs(&self) -> Inputs<'_> {
        Inputs::Fields(FieldRows {
            numbers: Scalars::F32(&self.numbers),
            tokens: &self.tokens,
            // A block without bags has no offsets yet; readers expect one more offset than there are bags.
            offsets: if self.offsets.is_empty() {
                &[0]
            } else {
                &self.offsets
            },
        })
    }

    /// Removes all rows and keeps the memory.
    pub fn clear(&mut self) {
        self.numbers.clear();
        self.tokens.clear();
        self.offsets.clear();
    }

    /// Appends the rows `range` of another block of the same schema, which holds `rows` rows.
    pub fn append(&mut self, other: &Self, range: std::ops::Range<usize>, rows: usize) {
        if rows == 0 || range.is_empty() {
            return;
        }
        let numbers = other.numbers.len() / rows;
        self.numbers
            .extend_from_slice(&other.numbers[range.start * numbers..range.end * numbers]);
        let bags = other.offsets.len().saturating_sub(1) / rows;
        if bags == 0 {
            return;
        }
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        let offsets = &other.offsets[range.start * bags..=range.end * bags];
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let start = self.tokens.len() as u32;
        self.tokens
            .extend_from_slice(&other.tokens[first as usize..last as usize]);
        self.offsets
            .extend(offsets[1..].iter().map(|end| start + end - first));
    }

    fn close_bag(&mut self) {
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        self.offsets.push(self.tokens.len() as u32);
    }

    fn lengths(&self) -> (usize, usize, usize) {
        (self.numbers.len(), self.tokens.len(), self.offsets.len())
    }

    fn truncate(&mut self, numbers: usize, tokens: usize, offsets: usize) {
        self.numbers.truncate(numbers);
        self.tokens.truncate(tokens);
        self.offsets.truncate(offsets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> FieldSchema {
        let field = |name: &str, kind| Field {
            name: name.into(),
            kind,
        };
        let number = FieldKind::Number {
            mean: 10.0,
            deviation: 2.0,
        };
        FieldSchema {
            fields: vec![
                field("price", number),
                field("country", FieldKind::Category),
                field("subject", FieldKind::Text),
            ],
            buckets: 1000,
        }
    }

    fn push(block: &mut FieldBlock, values: [FieldValue<'_>; 3]) -> Result<()> {
        schema().push(
            |name| match name {
                "price" => values[0],
                "country" => values[1],
                _ => values[2],
            },
            block,
        )
    }

    #[test]
    fn buckets_are_those_of_the_documented_hash() {
        // python: xxhash.xxh64(b"country\x1fDE", seed=0).intdigest() % 1000, and for "subject".
        let mut block = FieldBlock::default();
        let (country, subject) = (
            FieldValue::Text("DE"),
            FieldValue::Text("Free, FREE money!"),
        );
        push(&mut block, [FieldValue::Number(14.0), country, subject]).unwrap();
        assert_eq!(block.numbers, [2.0]);
        assert_eq!(block.offsets, [0, 1, 4]);
        assert_eq!(block.tokens, [45, 929, 929, 806]);
    }

    #[test]
    fn appended_rows_are_those_that_were_pushed() {
        let texts = ["one", "two words", "", "and three more"];
        let rows = |numbers: std::ops::Range<usize>| {
            let mut block = FieldBlock::default();
            for number in numbers {
                let text = FieldValue::Text(texts[number]);
                push(&mut block, [FieldValue::Number(number as f64), text, text]).unwrap();
            }
            block
        };
        let all = rows(0..4);
        let mut pieces = rows(0..1);
        pieces.append(&all, 1..3, 4);
        pieces.append(&all, 3..4, 4);
        assert_eq!(pieces, all);
        let mut tail = FieldBlock::default();
        tail.append(&all, 2..4, 4);
        assert_eq!(tail, rows(2..4));
    }

    #[test]
    fn several_values_are_one_bag_of_all_their_tokens() {
        let mut one_by_one = FieldBlock::default();
        let texts = [Cow::Borrowed("Free, FREE"), Cow::Borrowed("money!")];
        let countries = [Cow::Borrowed("DE"), Cow::Borrowed("FR")];
        let values = [
            FieldValue::Missing,
            FieldValue::Texts(&countries),
            FieldValue::Texts(&texts),
        ];
        push(&mut one_by_one, values).unwrap();
        assert_eq!(one_by_one.offsets, [0, 2, 5]);
        assert_eq!(one_by_one.tokens[0], 45);
        assert_eq!(one_by_one.tokens[2..], [929, 929, 806]);
        let number = [
            FieldValue::Texts(&texts),
            FieldValue::Missing,
            FieldValue::Missing,
        ];
        let refused = push(&mut one_by_one, number).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "field `price`: expected a number, found a list of 2"
        );
    }

    #[test]
    fn missing_values_are_the_mean_and_empty_bags() {
        let mut block = FieldBlock::default();
        push(&mut block, [FieldValue::Missing; 3]).unwrap();
        assert_eq!((block.numbers, block.offsets), (vec![0.0], vec![0, 0, 0]));
    }

    #[test]
    fn a_wrong_kind_or_an_infinity_is_refused_and_leaves_the_block_alone() {
        let mut block = FieldBlock::default();
        let text = FieldValue::Text("x");
        push(&mut block, [FieldValue::Number(1.0), text, text]).unwrap();
        let before = block.clone();
        let infinite = push(&mut block, [FieldValue::Number(f64::INFINITY), text, text]);
        assert!(infinite.unwrap_err().to_string().contains("`price`"));
        let number = push(
            &mut block,
            [FieldValue::Number(1.0), text, FieldValue::Number(3.0)],
        );
        assert_eq!(
            number.unwrap_err().to_string(),
            "field `subject`: expected a text, found the number 3"
        );
        assert_eq!(block, before);
    }
}
