//! JSON lines to inputs of the gRPC interface.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use ostar_connectors::proto::{Fields, Input, Value as FieldValue, Vector, input, value};
use serde::Deserialize;
use serde_json::Value;

/// An input, and the id to print with its answer.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) id: Option<Value>,
    pub(super) input: Input,
}

/// A line of input. It has the names of an event.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<Value>,
    /// Accepted because events have it. Not used.
    #[serde(rename = "time_ms")]
    _time_ms: Option<i64>,
    probabilities: Option<Vec<f32>>,
    logits: Option<Vec<f32>>,
    latent: Option<Vec<f32>>,
    dense: Option<Vec<f32>>,
    fields: Option<BTreeMap<String, Field>>,
}

/// A field's value. Null counts as missing.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Field {
    Missing,
    Number(f64),
    Text(String),
}

impl Row {
    pub(super) fn parse(line: &str) -> Result<Self> {
        // serde_json counts lines within this one. The caller adds the real number.
        let told =
            |error: serde_json::Error| error.to_string().replace("at line 1 column", "at column");
        let line: Line = serde_json::from_str(line).map_err(|error| anyhow!(told(error)))?;
        let vector = |values| Vector { values };
        let mut kinds = [
            line.probabilities
                .map(vector)
                .map(input::Kind::Probabilities),
            line.logits.map(vector).map(input::Kind::Logits),
            line.latent.map(vector).map(input::Kind::Latent),
            line.dense.map(vector).map(input::Kind::Dense),
            line.fields.map(fields).map(input::Kind::Fields),
        ]
        .into_iter()
        .flatten();
        match (kinds.next(), kinds.next()) {
            (Some(kind), None) => Ok(Self {
                id: line.id,
                input: Input { kind: Some(kind) },
            }),
            (None, _) => bail!("expected one of probabilities, logits, latent, dense or fields"),
            (Some(_), Some(_)) => {
                bail!("expected only one of probabilities, logits, latent, dense and fields")
            }
        }
    }
}

fn fields(fields: BTreeMap<String, Field>) -> Fields {
    let values = fields.into_iter().map(|(name, field)| {
        let kind = match field {
            Field::Missing => None,
            Field::Number(number) => Some(value::Kind::Number(number)),
            Field::Text(text) => Some(value::Kind::Text(text)),
        };
        (name, FieldValue { kind })
    });
    Fields {
        values: values.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_fields_keep_their_types_and_null_is_missing() {
        let row = Row::parse(r#"{"fields": {"subject": "hi", "length": 3, "sender": null}}"#);
        let Some(input::Kind::Fields(fields)) = row.unwrap().input.kind else {
            panic!("not fields");
        };
        assert_eq!(
            fields.values["subject"].kind,
            Some(value::Kind::Text("hi".into()))
        );
        assert_eq!(fields.values["length"].kind, Some(value::Kind::Number(3.0)));
        assert_eq!(fields.values["sender"].kind, None);
    }

    #[test]
    fn a_line_must_hold_exactly_one_input() {
        let told = |line| Row::parse(line).unwrap_err().to_string();
        assert!(told(r#"{"id": 1}"#).starts_with("expected one of probabilities"));
        assert!(told(r#"{"latent": [1], "dense": [1]}"#).starts_with("expected only one of"));
    }
}
