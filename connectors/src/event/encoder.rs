//! Encodes rows as payloads of records, for `replay`, the demo and tests.

use std::collections::HashMap;

use ostar_model::bundle::{Input, InputKind};
use prost::Message;
use serde::{Serializer, ser::SerializeMap};

use super::{
    Cell, EventFormat, EventSettings, Row,
    layout::{Layout, UnsuitableSettings},
};
use crate::proto::{self, input::Kind, value};

/// Encodes events as a [`Decoder`](super::Decoder) with the same settings reads them.
#[derive(Debug, Clone)]
pub struct Encoder {
    settings: EventSettings,
    layout: Layout,
}

impl Encoder {
    /// Fails if events with these settings cannot carry the bundle's input.
    pub fn new(
        settings: &EventSettings,
        input: &Input,
        classes: usize,
    ) -> Result<Self, UnsuitableSettings> {
        let layout = Layout::new(input, classes);
        layout.check_settings(settings)?;
        Ok(Self {
            settings: settings.clone(),
            layout,
        })
    }

    /// Encodes an event without checking the row. Raw events carry neither id nor time: send those as the record's key
    /// and time stamp.
    pub fn encode(&self, id: Option<&str>, time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        match self.settings.format {
            EventFormat::Json => self.json(id, time_ms, row),
            EventFormat::Protobuf => self.protobuf(id, time_ms, row),
            EventFormat::Raw => match row {
                Row::Dense(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
                Row::Fields(_) => Vec::new(),
            },
        }
    }

    fn json(&self, id: Option<&str>, time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut json = serde_json::Serializer::new(&mut payload);
        let written = json.serialize_map(None).and_then(|mut map| {
            // In a flat event, a field may have the name of the id or the time; a key must not occur twice.
            let fields = match row {
                Row::Fields(named) if self.settings.flat => Some(named),
                _ => None,
            };
            let free = |name: &String| fields.is_none_or(|named| !named.contains_key(name));
            if let Some(id) = id.filter(|_| free(&self.settings.id_field)) {
                map.serialize_entry(&self.settings.id_field, id)?;
            }
            if let Some(time_ms) = time_ms.filter(|_| free(&self.settings.time_field)) {
                map.serialize_entry(&self.settings.time_field, &time_ms)?;
            }
            let name = self.layout.kind().as_str();
            match (row, fields) {
                (Row::Dense(values), _) => map.serialize_entry(name, values)?,
                (Row::Fields(_), Some(named)) => {
                    for (field, cell) in named {
                        map.serialize_entry(field, cell)?;
                    }
                }
                (Row::Fields(named), None) => map.serialize_entry(name, named)?,
            }
            map.end()
        });
        written.expect("writing text and numbers to memory cannot fail");
        payload
    }

    fn protobuf(&self, id: Option<&str>, time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        let kind = match row {
            Row::Dense(values) => {
                let vector = proto::Vector {
                    values: values.clone(),
                };
                match self.layout.kind() {
                    InputKind::Probabilities => Kind::Probabilities(vector),
                    InputKind::Logits => Kind::Logits(vector),
                    InputKind::Latent => Kind::Latent(vector),
                    InputKind::Dense | InputKind::Fields => Kind::Dense(vector),
                }
            }
            Row::Fields(named) => {
                let value = |name: &String, cell: &Cell<'static>| match &self.layout {
                    Layout::Fields(layout) => {
                        proto_value(&layout.read_as_field(name, cell.clone()))
                    }
                    Layout::Dense(_) => proto_value(cell),
                };
                let values = named
                    .iter()
                    .map(|(name, cell)| (name.clone(), value(name, cell)));
                Kind::Fields(proto::Fields {
                    values: values.collect::<HashMap<_, _>>(),
                })
            }
        };
        let event = proto::Event {
            id: id.unwrap_or_default().to_owned(),
            time_ms,
            input: Some(proto::Input { kind: Some(kind) }),
        };
        event.encode_to_vec()
    }
}

fn proto_value(cell: &Cell<'_>) -> proto::Value {
    let kind = match cell {
        Cell::Missing => None,
        Cell::Bool(value) => Some(value::Kind::Number(f64::from(u8::from(*value)))),
        Cell::Integer(value) => Some(value::Kind::Number(*value as f64)),
        Cell::Number(value) => Some(value::Kind::Number(*value)),
        Cell::Text(text) => Some(value::Kind::Text(text.clone().into_owned())),
    };
    proto::Value { kind }
}
