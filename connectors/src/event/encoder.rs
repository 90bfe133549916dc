//! Encodes rows as payloads of records, for `replay`, the demo and tests.

use std::collections::HashMap;

use ostar_bundle::{Input, InputKind};
use prost::Message;
use serde::{Serializer, ser::SerializeMap};
use serde_json::{Value, json};

use super::{
    Cell, EventFormat, EventSettings, Row,
    layout::{Layout, UnsuitableSettings},
    path::Path,
    settings::TimeUnit,
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
        if settings.format == EventFormat::Avro
            || settings.has_own_message()
            || settings.registry.url.is_some()
        {
            return Err(UnsuitableSettings::new(
                "events.format is avro, or has a registry or a descriptor set, expected another one: ostard reads such events and does not \
                 write them"
                    .into(),
            ));
        }
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
            // Refused by `Encoder::new`.
            EventFormat::Avro => Vec::new(),
            EventFormat::Raw => match row {
                Row::Dense(values) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
                Row::Fields(_) => Vec::new(),
            },
        }
    }

    /// An event whose values are not where they are by default. Times are milliseconds of another unit, or the unit.
    fn placed_json(&self, id: Option<&str>, time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        let mut event = serde_json::Map::new();
        match (row, &self.layout) {
            (Row::Dense(values), layout) => {
                if let Ok(path) = layout.numbers_path(&self.settings) {
                    place(&mut event, path.keys(), json!(values));
                }
            }
            (Row::Fields(named), Layout::Fields(layout)) => {
                let paths = layout.paths(&self.settings).unwrap_or_default();
                for (path, field) in paths.iter().zip(&layout.schema().fields) {
                    if let Some(cell) = named.get(&field.name) {
                        place(&mut event, path.keys(), json!(cell));
                    }
                }
            }
            (Row::Fields(_), Layout::Dense(_)) => (),
        }
        let time = time_ms.map(|time_ms| json!(self.settings.time_unit.of_ms(time_ms)));
        for (name, value) in [
            (&self.settings.id_field, id.map(|id| json!(id))),
            (&self.settings.time_field, time),
        ] {
            if let Some(value) = value {
                // A field of the model may be in the same place.
                place(&mut event, Path::pointer_or_key(name).keys(), value);
            }
        }
        Value::Object(event).to_string().into_bytes()
    }

    fn json(&self, id: Option<&str>, time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        let is_pointer = |name: &String| name.starts_with('/');
        if !self.settings.fields.is_empty()
            || self.settings.time_unit != TimeUnit::Ms
            || is_pointer(&self.settings.id_field)
            || is_pointer(&self.settings.time_field)
        {
            return self.placed_json(id, time_ms, row);
        }
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
                let key = |name: &String| self.settings.fields.get(name).unwrap_or(name).clone();
                let values = named
                    .iter()
                    .map(|(name, cell)| (key(name), value(name, cell)));
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

/// Puts a value where nothing is yet, with the objects around it.
fn place(object: &mut serde_json::Map<String, Value>, keys: &[String], value: Value) {
    let Some((first, rest)) = keys.split_first() else {
        return;
    };
    let entry = object.entry(first.clone());
    if rest.is_empty() {
        entry.or_insert(value);
    } else if let Value::Object(inner) = entry.or_insert_with(|| json!({})) {
        place(inner, rest, value);
    }
}

fn proto_value(cell: &Cell<'_>) -> proto::Value {
    let kind = match cell {
        Cell::Missing => None,
        Cell::Bool(value) => Some(value::Kind::Number(f64::from(u8::from(*value)))),
        Cell::Integer(value) => Some(value::Kind::Number(*value as f64)),
        Cell::Number(value) => Some(value::Kind::Number(*value)),
        Cell::Text(text) => Some(value::Kind::Text(text.clone().into_owned())),
        // `ostar.v1.Value` has no lists. Words of a text are the same in one text.
        Cell::Texts(texts) => Some(value::Kind::Text(texts.join(" "))),
    };
    proto::Value { kind }
}
