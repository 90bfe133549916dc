//! Which values must not be shown.

use ostar_connectors::kafka::is_secret;
use serde_json::Value;

const MASK: &str = "\"***\"";

/// A value as it may be shown, in a form that TOML and JSON share. Only options of librdkafka can be secret
/// themselves: other keys hold a path or a variable's name.
pub(super) fn shown(key: &str, value: &Value) -> String {
    match key.strip_prefix("kafka.options.").is_some_and(is_secret) {
        true => MASK.to_owned(),
        false => value.to_string(),
    }
}
