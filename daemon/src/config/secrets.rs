//! Which values must not be shown.

use ostar_connectors::{kafka::is_secret, settings::KeyPath};
use serde_json::Value;

const MASK: &str = "***";

/// A value as it may be shown. Only options of librdkafka can be secret themselves: other keys hold a path or a
/// variable's name.
pub(super) fn masked(path: &KeyPath, value: &Value) -> Value {
    match path.keys() {
        [kafka, options, name] if kafka == "kafka" && options == "options" && is_secret(name) => {
            MASK.into()
        }
        _ => value.clone(),
    }
}
