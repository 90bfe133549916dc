//! Looks at an event without knowing what to look for: all values that a path could name.

use std::borrow::Cow;

use prost::Message;
use serde::Deserialize;
use serde_json::Value;

use super::{Cell, EventFormat, path::Path};
use crate::proto::{self, input::Kind, value};

/// Most values of one event that are listed.
const MOST_LEAVES: usize = 500;
/// Deepest value that is listed.
const DEEPEST: usize = 8;

/// A value of an event, and its path as `events.fields` takes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Leaf {
    /// Keys between dots, or a JSON pointer.
    pub path: String,
    /// The value.
    pub cell: Cell<'static>,
}

/// The values of an event; none if it cannot be read.
pub fn leaves(format: EventFormat, payload: &[u8]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    match format {
        EventFormat::Json => {
            if let Ok(Value::Object(object)) = serde_json::from_slice(payload) {
                for (key, value) in object {
                    add(Path::key(&key), value, &mut leaves);
                }
            }
        }
        EventFormat::Protobuf => {
            let event = proto::Event::decode(payload).unwrap_or_default();
            if let Some(Kind::Fields(fields)) = event.input.and_then(|input| input.kind) {
                leaves.extend(fields.values.into_iter().map(|(path, value)| Leaf {
                    path,
                    cell: match value.kind {
                        None => Cell::Missing,
                        Some(value::Kind::Number(number)) => Cell::Number(number),
                        Some(value::Kind::Text(text)) => Cell::Text(Cow::Owned(text)),
                    },
                }));
            }
        }
        // Values have no names without a schema.
        _ => (),
    }
    leaves
}

fn add(path: Path, value: Value, leaves: &mut Vec<Leaf>) {
    if leaves.len() >= MOST_LEAVES || path.keys().len() > DEEPEST {
        return;
    }
    if let Value::Object(object) = value {
        for (key, value) in object {
            add(path.clone().below(&key), value, leaves);
        }
        return;
    }
    // A list of something else than texts and numbers is no value of a field.
    if let Ok(cell) = <Cell<'static> as Deserialize<'static>>::deserialize(value) {
        leaves.push(Leaf {
            path: path.to_string(),
            cell,
        });
    }
}
