//! Decodes records of the labels' topic.

use std::collections::HashMap;

use prost::Message;

use super::{LabelFormat, LabelSettings};
use crate::{
    event::{Cell, JsonKeys, MAX_ID_BYTES, Reject, RejectReason},
    proto,
};

/// Largest label record, in bytes: an id, a class and some keys that are ignored.
const MAX_BYTES: usize = 64 << 10;

/// The true class of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The event's id, as the prediction carries it.
    pub id: Box<str>,
    /// Index of the class in the bundle's list.
    pub class: u32,
}

/// Decodes labels for one bundle.
#[derive(Debug, Clone)]
pub struct LabelDecoder {
    format: LabelFormat,
    /// Of the id and of the label.
    names: [String; 2],
    keys: JsonKeys,
    classes: Classes,
}

#[derive(Debug, Clone)]
pub(crate) struct Classes {
    numbers: HashMap<String, u32>,
}

// === impl LabelDecoder ===

impl LabelDecoder {
    /// `classes` are the bundle's, in the order of their indices.
    pub fn new(settings: &LabelSettings, classes: &[String]) -> Self {
        let names = [&settings.id_field, &settings.label_field];
        Self {
            format: settings.format,
            names: names.map(String::clone),
            keys: JsonKeys::new(&names.map(String::as_str)),
            classes: Classes::new(classes),
        }
    }

    /// Decodes one label; an unknown class is an error.
    pub fn decode(&self, payload: &[u8]) -> Result<Label, Reject> {
        if payload.is_empty() {
            return Err(Reject::empty());
        }
        if payload.len() > MAX_BYTES {
            return Err(Reject::too_large(payload.len(), MAX_BYTES));
        }
        let (id, label) = match self.format {
            LabelFormat::Json => self.read_json(payload)?,
            LabelFormat::Protobuf => {
                let label = proto::Label::decode(payload)?;
                (label.id, label.label)
            }
        };
        if !(1..=MAX_ID_BYTES).contains(&id.len()) {
            let detail = format!(
                "the id has {} bytes, expected 1 to {MAX_ID_BYTES}",
                id.len()
            );
            return Err(Reject::new(RejectReason::BadId, detail));
        }
        let class = self.classes.number(&label);
        let class = class.map_err(|detail| Reject::new(RejectReason::UnknownClass, detail))?;
        Ok(Label {
            id: id.into(),
            class,
        })
    }

    fn read_json(&self, payload: &[u8]) -> Result<(String, String), Reject> {
        let cells = self.keys.read(payload)?;
        let mut texts = self.names.iter().zip(cells).map(|(name, cell)| match cell {
            Some(cell @ (Cell::Integer(_) | Cell::Text(_) | Cell::Bool(_))) => Ok(cell.to_string()),
            Some(Cell::Missing) | None => Ok(String::new()),
            Some(cell @ (Cell::Number(_) | Cell::Texts(_))) => Err(Reject::wrong_type(format!(
                "`{name}` is {cell}, expected a text or a whole number"
            ))),
        });
        let mut next = || texts.next().unwrap_or_else(|| Ok(String::new()));
        Ok((next()?, next()?))
    }
}

// === impl Classes ===

impl Classes {
    pub(crate) fn new(names: &[String]) -> Self {
        let numbered = names.iter().cloned().zip(0..);
        Self {
            numbers: numbered.collect(),
        }
    }

    /// Index of the class with this name, or else with this number. A number is no index where names are numbers: of
    /// classes 1 and 2, label 1 would be the first by its name, and label 0 as well.
    pub(crate) fn number(&self, label: &str) -> Result<u32, String> {
        let by_name = self.numbers.get(label).copied();
        let number = by_name.or_else(|| {
            let number: u32 = label.parse().ok()?;
            let is_index = (number as usize) < self.numbers.len() && !self.has_numbers();
            is_index.then_some(number)
        });
        number.ok_or_else(|| match label {
            "" => "the label is missing, expected a class's name or number".to_owned(),
            _ => format!("{label:?} is not a class's name or number"),
        })
    }

    fn has_numbers(&self) -> bool {
        self.numbers.keys().any(|name| name.parse::<i64>().is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(format: LabelFormat) -> LabelDecoder {
        let settings = LabelSettings {
            format,
            ..LabelSettings::default()
        };
        LabelDecoder::new(&settings, &["ham".into(), "spam".into()])
    }

    fn reason(payload: &str) -> &'static str {
        let rejected = decoder(LabelFormat::Json).decode(payload.as_bytes());
        rejected.unwrap_err().reason.as_str()
    }

    #[test]
    fn labels_are_names_or_numbers_in_both_formats() {
        let label = |id: &str, class| Label {
            id: id.into(),
            class,
        };
        let json = |text: &str| decoder(LabelFormat::Json).decode(text.as_bytes()).unwrap();
        assert_eq!(json(r#"{"id": "x", "label": "spam"}"#), label("x", 1));
        assert_eq!(
            json(r#"{"label": 0, "id": 17, "by": ["me"]}"#),
            label("17", 0)
        );
        assert_eq!(json(r#"{"label": "1", "id": "a\u00e4"}"#), label("aä", 1));
        let bytes = proto::Label {
            id: "x".into(),
            label: "ham".into(),
        };
        let decoded = decoder(LabelFormat::Protobuf).decode(&bytes.encode_to_vec());
        assert_eq!(decoded.unwrap(), label("x", 0));
    }

    #[test]
    fn numbers_that_are_names_are_names() {
        let names = ["1".to_owned(), "0".to_owned()];
        let decoder = LabelDecoder::new(&LabelSettings::default(), &names);
        let label = decoder.decode(br#"{"id": "x", "label": 1}"#).unwrap();
        assert_eq!(label.class, 0);
        let decoder = LabelDecoder::new(&LabelSettings::default(), &["1".into(), "2".into()]);
        let refused = decoder.decode(br#"{"id": "x", "label": 0}"#);
        assert_eq!(refused.unwrap_err().reason, RejectReason::UnknownClass);
    }

    #[test]
    fn whatever_is_wrong_has_its_reason() {
        assert_eq!(reason(""), "empty");
        assert_eq!(reason("{"), "malformed");
        assert_eq!(reason("[]"), "wrong_type");
        let twice = r#"{"id": "x", "label": "ham", "label": "spam"}"#;
        assert_eq!(reason(twice), "malformed");
        assert_eq!(reason(r#"{"id": "x"}"#), "unknown_class");
        assert_eq!(reason(r#"{"id": "x", "label": "eggs"}"#), "unknown_class");
        assert_eq!(reason(r#"{"id": "x", "label": 2}"#), "unknown_class");
        assert_eq!(reason(r#"{"id": "x", "label": 0.5}"#), "wrong_type");
        assert_eq!(reason(r#"{"label": "ham"}"#), "bad_id");
        let long = format!(
            r#"{{"id": "{}", "label": "ham"}}"#,
            "x".repeat(MAX_ID_BYTES + 1)
        );
        assert_eq!(reason(&long), "bad_id");
        assert_eq!(reason(&" ".repeat(MAX_BYTES + 1)), "too_large");
    }

    #[test]
    fn fuzz_labels() {
        let decoders = [LabelFormat::Json, LabelFormat::Protobuf].map(decoder);
        let encoded = proto::Label {
            id: "x".into(),
            label: "spam".into(),
        };
        let seeds = [
            br#"{"label": "spam", "id": 17, "by": ["me", {"a": null}]}"#.to_vec(),
            encoded.encode_to_vec(),
        ];
        ostar_fuzzing::fuzz!("labels", seeds, |bytes: &[u8]| {
            for decoder in &decoders {
                if let Ok(label) = decoder.decode(bytes) {
                    assert!(label.class < 2 && !label.id.is_empty(), "{label:?}");
                }
            }
        });
    }
}
