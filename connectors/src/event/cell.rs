//! One value of an event or of a file, with the type it was written in.

use std::{borrow::Cow, fmt};

use ostar_bundle::fields::{FieldKind, FieldValue};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};

/// A value that no schema has interpreted yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell<'a> {
    /// Absent, null or an empty cell.
    Missing,
    /// `true` or `false` of JSON, a boolean of Parquet.
    Bool(bool),
    /// A whole number, kept exact because ids have up to 64 bits.
    Integer(i64),
    /// A number that is not written as a whole one.
    Number(f64),
    /// A string; in CSV files every cell that is not empty.
    Text(Cow<'a, str>),
    /// Several texts or whole numbers: a bag of categories. Null elements are left out.
    Texts(Vec<Cow<'a, str>>),
}

/// An input row from a file or a generator, not checked or hashed yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// Probabilities, logits, latents or dense features.
    Dense(Vec<f32>),
    /// Named fields; one that is absent counts as missing.
    Fields(std::collections::BTreeMap<String, Cell<'static>>),
}

/// Most texts of a list that are used, as the model uses no more tokens of a field.
const MOST_TEXTS: usize = 4_096;

/// All whole numbers up to this one are exact in double precision.
const EXACT: f64 = (1u64 << 53) as f64;

impl<'a> Cell<'a> {
    /// Converts the value to what a field of this kind takes: booleans become 0 and 1 or words, and a whole number
    /// becomes a token of a category or a text. A value that does not fit is returned unchanged; the schema rejects it.
    pub(crate) fn read_as(mut self, kind: FieldKind) -> Self {
        self.read_in_place(kind);
        self
    }

    /// [`Cell::read_as`]; most values are what their field takes, and stay where they are.
    pub(crate) fn read_in_place(&mut self, kind: FieldKind) {
        let number = matches!(kind, FieldKind::Number { .. });
        *self = match *self {
            Self::Bool(value) if number => Self::Number(f64::from(u8::from(value))),
            Self::Integer(value) if number => Self::Number(value as f64),
            Self::Bool(_) | Self::Integer(_) => Self::Text(self.to_string().into()),
            Self::Number(value) if !number && value.fract() == 0.0 && value.abs() <= EXACT => {
                Self::Text((value as i64).to_string().into())
            }
            _ => return,
        }
    }

    /// Adds the value to a list of categories; null adds nothing. `Err` says what is wrong with the list.
    pub(crate) fn add_to(self, texts: &mut Vec<Cow<'a, str>>) -> Result<(), String> {
        match self.read_as(FieldKind::Category) {
            Self::Text(text) if texts.len() < MOST_TEXTS => texts.push(text),
            Self::Missing | Self::Text(_) => (),
            other => {
                return Err(format!(
                    "a list has {other}, expected texts or whole numbers"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn field_value(&self) -> FieldValue<'_> {
        match self {
            Self::Missing => FieldValue::Missing,
            Self::Bool(value) => FieldValue::Number(f64::from(u8::from(*value))),
            Self::Integer(value) => FieldValue::Number(*value as f64),
            Self::Number(value) => FieldValue::Number(*value),
            Self::Text(text) => FieldValue::Text(text),
            Self::Texts(texts) => FieldValue::Texts(texts),
        }
    }

    /// Copies borrowed text, so that the cell can outlive the payload.
    pub fn into_owned(self) -> Cell<'static> {
        match self {
            Self::Missing => Cell::Missing,
            Self::Bool(value) => Cell::Bool(value),
            Self::Integer(value) => Cell::Integer(value),
            Self::Number(value) => Cell::Number(value),
            Self::Text(text) => Cell::Text(text.into_owned().into()),
            Self::Texts(texts) => {
                let texts = texts.into_iter();
                Cell::Texts(texts.map(|text| text.into_owned().into()).collect())
            }
        }
    }
}

/// The plain value without quotes; nothing if it is missing.
impl fmt::Display for Cell<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => Ok(()),
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Integer(value) => write!(formatter, "{value}"),
            Self::Number(value) => write!(formatter, "{value}"),
            Self::Text(text) => formatter.write_str(text),
            Self::Texts(texts) => write!(formatter, "[{}]", texts.join(", ")),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Cell<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number, a text, true, false, null or a list of texts")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Cell::Missing)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Cell::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Cell::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(match i64::try_from(value) {
            Ok(value) => Cell::Integer(value),
            // Above i64 it is an id or a token, not a quantity; text keeps it exact.
            Err(_) => Cell::Text(value.to_string().into()),
        })
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Cell::Number(value))
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cell::Text(text.into()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cell::Text(text.to_owned().into()))
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut elements: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(element) = elements.next_element::<Cell<'de>>()? {
            element.add_to(&mut texts).map_err(de::Error::custom)?;
        }
        Ok(Cell::Texts(texts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_read_as_their_field_wants_them() {
        let number = FieldKind::Number {
            mean: 0.0,
            deviation: 1.0,
        };
        let read = |text: &str, kind| {
            let cell: Cell<'_> = serde_json::from_str(text).unwrap();
            cell.into_owned().read_as(kind)
        };
        assert_eq!(read("7", FieldKind::Category), Cell::Text("7".into()));
        assert_eq!(read("7.0", FieldKind::Category), Cell::Text("7".into()));
        assert_eq!(read("7.5", FieldKind::Category), Cell::Number(7.5));
        assert_eq!(read("true", FieldKind::Text), Cell::Text("true".into()));
        assert_eq!(read("true", number), Cell::Number(1.0));
        assert_eq!(read("-3", number), Cell::Number(-3.0));
        assert_eq!(read("\"a\\n\"", number), Cell::Text("a\n".into()));
        assert_eq!(read("null", number), Cell::Missing);
        let several = vec!["DE".into(), "7".into(), "true".into()];
        let list = r#"["DE", 7, null, true]"#;
        assert_eq!(read(list, FieldKind::Category), Cell::Texts(several));
        for wrong in ["[1.5]", "[[1]]", "[{}]"] {
            assert!(serde_json::from_str::<Cell<'_>>(wrong).is_err(), "{wrong}");
        }
        let large = "18446744073709551615";
        assert_eq!(read(large, FieldKind::Category), Cell::Text(large.into()));
    }
}
