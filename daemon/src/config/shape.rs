//! What every key may hold, taken from the JSON Schema of the configuration.

use std::collections::BTreeMap;

use serde_json::Value;

/// What a key may hold.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// A table with known keys. Those in `required` have no default.
    Table {
        fields: BTreeMap<String, Shape>,
        required: Vec<String>,
    },
    /// A table whose keys the user chooses.
    Map(Box<Shape>),
    /// One of several words, or a table with one of several keys.
    Choice {
        words: Vec<String>,
        tables: BTreeMap<String, Shape>,
    },
    List(Box<Shape>),
    Integer {
        minimum: Option<i64>,
        maximum: Option<i64>,
    },
    Number,
    Boolean,
    Text,
    /// The inner shape, or null.
    Optional(Box<Shape>),
}

impl Shape {
    pub(super) fn of(schema: &schemars::Schema) -> Self {
        read(schema.as_value(), schema.as_value())
    }

    /// The shape of a key's value.
    pub(super) fn child(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Table { fields, .. } => fields.get(key),
            Self::Choice { tables, .. } => tables.get(key),
            Self::Map(values) => Some(values),
            Self::Optional(inner) => inner.child(key),
            _ => None,
        }
    }

    /// The known keys, for messages.
    pub(super) fn keys(&self) -> Vec<&str> {
        match self {
            Self::Table { fields, .. } => fields.keys().map(String::as_str).collect(),
            Self::Choice { tables, .. } => tables.keys().map(String::as_str).collect(),
            Self::Optional(inner) => inner.keys(),
            _ => Vec::new(),
        }
    }

    /// Whether a key of a later layer is merged with the keys that are here instead of replacing them.
    pub(super) fn merges(&self, here: &BTreeMap<String, impl Sized>, key: &str) -> bool {
        match self {
            Self::Choice { .. } => here.contains_key(key),
            Self::Optional(inner) => inner.merges(here, key),
            _ => true,
        }
    }

    /// A description of valid values, to follow "expected" in a message.
    pub(super) fn expected(&self) -> String {
        match self {
            Self::Table { .. } | Self::Map(_) => "a table of keys".into(),
            Self::Choice { words, tables } => {
                let names: Vec<_> = words.iter().chain(tables.keys()).cloned().collect();
                format!("one of {}", names.join(", "))
            }
            Self::List(items) => format!("a list, each item {}", items.expected()),
            Self::Integer { minimum, maximum } => match (minimum, maximum) {
                (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
                (Some(least), None) => format!("a whole number of at least {least}"),
                _ => "a whole number".into(),
            },
            Self::Number => "a number".into(),
            Self::Boolean => "true or false".into(),
            Self::Text => "a string".into(),
            Self::Optional(inner) => inner.expected(),
        }
    }

    /// Reads the text of a variable or flag as a value of this shape. An unreadable one stays a text and is refused later,
    /// like any value of the wrong type.
    pub(super) fn interpret(&self, text: &str) -> Value {
        let as_text = || Value::from(text);
        let as_json = || serde_json::from_str(text).unwrap_or_else(|_| as_text());
        match self {
            Self::Optional(_) if text.is_empty() => Value::Null,
            Self::Optional(inner) => inner.interpret(text),
            Self::Text => as_text(),
            Self::List(items) if !text.trim_start().starts_with('[') => {
                let items = text.split(',').map(|item| items.interpret(item.trim()));
                items.collect::<Vec<_>>().into()
            }
            Self::Choice { .. } if !text.trim_start().starts_with('{') => as_text(),
            _ => as_json(),
        }
    }

    /// Whether a value other than a table has this shape.
    pub(super) fn accepts(&self, value: &Value) -> bool {
        match self {
            Self::Table { .. } | Self::Map(_) => false,
            Self::Choice { words, .. } => value
                .as_str()
                .is_some_and(|word| words.iter().any(|known| known == word)),
            Self::List(items) => value
                .as_array()
                .is_some_and(|values| values.iter().all(|value| items.accepts(value))),
            Self::Integer { minimum, maximum } => match (value.as_i64(), value.as_u64()) {
                (Some(number), _) => {
                    minimum.is_none_or(|least| number >= least)
                        && maximum.is_none_or(|most| number <= most)
                }
                (None, Some(_)) => maximum.is_none(),
                (None, None) => false,
            },
            Self::Number => value.is_number(),
            Self::Boolean => value.is_boolean(),
            Self::Text => value.is_string(),
            Self::Optional(inner) => value.is_null() || inner.accepts(value),
        }
    }
}

/// Reads the part of JSON Schema that schemars writes for serde's types.
fn read(schema: &Value, root: &Value) -> Shape {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#'));
        return target.map_or(Shape::Text, |target| read(target, root));
    }
    if let Some(alternatives) = schema["anyOf"].as_array() {
        let something = alternatives.iter().find(|schema| schema["type"] != "null");
        let inner = something.map_or(Shape::Text, |schema| read(schema, root));
        return Shape::Optional(inner.into());
    }
    if let Some(variants) = schema["oneOf"].as_array() {
        return choice(variants, root);
    }
    if schema["enum"].is_array() || schema["const"].is_string() {
        return choice(std::slice::from_ref(schema), root);
    }
    match &schema["type"] {
        Value::Array(types) => {
            let name = types.iter().find(|name| *name != "null");
            let inner = plain(name.and_then(Value::as_str), schema, root);
            Shape::Optional(inner.into())
        }
        name => plain(name.as_str(), schema, root),
    }
}

/// A shape that has one JSON type.
fn plain(name: Option<&str>, schema: &Value, root: &Value) -> Shape {
    match name {
        Some("object") => match schema["properties"].as_object() {
            Some(properties) => {
                let fields = properties.iter();
                let required = schema["required"].as_array();
                Shape::Table {
                    fields: fields
                        .map(|(key, schema)| (key.clone(), read(schema, root)))
                        .collect(),
                    required: required.map(|names| texts(names)).unwrap_or_default(),
                }
            }
            None => Shape::Map(read(&schema["additionalProperties"], root).into()),
        },
        Some("array") => Shape::List(read(&schema["items"], root).into()),
        Some("integer") => Shape::Integer {
            minimum: schema["minimum"].as_i64(),
            maximum: schema["maximum"].as_i64(),
        },
        Some("number") => Shape::Number,
        Some("boolean") => Shape::Boolean,
        _ => Shape::Text,
    }
}

/// An enum: words for variants without data, tables of one key for the others.
fn choice(variants: &[Value], root: &Value) -> Shape {
    let mut words = Vec::new();
    let mut tables = BTreeMap::new();
    for variant in variants {
        words.extend(variant["const"].as_str().map(str::to_owned));
        words.extend(
            variant["enum"]
                .as_array()
                .into_iter()
                .flat_map(|names| texts(names)),
        );
        let properties = variant["properties"].as_object().into_iter().flatten();
        tables.extend(properties.map(|(key, schema)| (key.clone(), read(schema, root))));
    }
    Shape::Choice { words, tables }
}

fn texts(values: &[Value]) -> Vec<String> {
    let texts = values.iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
