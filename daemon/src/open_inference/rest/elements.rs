//! A tensor's elements in JSON, flat or nested like its shape.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, SeqAccess, Visitor},
};

use crate::open_inference::tensor::{Datatype, Values};

/// Elements in row-major order. JSON may give them before the datatype.
#[derive(Debug, Default)]
pub(super) struct Elements(Vec<Element>);

#[derive(Debug)]
enum Element {
    Whole(i64),
    Number(f64),
    Text(String),
}

// === impl Elements ===

impl Elements {
    /// Converts the elements; fails at the first that is not of the datatype.
    pub(super) fn read_as(self, datatype: Datatype) -> Result<Values, String> {
        Ok(match datatype {
            Datatype::Fp32 => {
                let single = |element| Element::number(element).map(|number| number as f32);
                Values::Singles(self.each(datatype, single)?)
            }
            Datatype::Fp64 => Values::Doubles(self.each(datatype, Element::number)?),
            Datatype::Bytes => Values::Texts(self.each(datatype, Element::text)?),
            _ => Values::Wholes(self.each(datatype, Element::whole)?),
        })
    }

    fn each<T>(
        self,
        datatype: Datatype,
        read: impl Fn(Element) -> Result<T, Element>,
    ) -> Result<Vec<T>, String> {
        let elements = self.0.into_iter().map(read);
        let wrong = |element| format!("data has {element}, which is no {}", datatype.name());
        elements.collect::<Result<_, _>>().map_err(wrong)
    }
}

// === impl Element ===

/// Conversions. `Err` gives the element back, for the error text.
impl Element {
    fn number(self) -> Result<f64, Self> {
        match self {
            Self::Whole(number) => Ok(number as f64),
            Self::Number(number) => Ok(number),
            Self::Text(_) => Err(self),
        }
    }

    fn whole(self) -> Result<i64, Self> {
        match self {
            Self::Whole(number) => Ok(number),
            Self::Number(_) | Self::Text(_) => Err(self),
        }
    }

    fn text(self) -> Result<String, Self> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Whole(_) | Self::Number(_) => Err(self),
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => write!(formatter, "{number}"),
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => write!(formatter, "{text:?}"),
        }
    }
}

impl<'de> Deserialize<'de> for Elements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut elements = Vec::new();
        Flatten(&mut elements).deserialize(deserializer)?;
        Ok(Self(elements))
    }
}

/// Appends an element, or all elements of a list. serde_json bounds the depth of nesting.
struct Flatten<'a>(&'a mut Vec<Element>);

impl<'de> DeserializeSeed<'de> for Flatten<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Flatten<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number, a string or a list of them")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Flatten(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.0.push(Element::Whole(number));
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.0.push(match i64::try_from(number) {
            Ok(number) => Element::Whole(number),
            Err(_) => Element::Number(number as f64),
        });
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.0.push(Element::Number(number));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.push(Element::Text(text.to_owned()));
        Ok(())
    }
}
