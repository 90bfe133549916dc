//! Reads any Protobuf message by its descriptor: what is wanted of it is compiled once into a plan, and a payload is read
//! from front to back without a message in between.

mod read;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};

use crate::event::{
    Cell,
    places::{self, Node, Use},
};

/// Deepest nesting of what is wanted.
const DEEPEST: usize = 32;

/// How to read messages of one type.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    fields: HashMap<u32, Entry>,
    /// Values of fields that are not written if they are zero.
    zeros: Vec<(Vec<Use>, Cell<'static>)>,
}

#[derive(Debug, Clone)]
struct Entry {
    kind: Kind,
    wanted: Wanted,
}

#[derive(Debug, Clone)]
enum Wanted {
    Value(Vec<Use>),
    List(Vec<Use>),
    /// `google.protobuf.Timestamp`.
    Time(Vec<Use>),
    /// The numbers of a vector.
    Numbers,
    /// A message inside.
    Message(Plan),
    /// Values of some keys of a map.
    Map(HashMap<String, Vec<Use>>),
}

impl Plan {
    /// Fails, in words, if messages of this type cannot give what is wanted.
    pub(super) fn compile(
        descriptors: &[u8],
        message: &str,
        wanted: &Node,
    ) -> Result<Self, String> {
        let pool =
            caught(|| DescriptorPool::decode(descriptors).map_err(|error| error.to_string()))
                .map_err(|problem| format!("expected a descriptor set: {problem}"))?;
        let Some(found) = pool.get_message_by_name(message) else {
            let names: Vec<_> = pool.all_messages().take(10).collect();
            let names: Vec<_> = names.iter().map(MessageDescriptor::full_name).collect();
            return Err(format!(
                "there is no message {message}, expected one of {}",
                names.join(", ")
            ));
        };
        Self::of_message(&found, wanted)
    }

    /// The same of a message that was found.
    pub(super) fn of_message(message: &MessageDescriptor, wanted: &Node) -> Result<Self, String> {
        let mut count = 0;
        let plan = Self::of(message, wanted, 0, &mut count)?;
        match count {
            0 => Err(format!(
                "{} has none of the fields that are wanted",
                message.full_name()
            )),
            _ => Ok(plan),
        }
    }

    fn of(
        message: &MessageDescriptor,
        wanted: &Node,
        depth: usize,
        count: &mut usize,
    ) -> Result<Self, String> {
        let Node::Object { children, .. } = wanted else {
            return Err(format!(
                "{} is a message, expected a value",
                message.full_name()
            ));
        };
        if depth > DEEPEST {
            return Err(format!("paths have more than {DEEPEST} keys"));
        }
        let mut plan = Self {
            fields: HashMap::new(),
            zeros: Vec::new(),
        };
        for (key, child) in children {
            let by_name = message.get_field_by_name(key);
            let Some(field) = by_name.or_else(|| message.get_field_by_json_name(key)) else {
                continue;
            };
            let wanted = entry(&field, child, depth, count)
                .map_err(|problem| format!("{}: {problem}", field.full_name()))?;
            if let Wanted::Value(uses) = &wanted
                && !field.supports_presence()
            {
                plan.zeros.extend(zero(&field, uses));
            }
            let kind = field.kind();
            plan.fields.insert(field.number(), Entry { kind, wanted });
        }
        Ok(plan)
    }
}

/// What a library makes of descriptors. It panics on some that are broken.
pub(super) fn caught<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err("they contradict themselves".into()))
}

fn entry(
    field: &FieldDescriptor,
    wanted: &Node,
    depth: usize,
    count: &mut usize,
) -> Result<Wanted, String> {
    match (wanted, field.kind()) {
        (Node::Object { children, .. }, Kind::Message(entry)) if field.is_map() => {
            let value = entry.map_entry_value_field().kind();
            if matches!(value, Kind::Message(_)) {
                return Err("is a map of messages, expected one of values".into());
            }
            if !matches!(entry.map_entry_key_field().kind(), Kind::String) {
                return Err("is a map with other keys than texts".into());
            }
            let mut keys = HashMap::new();
            for (key, child) in children {
                let Node::Value(uses) = child else {
                    return Err(format!("has values, expected an object at `{key}`"));
                };
                *count += places::fields(uses);
                keys.insert(key.clone(), uses.clone());
            }
            Ok(Wanted::Map(keys))
        }
        (Node::Object { .. }, Kind::Message(message)) if !field.is_list() => {
            Plan::of(&message, wanted, depth + 1, count).map(Wanted::Message)
        }
        (Node::Object { .. }, _) => Err("is a value or a list, expected a message".into()),
        (Node::Numbers, kind) if field.is_list() && is_number(&kind) => {
            *count += 1;
            Ok(Wanted::Numbers)
        }
        (Node::Numbers, _) => Err("is not a list of numbers".into()),
        (Node::Value(uses), Kind::Message(message)) if !field.is_list() => {
            *count += places::fields(uses);
            let name = message.full_name();
            if name == "google.protobuf.Timestamp" {
                return Ok(Wanted::Time(uses.clone()));
            }
            let Some(value) = wrapped(&message) else {
                return Err(format!("is the message {name}, expected a value"));
            };
            let inner = Entry {
                kind: value.kind(),
                wanted: Wanted::Value(uses.clone()),
            };
            Ok(Wanted::Message(Plan {
                fields: HashMap::from([(1, inner)]),
                // A wrapper that is there has a value, written or not.
                zeros: zero(&value, uses).into_iter().collect(),
            }))
        }
        (Node::Value(_), Kind::Message(_)) => Err("is a list of messages, expected values".into()),
        (Node::Value(uses), _) => {
            *count += places::fields(uses);
            let uses = uses.clone();
            Ok(if field.is_list() {
                Wanted::List(uses)
            } else {
                Wanted::Value(uses)
            })
        }
    }
}

fn is_number(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::Bool | Kind::String | Kind::Bytes | Kind::Message(_) | Kind::Enum(_)
    )
}

/// The value of a message like `google.protobuf.DoubleValue`, which has no other field.
fn wrapped(message: &MessageDescriptor) -> Option<FieldDescriptor> {
    let value = message.get_field_by_name("value")?;
    let is_wrapper = message.full_name().starts_with("google.protobuf.")
        && message.fields().len() == 1
        && value.number() == 1;
    is_wrapper.then_some(value)
}

/// The value of a field that is not written because it is zero. An empty text counts as missing, and neither an id nor a
/// time is zero.
fn zero(field: &FieldDescriptor, uses: &[Use]) -> Option<(Vec<Use>, Cell<'static>)> {
    let fields = uses.iter().filter(|used| matches!(used, Use::Field(_)));
    let fields: Vec<Use> = fields.copied().collect();
    let cell = match field.kind() {
        Kind::String | Kind::Bytes | Kind::Message(_) => return None,
        Kind::Bool => Cell::Bool(false),
        Kind::Double | Kind::Float => Cell::Number(0.0),
        Kind::Enum(names) => Cell::Text(names.default_value().name().to_owned().into()),
        _ => Cell::Integer(0),
    };
    (!fields.is_empty()).then_some((fields, cell))
}
