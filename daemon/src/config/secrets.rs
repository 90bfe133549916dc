//! Which values must not be shown.

use ostar_connectors::{
    kafka::is_secret,
    settings::{KeyPath, MASK, without_credentials},
};
use serde_json::Value;

/// A value as it may be shown. Only options of librdkafka can be secret themselves: other keys hold a path or a
/// variable's name, or an address, which may have a password in it.
pub(super) fn masked(path: &KeyPath, value: &Value) -> Value {
    match path.keys() {
        [kafka, options, name] if kafka == "kafka" && options == "options" && is_secret(name) => {
            MASK.into()
        }
        _ => match value {
            Value::String(text) => without_credentials(text).into(),
            Value::Array(values) => values.iter().map(|value| masked(path, value)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (name.clone(), masked(&path.below(name), value)))
                .collect(),
            _ => value.clone(),
        },
    }
}
