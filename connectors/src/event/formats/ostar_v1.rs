//! Events and inputs of requests as messages of `ostar.v1`.

use std::collections::HashMap;

use ostar_bundle::InputKind;
use prost::Message;

use super::{Format, Leaf, wire};
use crate::{
    event::{
        Cell, EventSettings, Reject, Row, collector::Collector, header::checked_id, layout::Layout,
        places::Use,
    },
    proto::{self, input::Kind, value},
};

/// Reads and writes `ostar.v1.Event`.
#[derive(Debug)]
pub(super) struct OstarV1 {
    layout: Layout,
    /// Keys of the fields in the schema's order; none for a vector.
    keys: Vec<String>,
    inputs: Inputs,
}

/// Reads `ostar.v1.Input`.
#[derive(Debug, Clone)]
pub(in crate::event) struct Inputs {
    kind: InputKind,
    /// What the values of named fields are for.
    uses: HashMap<String, Vec<Use>>,
}

// === impl Inputs ===

impl Inputs {
    /// Inputs whose fields have their names as keys, as those of requests have.
    pub(in crate::event) fn named(layout: &Layout) -> Self {
        Self::new(layout.kind(), &layout.field_names())
    }

    fn new(kind: InputKind, keys: &[String]) -> Self {
        let mut uses: HashMap<String, Vec<Use>> = HashMap::new();
        for (position, key) in keys.iter().enumerate() {
            uses.entry(key.clone())
                .or_default()
                .push(Use::Field(position));
        }
        Self { kind, uses }
    }

    /// Collects an input; one of another kind than the bundle's is none.
    pub(in crate::event) fn collect(
        &self,
        input: proto::Input,
        event: &mut Collector<'_, '_>,
    ) -> Result<(), Reject> {
        let (kind, vector) = match input.kind {
            Some(Kind::Fields(fields)) if self.kind == InputKind::Fields => {
                event.begin_input();
                for (key, value) in fields.values {
                    if let Some(uses) = self.uses.get(&key) {
                        event.put(uses, cell(value), None)?;
                    }
                }
                return Ok(());
            }
            Some(Kind::Probabilities(vector)) => (InputKind::Probabilities, vector),
            Some(Kind::Logits(vector)) => (InputKind::Logits, vector),
            Some(Kind::Latent(vector)) => (InputKind::Latent, vector),
            Some(Kind::Dense(vector)) => (InputKind::Dense, vector),
            Some(Kind::Fields(_)) | None => return Ok(()),
        };
        if kind == self.kind {
            event.numbers(&vector.values);
        }
        Ok(())
    }
}

// === impl OstarV1 ===

impl OstarV1 {
    pub(super) fn new(settings: &EventSettings, layout: &Layout) -> Self {
        let key = |name| settings.fields.get(&name).cloned().unwrap_or(name);
        let keys: Vec<String> = layout.field_names().into_iter().map(key).collect();
        Self {
            inputs: Inputs::new(layout.kind(), &keys),
            layout: layout.clone(),
            keys,
        }
    }

    fn input(&self, row: &Row) -> Kind {
        let vector = |values: &Vec<f32>| proto::Vector {
            values: values.clone(),
        };
        match (row, &self.layout) {
            (Row::Fields(named), Layout::Fields(layout)) => {
                let fields = self.keys.iter().zip(&layout.schema().fields);
                let values = fields.filter_map(|(key, field)| {
                    let cell = named.get(&field.name)?.clone().read_as(field.kind);
                    Some((key.clone(), proto_value(cell)))
                });
                Kind::Fields(proto::Fields {
                    values: values.collect(),
                })
            }
            (Row::Fields(_), Layout::Dense(_)) => Kind::Fields(proto::Fields::default()),
            (Row::Dense(values), layout) => match layout.kind() {
                InputKind::Probabilities => Kind::Probabilities(vector(values)),
                InputKind::Logits => Kind::Logits(vector(values)),
                InputKind::Latent => Kind::Latent(vector(values)),
                InputKind::Dense | InputKind::Fields => Kind::Dense(vector(values)),
            },
        }
    }
}

impl Format for OstarV1 {
    fn read<'p>(&'p self, payload: &'p [u8], event: &mut Collector<'_, 'p>) -> Result<(), Reject> {
        // Fast path: vectors go from the payload into the rows. Whatever `wire` does not know is left to prost.
        if let Some(vector) = wire::read(payload)
            && vector.kind == self.inputs.kind
        {
            event.header.id = checked_id(vector.id)?;
            event.header.time_ms = vector.time_ms;
            event.words(vector.values);
            return Ok(());
        }
        let message = proto::Event::decode(payload)?;
        event.header.id = checked_id(&message.id)?;
        event.header.time_ms = message.time_ms;
        match message.input {
            Some(input) => self.inputs.collect(input, event),
            None => Ok(()),
        }
    }

    fn write(&self, id: Option<&str>, time_ms: Option<i64>, row: &Row) -> Vec<u8> {
        let kind = Some(self.input(row));
        let event = proto::Event {
            id: id.unwrap_or_default().to_owned(),
            time_ms,
            input: Some(proto::Input { kind }),
        };
        event.encode_to_vec()
    }

    fn leaves(&self, payload: &[u8]) -> Vec<Leaf> {
        let event = proto::Event::decode(payload).unwrap_or_default();
        let Some(Kind::Fields(fields)) = event.input.and_then(|input| input.kind) else {
            return Vec::new();
        };
        let leaves = fields.values.into_iter().map(|(path, value)| Leaf {
            path,
            cell: cell(value),
        });
        leaves.collect()
    }
}

fn cell(value: proto::Value) -> Cell<'static> {
    match value.kind {
        None => Cell::Missing,
        Some(value::Kind::Number(number)) => Cell::Number(number),
        Some(value::Kind::Text(text)) => Cell::Text(text.into()),
    }
}

fn proto_value(cell: Cell<'_>) -> proto::Value {
    let kind = match cell {
        Cell::Missing => None,
        Cell::Bool(value) => Some(value::Kind::Number(f64::from(u8::from(value)))),
        Cell::Integer(value) => Some(value::Kind::Number(value as f64)),
        Cell::Number(value) => Some(value::Kind::Number(value)),
        Cell::Text(text) => Some(value::Kind::Text(text.into_owned())),
        // `ostar.v1.Value` has no lists. Words of a text are the same in one text.
        Cell::Texts(texts) => Some(value::Kind::Text(texts.join(" "))),
    };
    proto::Value { kind }
}
